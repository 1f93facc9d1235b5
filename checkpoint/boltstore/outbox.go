package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/checkpoint"
)

// Outbox implements [checkpoint.Store].
func (s *Store) Outbox(ctx context.Context, sink string, from uint64, most, bytesMax int) ([]checkpoint.Outgoing, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var l []checkpoint.Outgoing
	err := s.read(func(tx *bolt.Tx) error {
		t, err := readTallyOf(tx, sink)
		if err != nil {
			return err
		}
		box := tx.Bucket(bucketOutbox).Bucket([]byte(sink))
		next := max(from, t.forgotten+1)
		if box == nil || next > t.last {
			return nil
		}
		size := 0
		c := box.Cursor()
		for key, v := c.Seek(sequenceKey(next)); next <= t.last && len(l) < most; key, v = c.Next() {
			if !bytes.Equal(key, sequenceKey(next)) {
				v = nil // missing
			}
			_, data, err := openLetter(sink, next, v)
			if err != nil {
				if len(l) > 0 {
					return nil // what stands before it is good
				}
				return err
			}
			size += len(data)
			if len(l) > 0 && size > bytesMax {
				return nil
			}
			l = append(l, checkpoint.Outgoing{Sink: sink, Sequence: next, Data: bytes.Clone(data)})
			next++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the outbox of %s from message %d: %w", sink, from, err)
	}
	return l, nil
}

// readTallyOf returns the count of a sink, as of the transaction; the zero tally where nothing was ever sent to it.
func readTallyOf(tx *bolt.Tx, sink string) (tally, error) {
	v := tx.Bucket(bucketSinks).Get([]byte(sink))
	if v == nil {
		return tally{}, nil
	}
	return decodeTally(sink, v)
}

// OutboxSize implements [checkpoint.Store].
func (s *Store) OutboxSize(sink string) (messages int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.known.sinks[sink]
	return int(t.last - t.forgotten), int64(t.total - t.forgottenTotal)
}

// Count is what a store keeps for a sink.
type Count struct {
	Sink string
	// Last is the sequence of the last message that was committed, Forgotten that of the last one that is no longer kept.
	Last, Forgotten uint64
	// Bytes is the size of those between.
	Bytes int64
}

// Counts returns the sinks that messages were committed for, by name.
func (s *Store) Counts() []Count {
	var l []Count
	for sink, t := range s.snapshot().sinks {
		l = append(l, Count{Sink: sink, Last: t.last, Forgotten: t.forgotten, Bytes: int64(t.total - t.forgottenTotal)})
	}
	slices.SortFunc(l, func(a, b Count) int { return strings.Compare(a.Sink, b.Sink) })
	return l
}

// Notes returns all notes.
func (s *Store) Notes(ctx context.Context) (map[string][]byte, error) {
	notes := map[string][]byte{}
	err := s.read(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketNotes).ForEach(func(name, v []byte) error {
			body, err := unseal(kindNote, name, v, "note %s", name)
			notes[string(name)] = append([]byte{}, body...)
			return errors.Join(ctx.Err(), err)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the notes: %w", err)
	}
	return notes, nil
}

// Size is the size of the file in bytes, and how much of it is free for what comes.
func (s *Store) Size() (size, free int64) {
	s.swap.RLock()
	defer s.swap.RUnlock()
	if s.ready() != nil {
		return 0, 0
	}
	size, err := s.used()
	if err != nil {
		return 0, 0
	}
	stats := s.db.Stats()
	return size, int64(stats.FreePageN+stats.PendingPageN) * int64(s.db.Info().PageSize)
}

// Note implements [checkpoint.Store].
func (s *Store) Note(ctx context.Context, name string, value []byte) error {
	if err := checkpoint.CheckNote(name, value); err != nil {
		return err
	}
	err := s.write(ctx, func(tx *bolt.Tx) error {
		if value == nil {
			return tx.Bucket(bucketNotes).Delete([]byte(name))
		}
		return putNote(tx, name, value)
	}, func(*known) {})
	if err != nil {
		return fmt.Errorf("note %s: %w", name, err)
	}
	s.point("store.note.after")
	return nil
}

// Noted implements [checkpoint.Store].
func (s *Store) Noted(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var value []byte
	err := s.read(func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketNotes).Get([]byte(name))
		if v == nil {
			return nil
		}
		body, err := unseal(kindNote, []byte(name), v, "note %s", name)
		value = append([]byte{}, body...)
		return err
	})
	return value, err
}

// Blob implements [checkpoint.Store].
func (s *Store) Blob(ctx context.Context, hash string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var data []byte
	err := s.read(func(tx *bolt.Tx) error {
		v, err := readBlob(tx, hash)
		data = append([]byte{}, v...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// readBlob returns content, valid during the transaction.
func readBlob(tx *bolt.Tx, hash string) ([]byte, error) {
	if hash == "" {
		return nil, fmt.Errorf("blob without a hash: %w", checkpoint.ErrMissing)
	}
	v := tx.Bucket(bucketBlobs).Get([]byte(hash))
	if v == nil {
		return nil, fmt.Errorf("blob %s: %w", hash, checkpoint.ErrMissing)
	}
	if len(v) == 0 || v[0] != kindBlob || checkpoint.BlobHash(v[1:]) != hash {
		return nil, &checkpoint.DamageError{What: "blob " + hash, Why: "its hash is another one"}
	}
	return v[1:], nil
}
