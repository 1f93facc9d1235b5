package nfa

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/invariant"
)

// The state of a machine as records, one for each key, so that making it durable costs what has changed. The state of a key
// is written as in a snapshot, without its name; docs/format/state.md draws both kinds of record.
//
//	record    = version, key, or the key of a row pattern
//	partition = uint number, [string stream, string name] if the number is 0
//	globals   = magic, version, shape, int now, int firstTime, counters, uint skips, checksum
const (
	recordVersion  = 1
	recordSnapshot = 2 // the version of the snapshot whose keys a record has

	globalsMagic   = "cepd-nfg"
	globalsVersion = 1
	globalsHead    = len(globalsMagic) + 1 + checksumSize
)

// Partitions numbers partitions for records, in which one number stands for a stream and a name. It must know a number as long
// as there are records with it.
type Partitions interface {
	// Number returns the number of a partition, the same one every time; 0: it has none, and records name it.
	Number(*cep.Partition) uint64
	// ByNumber returns the partition of a number above 0, nil where there is none.
	ByNumber(uint64) *cep.Partition
	// ByName returns the one Partition of a stream and name.
	ByName(stream, name string) *cep.Partition
}

// Marks say what the owner of the machine knows of a key. They are the lowest bits of its hash, because Runs have no other
// bit to spare.
const (
	listed = 1 << iota // it stands among the changes
	stored             // its record is out there: it was yielded or restored, and not removed
	marks  = listed | stored
)

// changes are the keys that have changed since they were asked for last.
type changes struct {
	runs []*Runs // some may be of no key any more, or of another one, that has changed too
	rows []*rowKey
	gone []string // keys that are stored and have no state; one that has some again may be among them
}

// note is told of each key whose state may have changed.
func (c *changes) note(r *Runs, empty bool) {
	if !empty {
		if r.hash&listed == 0 {
			r.hash |= listed
			c.runs = append(c.runs, r)
		}
	} else if r.hash&stored != 0 {
		c.gone = append(c.gone, r.key)
	}
}

func (c *changes) noteRow(k *rowKey, empty bool) {
	if !empty {
		if k.marks&listed == 0 {
			k.marks |= listed
			c.rows = append(c.rows, k)
		}
	} else if k.marks&stored != 0 {
		c.gone = append(c.gone, k.key)
	}
}

// Changes calls yield once for each key whose state has changed since the last call, or since the machine was made: value is
// the record of the key, valid during the call, and nil where the key has no state any more and was yielded or restored
// before. A key that came and went in between is passed over. Matches must have been taken.
//
// The first call of a new machine costs O(state); from then on the machine keeps a list of what changes, and a call costs
// O(state of the keys that have changed). A machine that was asked once must be asked again and again: the list grows until
// then.
func (m *Machine) Changes(parts Partitions, yield func(key string, value []byte)) {
	invariant.Check(len(m.out) == 0, "changes are asked for while %d matches wait to be taken", len(m.out))
	c := m.changes
	if c == nil {
		c = &changes{}
		if m.rows != nil {
			c.rows = m.rows.sorted()
		} else {
			c.runs = m.keys.sorted()
		}
		m.changes = c
	}
	w := newRecordWriter(m.program, parts)
	for _, r := range c.runs {
		r.hash &^= listed
		if r.empty() {
			continue // it is kept to be used again
		}
		r.hash |= stored
		yield(r.key, w.record(r))
	}
	for _, k := range c.rows {
		k.marks &^= listed
		if m.rows.keys[k.key] != k {
			continue
		}
		k.marks |= stored
		yield(k.key, w.rowRecord(k))
	}
	for _, key := range c.gone {
		if !m.has(key) {
			yield(key, nil)
		}
	}
	clear(c.runs)
	clear(c.rows)
	clear(c.gone)
	c.runs, c.rows, c.gone = emptied(c.runs), emptied(c.rows), emptied(c.gone)
}

// Changed is about how many keys [Machine.Changes] will yield, for callers that make room first.
func (m *Machine) Changed() int {
	if m.changes == nil {
		return m.Keys()
	}
	return len(m.changes.runs) + len(m.changes.rows) + len(m.changes.gone)
}

