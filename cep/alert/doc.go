// Package alert turns matches into alerts.
//
// A [Plan] is what the alerts of one rule look like: fields, severity, title, how much of the events, suppression. A
// [Maker] applies it to matches in the order in which they were let out; [AppendJSON] writes the envelope that leaves the
// process, and [MatchID] the id, which depends on the match alone.
//
//	m := alert.NewMaker(&alert.Plan{Rule: "login", Severity: "high", Name: "root logged in"})
//	if a := m.Make(&match); a != nil { // nil: suppressed
//		line := alert.AppendJSON(nil, a)
//		fmt.Printf("%s\n", line)
//	}
//
// docs/format/alert.md draws the envelope and what the id is made of. [Maker.Changes] yields what a Maker remembers as records,
// [Maker.Restore] takes them in; [AppendAlert] writes an alert without its events. docs/format/state.md draws these.
//
// # Concurrency
//
// A Plan is immutable and may be shared; a Maker belongs to one goroutine. An alert is immutable.
//
// # Cost
//
// Make costs O(events of the match). A rule with suppression remembers one span for each value of `by` until the span
// ends; a span that held alerts back is remembered until the next alert with that value carries their number.
//
// # Caveats
//
// Evaluation errors never stop an alert: a field becomes null, a title shows "?", a severity is the rule's own. They are
// counted.
package alert
