package graph_test

import (
	"fmt"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/graph"
)

func Example() {
	set, _ := patterns.Load([]patterns.Source{{Name: "rules.yaml", Data: []byte(`version: 1
rules:
- id: paid-too-late
  from: orders
  by: [order]
  sequence:
  - {step: placed, where: status == "placed"}
  - {absent: paid, where: status == "paid", for: 30m}
`)}}, patterns.Options{})
	g, err := graph.Of(set.Rules[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", g.Mermaid())
	// Output:
	// flowchart TD
	//   n0(["paid#45;too#45;late<br/>from orders<br/>by order"])
	//   n1["placed<br/>status == #34;placed#34;"]
	//   n2{{"not paid<br/>status == #34;paid#34;<br/>for 30m"}}
	//   n3(["alert#58; info"])
	//   n0 --> n1
	//   n1 --> n2
	//   n2 --> n3
}
