package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/checkpoint"
)

// The records of a state. docs/format/engine.md draws them; the primitives are those of package cep.
//
//	key       = uint number, kind byte, rest
//	            number of a version: 's' key: the state of a key of its machine, 'g': the machine's globals, 'c': counters
//	            number of a book:    'm' key: what the maker of its alerts remembers
//	            0:                   'p' uint number: an alert that a rule over alerts has not read yet
//	counters  = version, uint visible, keyed, noKey, tooManyKeys, errors, uint count, uint hidden, text lastError,
//	            uint alerts, suppressed, counted, errors, text lastError, uint silenced, int lastMatch (both from
//	            version 2 on)
//	pending   = version, text of the alert (package alert), order
//	order     = int time, uint layer, flag timed, [place] unless timed, text rule, text key
//	place     = value tie, flag alert, order of the alert | uint partition, [text stream, text name] if it is 0, int offset
const recordVersion = 1

// countersVersion is that of counters. The first has no number of silenced alerts and no time of the last match.
const countersVersion = 2

// recordKind says what a record is.
type recordKind byte

const (
	kindState    recordKind = 's'
	kindGlobals  recordKind = 'g'
	kindCounters recordKind = 'c'
	kindMaker    recordKind = 'm'
	kindPending  recordKind = 'p'
)

// alertOrder is the order of the partitions that alerts are: behind all streams.
const alertOrder = 1<<63 - 1

// arena holds many small slices in few big ones.
type arena struct{ block []byte }

// arenaBlock is the size of a piece of memory that records share: large enough that asking for it costs nothing a record,
// small enough that the last one wastes little.
const arenaBlock = 64 << 10

// room makes sure that n bytes can be appended without moving what is there.
func (a *arena) room(n int) {
	if cap(a.block)-len(a.block) < n {
		a.block = make([]byte, 0, max(n, arenaBlock))
	}
}

// add copies bytes.
func (a *arena) add(b []byte) []byte {
	a.room(len(b))
	n := len(a.block)
	a.block = append(a.block, b...)
	return a.block[n:len(a.block):len(a.block)]
}

// key makes the key of a record.
func (a *arena) key(number uint64, kind recordKind, rest string) []byte {
	a.room(binary.MaxVarintLen64 + 1 + len(rest))
	n := len(a.block)
	a.block = append(append(binary.AppendUvarint(a.block, number), byte(kind)), rest...)
	return a.block[n:len(a.block):len(a.block)]
}

// splitKey takes the key of a record apart.
func splitKey(key []byte) (number uint64, kind recordKind, rest []byte, err error) {
	number, n := binary.Uvarint(key)
	if n <= 0 || n >= len(key) {
		return 0, 0, nil, fmt.Errorf("%w: key %x of a record", checkpoint.ErrDamaged, key)
	}
	return number, recordKind(key[n]), key[n+1:], nil
}

func pendingRecord(number uint64, value []byte, block *arena) checkpoint.Record {
	rest := binary.AppendUvarint(nil, number)
	return checkpoint.Record{Slot: uint8(number), Key: block.key(0, kindPending, string(rest)), Value: value}
}

// appendCounters writes what the version has counted outside of its machines.
func (x *issuer) appendCounters(dst []byte) []byte {
	n := routed{hidden: make([]uint64, len(x.version.rule.Exceptions))}
	n.add(x.read)
	n.add(x.shown)
	dst = append(dst, countersVersion)
	for _, u := range []uint64{n.visible, n.keyed, n.noKey, n.tooManyKeys, n.errors, uint64(len(n.hidden))} {
		dst = binary.AppendUvarint(dst, u)
	}
	for _, u := range n.hidden {
		dst = binary.AppendUvarint(dst, u)
	}
	dst = cep.AppendText(dst, n.lastError)
	c := x.maker.Counters()
	for _, u := range []uint64{c.Alerts, c.Suppressed, c.Counted, c.Errors} {
		dst = binary.AppendUvarint(dst, u)
	}
	dst = binary.AppendUvarint(cep.AppendText(dst, c.LastError), c.Silenced)
	return binary.AppendVarint(dst, int64(c.LastMatch))
}

