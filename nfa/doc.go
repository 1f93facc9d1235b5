// Package nfa runs compiled event patterns.
//
// There are four types to know. A [Pattern] is a rule after it was parsed and checked. [Compile] makes a [Program] of it,
// an immutable list of instructions; [Forms] lets the programs of many rules share what they have in common. A [Machine] runs one
// program over all keys of the rule that one goroutine owns; for each key it holds [Runs], the open starts with the ways in which
// they may go on.
//
//	p, err := nfa.Compile(pattern)
//	m := nfa.NewMachine(p, nil)
//	for _, ev := range events { // in order of time, with ascending Seq
//		m.Event(key(ev), ev, mask(ev))
//		for _, match := range m.Matches() { // valid until the next call
//			fmt.Println(match.History.Len(0))
//		}
//	}
//	m.Advance(watermark) // windows end and absences hold with no event needed
//
// The package knows no rule files and no expressions: a condition is a [Pred], and the mask of an event says which names
// it exists for. [Memo] evaluates a condition that reads the event alone once, whoever asks.
//
// # How it works
//
// A start is an event that fits the first element, with all that may come of it. It is open exactly while it has a run: a
// place in the program, the node of the last event taken, and the absences that are pending. Nodes form a tree, so that
// candidates share what they have in common, and are never changed. Deadlines stand in one queue for each constant of the
// program; since each is the time of an event plus that constant, a queue is sorted without anybody sorting it.
//
// A program without composites, greedy, until, having and distinct is flat: where a run goes behind a take is known when
// the program is compiled. In any other, runs carry a frame, and the ways are followed anew at each event taken.
//
// # State
//
// [Machine.AppendSnapshot] writes the whole state of a machine, [Machine.Changes] what has changed, key by key: each as a
// record that replaces the one before. [Restore] and [Restorer] make machines of them that go on as if nothing had been. The
// keys of a rule may be spread over any number of machines by [Slot], and over another number when they are restored.
//
//	m.Changes(parts, func(key string, value []byte) { store[key] = bytes.Clone(value) }) // nil: the key is gone
//	...
//	r := nfa.NewRestorer(p, nil, parts)
//	for key, value := range store {
//		err = r.Key(key, value)
//	}
//	err = r.Globals(globals)
//	m, err = r.Machine()
//
// # Concurrency
//
// A Program may be shared. A Machine, its Memo and whatever it lends belong to one goroutine; a match's History stays
// valid, but looks things up lazily, so one goroutine at a time may read it.
//
// # Cost
//
// An event costs O(runs of its key that it can touch) plus a look at the key's other runs; if it touches none, O(1) and no
// allocation. A relaxed loop of n events holds n runs a start, a loop or links with `any` 2^n: limits on starts and events
// bound them. Where only one match of many can be let out (after_match past_last with conditions on the event alone) what
// cannot win is not followed, and a loop of n events costs O(1) an event. An aggregate costs O(1) an event, a count of different values O(log n), whatever the length of a loop. An
// absence at the start whose condition names the event to come costs O(events in its reach) a start. A start of a rule of
// two steps takes under 300 bytes with its key, a key with nothing open none. Changes cost O(state of the keys that have
// changed), a microsecond for a key with one start, and reading a record as much.
//
// # Caveats
//
// Events must come in the total order and above the watermark; nothing here sorts. Limits count per key: what bounds the
// number of keys is above this package.
package nfa
