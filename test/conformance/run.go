package conformance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

// Run plays the vector on the machine, on one that is restarted from its snapshot after every move, and on the oracle, and
// returns what all let out. refused holds the diagnostics of a
// definition that does not load. It is an error if they differ: then one of them is wrong, whatever the peer does.
func Run(v *Vector, tr *Translation) (_ Outcome, refused patterns.Diagnostics, _ error) {
	set, refused := tr.load()
	if set == nil {
		return Outcome{}, refused, nil
	}
	moves, err := v.Timeline(set.Schema)
	if err != nil {
		return Outcome{}, nil, err
	}
	rule := set.Rules[0]
	machine, err := runMachine(v, tr, set, rule, moves, false)
	if err != nil {
		return Outcome{}, nil, err
	}
	restarted, err := runMachine(v, tr, set, rule, moves, true)
	if err != nil {
		return Outcome{}, nil, err
	}
	if diff := machine.diff(restarted); diff != "" {
		return machine, nil, errors.New("the machine gives something else when it is restarted:\n" + diff)
	}
	plain := runOracle(v, tr, rule, moves)
	if diff := machine.diff(plain); diff != "" {
		return machine, nil, errors.New("machine and oracle differ:\n" + diff)
	}
	return machine, nil, nil
}

// load compiles the rule. There is a set or there are reasons why not.
func (tr *Translation) load() (*patterns.Set, patterns.Diagnostics) {
	set, diagnostics := patterns.Load([]patterns.Source{{Name: "vector.yaml", Data: []byte(tr.Text)}}, patterns.Options{})
	if set != nil {
		return set, nil
	}
	return nil, diagnostics
}

// notYet is the code of a rule that is more than cepd can run.
const notYet = "CEP0112"

// lacking returns what the language lacks for the rule, "" where nothing.
func lacking(refused patterns.Diagnostics) string {
	for _, d := range refused {
		if d.Code == notYet {
			return strings.TrimPrefix(d.Message, "not supported by this version yet: ")
		}
	}
	return ""
}

func runMachine(v *Vector, tr *Translation, set *patterns.Set, rule *patterns.Rule, moves []Move, restart bool) (Outcome, error) {
	var out Outcome
	var partition *cep.Partition
	memo := nfa.NewMemo(set.Predicates)
	machine := nfa.NewMachine(rule.Program, memo)
	router := patterns.NewRouter(rule)
	for _, m := range moves {
		if m.Event == nil {
			machine.Advance(m.To)
		} else {
			memo.Next()
			partition = m.Event.Position.Partition
			// Time moves for all keys, not only for those of the event.
			machine.Advance(m.Event.Time - 1)
			for _, d := range router.Route(m.Event) {
				machine.Event(d.Key, m.Event, d.Mask)
			}
		}
		for _, match := range machine.Matches() {
			out.add(v, tr, rule.Names, m.At, &match)
		}
		if restart {
			var err error
			intern := func(string, string) *cep.Partition { return partition } // there is one
			if machine, err = nfa.Restore(rule.Program, memo, machine.AppendSnapshot(nil), intern); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

func runOracle(v *Vector, tr *Translation, rule *patterns.Rule, moves []Move) Outcome {
	in := oracle.Input{FirstTime: cep.BeforeAll}
	reached := make([]cep.Moment, len(moves))
	for i, m := range moves {
		in.Entries = append(in.Entries, oracle.Entry{Event: m.Event, Watermark: m.To})
		reached[i] = cep.Moment{Time: m.To, Seq: cep.ByTime}
		if m.Event != nil {
			reached[i] = cep.Moment{Time: m.Event.Time, Seq: m.Event.Seq}
		}
	}
	var out Outcome
	i := 0
	for _, match := range oracle.Run(rule, in).Matches {
		// Matches come in the order of their moments: each goes out with the first move that reaches its own.
		for reached[i].Compare(match.Moment) < 0 {
			i++
		}
		out.add(v, tr, rule.Names, moves[i].At, &match)
	}
	return out
}

// diff compares what went out in order, line by line.
func (o Outcome) diff(other Outcome) string {
	a, b := o.lines(), other.lines()
	if strings.Join(a, "\n") == strings.Join(b, "\n") {
		return ""
	}
	return fmt.Sprintf("one:\n\t%s\nother:\n\t%s", strings.Join(a, "\n\t"), strings.Join(b, "\n\t"))
}

func (o Outcome) lines() []string {
	var out []string
	for _, f := range o.Matches {
		out = append(out, "match "+f.String())
	}
	for _, f := range o.Timeouts {
		out = append(out, "timeout "+f.String())
	}
	return out
}