// Records calls yield for every key that has state, in order, with its record, valid during the call. What [Machine.Changes]
// knows stays as it is. Matches must have been taken.
func (m *Machine) Records(parts Partitions, yield func(key string, value []byte)) {
	invariant.Check(len(m.out) == 0, "records are asked for while %d matches wait to be taken", len(m.out))
	w := newRecordWriter(m.program, parts)
	if m.rows != nil {
		for _, k := range m.rows.sorted() {
			yield(k.key, w.rowRecord(k))
		}
		return
	}
	for _, r := range m.keys.sorted() {
		yield(r.key, w.record(r))
	}
}

func newRecordWriter(p *Program, parts Partitions) *writer {
	return newWriter(p, func(dst []byte, p *cep.Partition) []byte {
		n := parts.Number(p)
		if dst = appendUint(dst, n); n == 0 {
			dst = cep.AppendText(cep.AppendText(dst, p.Stream), p.Name)
		}
		return dst
	})
}

// record is the record of a key, valid until the next one.
func (w *writer) record(r *Runs) []byte {
	w.out = append(w.out[:0], recordVersion)
	w.key(r)
	return w.out
}

func (w *writer) rowRecord(k *rowKey) []byte {
	w.out = append(w.out[:0], recordVersion)
	w.rowKey(k)
	return w.out
}

// listMax bounds the memory that lists of changes keep from one epoch to the next: after a burst it goes back.
const listMax = 4096

func emptied[T any](list []T) []T {
	if cap(list) > listMax {
		return nil
	}
	return list[:0]
}

func (m *Machine) has(key string) bool {
	if m.rows != nil {
		return m.rows.keys[key] != nil
	}
	return m.keys.find([]byte(key), hashText(key)) != nil
}

// StoredKeys calls yield for every key that was yielded or restored and is not removed yet, in order: those whose records
// must go where the machine does.
func (m *Machine) StoredKeys(yield func(key string)) {
	if m.changes == nil {
		return
	}
	list := slices.Clone(m.changes.gone)
	for r := range m.keys.all() {
		if r.hash&stored != 0 {
			list = append(list, r.key)
		}
	}
	if m.rows != nil {
		for _, k := range m.rows.keys {
			if k.marks&stored != 0 {
				list = append(list, k.key)
			}
		}
	}
	slices.Sort(list)
	for _, key := range list {
		yield(key)
	}
}

// AppendGlobals appends what a machine knows besides the state of its keys: how far time is, and what it has counted.
func (m *Machine) AppendGlobals(dst []byte) []byte {
	return appendGlobals(dst, m.program.shape(), m.now, m.firstTime, &m.counters)
}

func appendGlobals(dst []byte, shape uint32, now, firstTime cep.Time, c *Counters) []byte {
	begin := len(dst)
	dst = append(append(dst, globalsMagic...), globalsVersion)
	dst = binary.BigEndian.AppendUint32(dst, shape)
	dst = appendInt(appendInt(dst, int64(now)), int64(firstTime))
	dst = appendUint(c.append(dst), c.Skips)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[begin:], castagnoli))
}

type globals struct {
	shape          uint32
	now, firstTime cep.Time
	counters       Counters
}

func readGlobals(data []byte) (*globals, error) {
	if len(data) < globalsHead+checksumSize || string(data[:len(globalsMagic)]) != globalsMagic {
		return nil, fmt.Errorf("%w: no globals of a machine", ErrSnapshot)
	}
	if v := data[len(globalsMagic)]; v != globalsVersion {
		return nil, fmt.Errorf("%w: globals of version %d, this program reads up to %d", ErrSnapshot, v, globalsVersion)
	}
	body, sum := data[:len(data)-checksumSize], data[len(data)-checksumSize:]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(sum) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrSnapshot)
	}
	g := &globals{shape: binary.BigEndian.Uint32(body[len(globalsMagic)+1:])}
	r := cep.NewReader(body[globalsHead:])
	g.now, g.firstTime = cep.Time(r.Int()), cep.Time(r.Int())
	readCounters(&r, &g.counters)
	g.counters.Skips = r.Uint()
	return g, unreadable(r.End())
}

