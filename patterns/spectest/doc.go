// Package spectest holds the machine against the meaning: it runs scripts of rules and events on the oracle and on the
// machine, and compares.
//
// A script is a file of directives, in the grammar of [Read]: a rule, what happens, and what comes out. [Eval] runs one.
// The corpus in testdata has a file for each feature of the language; it is the contract of what rules mean, so a fix
// begins with a script case, and the diff of `go test ./patterns/spectest -run TestScripts -rewrite` is read as code is.
//
//	pattern
//	by: [user]
//	within: 10s
//	sequence:
//	- {step: a, where: kind == "fail", times: 2..}
//	- {step: b, where: kind == "ok"}
//	----
//	ok
//
//	events
//	1  0s user=u1 kind=fail
//	2  4s user=u1 kind=fail
//	3 10s user=u1 kind=ok
//	----
//	3: r "u1" a=[1 2] b=[3]
//
// [Play] is the machine's half: it drives a rule's program as a shard does.
//
// # Concurrency
//
// All functions are pure.
//
// # Cost
//
// That of the oracle: keep scripts to a dozen events.
//
// # Caveats
//
// Scripts are internal: users write `tests:` in rule files, which run on the engine. There is no order buffer here, so
// that events stand in their total order.
package spectest
