package memstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// Options are what a simulation varies.
type Options struct {
	// Keep is the number of bases that are kept; 0 means 3.
	Keep int
	// FoldEpochs is the number of epochs behind which a new base is due; 0 means 8, few enough that a short simulation
	// folds and drops many times.
	FoldEpochs int
}

// Disk is what outlives a process: it holds what has become durable. It may be used by any goroutine.
type Disk struct {
	options Options

	mu     sync.Mutex
	owner  *Store
	faults func(Op) Fault
	full   bool

	epochs map[cep.Epoch]*entry
	bases  map[cep.Epoch]*base
	newest cep.Epoch
	outbox map[string]*box
	notes  map[string][]byte
	blobs  map[string][]byte
}

// entry is what an epoch added.
type entry struct {
	digest   uint64
	manifest []byte
	records  []checkpoint.Record
	// before are the last messages before those that it brought, by sink.
	before  map[string]uint64
	bytes   int64
	damaged bool
}

type base struct {
	state   state
	damaged bool
}

// box is the outbox of a sink: letters are kept, ascending; last is the last one that was committed.
type box struct {
	letters []checkpoint.Outgoing
	last    uint64
}

// state is all records of an epoch. Values are shared between epochs and never changed.
type state map[place][]byte

// place is where a value stands.
type place struct {
	slot uint8
	key  string
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.slot, q.slot), strings.Compare(p.key, q.key))
}

// NewDisk returns an empty disk.
func NewDisk(o Options) *Disk {
	o.Keep = cmp.Or(o.Keep, 3)
	o.FoldEpochs = cmp.Or(o.FoldEpochs, 8)
	return &Disk{
		options: o, epochs: map[cep.Epoch]*entry{}, bases: map[cep.Epoch]*base{},
		outbox: map[string]*box{}, notes: map[string][]byte{}, blobs: map[string][]byte{},
	}
}

// Open makes the caller the owner. [checkpoint.ErrLocked] while another one is: until it closes its store or [Disk.Crash]
// ends it.
func (d *Disk) Open() (*Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner != nil {
		return nil, fmt.Errorf("open the disk: %w by another store of this process", checkpoint.ErrLocked)
	}
	d.owner = &Store{disk: d}
	return d.owner, nil
}

// Crash ends the owner's process at this instant: what it had not made durable is lost, and each of its calls from now on is
// refused. The disk can be opened again.
func (d *Disk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crash()
}

func (d *Disk) crash() {
	if d.owner != nil {
		d.owner.gone = ErrCrashed
		d.owner = nil
	}
}

// Clone returns a copy of what is durable, owned by nobody: for a takeover on a copy, or to go back to later. Faults are not
// copied.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := NewDisk(d.options)
	c.newest = d.newest
	for e, en := range d.epochs {
		copied := *en // what it points to is never changed
		c.epochs[e] = &copied
	}
	for e, b := range d.bases {
		copied := *b
		c.bases[e] = &copied
	}
	for sink, b := range d.outbox {
		c.outbox[sink] = &box{letters: slices.Clone(b.letters), last: b.last}
	}
	c.notes, c.blobs = maps.Clone(d.notes), maps.Clone(d.blobs)
	return c
}

// kept returns the epochs that are kept, ascending.
func (d *Disk) kept() []cep.Epoch { return slices.Sorted(maps.Keys(d.epochs)) }

// isBase says whether an epoch stands by itself: the first one does, because nothing was before it.
func (d *Disk) isBase(e cep.Epoch) bool { return e == 1 || d.bases[e] != nil }

// restore returns the state at an epoch, from the newest base that allows it.
func (d *Disk) restore(e cep.Epoch) (state, error) {
	from, err := d.findBase(e)
	if err != nil {
		return nil, err
	}
	now := state{}
	if from > 0 {
		now = maps.Clone(d.bases[from].state)
	}
	for x := from + 1; x <= e; x++ {
		for _, r := range d.epochs[x].records {
			p := place{r.Slot, string(r.Key)}
			if r.Value == nil {
				delete(now, p)
			} else {
				now[p] = r.Value
			}
		}
	}
	return now, nil
}

// findBase returns the newest base that leads to an epoch: it is sound, and so is all that changed since.
func (d *Disk) findBase(e cep.Epoch) (cep.Epoch, error) {
	en := d.epochs[e]
	if en == nil {
		return 0, checkpoint.ErrMissing
	}
	if en.damaged {
		return 0, damage("epoch %d", e)
	}
	why := damage("every base below epoch %d", e)
	at := e
	for _, from := range slices.Backward(d.standing(e)) {
		for ; at > from; at-- {
			if d.epochs[at].damaged {
				return 0, damage("epoch %d", at) // every older base needs it as well
			}
		}
		if from == 0 || !d.bases[from].damaged {
			return from, nil
		}
		why = damage("base of epoch %d", from)
	}
	return 0, why
}

// standing returns the bases up to an epoch, ascending: 0 is the empty state that the first epoch follows.
func (d *Disk) standing(e cep.Epoch) []cep.Epoch {
	var l []cep.Epoch
	if d.epochs[1] != nil {
		l = append(l, 0)
	}
	for _, b := range slices.Sorted(maps.Keys(d.bases)) {
		if b <= e {
			l = append(l, b)
		}
	}
	return l
}

func damage(format string, e cep.Epoch) error {
	return &checkpoint.DamageError{What: fmt.Sprintf(format, e), Why: "it was spoilt on purpose"}
}

