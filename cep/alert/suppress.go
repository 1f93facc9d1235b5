package alert

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
)

// spans are the spans of suppression of one rule (S7.2). Alerts come in the order of their times and all spans are equally
// long, so the queue is in the order in which spans end.
//
// A span in which nothing was held back is forgotten when it ends. One that held alerts back leaves their number for the
// next alert to carry.
type spans struct {
	by   *Suppress
	open map[string]*span
	ends []ending // from first
	head int

	changes changes[string, *span]
}

type span struct {
	end        cep.Time
	sent, held uint64
	marks
}

// copied are the spans without what was known of their records.
func (s *spans) copied() *spans {
	c := &spans{by: s.by, open: make(map[string]*span, len(s.open)), ends: slices.Clone(s.ends[s.head:])}
	for key, sp := range s.open {
		c.open[key] = &span{end: sp.end, sent: sp.sent, held: sp.held}
	}
	return c
}

type ending struct {
	at  cep.Time
	key string
}

func newSpans(by *Suppress) *spans {
	if by == nil {
		return &spans{}
	}
	return &spans{by: by, open: map[string]*span{}}
}

// admit reports whether an alert goes out, and how many were held back since the one before it went out.
func (s *spans) admit(key []byte, t cep.Time) (held uint64, out bool) {
	s.forget(t)
	sp := s.open[string(key)]
	if sp == nil {
		sp = &span{end: cep.BeforeAll}
		s.open[string(key)] = sp
	}
	if t >= sp.end { // no span is open: this alert begins one
		sp.end, sp.sent = t.Add(s.by.For), 0
		s.ends = append(s.ends, ending{sp.end, string(key)})
	}
	s.changes.note(string(key), sp)
	if sp.sent >= uint64(s.by.Max) {
		sp.held++
		return 0, false
	}
	sp.sent++
	held, sp.held = sp.held, 0
	return held, true
}

// forget drops the spans that have ended before or at t.
func (s *spans) forget(t cep.Time) {
	for s.head < len(s.ends) && s.ends[s.head].at <= t {
		e := s.ends[s.head]
		s.ends[s.head] = ending{}
		s.head++
		if sp := s.open[e.key]; sp != nil && sp.end <= t && sp.held == 0 {
			delete(s.open, e.key)
			s.changes.drop(e.key, sp)
		}
	}
	if s.head > len(s.ends)/2 {
		s.ends = slices.Delete(s.ends, 0, s.head)
		s.head = 0
	}
}

// appendValue appends a value so that equal values, and only those, have equal bytes: missing and null are one value, a
// number is itself whether int or float, objects are sets of members.
func appendValue(dst []byte, v cep.Value) []byte {
	dst, ok := cep.AppendKeyPart(dst, v)
	if ok {
		return dst
	}
	switch v.Kind() {
	case cep.KindString:
		return append(dst, '0')
	case cep.KindFloat: // a NaN is like any other here: it would never be suppressed otherwise
		return binary.BigEndian.AppendUint64(append(dst, 'n'), math.Float64bits(math.NaN()))
	case cep.KindList:
		l := v.AsList()
		dst = binary.AppendUvarint(append(dst, 'l'), uint64(len(l)))
		for _, x := range l {
			dst = appendValue(dst, x)
		}
		return dst
	case cep.KindObject:
		m := slices.Clone(v.AsObject())
		slices.SortStableFunc(m, func(a, b cep.Member) int { return strings.Compare(a.Name, b.Name) })
		dst = binary.AppendUvarint(append(dst, 'o'), uint64(len(m)))
		for _, x := range m {
			dst = binary.AppendUvarint(dst, uint64(len(x.Name)))
			dst = appendValue(append(dst, x.Name...), x.Value)
		}
		return dst
	default:
		return append(dst, '-')
	}
}
