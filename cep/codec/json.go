package codec

import (
	"bytes"
	"fmt"

	"github.com/cepd/cepd/cep"
)

const (
	// expectMax is the number of leading members whose names are expected to be those of the event before.
	expectMax = 64
	// expectName is the length of a name above which it is not expected again.
	expectName = 64
)

// jsonDecoder decodes JSON objects. Most streams write their fields in one order: so the names are compared with those
// of the event before, place by place, and looked up only where they differ.
type jsonDecoder struct {
	builder
	scanner
	maxSize int
	raw     bool
	several bool
	expect  []expected
	// origin says that _cepd is where an event was first read.
	origin    bool
	partition func(stream, name string) *cep.Partition
	last      *cep.Partition // what partition returned last
	// originAt and originEnd are where _cepd stands in the event; originEnd is 0 without one.
	originAt, originEnd int
	cut                 []byte
	// broker says that records come with what a broker keeps; recorded is what a recording says of that.
	broker   bool
	recorded cep.Value
}

// expected is a name with its quotes and colon, as the event before wrote it.
type expected struct {
	text []byte
	node *node // nil: nobody wants it
}

// NewJSON returns a decoder of JSON objects. The schema must not grow any more.
func NewJSON(schema *cep.Schema, t TimeSpec, o Options) Decoder {
	d := &jsonDecoder{maxSize: o.MaxSize, raw: o.Raw, several: o.Several, origin: o.Partition != nil, partition: o.Partition, broker: o.Meta}
	if d.maxSize == 0 {
		d.maxSize = MaxSize
	}
	d.builder = newBuilder(newPlan(schema, t, d.origin, o.Meta))
	return d
}

// Decode implements [Decoder].
func (d *jsonDecoder) Decode(data []byte, ev *cep.Event) error {
	if len(data) > d.maxSize {
		return &Error{TooLarge, -1, fmt.Sprintf("%d bytes, the limit is %d", len(data), d.maxSize)}
	}
	if d.broker && data == nil {
		return &Error{NoValue, -1, "the record is a tombstone"}
	}
	d.begin(ev)
	if d.scratch, d.cut = d.scratch[:0], d.cut[:0]; d.several {
		d.scratch, d.cut = nil, nil
	}
	d.scanner = scanner{data: data, scratch: d.scratch}
	d.originEnd = 0
	start := d.space(0)
	if d.at(start) != '{' {
		d.unexpected(start, "an object")
		return d.err
	}
	end := d.object(d.plan.root, start, 1, ev)
	if end < 0 {
		return d.err
	}
	if rest := d.space(end); rest != len(data) {
		d.unexpected(rest, "the end of the event")
		return d.err
	}
	if !d.checkUTF8() {
		return d.err
	}
	if len(d.plan.whole) > 0 {
		v, _ := d.objectValue(start, 1)
		for _, i := range d.plan.whole {
			d.values[i] = v
		}
	}
	if len(d.plan.meta) > 0 {
		d.takeMeta()
	}
	if d.raw {
		ev.Raw = d.rawText(data[start:end], start)
	}
	return d.finish(ev)
}

// takeMeta fills what rules read of what a broker keeps, or kept when a recording was made.
func (d *jsonDecoder) takeMeta() {
	switch {
	case d.broker && d.meta != nil:
		d.setMeta(d.meta)
	case d.originEnd != 0 && d.recorded.Kind() == cep.KindObject:
		d.setRecordedMeta(d.recorded)
	}
	d.meta = nil
}

// object reads an object of which something is wanted.
func (d *jsonDecoder) object(n *node, i, depth int, ev *cep.Event) int {
	if depth > MaxDepth {
		return d.tooDeep(i)
	}
	i = d.space(i + 1)
	if d.at(i) == '}' {
		return i + 1
	}
	for place := 0; ; place++ {
		at := i
		var c *node
		if x := d.expectedAt(depth, place); x != nil && bytes.HasPrefix(d.data[i:], x.text) {
			c, i = x.node, d.space(i+len(x.text))
		} else if c, i = d.name(n, i, depth, place); i < 0 {
			return -1
		}
		if c == nil {
			i = d.skip(i, depth)
		} else {
			i = d.take(c, i, depth, ev)
		}
		if i < 0 {
			return -1
		}
		if c != nil && c.origin {
			d.originAt, d.originEnd = at, i
		}
		var more bool
		if i, more = d.comma(i, '}'); !more {
			return i
		}
	}
}

