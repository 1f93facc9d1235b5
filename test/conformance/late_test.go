package conformance

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// Which events are late at a watermark is for the engine's clocks to say, not for a rule. The rule here takes every event,
// so those that are not late come out of it.
const takesAll = `version: 1
rules:
- id: all
  from: events
`

func (r *fileRun) late(v *Vector) {
	diff := ""
	if late, accepted, err := judgeLate(v); err != nil {
		diff = err.Error()
	} else {
		diff = cmp.Diff([][]string{v.Expected.Late, v.Expected.Accepted}, [][]string{late, accepted})
	}
	r.judge(v, diff, false, "")
}

// judgeLate plays the input on the engine: the vector's watermarks are said to it, and its own never come close.
func judgeLate(v *Vector) (late, accepted []string, _ error) {
	compiled, diagnostics := patterns.Load([]patterns.Source{{Name: "all.yaml", Data: []byte(takesAll)}}, patterns.Options{})
	if compiled == nil {
		return nil, nil, diagnostics
	}
	partition := &cep.Partition{Stream: "events", Name: "0"}
	var taken []int64
	core, err := engine.New(&rules.Set{Set: compiled}, []engine.Stream{{Name: "events", Lateness: 24 * time.Hour}}, engine.Options{
		Alert: func(a *cep.Alert) {
			for _, s := range a.Steps {
				for _, e := range s.Events {
					taken = append(taken, e.Position.Offset)
				}
			}
		},
	})
	if err != nil {
		return nil, nil, err
	}
	for at, entry := range v.Input {
		if entry.Event == "" {
			w, err := entry.watermark()
			if err != nil {
				return nil, nil, err
			}
			core.Advance(w)
			continue
		}
		before := core.Summary().Streams[0].Late
		core.Push(partition, &cep.Event{Time: double(entry.TS), Position: cep.Position{Partition: partition, Offset: int64(at)}}, nil)
		if core.Summary().Streams[0].Late > before {
			late = append(late, entry.Event)
		}
	}
	core.Finish(0)
	for at, entry := range v.Input {
		for _, offset := range taken {
			if offset == int64(at) {
				accepted = append(accepted, entry.Event)
			}
		}
	}
	if got := len(late) + len(accepted); got != len(v.Expected.Late)+len(v.Expected.Accepted) {
		return nil, nil, fmt.Errorf("%d late and %d taken of %d entries", len(late), len(accepted), len(v.Input))
	}
	return late, accepted, nil
}
