package oracle_test

import (
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

const lonely = `version: 1
rules:
- id: lonely
  from: s
  unbounded: true
  sequence:
  - {step: a, where: kind == "a"}
  - {absent: b, where: kind == "b", for: 10m}
`

func Example() {
	set, diagnostics := patterns.Load([]patterns.Source{{Name: "lonely.yaml", Data: []byte(lonely)}}, patterns.Options{})
	if set == nil {
		fmt.Println(diagnostics)
		return
	}
	kind := set.Schema.Slot("kind")
	event := func(seq int, at cep.Time, k string) oracle.Entry {
		ev := &cep.Event{
			Time:     at,
			Seq:      uint64(seq),
			Position: cep.Position{Partition: &cep.Partition{Stream: "s"}},
			Values:   make([]cep.Value, set.Schema.Len()),
		}
		ev.Values[kind] = cep.String(k)
		return oracle.Entry{Event: ev}
	}
	out := oracle.Run(set.Rules[0], oracle.Input{
		Entries: []oracle.Entry{
			event(1, 0, "a"),
			event(2, 20*cep.Minute, "a"),
			event(3, 25*cep.Minute, "b"),
			{Watermark: cep.Hour},
		},
		FirstTime: cep.BeforeAll,
	})
	for _, m := range out.Matches {
		fmt.Println(m.Moment.Time, "events:", m.History.Total())
	}
	fmt.Println("open:", out.Open)
	// Output:
	// 1970-01-01T00:10:00Z events: 1
	// open: [1 1 0 0]
}
