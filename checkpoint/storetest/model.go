package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// model is what a store must hold, as plain maps.
type model struct {
	newest cep.Epoch
	// epochs are all that were committed and not forgotten by a rewind; the store may have dropped the oldest.
	epochs map[cep.Epoch]*moment
	boxes  map[string]*box
	notes  map[string]string
	last   *checkpoint.Commit
}

// moment is an epoch.
type moment struct {
	state    state
	manifest []byte
	named    []string
	// before are the last messages of the sinks before it.
	before map[string]uint64
}

type box struct {
	letters map[uint64]string
	last    uint64
}

func newModel() *model {
	return &model{epochs: map[cep.Epoch]*moment{}, boxes: map[string]*box{}, notes: map[string]string{}}
}

func (m *model) commit(c *checkpoint.Commit) {
	now := &moment{state: state{}, before: map[string]uint64{}, named: c.Manifest.Hashes()}
	if before := m.epochs[m.newest]; before != nil {
		now.state = maps.Clone(before.state)
	}
	for _, r := range c.Records {
		p := place{r.Slot, string(r.Key)}
		if r.Value == nil {
			delete(now.state, p)
		} else {
			now.state[p] = string(r.Value)
		}
	}
	manifest, err := c.Manifest.Encode()
	if err != nil {
		panic(err)
	}
	now.manifest = manifest
	for sink, b := range m.boxes {
		now.before[sink] = b.last
	}
	for _, o := range c.Outbox {
		b := m.boxes[o.Sink]
		if b == nil {
			b = &box{letters: map[uint64]string{}}
			m.boxes[o.Sink] = b
		}
		b.letters[o.Sequence], b.last = string(o.Data), o.Sequence
	}
	for sink, upTo := range c.Forget {
		if b := m.boxes[sink]; b != nil {
			maps.DeleteFunc(b.letters, func(n uint64, _ string) bool { return n <= upTo })
		}
	}
	m.newest = c.Manifest.Epoch
	m.epochs[m.newest] = now
	m.last = c
}

func (m *model) rewind(e cep.Epoch) {
	for ; m.newest > e; m.newest-- {
		for sink, b := range m.boxes {
			last := m.epochs[m.newest].before[sink]
			maps.DeleteFunc(b.letters, func(n uint64, _ string) bool { return n > last })
			b.last = last
		}
		delete(m.epochs, m.newest)
	}
	m.last = nil
}

// compare holds a store against the model, all of it but the states of epochs.
func (m *model) compare(s checkpoint.Store) error {
	infos, err := s.Epochs(ctx)
	if err != nil {
		return err
	}
	if m.newest == 0 {
		if len(infos) != 0 {
			return fmt.Errorf("an empty store lists %v", infos)
		}
		if _, err := s.Oldest(ctx); !errors.Is(err, checkpoint.ErrMissing) {
			return fmt.Errorf("the oldest epoch of an empty store: %w", err)
		}
		return nil
	}
	if len(infos) == 0 || infos[len(infos)-1].Epoch != m.newest {
		return fmt.Errorf("%d is the newest epoch, the store lists %v", m.newest, infos)
	}
	if !infos[0].Base {
		return fmt.Errorf("epoch %d is the oldest and does not stand by itself", infos[0].Epoch)
	}
	for i, info := range infos {
		switch {
		case i > 0 && info.Epoch != infos[i-1].Epoch+1:
			return fmt.Errorf("epoch %d follows %d", info.Epoch, infos[i-1].Epoch)
		case info.Damage != "":
			return fmt.Errorf("epoch %d: %s", info.Epoch, info.Damage)
		case info.Bytes <= 0:
			return fmt.Errorf("epoch %d has %d bytes", info.Epoch, info.Bytes)
		}
		for _, hash := range m.epochs[info.Epoch].named {
			if data, err := s.Blob(ctx, hash); err != nil || checkpoint.BlobHash(data) != hash {
				return fmt.Errorf("epoch %d: blob %s: %w", info.Epoch, hash, err)
			}
		}
	}
	oldest, err := s.Oldest(ctx)
	if err != nil || oldest.Epoch != infos[0].Epoch {
		return fmt.Errorf("the oldest epoch is %d, the store says %v: %w", infos[0].Epoch, oldest, err)
	}
	for name, want := range m.notes {
		if got, err := s.Noted(ctx, name); err != nil || string(got) != want {
			return fmt.Errorf("note %s is %q, the store says %q: %w", name, want, got, err)
		}
	}
	for sink, b := range m.boxes {
		if err := b.compare(s, sink); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) compare(s checkpoint.Store, sink string) error {
	size := int64(0)
	var want []checkpoint.Outgoing
	for _, n := range slices.Sorted(maps.Keys(b.letters)) {
		size += int64(len(b.letters[n]))
		want = append(want, checkpoint.Outgoing{Sink: sink, Sequence: n, Data: []byte(b.letters[n])})
	}
	if n, bytes := s.OutboxSize(sink); n != len(want) || bytes != size {
		return fmt.Errorf("the outbox of %s holds %d messages of %d bytes, the store says %d of %d", sink, len(want), size, n, bytes)
	}
	got, err := s.Outbox(ctx, sink, 0, 1<<30, 1<<30)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(got, want, func(a, b checkpoint.Outgoing) bool {
		return a.Sink == b.Sink && a.Sequence == b.Sequence && bytes.Equal(a.Data, b.Data)
	}) {
		return fmt.Errorf("the outbox of %s (-want +got):\n%s", sink, cmp.Diff(want, got))
	}
	return nil
}

// restores holds one epoch against the model.
func (m *model) restores(s checkpoint.Store, e cep.Epoch) error {
	got, manifest, err := restore(s, e)
	if err != nil {
		return err
	}
	if want := m.epochs[e].state; !maps.Equal(want, got) {
		return fmt.Errorf("epoch %d (-want +got):\n%s", e, cmp.Diff(want, got, cmp.AllowUnexported(place{})))
	}
	alone, err := s.Manifest(ctx, e)
	if err != nil {
		return err
	}
	for _, manifest := range []*checkpoint.Manifest{manifest, alone} {
		data, err := manifest.Encode()
		if err != nil {
			return err
		}
		if !bytes.Equal(data, m.epochs[e].manifest) {
			return fmt.Errorf("the manifest of epoch %d is\n%s\nand not\n%s", e, data, m.epochs[e].manifest)
		}
	}
	return nil
}
