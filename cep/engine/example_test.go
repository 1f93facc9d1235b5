package engine_test

import (
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

func Example() {
	compiled, diagnostics := patterns.Load([]patterns.Source{{Name: "rules.yaml", Data: []byte(`
version: 1
rules:
- id: fail-then-ok
  from: auth
  by: [user]
  within: 10m
  sequence: [{step: fail, where: outcome == "failure"}, {step: ok, where: outcome == "success"}]
`)}}, patterns.Options{})
	if compiled == nil {
		fmt.Println(diagnostics.Error())
		return
	}
	core, err := engine.New(&rules.Set{Set: compiled}, []engine.Stream{{Name: "auth"}}, engine.Options{
		Alert: func(a *cep.Alert) { fmt.Println(a.Time, a.Title, a.Key) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	schema, partition := compiled.Schema, &cep.Partition{Stream: "auth", Name: "0"}
	for i, outcome := range []string{"failure", "success"} {
		ev := cep.Event{
			Time:     cep.Time(i) * cep.Minute,
			Position: cep.Position{Partition: partition, Offset: int64(i)},
			Values:   make([]cep.Value, schema.Len()),
		}
		ev.Values[schema.Slot("user")] = cep.String("root")
		ev.Values[schema.Slot("outcome")] = cep.String(outcome)
		core.Push(partition, &ev, nil)
	}
	core.Finish(0)
	// Output: 1970-01-01T00:01:00Z fail-then-ok [{user "root"}]
}
