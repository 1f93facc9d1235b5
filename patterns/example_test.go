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
	rule := set.Rules[0]
	fmt.Println(rule.ID, rule.Streams, rule.Key, rule.Within)
	for _, e := range rule.Elements {
		fmt.Println(rule.Names[e.Name], e.Min, e.Max, e.Where.Canonical)
	}
	// Output:
	// ssh-bruteforce [auth] [src_ip] 10m0s
	// fail 5 -1 outcome == "failure"
	// ok 1 1 outcome == "success"
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
