package engine_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
)

// metamorphicRules read one stream or both, look at order alone or at every event, and end by time or by events.
func metamorphicRules() []*patterns.Rule {
	return []*patterns.Rule{
		rule("auth-seq", 20, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"}),
		rule("both-seq", 20, element{from: "auth", kind: "a"}, element{from: "web", kind: "b"}),
		rule("both-strict", 0, element{from: "auth", kind: "a"}, element{from: "web", kind: "b", link: nfa.Strict}),
		rule("web-absent", 0, element{from: "web", kind: "a"}, element{from: "web", kind: "b", absent: true, lasts: 7}),
		rule("web-start", 0, element{from: "web", kind: "a", absent: true, lasts: 5}, element{from: "web", kind: "b", link: nfa.NoLink}),
		rule("both-between", 30, element{from: "web", kind: "a"}, element{from: "auth", kind: "c", absent: true}, element{from: "auth", kind: "b"}),
	}
}

var metamorphicStreams = []engine.Stream{{Name: "auth", Lateness: 4}, {Name: "web", Lateness: 2, Tiebreak: []string{"tie"}}}

// drawPartitions draws what each partition holds, in its own order: times may go back, also too far.
func drawPartitions(t *rapid.T) [][]input {
	var all [][]input
	for _, p := range []*cep.Partition{auth0, auth1, web0} {
		var list []input
		now := cep.Time(rapid.IntRange(0, 10).Draw(t, "begin"))
		for range rapid.IntRange(0, 14).Draw(t, "n") {
			now += cep.Time(rapid.IntRange(0, 3).Draw(t, "gap"))
			back := cep.Time(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 4, 6}).Draw(t, "back"))
			in := ev(p, now-back, rapid.SampledFrom([]string{"a", "b", "c", "x"}).Draw(t, "kind"), rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"))
			in.values = append(in.values, cep.Int(rapid.Int64Range(0, 1).Draw(t, "tie")))
			list = append(list, in)
		}
		all = append(all, number(list))
	}
	return all
}

// run pushes the partitions in the order of the draws, and ends each as soon as it is read or all together.
func run(t *rapid.T, list []*patterns.Rule, o layout, all [][]input, arrival []int, endEarly bool, advance cep.Duration) (*bench, []string) {
	runtime.GOMAXPROCS(o.procs)
	b := newBenchWith(t, setOf(list...), o.Options, metamorphicStreams...)
	for _, p := range []*cep.Partition{auth0, auth1, web0} {
		b.Open(p)
	}
	if rapid.Bool().Draw(t, "no other partition will come") {
		b.CloseStream("auth")
		b.CloseStream("web")
	}
	rest := slices.Clone(all)
	for i, p := range []*cep.Partition{auth0, auth1, web0} {
		if endEarly && len(rest[i]) == 0 {
			b.End(p)
		}
	}
	for _, i := range arrival {
		b.push(rest[i][0])
		p := rest[i][0].partition
		if rest[i] = rest[i][1:]; len(rest[i]) == 0 && endEarly {
			b.End(p)
		}
	}
	b.Finish(advance)
	b.Close()
	return b, b.alerts
}

// The alerts depend on what is in the partitions, not on how reads interleave, on batches, shards and goroutines, or on
// when ends are noticed.
// They are those of the plain reading: judge lateness partition by partition, sort, and run each rule alone.
func TestOutputDependsOnInputAlone(t *testing.T) {
	alerts, late := 0, uint64(0)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rapid.Check(t, func(t *rapid.T) {
		all := drawPartitions(t)
		advance := rapid.SampledFrom([]cep.Duration{0, 3, engine.ToEnd}).Draw(t, "advance")
		want, wantLate := plain(all, advance)
		alerts += len(want)
		late += wantLate
		var base []int
		for i, list := range all {
			for range list {
				base = append(base, i)
			}
		}
		for range 4 {
			arrival := rapid.Permutation(base).Draw(t, "arrival")
			o := drawLayout(t)
			endEarly := rapid.Bool().Draw(t, "end early")
			b, got := run(t, metamorphicRules(), o, all, arrival, endEarly, advance)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v, arrival %v (-plain +engine):\n%s", o, arrival, diff)
			}
			s := b.Summary()
			if n := s.Streams[0].Late + s.Streams[1].Late; n != wantLate || s.Streams[0].Returned+s.Streams[1].Returned != 0 {
				t.Fatalf("%d late, want %d; %+v", n, wantLate, s.Streams)
			}
			for _, st := range s.Streams {
				if st.Events != st.Taken+st.Late+st.Returned+st.Future {
					t.Fatalf("events got lost: %+v", st)
				}
			}
		}
	})
	if alerts == 0 || late == 0 {
		t.Errorf("%d alerts, %d late events: the test tests nothing", alerts, late)
	}
}

