package storetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

var sinkNames = []string{"out", "bus", "web/hook é"}

// draw returns a random commit that follows what the model holds. base says how full of records it is.
func draw(t *rapid.T, m *model) *checkpoint.Commit {
	c := &checkpoint.Commit{Manifest: checkpoint.Manifest{
		Epoch: m.newest + 1, Job: "job", Created: time.Unix(1_800_000_000+int64(m.newest), 0).UTC(),
		Engine: []byte(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 9).Draw(t, "engine"))),
	}}
	slots := []uint8{0, 1, 2, 127, 254, 255}
	for range rapid.IntRange(0, 12).Draw(t, "records") {
		r := checkpoint.Record{
			Slot: rapid.SampledFrom(slots).Draw(t, "slot"),
			Key:  []byte(rapid.SampledFrom([]string{"", "a", "b", "c", "dd", "e\x00"}).Draw(t, "key")),
		}
		switch v := rapid.IntRange(0, 99).Draw(t, "value"); {
		case v < 30: // removed
		case v < 40:
			r.Value = []byte{}
		case v < 42:
			r.Value = slices.Repeat([]byte{byte(m.newest)}, rapid.SampledFrom([]int{5_000, 700_000, 1_300_000}).Draw(t, "large"))
		default:
			r.Value = []byte(fmt.Sprintf("%d.%d", m.newest+1, len(c.Records)))
		}
		c.Records = append(c.Records, r)
	}
	for _, sink := range sinkNames {
		next, kept := uint64(1), 0
		if b := m.boxes[sink]; b != nil {
			next, kept = b.last+1, len(b.letters)
		}
		if kept == 0 && rapid.IntRange(0, 19).Draw(t, "jump") == 0 {
			next += 10
		}
		for range rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "letters") {
			data := fmt.Sprintf("%s %d of epoch %d", sink, next, m.newest+1)
			c.Outbox = append(c.Outbox, checkpoint.Outgoing{Sink: sink, Sequence: next, Data: []byte(data)})
			next++
		}
		if rapid.IntRange(0, 2).Draw(t, "forget") == 0 {
			if c.Forget == nil {
				c.Forget = map[string]uint64{}
			}
			c.Forget[sink] = uint64(rapid.IntRange(0, int(next)+1).Draw(t, "up to"))
		}
	}
	// The rules change now and then. Their blobs come with the commit that names them first, or always.
	text := fmt.Sprintf("rules %d", (int(m.newest)+rapid.IntRange(0, 1).Draw(t, "edit"))/4)
	hash := checkpoint.BlobHash([]byte(text))
	c.Manifest.Rules = []checkpoint.RuleSet{{ID: text, Files: []checkpoint.RuleFile{{Name: "r.yaml", Hash: hash, Rules: true}}}}
	c.Blobs = []checkpoint.Blob{{Hash: hash, Data: []byte(text)}}
	if before := m.epochs[m.newest]; before != nil && slices.Equal(before.named, []string{hash}) && rapid.Bool().Draw(t, "without blobs") {
		c.Blobs = nil
	}
	return c
}

// histories plays random histories.
func histories(t *testing.T, fresh func(t *rapid.T, root string) World) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		world := fresh(t, root)
		p := &process{t: t, world: world}
		m := newModel()
		s := p.open()
		kept := func() []cep.Epoch {
			infos, err := s.Epochs(ctx)
			if err != nil {
				t.Fatalf("epochs: %v", err)
			}
			var l []cep.Epoch
			for _, i := range infos {
				l = append(l, i.Epoch)
			}
			return l
		}
		commit := func(t *rapid.T) {
			c := draw(t, m)
			if err := s.Commit(ctx, c); err != nil {
				t.Fatalf("commit epoch %d: %v", c.Manifest.Epoch, err)
			}
			m.commit(c)
		}
		actions := map[string]func(*rapid.T){
			"commit": commit, "commit again": commit, "and again": commit,
			"repeat": func(t *rapid.T) {
				if m.last == nil {
					t.Skip()
				}
				if err := s.Commit(ctx, m.last); err != nil {
					t.Fatalf("the same commit again: %v", err)
				}
			},
			"another one": func(t *rapid.T) {
				if m.last == nil {
					t.Skip()
				}
				c := *m.last
				c.Records = append(slices.Clone(c.Records), checkpoint.Record{Key: []byte("other"), Value: []byte("x")})
				if err := s.Commit(ctx, &c); err == nil {
					t.Fatalf("epoch %d was committed twice, differently", c.Manifest.Epoch)
				}
			},
			"restore": func(t *rapid.T) {
				l := kept()
				if len(l) == 0 {
					t.Skip()
				}
				if err := m.restores(s, rapid.SampledFrom(l).Draw(t, "epoch")); err != nil {
					t.Fatal(err)
				}
			},
			"maintain": func(t *rapid.T) {
				if err := s.Maintain(ctx); err != nil {
					t.Fatalf("maintain: %v", err)
				}
			},
			"rewind": func(t *rapid.T) {
				l := kept()
				if len(l) == 0 {
					t.Skip()
				}
				e := rapid.SampledFrom(l[max(0, len(l)-4):]).Draw(t, "epoch")
				if err := s.Rewind(ctx, e); err != nil {
					t.Fatalf("rewind to %d: %v", e, err)
				}
				m.rewind(e)
			},
			"note": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"sink/out", "sink/bus"}).Draw(t, "name")
				if rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
					if err := s.Note(ctx, name, nil); err != nil {
						t.Fatal(err)
					}
					delete(m.notes, name)
					return
				}
				value := fmt.Sprintf("position %d", rapid.IntRange(0, 99).Draw(t, "position"))
				if err := s.Note(ctx, name, []byte(value)); err != nil {
					t.Fatal(err)
				}
				m.notes[name] = value
			},
			"read": func(t *rapid.T) {
				sink := rapid.SampledFrom(sinkNames).Draw(t, "sink")
				from := uint64(rapid.IntRange(0, 30).Draw(t, "from"))
				most, size := rapid.IntRange(1, 5).Draw(t, "most"), rapid.IntRange(0, 60).Draw(t, "bytes")
				got, err := s.Outbox(ctx, sink, from, most, size)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.reads(sink, from, most, size, got); err != nil {
					t.Fatal(err)
				}
			},
			"crash": func(*rapid.T) {
				if err := world.Crash(); err != nil {
					t.Fatalf("crash: %v", err)
				}
				s = p.open()
			},
			"restart": func(*rapid.T) {
				p.end()
				s = p.open()
			},
			"": func(t *rapid.T) {
				if err := m.compare(s); err != nil {
					t.Fatal(err)
				}
			},
		}
		t.Repeat(actions)
		for _, e := range kept() {
			if err := m.restores(s, e); err != nil {
				t.Fatal(err)
			}
		}
		p.end()
	})
	if err := os.RemoveAll(root); err != nil {
		t.Error(err)
	}
}

