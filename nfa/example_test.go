package nfa_test

import (
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
)

// Two failures and then a success of one user within ten seconds.
func Example() {
	kindIs := func(id int, kind string) *nfa.Pred {
		return &nfa.Pred{ID: id, Text: "kind == " + kind, Unary: true, Slots: []int{0}, Test: func(s *cep.Scope) (bool, error) {
			return s.Event.Value(0).AsString() == kind, nil
		}}
	}
	p, err := nfa.Compile(nfa.Pattern{
		Rule:  "guessed",
		Names: []nfa.Name{{Name: "fail"}, {Name: "ok"}},
		Elements: []nfa.Element{
			{Name: 0, Where: kindIs(0, "fail"), Min: 2, Max: 2},
			{Name: 1, Where: kindIs(1, "ok"), Link: nfa.Relaxed, Min: 1, Max: 1},
		},
		Within: 10 * cep.Duration(cep.Second),
		After:  nfa.SkipPastLast,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := nfa.NewMachine(p, nil)
	log := &cep.Partition{Stream: "log", Name: "0"}
	for i, kind := range []string{"fail", "noise", "fail", "ok"} {
		ev := &cep.Event{
			Time: cep.Time(i) * cep.Second, Seq: uint64(i + 1), Position: cep.Position{Partition: log, Offset: int64(i)},
			Values: []cep.Value{cep.String(kind)},
		}
		m.Event([]byte("root"), ev, 0b11)
		for _, match := range m.Matches() {
			fmt.Println(match.Key, "at", match.Moment.Time)
			for i := range match.History.Total() {
				n := match.History.Nth(i)
				fmt.Println(p.Pattern().Names[n.Step()].Name, "at offset", n.Position().Offset)
			}
		}
	}
	// Output:
	// root at 1970-01-01T00:00:03Z
	// fail at offset 0
	// fail at offset 2
	// ok at offset 3
}
