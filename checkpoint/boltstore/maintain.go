package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

const (
	// foldMin is the number of bytes of deltas below which no new base is due: reading 4 MiB takes a few milliseconds, so
	// folding less would write for nothing.
	foldMin = 4 << 20
	// foldEpochs is the number of deltas behind which a base is due whatever their size: a restore opens each of them, and
	// at one epoch a second it is a quarter of an hour's.
	foldEpochs = 1024
	// foldStep is the number of bytes of a base that one transaction writes, so that a commit waits for no more than that.
	// A slot is never divided.
	foldStep = 1 << 20
	// dropStep is the number of buckets that one transaction drops: of a megabyte each they are 8,192 pages to be freed.
	dropStep = 32
)

// Maintain implements [checkpoint.Store]. A second call while one runs does nothing.
func (s *Store) Maintain(ctx context.Context) error {
	if !s.maintaining.TryLock() {
		return nil
	}
	defer s.maintaining.Unlock()
	return s.maintain(ctx, s.foldDue)
}

// Fold implements [checkpoint.Store].
func (s *Store) Fold(ctx context.Context) error {
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	if e, begun := s.foldBegun(); begun {
		if err := s.maintain(ctx, func() (cep.Epoch, bool) { return e, true }); err != nil {
			return err
		}
	}
	return s.maintain(ctx, s.foldable)
}

// maintain folds what fold says, and drops what is no longer kept.
func (s *Store) maintain(ctx context.Context, fold func() (cep.Epoch, bool)) error {
	if err := s.usable(); err != nil {
		return err
	}
	if s.options.ReadOnly {
		return errReadOnly
	}
	if e, due := fold(); due {
		if err := s.fold(ctx, e); err != nil {
			return fmt.Errorf("fold into a base of epoch %d: %w", e, err)
		}
	}
	if err := s.retire(ctx); err != nil {
		return fmt.Errorf("drop the oldest base: %w", err)
	}
	if err := s.clean(ctx); err != nil {
		return fmt.Errorf("remove what is no longer kept: %w", err)
	}
	return nil
}

// foldBegun returns the base that is being written.
func (s *Store) foldBegun() (cep.Epoch, bool) {
	for e, f := range s.snapshot().folds {
		if !f.complete {
			return e, true
		}
	}
	return 0, false
}

// foldable returns the newest epoch, if it is sound and no base.
func (s *Store) foldable() (cep.Epoch, bool) {
	k := s.snapshot()
	newest := k.newest()
	i, ok := k.find(newest)
	if !ok || k.epochs[i].damage != "" {
		return 0, false
	}
	_, base := k.folds[newest]
	return newest, !base
}

// foldDue says whether a new base is due, and of which epoch: one that was begun is finished first.
func (s *Store) foldDue() (cep.Epoch, bool) {
	if e, begun := s.foldBegun(); begun {
		return e, true
	}
	k := s.snapshot()
	newest := k.newest()
	bases := k.bases()
	since, size := cep.Epoch(0), uint64(0)
	if len(bases) > 0 {
		since = bases[len(bases)-1]
		size = k.folds[since].bytes
	}
	if newest == since {
		return 0, false
	}
	i, ok := k.find(newest)
	if !ok || k.epochs[i].damage != "" {
		return 0, false
	}
	deltas := int64(0)
	for ; i >= 0 && k.epochs[i].epoch > since; i-- {
		deltas += k.epochs[i].bytes
	}
	due := deltas >= s.options.FoldMin && uint64(deltas) >= size || newest-since >= foldEpochs
	return newest, due
}

// fold writes a base, some slots in each transaction.
func (s *Store) fold(ctx context.Context, e cep.Epoch) error {
	for {
		k := s.snapshot()
		f := k.folds[e]
		if f.next == checkpoint.Slots {
			break
		}
		packed, next, err := s.gather(ctx, k, e, int(f.next))
		if err != nil {
			s.noteDamage(e, err)
			return errors.Join(err, s.giveUp(ctx, e, err))
		}
		if err := s.writeStep(ctx, e, f, packed, next); err != nil {
			if errors.Is(err, errRewound) {
				return nil
			}
			return err
		}
		s.point("store.fold.step")
	}
	return s.complete(ctx, e)
}

