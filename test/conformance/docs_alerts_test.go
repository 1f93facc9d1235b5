package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/patterns/spectest"
	"github.com/cepd/cepd/rules"
)

// evalAlerts runs a script of the directives
//
//	file     a whole rule file
//	alerts   the lines of `events` in package spectest; `stream/partition:` names a partition, and `advance` stands last.
//	         The argument lateness=DURATION is that of every stream. The output is an alert a line
//
// Streams are configured in the order of their names. The events are read in many ways (see [arrivals]); an error means
// that the alerts are not the same for all of them.
func evalAlerts(name string, blocks []*spectest.Block) ([]string, error) {
	var set *rules.Set
	outputs := make([]string, len(blocks))
	for i, b := range blocks {
		var err error
		switch b.Command {
		case "file":
			set, err = loadText(b.Input)
			outputs[i] = "ok\n"
		case "alerts":
			outputs[i], err = alertsOf(set, b)
		default:
			err = fmt.Errorf("directive %q: known are file, alerts", b.Command)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, b.Line, err)
		}
	}
	return outputs, nil
}

func loadText(text string) (*rules.Set, error) {
	set, diagnostics, err := rules.LoadFS(fstest.MapFS{"rules/page.yaml": &fstest.MapFile{Data: []byte(text)}}, "rules/page.yaml")
	if err == nil && set == nil {
		err = fmt.Errorf("rules are refused: %w", diagnostics)
	}
	return set, err
}

func alertsOf(set *rules.Set, b *spectest.Block) (string, error) {
	if set == nil {
		return "", fmt.Errorf("no rules")
	}
	rec, err := spectest.ReadEvents(b.Input, b.Args, set.Schema)
	if err != nil {
		return "", err
	}
	r, err := newReplay(set, rec)
	if err != nil {
		return "", err
	}
	for _, a := range b.Args {
		if text, ok := strings.CutPrefix(a, "lateness="); ok {
			lateness, err := time.ParseDuration(text)
			if err != nil {
				return "", err
			}
			for i := range r.streams {
				r.streams[i].Lateness = lateness
			}
		}
	}
	written, err := r.run(arrival{"as written", r.events, 0, len(r.events)})
	if err != nil {
		return "", err
	}
	for _, a := range arrivals(r.events) {
		text, err := r.run(a)
		if err != nil {
			return "", fmt.Errorf("%s: %w", a.name, err)
		}
		if text != written {
			return "", fmt.Errorf("as written:\n%s%s:\n%s", written, a.name, text)
		}
	}
	return written, nil
}

// replay is an example that can be read in several ways.
type replay struct {
	set     *rules.Set
	rec     *spectest.Recording
	streams []engine.Stream
	events  []cep.Event
	until   cep.Time // of the `advance` at the end
}

func newReplay(set *rules.Set, rec *spectest.Recording) (*replay, error) {
	r := &replay{set: set, rec: rec, until: cep.BeforeAll}
	var names []string
	for _, rule := range set.Rules {
		names = append(names, rule.Streams...)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == engine.AlertStream })
	for _, name := range names {
		r.streams = append(r.streams, engine.Stream{Name: name})
	}
	partitions := source.NewPartitions(names...)
	for _, e := range rec.Entries {
		if e.Event == nil {
			r.until = e.Watermark
			continue
		}
		ev := *e.Event
		stream, partition, _ := strings.Cut(ev.Position.Partition.Stream, "/")
		if ev.Position.Partition = partitions.Get(stream, partition); ev.Position.Partition == nil || r.until > cep.BeforeAll {
			return nil, fmt.Errorf("event %s: no rule reads %q, or it stands behind an advance", rec.IDs[ev.Position.Offset], stream)
		}
		r.events = append(r.events, ev)
	}
	return r, nil
}

// arrival is a way in which events may be read: their order, the engine's batch, and where the service stops and starts
// again.
type arrival struct {
	name   string
	events []cep.Event
	batch  int
	stop   int
}

// arrivals are the orders in which partitions can be read that differ most, each with a stop at every event.
func arrivals(events []cep.Event) []arrival {
	place := func(ev cep.Event) *cep.Partition { return ev.Position.Partition }
	first := slices.Clone(events)
	slices.SortStableFunc(first, func(a, b cep.Event) int { return compareNames(place(a), place(b)) })
	last := slices.Clone(events)
	slices.SortStableFunc(last, func(a, b cep.Event) int { return compareNames(place(b), place(a)) })
	var all []arrival
	for i := range len(events) + 1 {
		all = append(all,
			arrival{fmt.Sprintf("as written, stopped at %d", i), events, 1, i},
			arrival{fmt.Sprintf("partition after partition, stopped at %d", i), first, 1, i},
			arrival{fmt.Sprintf("the last partition first, stopped at %d", i), last, 3, i},
		)
	}
	return all
}

func compareNames(p, q *cep.Partition) int {
	return strings.Compare(p.Stream+"/"+p.Name, q.Stream+"/"+q.Name)
}

func (r *replay) run(a arrival) (string, error) {
	var sb strings.Builder
	options := engine.Options{Batch: a.batch, Alert: func(x *cep.Alert) { sb.WriteString(r.line(x)) }}
	core, err := engine.New(r.set, r.streams, options)
	if err != nil {
		return "", err
	}
	push := func(events []cep.Event, from map[*cep.Partition]int64) {
		for i := range a.events { // each is waited for, also before the first event of it is read
			core.Open(a.events[i].Position.Partition)
		}
		for _, ev := range events {
			if ev.Position.Offset >= from[ev.Position.Partition] {
				core.Push(ev.Position.Partition, &ev, nil)
			}
		}
	}
	push(a.events[:a.stop], nil)
	if a.stop < len(a.events) {
		state, err := core.Leave()
		if err != nil {
			return "", err
		}
		if core, _, err = engine.Resume(r.set, r.streams, options, state); err != nil {
			return "", err
		}
		from := map[*cep.Partition]int64{}
		for i := range a.events {
			p := a.events[i].Position.Partition
			from[p] = core.From(p)
		}
		push(a.events, from)
	}
	if r.until > cep.BeforeAll {
		core.Advance(r.until)
	}
	core.Finish(0)
	return sb.String(), nil
}

// line writes an alert: when, of which kind, by what, of which rule and key, the events it lists, its fields as they leave
// the process.
func (r *replay) line(a *cep.Alert) string {
	var sent struct {
		Kind        string          `json:"kind"`
		CompletedBy string          `json:"completed_by"`
		Fields      json.RawMessage `json:"fields"`
	}
	if err := json.Unmarshal(alert.AppendJSON(nil, a), &sent); err != nil {
		return err.Error() + "\n"
	}
	words := []string{time.Duration(a.Time.Sub(r.rec.Zero)).String(), sent.Kind, "by", sent.CompletedBy + ":", a.Rule}
	for _, k := range a.Key {
		words = append(words, k.Value.String())
	}
	for _, s := range a.Steps {
		ids := make([]string, len(s.Events))
		for i, e := range s.Events {
			ids[i] = "alert"
			if e.Position.Partition.Stream != engine.AlertStream {
				ids[i] = r.rec.IDs[e.Position.Offset]
			}
		}
		words = append(words, fmt.Sprintf("%s=%v", s.Name, ids))
	}
	if len(a.Fields) > 0 {
		words = append(words, string(sent.Fields))
	}
	return strings.Join(words, " ") + "\n"
}
