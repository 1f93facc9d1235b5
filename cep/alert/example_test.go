package alert_test

import (
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
)

func Example() {
	m := alert.NewMaker(&alert.Plan{Rule: "login", Severity: "high", Name: "root logged in", Steps: []alert.Step{{Name: "event"}}})
	moment := cep.Moment{Time: cep.Hour, Seq: 1}
	match := cep.Match{
		Moment: moment, Completed: moment,
		History: history{{time: cep.Hour, pos: cep.Position{Partition: auth, Offset: 7}}},
	}
	if a := m.Make(&match); a != nil { // nil: suppressed
		fmt.Println(a.Time, a.Severity, a.Title)
	}
	// Output: 1970-01-01T01:00:00Z high root logged in
}
