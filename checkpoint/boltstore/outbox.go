package boltstore

import (
	"bytes"
	"context"
	"fmt"

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

// Note implements [checkpoint.Store].
func (s *Store) Note(ctx context.Context, name string, value []byte) error {
	if err := checkpoint.CheckNote(name, value); err != nil {
		return err
	}
	err := s.write(ctx, func(tx *bolt.Tx) error {
		if value == nil {
			return tx.Bucket(bucketNotes).Delete([]byte(name))
		}
		return tx.Bucket(bucketNotes).Put([]byte(name), seal(kindNote, []byte(name), value))
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