// readCounters makes the version go on counting from there. Exceptions may have come or gone since: the counts of those that
// are not in the record begin at 0.
func (x *issuer) readCounters(data []byte, r *readers) error {
	in := cep.NewReader(data)
	v := in.Byte()
	if in.Err() == nil && (v == 0 || v > countersVersion) {
		return fmt.Errorf("counters of version %d, this program reads up to %d", v, countersVersion)
	}
	n := routed{visible: in.Uint(), keyed: in.Uint(), noKey: in.Uint(), tooManyKeys: in.Uint(), errors: in.Uint()}
	n.hidden = make([]uint64, in.Count(1))
	for i := range n.hidden {
		n.hidden[i] = in.Uint()
	}
	n.lastError = in.Text()
	c := alert.Counters{Alerts: in.Uint(), Suppressed: in.Uint(), Counted: in.Uint(), Errors: in.Uint(), LastError: in.Text(), LastMatch: cep.BeforeAll}
	if v > 1 {
		c.Silenced, c.LastMatch = in.Uint(), cep.Time(in.Int())
	}
	if err := in.End(); err != nil {
		return err
	}
	r.count(x.version, &n)
	x.read = r.routed(x.version)
	*x.maker.Counters() = c
	return nil
}

// append writes an alert that has to be read, and where it stands.
func (p *pendingAlert) append(dst []byte, n *numbering) []byte {
	dst = cep.AppendText(append(dst, recordVersion), alert.AppendAlert(nil, p.alert))
	return p.order.append(dst, n)
}

func readPending(data []byte, n *numbering) (*pendingAlert, error) {
	in := cep.NewReader(data)
	if v := in.Byte(); in.Err() == nil && v != recordVersion {
		return nil, fmt.Errorf("an alert of version %d, this program reads up to %d", v, recordVersion)
	}
	p := &pendingAlert{stored: true}
	var err error
	if p.alert, err = alert.ReadAlert(in.Bytes(in.Count(1))); err != nil {
		return nil, err
	}
	p.order.read(&in, n, 0)
	return p, in.End()
}

func (o *order) append(dst []byte, n *numbering) []byte {
	dst = binary.AppendUvarint(binary.AppendVarint(dst, int64(o.time)), uint64(o.layer))
	dst = cep.AppendFlag(dst, o.timed)
	if !o.timed {
		dst = o.place.append(dst, n)
	}
	return cep.AppendText(cep.AppendText(dst, o.rule), o.key)
}

func (o *order) read(in *cep.Reader, n *numbering, depth int) {
	o.time, o.layer, o.timed = cep.Time(in.Int()), in.Index(layersMax, "layer"), in.Flag()
	if !o.timed {
		o.place.read(in, n, depth)
	}
	o.rule, o.key = in.Text(), cep.Key(in.Text())
}

// layersMax is more layers of rules over alerts than anybody writes; each is a nesting of orders.
const layersMax = 1000

func (p *place) append(dst []byte, n *numbering) []byte {
	dst = cep.AppendFlag(cep.AppendValue(dst, p.tie), p.origin != nil)
	if p.origin != nil {
		return p.origin.append(dst, n)
	}
	number := n.Number(p.position.Partition)
	dst = binary.AppendUvarint(dst, number)
	if number == 0 {
		dst = cep.AppendText(cep.AppendText(dst, p.position.Partition.Stream), p.position.Partition.Name)
	}
	return binary.AppendVarint(dst, p.position.Offset)
}

func (p *place) read(in *cep.Reader, n *numbering, depth int) {
	p.tie = in.Value()
	switch nested := in.Flag(); {
	case nested && depth >= layersMax:
		in.Fail("orders nested deeper than %d", layersMax)
	case nested:
		p.origin = &order{}
		p.origin.read(in, n, depth+1)
	default:
		if number := in.Uint(); number > 0 {
			p.position.Partition = n.ByNumber(number)
			in.Check(p.position.Partition != nil, "an unknown partition")
		} else {
			p.position.Partition = n.ByName(in.Text(), in.Text())
		}
		p.position.Offset = in.Int()
	}
}