// plain is the definition, without an engine: what is not late by its own partition, in the total order, rule by rule on a
// machine of its own; then all alerts by moment, rule and the machine's order.
func plain(all [][]input, advance cep.Duration) ([]string, uint64) {
	late := uint64(0)
	taken := map[string][]input{} // by stream
	for i, list := range all {
		s := metamorphicStreams[0]
		if i == 2 {
			s = metamorphicStreams[1]
		}
		highest := cep.BeforeAll
		for _, in := range list {
			if highest != cep.BeforeAll && in.time <= highest.Add(-s.Lateness)-1 {
				late++
				continue
			}
			highest = max(highest, in.time)
			taken[s.Name] = append(taken[s.Name], in)
		}
	}
	type out struct {
		line  string
		m     cep.Moment
		place input
		rank  int
	}
	var outs []out
	end := cep.BeforeAll
	for _, list := range taken {
		for _, in := range list {
			end = max(end, in.time)
		}
	}
	switch {
	case advance == engine.ToEnd:
		end = cep.AfterAll
	case end != cep.BeforeAll:
		end = end.Add(advance)
	}
	for rank, r := range setOf(metamorphicRules()...).Rules {
		var list []input
		first := cep.BeforeAll
		for _, name := range r.Streams {
			list = append(list, taken[name]...)
			begin := cep.AfterAll
			for _, in := range taken[name] {
				begin = min(begin, in.time)
			}
			first = max(first, begin)
		}
		slices.SortStableFunc(list, compareInputs)
		machine := nfa.NewMachine(r.Program, nil)
		machine.SetFirstTime(first)
		router := patterns.NewRouter(r)
		bySeq := map[uint64]input{}
		var matches []cep.Match
		for i, in := range list {
			seq := uint64(i + 1)
			bySeq[seq] = in
			e := &cep.Event{Time: in.time, Seq: seq, Position: cep.Position{Partition: in.partition, Offset: in.offset}, Values: in.values}
			for _, d := range router.Route(e) {
				machine.Event(d.Key, e, d.Mask)
			}
			matches = append(matches, machine.Matches()...)
		}
		machine.Advance(end)
		matches = append(matches, machine.Matches()...)
		for _, m := range matches {
			outs = append(outs, out{matchLine(r, m), m.Moment, bySeq[m.Moment.Seq], rank})
		}
	}
	slices.SortStableFunc(outs, func(a, b out) int {
		switch {
		case a.m.Time != b.m.Time:
			return int(a.m.Time - b.m.Time)
		case a.m.Timed() != b.m.Timed():
			if a.m.Timed() {
				return 1
			}
			return -1
		case !a.m.Timed():
			if c := compareInputs(a.place, b.place); c != 0 {
				return c
			}
		}
		return a.rank - b.rank
	})
	var lines []string
	for _, o := range outs {
		lines = append(lines, o.line)
	}
	return lines, late
}

func compareInputs(a, b input) int {
	tie := func(in input) int64 {
		if in.partition.Stream != "web" {
			return 99 // no tie-break: last
		}
		return in.values[slotTie].AsInt()
	}
	switch {
	case a.time != b.time:
		return int(a.time - b.time)
	case tie(a) != tie(b):
		return int(tie(a) - tie(b))
	case a.partition != b.partition:
		return a.partition.Compare(b.partition)
	}
	return int(a.offset - b.offset)
}

func matchLine(r *patterns.Rule, m cep.Match) string {
	by := ""
	if m.Completed.Timed() {
		by = " by time"
	}
	parts, err := m.Key.Parts()
	if err != nil {
		panic(err)
	}
	b := strings.Builder{}
	fmt.Fprintf(&b, "%s %d%s %v", r.ID, m.Moment.Time, by, parts[0].AsString())
	for step := range r.Names {
		for i := range m.History.Len(step) {
			e := m.History.At(step, i)
			p := e.Position()
			fmt.Fprintf(&b, " %s=%s/%s/%d@%d", r.Names[step], p.Partition.Stream, p.Partition.Name, p.Offset, e.Time())
		}
	}
	return b.String()
}
