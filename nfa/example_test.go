package nfa_test

import (
	"bytes"
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
)

// guessed is two failures and then a success of one user within ten seconds.
func guessed() (*nfa.Program, error) {
	kindIs := func(id int, kind string) *nfa.Pred {
		return &nfa.Pred{ID: id, Text: "kind == " + kind, Unary: true, Slots: []int{0}, Test: func(s *cep.Scope) (bool, error) {
			return s.Event.Value(0).AsString() == kind, nil
		}}
	}
	return nfa.Compile(nfa.Pattern{
		Rule:  "guessed",
		Names: []nfa.Name{{Name: "fail"}, {Name: "ok"}},
		Elements: []nfa.Element{
			{Name: 0, Where: kindIs(0, "fail"), Min: 2, Max: 2},
			{Name: 1, Where: kindIs(1, "ok"), Link: nfa.Relaxed, Min: 1, Max: 1},
		},
		Within: 10 * cep.Duration(cep.Second),
		After:  nfa.SkipPastLast,
	})
}

// logged is event i of a log, one a second.
func logged(i int, kind string) *cep.Event {
	return &cep.Event{
		Time: cep.Time(i) * cep.Second, Seq: uint64(i + 1), Position: cep.Position{Partition: log, Offset: int64(i)},
		Values: []cep.Value{cep.String(kind)},
	}
}

var log = &cep.Partition{Stream: "log", Name: "0"}

func Example() {
	p, err := guessed()
	if err != nil {
		fmt.Println(err)
		return
	}
	m := nfa.NewMachine(p, nil)
	for i, kind := range []string{"fail", "noise", "fail", "ok"} {
		m.Event([]byte("root"), logged(i, kind), 0b11)
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

// one numbers the one partition that there is.
type one struct{}

func (one) Number(*cep.Partition) uint64                   { return 1 }
func (one) ByNumber(uint64) *cep.Partition                 { return log }
func (one) ByName(stream, partition string) *cep.Partition { return nil }

// The state of a machine goes to a store as it changes, and another machine goes on from there.
func ExampleRestorer() {
	p, err := guessed()
	if err != nil {
		fmt.Println(err)
		return
	}
	m := nfa.NewMachine(p, nil)
	store := map[string][]byte{}
	for i, kind := range []string{"fail", "fail"} {
		m.Event([]byte("root"), logged(i, kind), 0b11)
		m.Changes(one{}, func(key string, value []byte) {
			fmt.Println(key, "has changed")
			store[key] = bytes.Clone(value) // nil: the key is gone
		})
	}
	globals := m.AppendGlobals(nil)

	r := nfa.NewRestorer(p, nil, one{})
	for key, value := range store {
		err = r.Key(key, value) // later calls give the first error again
	}
	if err == nil {
		err = r.Globals(globals)
	}
	if err == nil {
		m, err = r.Machine()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Event([]byte("root"), logged(2, "ok"), 0b11)
	fmt.Println(len(m.Matches()), "match")
	// Output:
	// root has changed
	// root has changed
	// 1 match
}
