package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

func (r *fileRun) siddhi(v *Vector) {
	s, err := v.Siddhi()
	if err != nil {
		r.wrong(v, err.Error(), "")
		return
	}
	tr := s.Translate()
	if tr.Missing != "" {
		r.lacks(v, tr.Missing)
		return
	}
	set, refused := (&Translation{Text: tr.Text}).load()
	if what := lacking(refused); what != "" {
		r.lacks(v, what)
		return
	}
	if set == nil {
		r.wrong(v, refused.Error(), tr.Text)
		return
	}
	machine, plain := s.play(set)
	if !slices.Equal(machine, plain) {
		r.wrong(v, fmt.Sprintf("machine and oracle differ:\n%v\n%v", machine, plain), tr.Text)
		return
	}
	if tr.Once && len(machine) > 1 {
		machine = machine[:1]
	}
	slices.Sort(machine)
	var want []string
	for _, row := range s.Expected.Rows {
		want = append(want, fmt.Sprint(row...))
	}
	slices.Sort(want)
	diff := ""
	if !slices.Equal(machine, want) {
		diff = fmt.Sprintf("here: %q\nSiddhi: %q\n%s", machine, want, s.describe())
	}
	r.judge(v, diff, false, tr.Text)
}

// play gives the rows that come out of the machine and of the oracle.
func (s *SiddhiVector) play(set *patterns.Set) (machine, plain []string) {
	rule := set.Rules[0]
	row := func(m *cep.Match) string {
		var cells []any
		for _, f := range rule.Alert.Fields {
			x, err := f.Expr.Eval(&cep.Scope{History: m.History, Key: m.Key})
			switch {
			case err != nil:
				cells = append(cells, err.Error())
			case x.IsMissing():
				cells = append(cells, nil)
			case x.IsNumber():
				cells = append(cells, x.AsFloat())
			default:
				cells = append(cells, x.AsString())
			}
		}
		return fmt.Sprint(cells...)
	}
	memo := nfa.NewMemo(set.Predicates)
	run := nfa.NewMachine(rule.Program, memo)
	router := patterns.NewRouter(rule)
	in := oracle.Input{}
	run.SetFirstTime(in.FirstTime)
	partitions := map[string]*cep.Partition{}
	for i, name := range s.streams() {
		partitions[name] = &cep.Partition{Stream: name, Name: "0", Order: i}
	}
	var seq uint64
	end := cep.Time(0)
	for i, e := range s.Input {
		// The clock is that of the wall: a sleep is never too short, and sending takes its time.
		now := cep.Time(e.T+int64(i)+1) * cep.Millisecond
		end = now
		if e.End {
			break
		}
		if partitions[e.Stream] == nil {
			continue // sent to a stream that the pattern does not read
		}
		seq++
		ev := &cep.Event{Time: now, Seq: seq, Position: cep.Position{Partition: partitions[e.Stream], Offset: int64(i)}}
		for slot := range set.Schema.Len() {
			var x cep.Value
			switch data := e.Data[set.Schema.Path(slot)[0]].(type) {
			case string:
				x = cep.String(data)
			case float64:
				x = cep.Float(data)
			}
			ev.Values = append(ev.Values, x)
		}
		in.Entries = append(in.Entries, oracle.Entry{Event: ev})
		memo.Next()
		run.Advance(ev.Time - 1)
		for _, d := range router.Route(ev) {
			run.Event(d.Key, ev, d.Mask)
		}
		for _, m := range run.Matches() {
			machine = append(machine, row(&m))
		}
	}
	if n := len(s.Input); s.Expected.Count > 0 || n == 0 || !s.Input[n-1].End {
		end += cep.Minute // the peer waits for what it expects, and ten times longer than any absence
	}
	in.Entries = append(in.Entries, oracle.Entry{Watermark: end})
	run.Advance(end)
	for _, m := range run.Matches() {
		machine = append(machine, row(&m))
	}
	for _, m := range oracle.Run(rule, in).Matches {
		plain = append(plain, row(&m))
	}
	return machine, plain
}

func (s *SiddhiVector) describe() string {
	var b strings.Builder
	for _, e := range s.Input {
		fmt.Fprintf(&b, "%d %s %v end=%v; ", e.T, e.Stream, e.Data, e.End)
	}
	return b.String()
}