// reads holds an answer of Outbox against the model.
func (m *model) reads(sink string, from uint64, most, size int, got []checkpoint.Outgoing) error {
	b := m.boxes[sink]
	if b == nil {
		if len(got) > 0 {
			return fmt.Errorf("sink %s was sent nothing, and its outbox holds %d messages", sink, len(got))
		}
		return nil
	}
	var want []uint64
	sum := 0
	for n := from; n <= b.last; n++ {
		data, ok := b.letters[n]
		if !ok {
			continue
		}
		sum += len(data)
		if len(want) == most || len(want) > 0 && sum > size {
			break
		}
		want = append(want, n)
	}
	var l []uint64
	for _, o := range got {
		if string(o.Data) != b.letters[o.Sequence] {
			return fmt.Errorf("message %d of %s is %q", o.Sequence, sink, o.Data)
		}
		l = append(l, o.Sequence)
	}
	if !slices.Equal(l, want) {
		return fmt.Errorf("outbox of %s from %d, %d messages, %d bytes: %v instead of %v", sink, from, most, size, l, want)
	}
	return nil
}

// damages plays random histories, spoils an epoch, and lets a process go on from what is left.
func damages(t *testing.T, fresh func(t *rapid.T, root string) World) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		world := fresh(t, root)
		p := &process{t: t, world: world}
		m := newModel()
		s := p.open()
		for range rapid.IntRange(1, 25).Draw(t, "epochs") {
			c := draw(t, m)
			if err := s.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
			m.commit(c)
			if rapid.IntRange(0, 3).Draw(t, "maintain") == 0 {
				if err := s.Maintain(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		infos, err := s.Epochs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		p.end()
		bad := rapid.SampledFrom(infos).Draw(t, "spoilt").Epoch
		if err := world.Damage(bad); err != nil {
			t.Fatalf("damage: %v", err)
		}
		s = p.open()
		if err := s.Check(ctx); !errors.Is(err, checkpoint.ErrDamaged) {
			t.Fatalf("epoch %d is spoilt, and a check says: %v", bad, err)
		}
		sound := cep.Epoch(0)
		for _, i := range infos {
			err := m.restores(s, i.Epoch)
			switch {
			case err == nil:
				sound = i.Epoch
			case !errors.Is(err, checkpoint.ErrDamaged):
				t.Fatalf("epoch %d is spoilt, and epoch %d cannot be restored: %v", bad, i.Epoch, err)
			case i.Epoch < bad:
				t.Fatalf("epoch %d is spoilt, and epoch %d below it is lost: %v", bad, i.Epoch, err)
			}
		}
		after, err := s.Epochs(ctx)
		if err != nil || len(after) != len(infos) {
			t.Fatalf("%d epochs were kept, the store lists %v: %v", len(infos), after, err)
		}
		for _, i := range after {
			err := m.restores(s, i.Epoch)
			if (i.Damage != "") != (err != nil) {
				t.Fatalf("epoch %d is listed with damage %q, and restored with: %v", i.Epoch, i.Damage, err)
			}
		}
		if sound == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return // nothing is left: the first epoch was spoilt, and no base is above it
		}
		// The job goes on from the newest sound one.
		if err := s.Rewind(ctx, sound); err != nil {
			t.Fatal(err)
		}
		m.rewind(sound)
		for range 3 {
			c := draw(t, m)
			if err := s.Commit(ctx, c); err != nil {
				t.Fatal(err)
			}
			m.commit(c)
			if err := m.restores(s, m.newest); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
