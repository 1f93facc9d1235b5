package checkpoint

import (
	"testing"
	"time"
)

// TestDigest holds that every part of a commit counts, and where it ends.
func TestDigest(t *testing.T) {
	base := func() *Commit {
		return &Commit{
			Manifest: Manifest{Epoch: 3, Job: "j", Created: time.Unix(1, 0)},
			Records:  []Record{{Slot: 1, Key: []byte("ab"), Value: []byte("c")}, {Slot: 1, Key: []byte("d")}},
			Outbox:   []Outgoing{{Sink: "s", Sequence: 1, Data: []byte("m")}},
			Forget:   map[string]uint64{"s": 1, "t": 2},
			Blobs:    []Blob{{Hash: "h"}, {Hash: "g"}},
		}
	}
	digest := func(c *Commit) uint64 {
		d, err := c.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	same := base()
	same.Blobs[0], same.Blobs[1] = same.Blobs[1], same.Blobs[0]
	if again := base(); digest(base()) != digest(again) || digest(base()) != digest(same) {
		t.Error("equal commits differ")
	}
	seen := map[uint64]string{digest(base()): "the commit itself"}
	for what, change := range map[string]func(*Commit){
		"epoch":            func(c *Commit) { c.Manifest.Epoch = 4 },
		"created":          func(c *Commit) { c.Manifest.Created = time.Unix(2, 0) },
		"slot":             func(c *Commit) { c.Records[0].Slot = 2 },
		"key and value":    func(c *Commit) { c.Records[0].Key, c.Records[0].Value = []byte("a"), []byte("bc") },
		"empty, not nil":   func(c *Commit) { c.Records[1].Value = []byte{} },
		"order":            func(c *Commit) { c.Records[0], c.Records[1] = c.Records[1], c.Records[0] },
		"a record less":    func(c *Commit) { c.Records = c.Records[:1] },
		"sequence":         func(c *Commit) { c.Outbox[0].Sequence = 2 },
		"sink and message": func(c *Commit) { c.Outbox[0].Sink, c.Outbox[0].Data = "sm", nil },
		"forget":           func(c *Commit) { c.Forget["t"] = 3 },
		"blobs":            func(c *Commit) { c.Blobs = c.Blobs[:1] },
	} {
		c := base()
		change(c)
		if other, ok := seen[digest(c)]; ok {
			t.Errorf("%s: equal to %s", what, other)
		}
		seen[digest(c)] = what
	}
}

func TestHashes(t *testing.T) {
	m := Manifest{Rules: []RuleSet{{Files: []RuleFile{{Hash: "b"}, {Hash: "a"}}}, {Files: []RuleFile{{Hash: "b"}}}}}
	if got := m.Hashes(); len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("%q", got)
	}
}
