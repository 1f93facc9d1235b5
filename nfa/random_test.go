package nfa

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
)

// relations are conditions that read more than the event. Each is made for an element and needs value kept of all steps.
var relations = []struct {
	text string
	test func(*cep.Scope) bool
}{
	{"value >= last.value", func(s *cep.Scope) bool {
		n := s.History.Total()
		if n == 0 {
			return true
		}
		c, ok := cep.Compare(s.Event.Value(slotValue), s.History.Nth(n-1).Value(slotValue))
		return ok && c >= 0
	}},
	{"value > prev.value", func(s *cep.Scope) bool {
		if s.Prev == nil {
			return true
		}
		c, ok := cep.Compare(s.Event.Value(slotValue), s.Prev.Value(slotValue))
		return ok && c > 0
	}},
	{"sum + value <= 9", func(s *cep.Scope) bool {
		sum, err := s.History.Aggregate(0)
		return err == nil && sum.AsFloat()+s.Event.Value(slotValue).AsFloat() <= 9
	}},
}

// drawPattern draws a pattern that compiles.
func drawPattern(t *rapid.T) *Program {
	for range 100 {
		b := &builder{Pattern{Rule: "random"}}
		n := rapid.IntRange(1, 4).Draw(t, "elements")
		span := func(name string) cep.Duration {
			if rapid.IntRange(0, 2).Draw(t, name+" there") > 0 {
				return 0
			}
			return seconds(rapid.IntRange(1, 6).Draw(t, name))
		}
		for i := range n {
			e := Element{Name: i, Min: 1, Max: 1}
			e.Link = rapid.SampledFrom([]Link{Relaxed, Strict, Any}).Draw(t, "link")
			e.Where = kindIs(rapid.SampledFrom([]string{"a", "b", "c", "ab", "bc", ""}).Draw(t, "kind"))
			if rapid.IntRange(0, 3).Draw(t, "related") == 0 {
				r := rapid.SampledFrom(relations).Draw(t, "relation")
				kind := e.Where
				e.Where = &Pred{ID: 9999, Text: r.text, Slots: []int{slotKind, slotValue}, Test: func(s *cep.Scope) (bool, error) {
					ok := true
					if kind != nil {
						ok, _ = kind.Test(s)
					}
					return ok && r.test(s), nil
				}}
			}
			if rapid.IntRange(0, 3).Draw(t, "absent") == 0 {
				e.Absent = true
				e.For = span("for")
				if e.Link == Any {
					e.Link = Relaxed
				}
				e.FromStart = rapid.Bool().Draw(t, "from start")
				if e.FromStart && rapid.IntRange(0, 3).Draw(t, "forever") == 0 {
					e.For = Forever
				}
			} else {
				e.Within, e.Optional = span("within"), rapid.IntRange(0, 3).Draw(t, "optional") == 0
				if rapid.IntRange(0, 2).Draw(t, "loop") == 0 {
					e.Min = rapid.IntRange(1, 2).Draw(t, "min")
					e.Max = rapid.SampledFrom([]int{-1, e.Min, e.Min + 1}).Draw(t, "max")
					e.Loop = rapid.SampledFrom([]Link{Relaxed, Strict, Any}).Draw(t, "inner")
					e.LoopWithin = span("loop within")
				}
			}
			b.Elements = append(b.Elements, e)
			b.Names = append(b.Names, Name{Name: fmt.Sprintf("s%d", i), Keep: []int{slotValue}})
		}
		b.Within = span("window")
		b.After = AfterMatch(rapid.IntRange(0, 4).Draw(t, "after"))
		b.Target = rapid.IntRange(0, n-1).Draw(t, "target")
		b.Ordered = rapid.IntRange(0, 2).Draw(t, "ordered") == 0
		b.Timeouts = rapid.Bool().Draw(t, "timeouts")
		b.KeepRaw = rapid.Bool().Draw(t, "raw")
		b.UsesPrev, b.PrevSlots, b.PrevReach = true, []int{slotValue}, seconds(3)
		b.Aggregates = []cep.Aggregate{
			{Kind: cep.AggregateSum, Step: 0, Slot: slotValue},
			{Kind: cep.AggregateDistinct, Step: n - 1, Slot: slotValue},
			{Kind: cep.AggregateFirst, Step: 0, Slot: -1},
		}
		b.Limits.StartsPerKey = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "starts")
		b.Limits.EventsPerMatch = rapid.SampledFrom([]int{0, 0, 0, 4}).Draw(t, "events")
		if p, err := Compile(b.Pattern); err == nil {
			return p
		}
	}
	t.Skip("no pattern that compiles")
	return nil
}

// input is an event for a key, or time that moves.
type input struct {
	key     string
	event   *cep.Event
	mask    uint64
	advance cep.Time
}

func drawInput(t *rapid.T, most int, intern func(stream, name string) *cep.Partition) []input {
	parts := []*cep.Partition{intern("s", "0"), intern("s", "1")}
	now := cep.Time(0)
	var list []input
	seq := uint64(0)
	for range rapid.IntRange(1, most).Draw(t, "inputs") {
		if rapid.IntRange(0, 7).Draw(t, "move") == 0 {
			now += cep.Time(rapid.IntRange(0, 4).Draw(t, "by")) * cep.Second
			list = append(list, input{advance: now})
			now++ // events come above the watermark
			continue
		}
		now += cep.Time(rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, "gap")) * cep.Second / 2
		seq++
		ev := &cep.Event{
			Time: now, Seq: seq, Raw: []byte(fmt.Sprint("{", seq, "}")),
			Position: cep.Position{Partition: rapid.SampledFrom(parts).Draw(t, "partition"), Offset: int64(seq)},
		}
		ev.Values = []cep.Value{
			cep.String(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "kind")),
			cep.Int(int64(rapid.IntRange(0, 4).Draw(t, "value"))),
		}
		mask := all
		if rapid.IntRange(0, 9).Draw(t, "masked") == 0 {
			mask = rapid.Uint64Range(0, 15).Draw(t, "mask")
		}
		key := rapid.SampledFrom([]string{"k", "k", "l"}).Draw(t, "key")
		list = append(list, input{key: key, event: ev, mask: mask})
		if rapid.IntRange(0, 9).Draw(t, "both") == 0 {
			list = append(list, input{key: "both", event: ev, mask: all})
		}
	}
	return list
}

// feed runs the inputs and prints what comes out after each.
func feed(m *Machine, list []input) []string {
	var out []string
	for _, in := range list {
		if in.event != nil {
			m.Event([]byte(in.key), in.event, in.mask)
		} else {
			m.Advance(in.advance)
		}
		out = append(out, describe(m))
	}
	return out
}

// describe prints what a machine lets out, to the last detail, and what is open.
func describe(m *Machine) string {
	s := ""
	for _, x := range m.Matches() {
		s += fmt.Sprintf("%s %s at %v done %v:", x.Key, line(m.program, x), x.Moment, x.Completed)
		for i := range x.History.Total() {
			n := x.History.Nth(i)
			s += fmt.Sprintf(" %d:%v/%d/%s/%v", n.Step(), n.Time(), n.Position().Offset, n.Raw(), n.Value(slotValue).AsInt())
		}
		for i := range 2 {
			v, err := x.History.Aggregate(i)
			s += fmt.Sprint(" ", v.AsInt(), err)
		}
		s += "; "
	}
	return s + fmt.Sprintf("%d open, %d keys", m.OpenStarts(), m.Keys())
}