// MergeGlobals makes one of what several machines of a program, each with keys of its own, know besides their keys: counters
// add up. They stand behind one watermark, so the furthest of their times is right for all.
func MergeGlobals(parts ...[]byte) ([]byte, error) {
	var sum *globals
	for i, part := range parts {
		g, err := readGlobals(part)
		if err != nil {
			return nil, fmt.Errorf("merge globals: %w", err)
		}
		if i == 0 {
			sum = g
			continue
		}
		if g.shape != sum.shape || g.firstTime != sum.firstTime || len(g.counters.Taken) != len(sum.counters.Taken) {
			return nil, fmt.Errorf("merge globals: %w: they are of different programs", ErrSnapshot)
		}
		sum.now = max(sum.now, g.now)
		sum.counters.Add(&g.counters)
	}
	if sum == nil {
		return nil, fmt.Errorf("merge globals: %w: there are none", ErrSnapshot)
	}
	return appendGlobals(nil, sum.shape, sum.now, sum.firstTime, &sum.counters), nil
}

// Restorer makes a machine of records. The keys come in any order, each once; those that the caller does not offer belong
// to another machine. After an error it is of no use. Errors wrap [ErrSnapshot].
type Restorer struct {
	restorer *restorer
	globals  *globals
	err      error
}

// NewRestorer returns a Restorer for a machine of the program.
func NewRestorer(p *Program, memo *Memo, parts Partitions) *Restorer {
	x := newRestorer(NewMachine(p, memo), recordSnapshot)
	x.partition = func() *cep.Partition {
		n := x.Uint()
		if n > 0 {
			return parts.ByNumber(n)
		}
		stream, name := x.Text(), x.Text()
		if x.Err() != nil {
			return nil
		}
		return parts.ByName(stream, name)
	}
	return &Restorer{restorer: x}
}

// Globals reads the globals of the machine, or those of several machines of the program merged. They may come after keys.
//
// The machine has the counters of the globals: where several machines share the keys, all but one are to be given
// [Machine.SetCounters] with none.
func (r *Restorer) Globals(data []byte) error {
	if r.err != nil {
		return r.err
	}
	p := r.restorer.machine.program
	if r.globals, r.err = readGlobals(data); r.err != nil {
		return r.err
	}
	if r.globals.shape != p.shape() || len(r.globals.counters.Taken) != len(p.pattern.Names) {
		r.err = fmt.Errorf("%w: it belongs to another program than %s", ErrSnapshot, p.source.Rule)
	}
	return r.err
}

// Key reads the record of a key. It keeps nothing of value.
func (r *Restorer) Key(key string, value []byte) error {
	if r.err != nil {
		return r.err
	}
	x := r.restorer
	switch {
	case len(value) == 0 || value[0] == 0:
		r.err = fmt.Errorf("key %q: %w: no record", key, ErrSnapshot)
	case value[0] > recordVersion:
		r.err = fmt.Errorf("key %q: %w: version %d, this program reads up to %d", key, ErrSnapshot, value[0], recordVersion)
	}
	if r.err != nil {
		return r.err
	}
	x.Reader = cep.NewReader(value[1:])
	x.key(key)
	if err := x.End(); err != nil {
		r.err = fmt.Errorf("key %q: %w", key, unreadable(err))
	}
	return r.err
}

// Machine returns the machine, when all keys and the globals are there. Its keys count as yielded and unchanged; it has to be
// asked for [Machine.Changes] from then on.
func (r *Restorer) Machine() (*Machine, error) {
	if r.err == nil && r.globals == nil {
		r.err = fmt.Errorf("%w: the globals of the machine are missing", ErrSnapshot)
	}
	if r.err != nil {
		return nil, r.err
	}
	m, g := r.restorer.machine, r.globals
	m.now, m.firstTime, m.counters = g.now, g.firstTime, g.counters
	r.restorer.Reader = cep.NewReader(nil)
	r.restorer.finish()
	if err := r.restorer.Err(); err != nil {
		r.err = unreadable(err)
		return nil, r.err
	}
	m.changes = &changes{}
	for runs := range m.keys.all() {
		runs.hash |= stored
	}
	if m.rows != nil {
		for _, k := range m.rows.keys {
			k.marks = stored
		}
	}
	return m, nil
}

// Slot is the slot of a key of a rule: see [Slots].
func Slot[T ~string | ~[]byte](rule string, key T) uint8 { return slotOf(SlotsOf(rule), key) }

// SetCounters makes c the counters.
func (m *Machine) SetCounters(c Counters) {
	taken := m.counters.Taken
	clear(taken)
	copy(taken, c.Taken)
	m.counters = c
	m.counters.Taken = taken
}
