// Package oracle says what a rule means, in the plainest way: it writes down every candidate over one complete, finite
// input, and then selects. Each function names the sentence of the semantics that it is (S1 to S5); the machine of
// package nfa must let out the same matches at the same moments.
//
// [Run] is the whole interface. An [Input] is a rule's events in total order with watermarks between them, an [Output]
// what the rule lets out and how many starts were open after each entry:
//
//	out := oracle.Run(rule, oracle.Input{
//		Entries: []oracle.Entry{
//			event(1, 0, "a"),
//			event(2, 20*cep.Minute, "a"),
//			event(3, 25*cep.Minute, "b"),
//			{Watermark: cep.Hour},
//		},
//		FirstTime: cep.BeforeAll,
//	})
//	for _, m := range out.Matches {
//		fmt.Println(m.Moment.Time, "events:", m.History.Total())
//	}
//
// # How it is built
//
// stream.go gives each key its stream, and says what fits (S1). writing.go writes the rule out, step by step, in every way
// (S2). candidate.go enumerates, for each start, every beginning of a candidate: how long it waits and for what, and
// the candidates that complete, with their moments (S3, S4, S5.1 to S5.3). selection.go walks the moments in order and
// lets matches out (S5.4 to S5.8). history.go is what a condition sees of a candidate.
//
// # Concurrency
//
// Run is a pure function of its arguments.
//
// # Cost
//
// Exponential, on purpose: every assignment is written out. It is for inputs of a dozen events.
//
// # Caveats
//
// Nothing here may be taken from package nfa, nor be changed because a machine or a peer gives something else: where
// they differ, the text decides.
package oracle
