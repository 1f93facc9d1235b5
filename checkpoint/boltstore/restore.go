package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// layer is a base, or what one epoch changed. Where bad is set nothing of it is known.
type layer struct {
	what     string
	segments []segment
	// fit says of each slot whether its runs were found sound: 0 not looked at, 1 sound, 2 not.
	fit [checkpoint.Slots]uint8
	bad error
}

// readLayer reads the heads of the segments in a bucket, which are the parts from 0 on.
func readLayer(l *layer, b *bolt.Bucket, place []byte) {
	parts, want := uint32(0), uint32(1)
	c := b.Cursor()
	for key, v := c.First(); key != nil; key, v = c.Next() {
		if len(key) != 4 {
			continue // the entry
		}
		s, why := readSegment(place, v)
		if why == "" && (binary.BigEndian.Uint32(key) != s.part || s.part != parts || parts > 0 && s.parts != want) {
			why = "it is another part"
		}
		if why != "" {
			l.bad = &checkpoint.DamageError{What: fmt.Sprintf("part %d of %s", binary.BigEndian.Uint32(key), l.what), Why: why}
			return
		}
		parts, want = parts+1, s.parts
		l.segments = append(l.segments, s)
	}
	if parts != want {
		l.bad = &checkpoint.DamageError{What: l.what, Why: fmt.Sprintf("%d of its %d parts are there", parts, want)}
	}
}

// sound verifies the runs of a slot.
func (l *layer) sound(slot uint8) error {
	if l.bad != nil {
		return l.bad
	}
	if l.fit[slot] == 0 {
		l.fit[slot] = 1
		for i := range l.segments {
			for _, r := range l.segments[i].find(slot) {
				if !r.sound() {
					l.fit[slot] = 2
				}
			}
		}
	}
	if l.fit[slot] == 2 {
		return &checkpoint.DamageError{What: fmt.Sprintf("slot %d of %s", slot, l.what), Why: "its checksum does not fit"}
	}
	return nil
}

// each calls f for the records of a slot in their order. The slot is sound.
func (l *layer) each(slot uint8, f func(key, value []byte) error) error {
	var err error
	for i := range l.segments {
		for _, r := range l.segments[i].find(slot) {
			whole := r.each(func(key, value []byte) {
				if err == nil {
					err = f(key, value)
				}
			})
			if err != nil {
				return err
			}
			if !whole {
				return &checkpoint.DamageError{What: fmt.Sprintf("slot %d of %s", slot, l.what), Why: "its records cannot be read"}
			}
		}
	}
	return nil
}

// plan knows how to tell the state of one epoch: for each slot from the newest base that is sound, and all that changed
// since. Older bases are looked at only where a newer one is damaged. It lives in one transaction.
type plan struct {
	tx    *bolt.Tx
	epoch cep.Epoch
	// bases are the complete bases up to the epoch, ascending; 0 is the empty state before the first epoch.
	bases  []cep.Epoch
	folds  map[cep.Epoch]fold
	layers map[cep.Epoch]*layer // by epoch: the deltas
	roots  map[cep.Epoch]*layer // by epoch: the bases
	from   [checkpoint.Slots]cep.Epoch
}

func newPlan(tx *bolt.Tx, k *known, e cep.Epoch) *plan {
	p := &plan{tx: tx, epoch: e, folds: k.folds, layers: map[cep.Epoch]*layer{}, roots: map[cep.Epoch]*layer{}}
	p.bases = slices.DeleteFunc(k.standing(), func(b cep.Epoch) bool { return b > e })
	return p
}

func (p *plan) delta(e cep.Epoch) *layer {
	l := p.layers[e]
	if l == nil {
		l = &layer{what: fmt.Sprintf("the changes of epoch %d", e)}
		p.layers[e] = l
		b := p.tx.Bucket(bucketEpochs).Bucket(epochKey(e))
		if b == nil {
			l.bad = &checkpoint.DamageError{What: l.what, Why: "they are missing"}
			return l
		}
		readLayer(l, b, segmentPlace(bucketEpochs, epochKey(e)))
	}
	return l
}

func (p *plan) base(e cep.Epoch) *layer {
	l := p.roots[e]
	if l == nil {
		l = &layer{what: fmt.Sprintf("the base of epoch %d", e)}
		p.roots[e] = l
		for step := range uint32(p.folds[e].steps) {
			one := layer{what: fmt.Sprintf("step %d of %s", step, l.what)}
			b := p.tx.Bucket(bucketBases).Bucket(stepKey(e, step))
			if b == nil {
				l.bad = &checkpoint.DamageError{What: one.what, Why: "it is missing"}
				return l
			}
			readLayer(&one, b, segmentPlace(bucketBases, stepKey(e, step)))
			if one.bad != nil {
				l.bad = one.bad
				return l
			}
			l.segments = append(l.segments, one.segments...)
		}
	}
	return l
}

// settle finds a base for each slot in a range, or says why there is none. Everything that each will read is verified then.
func (p *plan) settle(ctx context.Context, low, high int) error {
	if len(p.bases) == 0 {
		return &checkpoint.DamageError{What: fmt.Sprintf("epoch %d", p.epoch), Why: "no base is left that leads to it"}
	}
	for s := low; s < high; s++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.settleSlot(uint8(s)); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) settleSlot(slot uint8) error {
	at := p.epoch
	var damage error
	for _, base := range slices.Backward(p.bases) {
		for ; at > base; at-- {
			if err := p.delta(at).sound(slot); err != nil {
				// Every older base needs this change as well.
				return errors.Join(damage, err)
			}
		}
		if base == 0 {
			p.from[slot] = 0
			return nil
		}
		err := p.base(base).sound(slot)
		if err == nil {
			p.from[slot] = base
			return nil
		}
		damage = errors.Join(damage, err)
	}
	return damage
}