func (d *jsonDecoder) expectedAt(depth, place int) *expected {
	if depth > 1 || place >= len(d.expect) {
		return nil
	}
	return &d.expect[place]
}

// name reads a name and its colon and returns what is wanted of it.
func (d *jsonDecoder) name(n *node, i, depth, place int) (*node, int) {
	if d.at(i) != '"' {
		return nil, d.unexpected(i, "a name in quotes")
	}
	end, escaped := d.stringEnd(i + 1)
	if end < 0 {
		return nil, -1
	}
	c := n.children[string(d.text(i+1, end, escaped))]
	if depth == 1 && place <= len(d.expect) && place < expectMax && d.at(end+1) == ':' && end-i <= expectName {
		d.learn(place, d.data[i:end+2], c)
	}
	return c, d.colon(end + 1)
}

// learn expects a name at the same place of the next event. A name above ASCII is left alone: it must pass the check of
// UTF-8 each time.
func (d *jsonDecoder) learn(place int, text []byte, n *node) {
	for _, c := range text {
		if c >= 0x80 {
			return
		}
	}
	if place == len(d.expect) {
		d.expect = append(d.expect, expected{})
	}
	x := &d.expect[place]
	x.text, x.node = append(x.text[:0], text...), n
}

// take reads a value that is wanted.
func (d *jsonDecoder) take(n *node, i, depth int, ev *cep.Event) int {
	d.enter(n)
	if n.origin {
		v, end := d.value(i, depth)
		if end < 0 || !d.setOrigin(v, i, ev) {
			return -1
		}
		if len(n.targets) == 0 && n.children == nil {
			return end
		}
	}
	c := d.at(i)
	switch {
	case c == '{' && len(n.targets) == 0:
		return d.object(n, i, depth+1, ev)
	case c == '[' && len(n.targets) == 0:
		return d.skip(i, depth)
	case c == '"':
		end, escaped := d.stringEnd(i + 1)
		if end < 0 {
			return -1
		}
		d.set(n.targets, cep.String(lend(d.text(i+1, end, escaped))), nil)
		return end + 1
	case c == '-' || c-'0' < 10:
		v, end := d.numberAt(i)
		if end < 0 {
			return -1
		}
		d.set(n.targets, v, d.data[i:end])
		return end
	}
	v, end := d.value(i, depth)
	if end < 0 {
		return -1
	}
	d.set(n.targets, v, nil)
	if c == '{' && n.children != nil {
		return d.object(n, i, depth+1, ev)
	}
	return end
}

// setOrigin takes the position from _cepd.
func (d *jsonDecoder) setOrigin(v cep.Value, i int, ev *cep.Event) bool {
	stream, name, offset := v.Member("stream"), v.Member("partition"), v.Member("offset")
	if stream.Kind() != cep.KindString || name.Kind() != cep.KindString || offset.Kind() != cep.KindInt || offset.AsInt() < 0 {
		d.fail(BadPosition, i, originName+" needs stream, partition and offset")
		return false
	}
	p := d.last
	if p == nil || p.Stream != stream.AsString() || p.Name != name.AsString() {
		if p = d.partition(stream.AsString(), name.AsString()); p == nil {
			d.fail(BadPosition, i, originName+" names a stream that is not read")
			return false
		}
		d.last = p
	}
	ev.Position = cep.Position{Partition: p, Offset: offset.AsInt()}
	d.recorded = v.Member(originMeta)
	return true
}

// rawText returns the event as it was before it was recorded: without _cepd. text begins at start.
func (d *jsonDecoder) rawText(text []byte, start int) []byte {
	if d.originEnd == 0 {
		return text
	}
	before, after := text[:d.originAt-start], text[d.originEnd-start:]
	// One of the two commas goes with it.
	if t := bytes.TrimLeft(after, " \t\r\n"); t[0] == ',' {
		after = bytes.TrimLeft(t[1:], " \t\r\n")
	} else {
		before = bytes.TrimSuffix(bytes.TrimRight(before, " \t\r\n"), []byte{','})
	}
	d.cut = append(append(d.cut, before...), after...)
	return d.cut
}
