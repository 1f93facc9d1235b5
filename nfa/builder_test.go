package nfa

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep"
)

// Tests make patterns by hand: an event has the slots kind (a string such as "a") and value (a number), and a step called
// b1 fits events of kind b unless it says otherwise.
const (
	slotKind  = 0
	slotValue = 1
)

// kindIs is the unary condition kind == k; "" fits every event.
func kindIs(k string) *Pred {
	if k == "" {
		return nil
	}
	id := 0
	for _, c := range k {
		id = id*64 + int(c)%64
	}
	return &Pred{ID: id, Text: fmt.Sprintf("kind == %q", k), Unary: true, Slots: []int{slotKind}, Test: func(s *cep.Scope) (bool, error) {
		return strings.Contains(k, s.Event.Value(slotKind).AsString()), nil
	}}
}

// builder builds a pattern.
type builder struct{ Pattern }

// sequence parses a pattern as SEMANTICS part 2 writes them: links > >> >>>, absences !> !>>, quantifiers + * ? {n} {n,m}
// {n,}, /strict and /any for the link inside a loop. Names end in digits where a kind stands twice.
func sequence(t testing.TB, text string) *builder {
	t.Helper()
	b := &builder{Pattern{Rule: "test"}}
	for i, word := range strings.Fields(text) {
		e := Element{Name: i, Min: 1, Max: 1, Link: Relaxed, Loop: Relaxed}
		switch {
		case strings.HasPrefix(word, "!>>"):
			e.Absent, word = true, word[3:]
		case strings.HasPrefix(word, "!>"):
			e.Absent, e.Link, word = true, Strict, word[2:]
		case strings.HasPrefix(word, "!"):
			e.Absent, word = true, word[1:]
		case strings.HasPrefix(word, ">>>"):
			e.Link, word = Any, word[3:]
		case strings.HasPrefix(word, ">>"):
			word = word[2:]
		case strings.HasPrefix(word, ">"):
			e.Link, word = Strict, word[1:]
		case i == 0:
			e.Link = NoLink
		default:
			t.Fatalf("%s: %s has no link", text, word)
		}
		if w, ok := strings.CutSuffix(word, "/strict"); ok {
			e.Loop, word = Strict, w
		}
		if w, ok := strings.CutSuffix(word, "/any"); ok {
			e.Loop, word = Any, w
		}
		name := strings.TrimRight(word, "+*?{}0123456789,")
		for rest := word[len(name):]; rest != ""; {
			switch rest[0] {
			case '+':
				e.Max, rest = -1, rest[1:]
			case '*':
				e.Max, e.Optional, rest = -1, true, rest[1:]
			case '?':
				e.Optional, rest = true, rest[1:]
			case '{':
				in, after, _ := strings.Cut(rest[1:], "}")
				from, to, ranged := strings.Cut(in, ",")
				scan(from, &e.Min)
				e.Max = e.Min
				if ranged && to == "" {
					e.Max = -1
				} else if ranged {
					scan(to, &e.Max)
				}
				rest = after
			default:
				name, rest = name+rest[:1], rest[1:]
			}
		}
		e.Where = kindIs(strings.TrimRight(name, "0123456789"))
		b.Names = append(b.Names, Name{Name: name})
		b.Elements = append(b.Elements, e)
	}
	return b
}

// scan reads a number; the texts are written here, so a mistake in them is one in the test.
func scan(text string, to any) {
	if _, err := fmt.Sscan(text, to); err != nil {
		panic(fmt.Sprintf("%q: %v", text, err))
	}
}

func (b *builder) compile(t testing.TB) *Program {
	t.Helper()
	p, err := Compile(b.Pattern)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stream makes events: words such as a, a@5 (second 5; else one second after the event before), a=7 (value).
func stream(text string) []*cep.Event {
	part := &cep.Partition{Stream: "s", Name: "0"}
	var events []*cep.Event
	now := cep.Time(0)
	for i, word := range strings.Fields(text) {
		word, value, valued := strings.Cut(word, "=")
		word, at, timed := strings.Cut(word, "@")
		if timed {
			var s float64
			scan(at, &s)
			now = cep.Time(s * float64(cep.Second))
		} else if i > 0 {
			now += cep.Second
		}
		ev := &cep.Event{Time: now, Seq: uint64(i + 1), Position: cep.Position{Partition: part, Offset: int64(i)}}
		ev.Values = []cep.Value{cep.String(word)}
		if valued {
			var v float64
			scan(value, &v)
			x := cep.Float(v)
			if v == float64(int64(v)) {
				x = cep.Int(int64(v))
			}
			ev.Values = append(ev.Values, x)
		}
		events = append(events, ev)
	}
	return events
}

// all is the mask of an event that every name may take.
const all = ^uint64(0)

// line prints a match: "a=1 b=2,3 @3", the numbers of the events by step; timeouts begin with "timeout", and a moment by
// time is in seconds.
func line(p *Program, m cep.Match) string {
	var b strings.Builder
	if m.Kind == cep.MatchTimeout {
		b.WriteString("timeout ")
	}
	for step, name := range p.source.Names {
		n := m.History.Len(step)
		for i := range n {
			if i == 0 {
				b.WriteString(name.Name + "=")
			} else {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, m.History.At(step, i).Position().Offset+1)
		}
		if n > 0 {
			b.WriteByte(' ')
		}
	}
	if m.Moment.Timed() {
		fmt.Fprintf(&b, "@%gs", float64(m.Moment.Time)/float64(cep.Second))
	} else {
		fmt.Fprintf(&b, "@%d", m.Moment.Seq)
	}
	return b.String()
}

// play runs one key over the events and then to the end of time, or to the watermark in seconds if one is given.
func play(p *Program, events []*cep.Event, advance ...float64) string {
	m := NewMachine(p, nil)
	for _, ev := range events {
		m.Event(nil, ev, all)
	}
	for _, s := range advance {
		m.Advance(cep.Time(s * float64(cep.Second)))
	}
	return lines(p, m)
}

func lines(p *Program, m *Machine) string {
	var out []string
	for _, x := range m.Matches() {
		out = append(out, line(p, x))
	}
	return strings.Join(out, "; ")
}