// commit makes an epoch durable.
func (d *Disk) commit(c *checkpoint.Commit) error {
	digest, err := c.Digest()
	if err != nil {
		return err
	}
	e := c.Manifest.Epoch
	if en := d.epochs[e]; en != nil && e == d.newest && en.digest == digest {
		return nil
	}
	if err := c.Check(d.newest, d.last); err != nil {
		return err
	}
	for _, b := range c.Blobs {
		d.blobs[b.Hash] = bytes.Clone(b.Data)
	}
	for _, hash := range c.Manifest.Hashes() {
		if _, ok := d.blobs[hash]; !ok {
			return fmt.Errorf("the manifest names blob %s: %w", hash, checkpoint.ErrMissing)
		}
	}
	manifest, err := c.Manifest.Encode()
	if err != nil {
		return err
	}
	en := &entry{digest: digest, manifest: manifest, before: map[string]uint64{}, bytes: int64(len(manifest))}
	for _, r := range c.Records {
		en.bytes += int64(len(r.Key) + len(r.Value))
		en.records = append(en.records, checkpoint.Record{Slot: r.Slot, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
	}
	for _, o := range c.Outbox {
		b := d.outbox[o.Sink]
		if b == nil {
			b = &box{}
			d.outbox[o.Sink] = b
		}
		if _, ok := en.before[o.Sink]; !ok {
			en.before[o.Sink] = b.last
		}
		en.bytes += int64(len(o.Data))
		b.letters = append(b.letters, checkpoint.Outgoing{Sink: o.Sink, Sequence: o.Sequence, Data: bytes.Clone(o.Data)})
		b.last = o.Sequence
	}
	for sink, upTo := range c.Forget {
		if b := d.outbox[sink]; b != nil {
			b.letters = slices.DeleteFunc(b.letters, func(o checkpoint.Outgoing) bool { return o.Sequence <= upTo })
		}
	}
	d.epochs[e], d.newest = en, e
	return nil
}

func (d *Disk) last(sink string) (sequence uint64, kept bool) {
	b := d.outbox[sink]
	if b == nil {
		return 0, false
	}
	return b.last, len(b.letters) > 0
}

// rewind forgets the epochs above e.
func (d *Disk) rewind(e cep.Epoch) error {
	if d.epochs[e] == nil {
		return checkpoint.ErrMissing
	}
	for x := d.newest; x > e; x-- {
		for sink, last := range d.epochs[x].before {
			b := d.outbox[sink]
			b.letters = slices.DeleteFunc(b.letters, func(o checkpoint.Outgoing) bool { return o.Sequence > last })
			b.last = last
		}
		delete(d.epochs, x)
		delete(d.bases, x)
	}
	d.newest = e
	return nil
}

// maintain folds, also what is not due if fold says so, and drops.
func (d *Disk) maintain(fold bool) error {
	if d.newest == 0 {
		return nil
	}
	since := d.newest
	if bases := slices.Sorted(maps.Keys(d.bases)); len(bases) > 0 {
		since -= bases[len(bases)-1]
	}
	if since >= cep.Epoch(d.options.FoldEpochs) || fold && since > 0 {
		state, err := d.restore(d.newest)
		if err != nil {
			return fmt.Errorf("fold epoch %d: %w", d.newest, err)
		}
		d.bases[d.newest] = &base{state: state}
	}
	standing := d.standing(d.newest)
	if len(standing) <= d.options.Keep {
		return nil
	}
	oldest := standing[len(standing)-d.options.Keep]
	// Nothing old is dropped before what replaces it was read back.
	if newest := standing[len(standing)-1]; d.bases[newest].damaged {
		return damage("base of epoch %d", newest)
	}
	named := map[string]bool{}
	for e, en := range d.epochs {
		if e < oldest {
			delete(d.epochs, e)
			delete(d.bases, e)
			continue
		}
		m, err := checkpoint.DecodeManifest(en.manifest)
		if err != nil {
			return err
		}
		for _, hash := range m.Hashes() {
			named[hash] = true
		}
	}
	maps.DeleteFunc(d.blobs, func(hash string, _ []byte) bool { return !named[hash] })
	return nil
}

// check returns all that is wrong.
func (d *Disk) check() error {
	var errs []error
	kept := d.kept()
	for i, e := range kept {
		if _, err := d.findBase(e); err != nil {
			errs = append(errs, fmt.Errorf("epoch %d: %w", e, err))
		}
		if i > 0 && kept[i-1] != e-1 {
			errs = append(errs, fmt.Errorf("epoch %d is missing", e-1))
		}
		m, err := checkpoint.DecodeManifest(d.epochs[e].manifest)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, hash := range m.Hashes() {
			if _, ok := d.blobs[hash]; !ok {
				errs = append(errs, fmt.Errorf("epoch %d: blob %s is missing", e, hash))
			}
		}
	}
	if n := len(kept); n > 0 && kept[n-1] != d.newest || n == 0 && d.newest > 0 {
		errs = append(errs, fmt.Errorf("epoch %d, the newest, is missing", d.newest))
	}
	for sink, b := range d.outbox {
		for i, o := range b.letters {
			if want := b.last - uint64(len(b.letters)-1-i); o.Sequence != want {
				errs = append(errs, fmt.Errorf("message %d of sink %s where %d belongs", o.Sequence, sink, want))
			}
		}
	}
	return errors.Join(errs...)
}
