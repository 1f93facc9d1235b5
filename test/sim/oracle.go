package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
	"github.com/cepd/cepd/rules"
)

// holdAgainstOracle holds what has to arrive against the meaning of the rules, by enumeration: those that neither suppress nor
// follow their alerts, nor read those of others. It is for small scenarios.
func (g *golden) holdAgainstOracle(s *Scenario, set *rules.Set, spec codec.TimeSpec) error {
	events, end, err := s.events(set, spec)
	if err != nil {
		return err
	}
	for _, r := range set.Rules {
		if r.Layer > 0 || r.Alert.Suppress != nil || r.Alert.Resolve != nil {
			continue
		}
		want := meaning(r, events, end)
		var got []string
		for l, list := range g.alerts {
			if l.rule != r.ID {
				continue
			}
			for _, line := range list {
				text, err := takenOf(line)
				if err != nil {
					return err
				}
				got = append(got, text)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if d := diff.Diff(want, got); d != "" {
			return fmt.Errorf("rule %s (-oracle +engine):\n%s", r.ID, d)
		}
	}
	return nil
}

// events are the events that take part, in the total order, and the time at which the input ends.
func (s *Scenario) events(set *rules.Set, spec codec.TimeSpec) ([]*cep.Event, cep.Time, error) {
	parts := source.NewPartitions(streams...)
	decoder := codec.NewJSON(set.Schema, spec, codec.Options{})
	var events []*cep.Event
	end := cep.BeforeAll
	for i := range s.Partitions {
		p := &s.Partitions[i]
		for offset, r := range p.Records {
			if r.Fate != Taken {
				continue
			}
			ev := &cep.Event{Position: cep.Position{Partition: parts.Get(p.Stream, p.Name), Offset: int64(offset)}}
			if err := decoder.Decode(r.Data, ev); err != nil {
				return nil, 0, err
			}
			decoder.Keep(ev)
			events = append(events, ev)
			end = max(end, ev.Time)
		}
	}
	slices.SortFunc(events, func(a, b *cep.Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), a.Position.Compare(b.Position))
	})
	for i, ev := range events {
		ev.Seq = uint64(i) + 1
	}
	if end != cep.BeforeAll {
		end = end.Add(s.Advance)
	}
	return events, end, nil
}

// meaning is what a rule lets out: the time, and what was taken.
func meaning(r *patterns.Rule, events []*cep.Event, end cep.Time) []string {
	var list []string
	for _, m := range matchesOf(r, events, end) {
		list = append(list, m.line)
	}
	return list
}

// meant is a match: as text, with the time of its first event.
type meant struct {
	line          string
	first, moment cep.Time
}

func matchesOf(r *patterns.Rule, events []*cep.Event, end cep.Time) []meant {
	in := oracle.Input{FirstTime: firstTime(r, events)}
	for _, ev := range events {
		if slices.Contains(r.Streams, ev.Position.Partition.Stream) {
			in.Entries = append(in.Entries, oracle.Entry{Event: ev})
		}
	}
	in.Entries = append(in.Entries, oracle.Entry{Watermark: end})
	var list []meant
	for _, m := range oracle.Run(r, in).Matches {
		var taken []string
		for i := range m.History.Total() {
			at := m.History.Nth(i).Position()
			taken = append(taken, place(at.Partition.Stream, at.Partition.Name, at.Offset))
		}
		list = append(list, meant{lineOf(m.Moment.Time.Std().Format(time.RFC3339Nano), taken), m.History.Nth(0).Time(), m.Moment.Time})
	}
	return list
}

// firstTime is when the rule begins: the latest of its streams' first events (S4.3).
func firstTime(r *patterns.Rule, events []*cep.Event) cep.Time {
	first := cep.BeforeAll
	for _, name := range r.Streams {
		i := slices.IndexFunc(events, func(ev *cep.Event) bool { return ev.Position.Partition.Stream == name })
		if i < 0 {
			return cep.AfterAll
		}
		first = max(first, events[i].Time)
	}
	return first
}

func lineOf(time string, taken []string) string {
	slices.Sort(taken)
	return time + " " + strings.Join(taken, " ")
}

// takenOf reads the same of an alert.
func takenOf(line string) (string, error) {
	var a struct {
		Time   string `json:"time"`
		Events map[string][]struct {
			Stream    string `json:"stream"`
			Partition string `json:"partition"`
			Offset    int64  `json:"offset"`
		} `json:"events"`
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		return "", err
	}
	var taken []string
	for _, list := range a.Events {
		for _, ev := range list {
			taken = append(taken, place(ev.Stream, ev.Partition, ev.Offset))
		}
	}
	return lineOf(a.Time, taken), nil
}
