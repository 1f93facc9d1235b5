package conformance

import (
	"encoding/json"
	"fmt"
)

// A vector of FlinkCEP: `a !>b >>c+, W=10, past last`. Its window excludes its end, so in doubled time ours is 19 ms.
func Example() {
	v := &Vector{}
	err := json.Unmarshal([]byte(`{"pattern": {
		"steps": [
			{"name": "a", "where": "name == \"a\""},
			{"name": "b", "where": "name == \"b\"", "contiguity": "not_next"},
			{"name": "c", "where": "count(c) < 3 && price > first(a.price)", "contiguity": "relaxed", "min": 1, "max": null}
		],
		"within_ms": 10, "after_match": {"strategy": "skip_past_last"}}}`), v)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(v.Translate().Text)
	// Output:
	// version: 1
	// rules:
	// - id: vector
	//   from: events
	//   within: 19ms
	//   sequence:
	//   - step: s_a
	//     where: "name == \"a\""
	//   - absent: s_b
	//     where: "name == \"b\""
	//     contiguity: strict
	//   - step: s_c
	//     where: "len(taken) < 3 && price > s_a.price"
	//     times: 1..
	//   after_match: past_last
	//   emit: ordered
}
