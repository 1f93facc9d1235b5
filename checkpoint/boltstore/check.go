package boltstore

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// Check implements [checkpoint.Store]: it reads every page and verifies every checksum and every count.
func (s *Store) Check(ctx context.Context) error {
	c := checker{k: s.snapshot()}
	if c.k.lost != "" {
		c.wrong(&checkpoint.DamageError{What: "the last change", Why: c.k.lost})
	}
	err := s.read(func(tx *bolt.Tx) error {
		for err := range tx.Check() { // to its end, or its goroutine would stay
			c.wrong(fmt.Errorf("%w: %w", checkpoint.ErrDamaged, err))
		}
		for _, step := range []func(context.Context, *bolt.Tx) error{c.epochs, c.bases, c.sinks, c.notes, c.blobs} {
			if err := step(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check %s: %w", s.path(), err)
	}
	s.noteFound(c.found)
	return errors.Join(c.errs...)
}

// noteFound remembers which epochs cannot be restored.
func (s *Store) noteFound(found map[cep.Epoch]error) {
	for e, err := range found {
		s.noteDamage(e, err)
	}
}

type checker struct {
	k     *known
	errs  []error
	found map[cep.Epoch]error
	// manifests are those that could be read.
	manifests []*checkpoint.Manifest
}

func (c *checker) wrong(err error) {
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

func (c *checker) wrongf(format string, args ...any) {
	c.wrong(&checkpoint.DamageError{What: fmt.Sprintf(format, args...), Why: "it is not what was counted"})
}

// epochs verifies every delta, and that every epoch can be told.
func (c *checker) epochs(ctx context.Context, tx *bolt.Tx) error {
	c.found = map[cep.Epoch]error{}
	for _, info := range c.k.epochs {
		if err := ctx.Err(); err != nil {
			return err
		}
		en, err := readEpoch(tx.Bucket(bucketEpochs), info.epoch)
		if err != nil {
			c.wrong(err)
			c.found[info.epoch] = err
			continue
		}
		m, err := checkpoint.DecodeManifest(en.manifest)
		if err != nil {
			c.wrong(err)
			c.found[info.epoch] = err
			continue
		}
		if m.Epoch != info.epoch {
			c.wrongf("epoch %d, whose manifest is of epoch %d,", info.epoch, m.Epoch)
		}
		c.manifests = append(c.manifests, m)
		l := &layer{what: fmt.Sprintf("the changes of epoch %d", info.epoch)}
		readLayer(l, tx.Bucket(bucketEpochs).Bucket(epochKey(info.epoch)), segmentPlace(bucketEpochs, epochKey(info.epoch)))
		c.layer(l, en.records, en.parts)
	}
	c.restorable(ctx, tx)
	return ctx.Err()
}

// layer verifies all runs of a layer and counts them.
func (c *checker) layer(l *layer, records, parts uint64) {
	if l.bad != nil {
		c.wrong(l.bad)
		return
	}
	n := uint64(0)
	for slot := range checkpoint.Slots {
		if err := l.sound(uint8(slot)); err != nil {
			c.wrong(err)
			return
		}
		err := l.each(uint8(slot), func([]byte, []byte) error { n++; return nil })
		if err != nil {
			c.wrong(err)
			return
		}
	}
	if n != records || uint64(len(l.segments)) != parts {
		c.wrongf("%s, with %d records in %d parts instead of %d in %d,", l.what, n, len(l.segments), records, parts)
	}
}

// restorable finds the epochs that cannot be told, and says so once for those that lack the same.
func (c *checker) restorable(ctx context.Context, tx *bolt.Tx) {
	deltas, roots := map[cep.Epoch]*layer{}, map[cep.Epoch]*layer{}
	var high, low cep.Epoch
	var why error
	report := func() {
		if why != nil {
			c.wrong(fmt.Errorf("epochs %d to %d cannot be restored: %w", low, high, why))
		}
		why = nil
	}
	defer report()
	for i := len(c.k.epochs) - 1; i >= 0; i-- {
		e := c.k.epochs[i].epoch
		if c.found[e] != nil {
			continue
		}
		p := newPlan(tx, c.k, e)
		p.layers, p.roots = deltas, roots
		err := p.settle(ctx, 0, checkpoint.Slots)
		if err == nil {
			// What this epoch needs is all that those down to its newest base need.
			for base := p.bases[len(p.bases)-1]; i > 0 && c.k.epochs[i-1].epoch >= max(base, 1); {
				i--
			}
			continue
		}
		c.found[e] = err
		if why == nil || why.Error() != err.Error() || low != e+1 {
			report()
			high, why = e, err
		}
		low = e
	}
}

// bases verifies every base.
func (c *checker) bases(ctx context.Context, tx *bolt.Tx) error {
	return tx.Bucket(bucketFolds).ForEach(func(key, v []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, ok := epochOf(key)
		if !ok {
			c.wrongf("a base that is called %x", key)
			return nil
		}
		f, err := decodeFold(e, v)
		if err != nil {
			c.wrong(err)
			return nil
		}
		p := plan{tx: tx, epoch: e, folds: map[cep.Epoch]fold{e: f}, roots: map[cep.Epoch]*layer{}}
		l := p.base(e)
		// A base has at least one part a step; how many follows from the sizes.
		c.layer(l, f.records, uint64(len(l.segments)))
		return nil
	})
}

// sinks verifies every message and every count.
func (c *checker) sinks(ctx context.Context, tx *bolt.Tx) error {
	return tx.Bucket(bucketSinks).ForEach(func(name, v []byte) error {
		sink := string(name)
		t, err := decodeTally(sink, v)
		if err != nil {
			c.wrong(err)
			return nil
		}
		next, total, known := t.forgotten+1, t.forgottenTotal, true
		box := tx.Bucket(bucketOutbox).Bucket(name)
		if box == nil {
			if next <= t.last {
				c.wrongf("the outbox of sink %s, which is missing,", sink)
			}
			return nil
		}
		cursor := box.Cursor()
		for key, v := cursor.Seek(sequenceKey(next)); key != nil; key, v = cursor.Next() {
			if next%forgetStep == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			if len(key) != 8 || order64(key) != next {
				break
			}
			after, data, err := openLetter(sink, next, v)
			switch {
			case err != nil:
				c.wrong(err)
			case known && after != total+uint64(len(data)):
				c.wrongf("message %d of sink %s, with %d bytes up to it instead of %d,", next, sink, after, total+uint64(len(data)))
			}
			total, known = after, err == nil
			next++
		}
		switch {
		case next != t.last+1:
			c.wrongf("message %d of sink %s, of %d,", next, sink, t.last)
		case known && total != t.total:
			c.wrongf("sink %s, with %d bytes of messages instead of %d,", sink, total, t.total)
		}
		return nil
	})
}

func (c *checker) notes(_ context.Context, tx *bolt.Tx) error {
	return tx.Bucket(bucketNotes).ForEach(func(name, v []byte) error {
		_, err := unseal(kindNote, name, v, "note %s", name)
		c.wrong(err)
		return nil
	})
}

// blobs verifies every blob, and that those which a manifest names are there.
func (c *checker) blobs(ctx context.Context, tx *bolt.Tx) error {
	sound := map[string]bool{}
	err := tx.Bucket(bucketBlobs).ForEach(func(hash, _ []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := readBlob(tx, string(hash))
		c.wrong(err)
		sound[string(hash)] = true
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range c.manifests {
		for _, hash := range m.Hashes() {
			if !sound[hash] {
				c.wrong(fmt.Errorf("epoch %d: blob %s: %w", m.Epoch, hash, checkpoint.ErrMissing))
				sound[hash] = true
			}
		}
	}
	return nil
}
