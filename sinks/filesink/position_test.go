package filesink

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

func FuzzReadPosition(f *testing.F) {
	fixture, err := os.ReadFile(filepath.Join("testdata", "position-1.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(fixture)
	f.Add(fixture[:slotSize])
	f.Add(bytes.Repeat([]byte{0}, slots*slotSize))
	f.Add([]byte(`{"count":3,"crc":"00000000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := readPosition(data)
		if err != nil {
			return
		}
		again, err := appendSlot(nil, &p)
		if err != nil {
			return // texts that take more room once they are escaped
		}
		q, err := readPosition(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p, q); d != "" {
			t.Fatalf("(-first +again):\n%s", d)
		}
	})
}

// TestPositionIsNotWritten: after an error nobody knows what is on the disk, so what is read is written again before it counts.
func TestPositionIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alerts.jsonl")
	k, err := New(Config{Path: path, Owner: "job/out"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	base := sinks.Progress{Lineage: 1}
	if err := k.Begin(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	b := sinks.Batch{Base: base, Messages: sinktest.Messages(base, 3, "a")}
	good := k.place.f
	if k.place.f, err = os.Open(path + suffix); err != nil { // which cannot be written to
		t.Fatal(err)
	}
	if _, err := k.Publish(t.Context(), b); err == nil || sinks.Permanent(err) || k.unsure == 0 {
		t.Fatalf("%v; unsure of %d", err, k.unsure)
	}
	if err := k.place.close(); err != nil {
		t.Fatal(err)
	}
	k.place.f = good
	if _, err := k.Publish(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	before, err := k.place.read()
	if err != nil {
		t.Fatal(err)
	}
	// Now it was written, and the sync failed.
	k.unsure = before.Count
	writes := 0
	k.c.Failpoint = func(point string) {
		if point == "filesink.slot" {
			writes++
		}
	}
	if _, err := k.Publish(t.Context(), b); err != nil { // it is there already, and that is only said once it is sure
		t.Fatal(err)
	}
	after, err := k.place.read()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, after); d != "" || writes != 1 || k.unsure != 0 {
		t.Errorf("%d writes, unsure of %d (-before +after):\n%s", writes, k.unsure, d)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
}

// FuzzTail puts anything behind the recorded length: what was published stays, and what comes next is published whole or the
// sink stops and has changed nothing.
func FuzzTail(f *testing.F) {
	f.Add([]byte(""), false)
	f.Add([]byte(`{"n":4,"salt":"a"}`), false)
	f.Add([]byte("{\"n\":4,\"salt\":\"a\"}\n{\"n\""), true)
	f.Add([]byte("{\"n\":4,\x00\x00\x00"), false)
	f.Add([]byte("\x00"), true)
	f.Add([]byte("{\"who\":1}\n"), false)
	f.Fuzz(func(t *testing.T, tail []byte, moved bool) {
		path := filepath.Join(t.TempDir(), "alerts.jsonl")
		open := func() *Sink {
			k, err := New(Config{Path: path, Owner: "job/out"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			return k
		}
		k := open()
		base := sinks.Progress{Lineage: 1}
		if err := k.Begin(t.Context(), base); err != nil {
			t.Fatal(err)
		}
		all := sinktest.Messages(base, 6, "a")
		first := sinks.Batch{Base: base, Messages: all[:3]}
		if _, err := k.Publish(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		ours, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(bytes.Clone(ours), tail...), 0o666); err != nil {
			t.Fatal(err)
		}
		old := path
		if moved {
			old = path + ".1"
			if err := os.Rename(path, old); err != nil {
				t.Fatal(err)
			}
		}
		k = open()
		_, err = k.Publish(t.Context(), sinks.Batch{Base: first.End(), Messages: all[3:]})
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		after, err2 := os.ReadFile(old)
		if err2 != nil {
			t.Fatal(err2)
		}
		var rest strings.Builder
		for i := range all[3:] {
			rest.WriteString(string(all[3+i].Body) + "\n")
		}
		unchanged := string(after) == string(ours)+string(tail)
		switch {
		case err != nil && (moved || !unchanged):
			t.Fatalf("%v: %q", err, after)
		case err == nil && !moved && !strings.HasPrefix(string(after), string(ours)+rest.String()):
			t.Fatalf("%q", after)
		case moved && !unchanged && string(after) != string(ours):
			t.Fatalf("moved away: %q", after)
		}
		if moved {
			fresh, err := os.ReadFile(path)
			if err != nil || string(fresh) != rest.String() {
				t.Fatalf("%q, %v", fresh, err)
			}
		}
	})
}
