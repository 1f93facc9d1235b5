package memstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// Store is one process's hold on a [Disk].
type Store struct {
	disk *Disk
	// gone is why every call is refused: the store was closed, or its process has died. Guarded by disk.mu.
	gone error
}

var _ checkpoint.Store = (*Store)(nil)

// lock takes the disk for a call.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.disk.mu.Lock()
	if s.gone != nil {
		s.disk.mu.Unlock()
		return s.gone
	}
	return nil
}

// change does a step that changes the disk, with the fault that is due.
func (s *Store) change(ctx context.Context, op Op, do func(d *Disk) error) error {
	fault := s.disk.fault(op)
	if err := s.lock(ctx); err != nil {
		return err
	}
	d := s.disk
	defer d.mu.Unlock()
	if d.full {
		return fmt.Errorf("%s: %w", op, ErrFull)
	}
	switch fault {
	case FailBefore:
		return fmt.Errorf("%s: %w", op, ErrInjected)
	case CrashBefore:
		d.crash()
		return s.gone
	case None, FailAfter, CrashAfter:
	}
	if err := do(d); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	switch fault {
	case FailAfter:
		return fmt.Errorf("%s: %w", op, ErrInjected)
	case CrashAfter:
		d.crash()
		return s.gone
	case None, FailBefore, CrashBefore:
	}
	return nil
}

// Epochs implements [checkpoint.Store].
func (s *Store) Epochs(ctx context.Context) ([]checkpoint.Info, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	var l []checkpoint.Info
	for _, e := range s.disk.kept() {
		i := checkpoint.Info{Epoch: e, Base: s.disk.isBase(e), Bytes: s.disk.epochs[e].bytes}
		if _, err := s.disk.findBase(e); err != nil {
			i.Damage = err.Error()
		}
		l = append(l, i)
	}
	return l, nil
}

// Manifest implements [checkpoint.Store].
func (s *Store) Manifest(ctx context.Context, e cep.Epoch) (*checkpoint.Manifest, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	en := s.disk.epochs[e]
	switch {
	case en == nil:
		return nil, fmt.Errorf("manifest of epoch %d: %w", e, checkpoint.ErrMissing)
	case en.damaged:
		return nil, damage("epoch %d", e)
	}
	return checkpoint.DecodeManifest(en.manifest)
}

// Restore implements [checkpoint.Store].
func (s *Store) Restore(ctx context.Context, e cep.Epoch, each func(checkpoint.Record) error) (*checkpoint.Manifest, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	state, err := s.disk.restore(e)
	var manifest []byte
	if err == nil {
		manifest = s.disk.epochs[e].manifest
	}
	s.disk.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("restore epoch %d: %w", e, err)
	}
	// Sorted, so that equal histories give equal runs.
	for _, k := range slices.SortedFunc(maps.Keys(state), place.compare) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// A copy each, spoilt afterwards: who keeps what it must not is found out.
		r := checkpoint.Record{Slot: k.slot, Key: []byte(k.key), Value: append([]byte{}, state[k]...)}
		if err := each(r); err != nil {
			return nil, fmt.Errorf("restore epoch %d: %w", e, err)
		}
		spoil(r.Key)
		spoil(r.Value)
	}
	m, err := checkpoint.DecodeManifest(manifest)
	if err != nil {
		return nil, fmt.Errorf("restore epoch %d: %w", e, err)
	}
	return m, nil
}

func spoil(b []byte) {
	for i := range b {
		b[i] = 0xdd
	}
}

// Commit implements [checkpoint.Store].
func (s *Store) Commit(ctx context.Context, c *checkpoint.Commit) error {
	return s.change(ctx, Op{Name: "commit", Epoch: c.Manifest.Epoch}, func(d *Disk) error { return d.commit(c) })
}

// Rewind implements [checkpoint.Store].
func (s *Store) Rewind(ctx context.Context, e cep.Epoch) error {
	return s.change(ctx, Op{Name: "rewind", Epoch: e}, func(d *Disk) error { return d.rewind(e) })
}

// Blob implements [checkpoint.Store].
func (s *Store) Blob(ctx context.Context, hash string) ([]byte, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	data, ok := s.disk.blobs[hash]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", hash, checkpoint.ErrMissing)
	}
	return slices.Clone(data), nil
}

// Outbox implements [checkpoint.Store].
func (s *Store) Outbox(ctx context.Context, sink string, from uint64, most, bytesMax int) ([]checkpoint.Outgoing, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	box := s.disk.outbox[sink]
	if box == nil {
		return nil, nil
	}
	var l []checkpoint.Outgoing
	size := 0
	for _, o := range box.letters {
		if o.Sequence < from {
			continue
		}
		size += len(o.Data)
		if len(l) >= most || len(l) > 0 && size > bytesMax {
			break
		}
		l = append(l, checkpoint.Outgoing{Sink: sink, Sequence: o.Sequence, Data: bytes.Clone(o.Data)})
	}
	return l, nil
}

// OutboxSize implements [checkpoint.Store].
func (s *Store) OutboxSize(sink string) (messages int, bytes int64) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	box := s.disk.outbox[sink]
	if box == nil {
		return 0, 0
	}
	for _, o := range box.letters {
		bytes += int64(len(o.Data))
	}
	return len(box.letters), bytes
}

// Note implements [checkpoint.Store].
func (s *Store) Note(ctx context.Context, name string, value []byte) error {
	return s.change(ctx, Op{Name: "note", Note: name}, func(d *Disk) error {
		if err := checkpoint.CheckNote(name, value); err != nil {
			return err
		}
		if value == nil {
			delete(d.notes, name)
		} else {
			d.notes[name] = bytes.Clone(value)
		}
		return nil
	})
}

// Noted implements [checkpoint.Store].
func (s *Store) Noted(ctx context.Context, name string) ([]byte, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	return bytes.Clone(s.disk.notes[name]), nil
}

// Oldest implements [checkpoint.Store].
func (s *Store) Oldest(ctx context.Context) (*checkpoint.Manifest, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.disk.mu.Unlock()
	for _, e := range s.disk.kept() {
		if en := s.disk.epochs[e]; !en.damaged {
			return checkpoint.DecodeManifest(en.manifest)
		}
	}
	return nil, fmt.Errorf("oldest epoch: %w", checkpoint.ErrMissing)
}

// Maintain implements [checkpoint.Store].
func (s *Store) Maintain(ctx context.Context) error {
	return s.change(ctx, Op{Name: "maintain"}, func(d *Disk) error { return d.maintain(false) })
}

// Fold implements [checkpoint.Store].
func (s *Store) Fold(ctx context.Context) error {
	return s.change(ctx, Op{Name: "fold"}, func(d *Disk) error { return d.maintain(true) })
}

// Check implements [checkpoint.Store].
func (s *Store) Check(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.disk.mu.Unlock()
	return s.disk.check()
}

// Close implements [checkpoint.Store].
func (s *Store) Close() error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if s.disk.owner == s {
		s.disk.owner = nil
	}
	if s.gone == nil {
		s.gone = errClosed
	}
	return nil
}

var errClosed = errors.New("the store is closed")