// gather reads the records of the next slots, until they fill a step.
func (s *Store) gather(ctx context.Context, k *known, e cep.Epoch, from int) (*packer, int, error) {
	packed := &packer{room: foldStep}
	slot, size := from, 0
	err := s.read(func(tx *bolt.Tx) error {
		p := newPlan(tx, k, e)
		changed := &changes{}
		for ; slot < checkpoint.Slots && size < foldStep; slot++ {
			if err := p.settle(ctx, slot, slot+1); err != nil {
				return err
			}
			err := p.each(uint8(slot), changed, func(key, value []byte) error {
				packed.add(uint8(slot), key, value)
				size += len(key) + len(value)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return packed, slot, err
}

var errRewound = errors.New("the epoch was forgotten meanwhile")

// writeStep makes a step of a base durable.
func (s *Store) writeStep(ctx context.Context, e cep.Epoch, f fold, packed *packer, next int) error {
	after := f
	err := s.write(ctx, func(tx *bolt.Tx) error {
		if tx.Bucket(bucketEpochs).Bucket(epochKey(e)) == nil {
			return errRewound
		}
		var err error
		after, err = putStep(tx, e, f, packed, next)
		return err
	}, func(k *known) { k.setFold(e, after) })
	return err
}

// putStep stores a step of a base and its record.
func putStep(tx *bolt.Tx, e cep.Epoch, f fold, packed *packer, next int) (fold, error) {
	key := stepKey(e, uint32(f.steps))
	bases := tx.Bucket(bucketBases)
	if bases.Bucket(key) != nil {
		// Left by a fold of an epoch of this number that was rewound.
		if err := bases.DeleteBucket(key); err != nil {
			return f, err
		}
	}
	b, err := bases.CreateBucket(key)
	if err != nil {
		return f, err
	}
	b.FillPercent = 1
	err = packed.seal(segmentPlace(bucketBases, key), func(part uint32, segment []byte) error {
		return b.Put(partKey(part), segment)
	})
	if err != nil {
		return f, err
	}
	f.next, f.steps = uint64(next), f.steps+1
	f.records, f.bytes = f.records+packed.records, f.bytes+packed.bytes
	return f, putFold(tx, e, f)
}

func putFold(tx *bolt.Tx, e cep.Epoch, f fold) error {
	return tx.Bucket(bucketFolds).Put(epochKey(e), seal(kindFold, epochKey(e), f.append(nil)))
}

// setFold replaces what is known of a base; the zero fold: it is none.
func (k *known) setFold(e cep.Epoch, f fold) {
	k.folds = maps.Clone(k.folds)
	if f == (fold{}) {
		delete(k.folds, e)
	} else {
		k.folds[e] = f
	}
}

// complete reads a base back, and makes it count.
func (s *Store) complete(ctx context.Context, e cep.Epoch) error {
	k := s.snapshot()
	f := k.folds[e]
	f.complete = true
	err := s.read(func(tx *bolt.Tx) error {
		p := &plan{
			tx: tx, epoch: e, bases: []cep.Epoch{e}, folds: k.folds,
			layers: map[cep.Epoch]*layer{}, roots: map[cep.Epoch]*layer{},
		}
		return p.settle(ctx, 0, checkpoint.Slots)
	})
	if err != nil {
		return errors.Join(err, s.giveUp(ctx, e, err))
	}
	err = s.write(ctx, func(tx *bolt.Tx) error {
		if tx.Bucket(bucketFolds).Get(epochKey(e)) == nil {
			return errRewound
		}
		return putFold(tx, e, f)
	}, func(k *known) { k.setFold(e, f) })
	if errors.Is(err, errRewound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.log.Info("wrote a base of the checkpoints", "dir", s.dir, "epoch", e, "records", f.records, "bytes", f.bytes)
	s.point("store.fold.complete")
	return nil
}

// giveUp forgets a base that cannot be finished because of damage. Anything else may pass, and the fold goes on later.
func (s *Store) giveUp(ctx context.Context, e cep.Epoch, why error) error {
	if !errors.Is(why, checkpoint.ErrDamaged) {
		return nil
	}
	if _, begun := s.snapshot().folds[e]; !begun {
		return nil
	}
	return s.write(ctx, func(tx *bolt.Tx) error {
		return tx.Bucket(bucketFolds).Delete(epochKey(e))
	}, func(k *known) {
		k.setFold(e, fold{})
		k.stale++
	})
}

// retire takes the oldest bases out where more than are kept stand. What they held is removed afterwards.
func (s *Store) retire(ctx context.Context) error {
	k := s.snapshot()
	standing := k.standing()
	if len(standing) <= s.options.Keep {
		return nil
	}
	oldest := standing[len(standing)-s.options.Keep]
	if oldest == 1 {
		// The first epoch is kept either way, and only what it changed would go, which a base of it holds as well.
		return nil
	}
	i, _ := k.find(oldest)
	// Nothing old goes before what replaces it has been read.
	err := s.read(func(tx *bolt.Tx) error {
		p := newPlan(tx, k, k.newest())
		p.bases = slices.DeleteFunc(p.bases, func(b cep.Epoch) bool { return b < oldest })
		return p.settle(ctx, 0, checkpoint.Slots)
	})
	if err != nil {
		s.noteDamage(k.newest(), err)
		return err
	}
	err = s.write(ctx, func(tx *bolt.Tx) error {
		for _, b := range standing {
			if b >= oldest {
				break
			}
			if err := tx.Bucket(bucketFolds).Delete(epochKey(b)); err != nil {
				return err
			}
		}
		// The first epoch is what shows that all is there from the beginning.
		if standing[0] == 0 && tx.Bucket(bucketEpochs).Bucket(epochKey(1)) != nil {
			return tx.Bucket(bucketEpochs).DeleteBucket(epochKey(1))
		}
		return nil
	}, func(k *known) {
		k.folds = maps.Clone(k.folds)
		maps.DeleteFunc(k.folds, func(b cep.Epoch, _ fold) bool { return b < oldest })
		k.epochs = slices.Clone(k.epochs[i:])
		k.stale++
	})
	if err == nil {
		s.point("store.drop.begun")
	}
	return err
}

// clean removes what no longer counts, a bounded number of things in each transaction.
func (s *Store) clean(ctx context.Context) error {
	for {
		k := s.snapshot()
		if k.stale == k.cleaned {
			return nil
		}
		g := garbage{letters: map[string]uint64{}}
		if err := s.read(func(tx *bolt.Tx) error { return g.collect(tx, k) }); err != nil {
			return err
		}
		if g.empty() {
			s.mu.Lock()
			s.known.cleaned = k.stale
			s.mu.Unlock()
			return nil
		}
		if err := s.write(ctx, g.remove, func(*known) {}); err != nil {
			return err
		}
		s.point("store.drop.step")
	}
}

// garbage is what no longer counts: as much of it as one transaction removes.
type garbage struct {
	epochs, steps, blobs [][]byte
	letters              map[string]uint64
}

func (g *garbage) empty() bool {
	return len(g.epochs)+len(g.steps)+len(g.blobs)+len(g.letters) == 0
}

func (g *garbage) collect(tx *bolt.Tx, k *known) error {
	if len(k.epochs) > 0 {
		c := tx.Bucket(bucketEpochs).Cursor()
		for key, _ := c.First(); len(key) == 8 && order64(key) < uint64(k.epochs[0].epoch) && len(g.epochs) < dropStep; key, _ = c.Next() {
			g.epochs = append(g.epochs, slices.Clone(key))
		}
	}
	c := tx.Bucket(bucketBases).Cursor()
	for key, _ := c.First(); key != nil && len(g.epochs)+len(g.steps) < dropStep; key, _ = c.Next() {
		if len(key) != 12 || !k.hasStep(cep.Epoch(order64(key[:8])), binary.BigEndian.Uint32(key[8:])) {
			g.steps = append(g.steps, slices.Clone(key))
		}
	}
	for sink, t := range k.sinks {
		box := tx.Bucket(bucketOutbox).Bucket([]byte(sink))
		if box == nil {
			continue
		}
		if key, _ := box.Cursor().First(); len(key) == 8 && order64(key) <= t.forgotten {
			g.letters[sink] = t.forgotten
		}
	}
	if !g.empty() {
		return nil // epochs that go may be the last that name a blob
	}
	return g.collectBlobs(tx, k)
}

func (k *known) hasStep(e cep.Epoch, step uint32) bool {
	f, ok := k.folds[e]
	return ok && uint64(step) < f.steps
}

// collectBlobs finds the blobs that no epoch names. While a manifest is damaged nobody knows what it named.
func (g *garbage) collectBlobs(tx *bolt.Tx, k *known) error {
	named := map[string]bool{}
	rules := uint64(0)
	for i, info := range k.epochs {
		en, err := readEpoch(tx.Bucket(bucketEpochs), info.epoch)
		if err != nil {
			return nil //nolint:nilerr // as said
		}
		if i > 0 && en.rules == rules {
			continue
		}
		rules = en.rules
		m, err := checkpoint.DecodeManifest(en.manifest)
		if err != nil {
			return err
		}
		for _, hash := range m.Hashes() {
			named[hash] = true
		}
	}
	c := tx.Bucket(bucketBlobs).Cursor()
	for key, _ := c.First(); key != nil && len(g.blobs) < dropStep; key, _ = c.Next() {
		if !named[string(key)] {
			g.blobs = append(g.blobs, slices.Clone(key))
		}
	}
	return nil
}

// remove deletes what was found. Commits may have come meanwhile: nothing of what they added is in it, but a blob may be
// named again.
func (g *garbage) remove(tx *bolt.Tx) error {
	for _, key := range g.epochs {
		if err := tx.Bucket(bucketEpochs).DeleteBucket(key); err != nil {
			return err
		}
	}
	for _, key := range g.steps {
		if err := tx.Bucket(bucketBases).DeleteBucket(key); err != nil {
			return err
		}
	}
	for sink, upTo := range g.letters {
		if _, err := removeLetters(tx, sink, upTo, forgetStep); err != nil {
			return err
		}
	}
	if len(g.blobs) == 0 {
		return nil
	}
	key, _ := tx.Bucket(bucketEpochs).Cursor().Last()
	e, _ := epochOf(key)
	en, err := readEpoch(tx.Bucket(bucketEpochs), e)
	if err != nil {
		return nil //nolint:nilerr // a manifest that cannot be read may name any of them
	}
	m, err := checkpoint.DecodeManifest(en.manifest)
	if err != nil {
		return err
	}
	named := m.Hashes()
	for _, key := range g.blobs {
		if _, ok := slices.BinarySearch(named, string(key)); ok {
			continue
		}
		if err := tx.Bucket(bucketBlobs).Delete(key); err != nil {
			return err
		}
	}
	return nil
}
