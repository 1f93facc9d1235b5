package spectest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

// Play runs the input through the rule's program, as a shard does, and gives what the oracle gives for it. memo is the
// size of the rule set's memo. With restart the machine is encoded after every entry, and one that was decoded from that
// goes on; encoding that one must give the same bytes.
func Play(r *patterns.Rule, memo int, in oracle.Input, restart bool) (oracle.Output, error) {
	var out oracle.Output
	shared := nfa.NewMemo(memo)
	m := nfa.NewMachine(r.Program, shared)
	m.SetFirstTime(in.FirstTime)
	if in.FirstTime > cep.BeforeAll { // S4.4
		for _, k := range r.Keys {
			m.Await([]byte(k), in.FirstTime)
		}
	}
	router := patterns.NewRouter(r)
	partitions := map[[2]string]*cep.Partition{}
	for i, e := range in.Entries {
		if e.Event == nil {
			m.Advance(e.Watermark)
		} else {
			p := e.Event.Position.Partition
			partitions[[2]string{p.Stream, p.Name}] = p
			m.Advance(e.Event.Time - 1)
			shared.Next()
			ev := *e.Event
			ev.Values = slices.Clone(ev.Values)
			for _, d := range router.Route(&ev) {
				m.Event(d.Key, &ev, d.Mask)
			}
			clear(ev.Values) // the caller may use them again
		}
		out.Matches = append(out.Matches, m.Matches()...)
		out.Open = append(out.Open, m.OpenStarts())
		out.Keys = append(out.Keys, m.Keys())
		if !restart {
			continue
		}
		state := m.AppendSnapshot(nil)
		next, err := nfa.Restore(r.Program, shared, state, func(stream, name string) *cep.Partition {
			return partitions[[2]string{stream, name}]
		})
		if err != nil {
			return out, fmt.Errorf("entry %d: %w", i, err)
		}
		if again := next.AppendSnapshot(nil); !bytes.Equal(state, again) {
			return out, fmt.Errorf("entry %d: the state changes when it is decoded and encoded: %x, %x", i, state, again)
		}
		m = next
	}
	out.Refused = int(m.Counters().Refused)
	return out, nil
}
