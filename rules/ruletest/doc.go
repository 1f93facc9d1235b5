// Package ruletest runs the tests that stand in rule files, on the engine that runs the rules.
//
// [Run] runs them and returns a [Result] for each: passed, or what differs, or why it could not be run.
//
//	set, _, _ := rules.Load([]string{"rules"})
//	for _, r := range ruletest.Run(set, nil) {
//		if !r.Passed() {
//			fmt.Println(r.Name(), r.Failure)
//		}
//	}
//
// # Concurrency
//
// Run works on a set that others may read at the same time. It starts no goroutine.
//
// # Cost
//
// A test costs its events: each has an engine of its own, with the one rule under test.
//
// # Caveats
//
// A test's zero is [Zero], unless it begins with a recorded file: then it is the time of the file's first event. Alerts
// that suppression holds back are no alerts.
package ruletest
