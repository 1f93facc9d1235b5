package patterns_test

import (
	"fmt"

	"github.com/cepd/cepd/patterns"
)

func ExampleLoad() {
	set, diagnostics := patterns.Load([]patterns.Source{{Name: "rules/ssh.yaml", Data: []byte(`version: 1
rules:
- id: ssh-bruteforce
  from: auth
  by: [src_ip]
  within: 10m
  sequence:
  - {step: fail, where: outcome == "failure", times: 5..}
  - {step: ok, where: outcome == "success"}
`)}}, patterns.Options{})
	if set == nil {
		fmt.Print(diagnostics.Error())
		return
	}
	fmt.Print(set.Rules[0].Program)
	// Output:
	// program ssh-bruteforce, after_match past_last, within 10m, at most 10000 starts, at most 10000 events
	//   0  take fail 5.. loop relaxed where outcome == "failure" -> 1
	//   1  take ok relaxed where outcome == "success" -> 2
	//   2  done
	// entry 0
	// facts unary timed
}

func ExampleDiagnostics() {
	_, diagnostics := patterns.Load([]patterns.Source{{Name: "rules/brute.yaml", Data: []byte(`version: 1
rules:
- id: brute
  from: auth
  by: [user]
  within: 10m
  sequence:
  - {step: fail, where: outcome == "failure", tmies: 5..}
  - {step: ok, where: fail.user == user}
`)}}, patterns.Options{})
	fmt.Print(diagnostics.Error())
	// Output:
	// rules/brute.yaml:8:47: a step has no key "tmies" (did you mean "times"?) [CEP0103]
	//   8 |   - {step: fail, where: outcome == "failure", tmies: 5..}
	//     |                                               ^~~~~
	// rules/brute.yaml:9:23: fail is a list of events, it has no field user [CEP0206]
	//   9 |   - {step: ok, where: fail.user == user}
	//     |                       ^~~~~~~~~
	//     hint: write fail[-1].user, or map(fail, .user)
}