// changes are what deltas say of the keys of a slot, in the order in which the keys came; a value of nil: the key was removed.
type changes struct {
	list []pair
	at   map[string]int
}

type pair struct{ key, value []byte }

func (c *changes) reset() {
	c.list = c.list[:0]
	if c.at == nil {
		c.at = map[string]int{}
	}
	clear(c.at)
}

func (c *changes) set(key, value []byte) {
	if i, ok := c.at[string(key)]; ok {
		c.list[i].value = value
		return
	}
	c.at[string(key)] = len(c.list)
	c.list = append(c.list, pair{key, value})
}

// each hands out the records of a slot that settle has found good, each key once, and in the same order each time.
func (p *plan) each(slot uint8, changed *changes, f func(key, value []byte) error) error {
	changed.reset()
	for e := p.from[slot] + 1; e <= p.epoch; e++ {
		err := p.delta(e).each(slot, func(key, value []byte) error {
			changed.set(key, value)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if p.from[slot] > 0 {
		err := p.base(p.from[slot]).each(slot, func(key, value []byte) error {
			if _, ok := changed.at[string(key)]; ok {
				return nil
			}
			return f(key, value)
		})
		if err != nil {
			return err
		}
	}
	for _, c := range changed.list {
		if c.value == nil {
			continue
		}
		if err := f(c.key, c.value); err != nil {
			return err
		}
	}
	return nil
}

// Epochs implements [checkpoint.Store].
func (s *Store) Epochs(ctx context.Context) ([]checkpoint.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.known
	l := make([]checkpoint.Info, 0, len(k.epochs))
	for _, i := range k.epochs {
		l = append(l, checkpoint.Info{
			Epoch: i.epoch, Base: i.epoch == 1 || k.folds[i.epoch].complete, Bytes: i.bytes, Damage: i.damage,
		})
	}
	if k.lost != "" {
		l = append(l, checkpoint.Info{Epoch: k.newest() + 1, Damage: k.lost})
	}
	return l, nil
}

// Manifest implements [checkpoint.Store].
func (s *Store) Manifest(ctx context.Context, e cep.Epoch) (*checkpoint.Manifest, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var m *checkpoint.Manifest
	k := s.snapshot()
	err := s.read(func(tx *bolt.Tx) error {
		if _, ok := k.find(e); !ok {
			return checkpoint.ErrMissing
		}
		en, err := readEpoch(tx.Bucket(bucketEpochs), e)
		if err != nil {
			return err
		}
		m, err = checkpoint.DecodeManifest(en.manifest)
		return err
	})
	if err != nil {
		s.noteDamage(e, err)
		return nil, fmt.Errorf("manifest of epoch %d: %w", e, err)
	}
	return m, nil
}

// Restore implements [checkpoint.Store].
func (s *Store) Restore(ctx context.Context, e cep.Epoch, each func(checkpoint.Record) error) (*checkpoint.Manifest, error) {
	var m *checkpoint.Manifest
	k := s.snapshot() // before the transaction begins, so that all of it is there
	err := s.read(func(tx *bolt.Tx) error {
		if _, ok := k.find(e); !ok {
			return checkpoint.ErrMissing
		}
		en, err := readEpoch(tx.Bucket(bucketEpochs), e)
		if err != nil {
			return err
		}
		if m, err = checkpoint.DecodeManifest(en.manifest); err != nil {
			return err
		}
		p := newPlan(tx, k, e)
		if err := p.settle(ctx, 0, checkpoint.Slots); err != nil {
			return err
		}
		return handOut(func() error {
			changed := &changes{}
			for slot := range checkpoint.Slots {
				if err := ctx.Err(); err != nil {
					return err
				}
				err := p.each(uint8(slot), changed, func(key, value []byte) error {
					return each(checkpoint.Record{Slot: uint8(slot), Key: key, Value: value})
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		s.noteDamage(e, err)
		return nil, fmt.Errorf("restore epoch %d: %w", e, err)
	}
	return m, nil
}

// snapshot returns what is known. Nobody changes it: what is known changes by being replaced.
func (s *Store) snapshot() *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known
	return &k
}

// noteDamage remembers what was found wrong with an epoch.
func (s *Store) noteDamage(e cep.Epoch, err error) {
	if !errors.Is(err, checkpoint.ErrDamaged) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.known.find(e); ok && s.known.epochs[i].damage == "" {
		s.known.epochs = slices.Clone(s.known.epochs) // snapshots share it
		s.known.epochs[i].damage = err.Error()
		s.log.Warn("an epoch is damaged and set aside", "dir", s.dir, "epoch", e, "err", err)
	}
}

// Oldest implements [checkpoint.Store].
func (s *Store) Oldest(ctx context.Context) (*checkpoint.Manifest, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var m *checkpoint.Manifest
	k := s.snapshot()
	err := s.read(func(tx *bolt.Tx) error {
		for _, i := range k.epochs {
			en, err := readEpoch(tx.Bucket(bucketEpochs), i.epoch)
			if err != nil {
				continue // a damaged one cannot be restored, so nothing has to be read again from there
			}
			m, err = checkpoint.DecodeManifest(en.manifest)
			return err
		}
		return checkpoint.ErrMissing
	})
	if err != nil {
		return nil, fmt.Errorf("oldest epoch: %w", err)
	}
	return m, nil
}
