package codec

import (
	"strings"
	"unsafe"

	"github.com/cepd/cepd/cep"
)

// builder puts values into an event by a plan. Every decoder has one.
type builder struct {
	plan *plan
	Keeper
	// values is ev.Values during a Decode.
	values []cep.Value
	times  []timeText
	// flatAt is, by index, the record in which the flat spelling was last met: it wins over the nested one.
	flatAt []uint64
	record uint64
	// inexact counts integers outside int64 and numbers outside float64.
	inexact uint64
	meta    *cep.Meta // of the next record
}

// timeText is a time field of the event.
type timeText struct {
	text string
	kind timeTextKind
}

type timeTextKind uint8

const (
	textMissing timeTextKind = iota // or null, or an empty string
	textString
	textNumber
	textOther
)

func newBuilder(p *plan) builder {
	n := p.slots + len(p.times)
	return builder{plan: p, times: make([]timeText, len(p.times)), flatAt: make([]uint64, n)}
}

// Inexact implements [Decoder].
func (b *builder) Inexact() uint64 { return b.inexact }

// Beside implements [Decoder].
func (b *builder) Beside(m *cep.Meta) { b.meta = m }

func (b *builder) begin(ev *cep.Event) {
	b.record++
	if cap(ev.Values) < b.plan.slots {
		ev.Values = make([]cep.Value, b.plan.slots)
	}
	b.values = ev.Values[:b.plan.slots]
	ev.Values = b.values
	ev.Raw = nil
	clear(b.values)
	clear(b.times)
}

// enter notes that a name was met and undoes what an earlier member of the same name has set below it.
func (b *builder) enter(n *node) {
	if n.record == b.record {
		for _, i := range n.below {
			if b.flatAt[i] != b.record {
				b.reset(i)
			}
		}
	}
	n.record = b.record
}

func (b *builder) reset(index int) {
	if index < len(b.values) {
		b.values[index] = cep.Value{}
	} else {
		b.times[index-len(b.values)] = timeText{}
	}
}

// claims reports whether a target is still to be set.
func (b *builder) claims(t target) bool {
	if t.flat {
		b.flatAt[t.index] = b.record
		return true
	}
	return b.flatAt[t.index] != b.record
}

// set gives a value to all targets. text is its text where it is a number.
func (b *builder) set(targets []target, v cep.Value, text []byte) {
	for _, t := range targets {
		if !b.claims(t) {
			continue
		}
		if !t.text {
			b.values[t.index] = v
			continue
		}
		x := &b.times[t.index-len(b.values)]
		switch v.Kind() {
		case cep.KindMissing, cep.KindNull:
			*x = timeText{}
		case cep.KindString:
			*x = timeText{v.AsString(), textString}
			if x.text == "" {
				x.kind = textMissing
			}
		case cep.KindInt, cep.KindFloat:
			*x = timeText{lend(text), textNumber}
		default:
			*x = timeText{kind: textOther}
		}
	}
}

// finish sets the time of the event.
func (b *builder) finish(ev *cep.Event) error {
	if len(b.times) == 0 {
		return nil
	}
	for i := range b.times {
		x, f := &b.times[i], &b.plan.times[i]
		switch x.kind {
		case textMissing:
			continue
		case textOther:
			return &Error{BadTime, -1, "field " + f.name + " is neither a string nor a number"}
		case textString, textNumber:
		}
		t, err := f.parse(x.text, x.kind == textNumber)
		if err != nil {
			return &Error{BadTime, -1, "field " + f.name + ": " + err.Error()}
		}
		ev.Time = t
		return nil
	}
	names := make([]string, len(b.plan.times))
	for i, f := range b.plan.times {
		names[i] = f.name
	}
	return &Error{NoTime, -1, "the event has no field " + strings.Join(names, ", ")}
}

// number makes a value of a number's text, which is one by JSON's grammar.
func (b *builder) number(text []byte, integer bool) cep.Value {
	v, exact := parseNumber(text, integer)
	if !exact {
		b.inexact++
	}
	return v
}

// lend returns b as a string without copying it.
func lend(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
