package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
)

// writeSummary writes where events, starts and matches went, and what to do where that is not as it should be.
func writeSummary(p *printer, s *engine.Summary) {
	streams := table{head: []string{"stream", "events", "late", "returned", "future", "bad", "out of order by"}}
	for i := range s.Streams {
		st := &s.Streams[i]
		streams.add(st.Name, count(st.Events), count(st.Late), count(st.Returned), count(st.Future), count(bad(st)),
			cep.FormatDuration(st.Behind))
	}
	streams.write(p, "")
	p.printf("\n")
	writeFunnels(p, s)
	if notes := notesOf(s); len(notes) > 0 {
		p.printf("\n")
		for _, n := range notes {
			p.printf("%s %s\n", p.paint(yellow, "note:"), n)
		}
	}
}

// writeFunnels writes a line for each rule: how many events are left behind each stage. A stage that is 0 for every rule is
// left out, where rules usually have none of it: the table must fit a terminal.
func writeFunnels(p *printer, s *engine.Summary) {
	t := table{head: []string{"rule", "seen", "visible", "keyed", "opened"}}
	reasons := map[string]bool{}
	var open, timeouts, silenced, suppressed bool
	for i := range s.Rules {
		r := &s.Rules[i]
		for _, e := range r.Ended {
			reasons[e.Name] = reasons[e.Name] || e.N > 0
		}
		open, timeouts = open || r.Open > 0, timeouts || r.Timeouts > 0
		silenced, suppressed = silenced || r.Silenced > 0, suppressed || r.Suppressed > 0
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		if r.Skipped != "" {
			continue
		}
		row := []string{r.ID, count(r.Seen), count(r.Visible), count(r.Keyed), count(r.Opened)}
		head := t.head[:len(row):len(row)]
		add := func(is bool, name string, n uint64) {
			if is {
				head, row = append(head, name), append(row, count(n))
			}
		}
		for _, e := range r.Ended {
			add(reasons[e.Name], e.Name, e.N)
		}
		add(open, "open", uint64(r.Open))
		add(true, "matched", r.Matched)
		add(timeouts, "timeouts", r.Timeouts)
		add(silenced, "silenced", r.Silenced)
		add(suppressed, "suppressed", r.Suppressed)
		add(true, "alerts", r.Alerts)
		var steps []string
		for _, c := range r.Taken {
			steps = append(steps, c.Name+" "+count(c.N))
		}
		t.head = append(head, "taken by step")
		t.add(append(row, strings.Join(steps, ", "))...)
	}
	if len(t.rows) > 0 {
		t.write(p, "")
	}
}

// notesOf says what a reader of the summary should not overlook.
func notesOf(s *engine.Summary) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for i := range s.Streams {
		st := &s.Streams[i]
		if st.Events == 0 && bad(st) == 0 {
			note("%s: no events were read", st.Name)
		}
		if st.Late > 0 {
			note("%s: %s came too late and were left out; --lateness %s would have taken all", st.Name,
				plural(int(st.Late), "event"), cep.FormatDuration(roundUp(st.Behind)))
		}
		if st.Future > 0 {
			note("%s: %s lay so far ahead of all others that their clock must be broken, and were left out (--max-ahead)",
				st.Name, plural(int(st.Future), "event"))
		}
		for _, kind := range slices.Sorted(maps.Keys(st.Bad)) {
			note("%s: %s refused: %s", st.Name, plural(int(st.Bad[kind]), "record"), kind)
		}
		if st.Events == 0 && st.Bad[codec.NoTime.String()]+st.Bad[codec.BadTime.String()] > 0 {
			note("%s: say where events keep their time, and how: --time FIELD[,LAYOUT]", st.Name)
		}
		if st.FirstBad != "" {
			note("%s: the first of them: %s", st.Name, st.FirstBad)
		}
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		if r.Skipped != "" {
			note("%s was not run: %s", r.ID, r.Skipped)
		}
		if r.Disabled != "" {
			note("%s was stopped: %s; please report this", r.ID, r.Disabled)
		}
		if r.Errors > 0 {
			note("%s: %s (counted as false), for instance: %s", r.ID, plural(int(r.Errors), "evaluation error"), r.LastError)
		}
		if r.NoKey > 0 && r.Keyed == 0 {
			note("%s: no visible event has its key; are the fields of `by` spelt as in the events?", r.ID)
		}
		if r.TooManyKeys > 0 {
			note("%s: %s had more than 64 keys and were left out", r.ID, plural(int(r.TooManyKeys), "event"))
		}
		if r.Shadow {
			note("%s is a shadow: it has delivered nothing", r.ID)
		}
		if r.OpenAlerts > 0 {
			note("%s: %s still open; %d matches were counted meanwhile", r.ID, plural(r.OpenAlerts, "alert"), r.Counted)
		}
		if r.Refused > 0 {
			note("%s: %s refused at limits.starts_per_key", r.ID, plural(int(r.Refused), "start"))
		}
		if r.TooLong > 0 {
			note("%s: %s ended at limits.events_per_match", r.ID, plural(int(r.TooLong), "candidate"))
		}
		if r.Braked > 0 {
			note("%s: limits.keys_max or limits.state_bytes kept %s from beginning anything; alerts may be missing", r.ID, plural(int(r.Braked), "event"))
		}
		if r.Skips > 0 {
			note("%s: %s the step that after_match names took nothing behind the first event; it went on at the next event", r.ID, plural(int(r.Skips), "time"))
		}
	}
	for _, x := range s.Silences {
		if x.Over {
			note("the silence %s is over: all events are behind its end, and it can be removed", x.ID)
		}
	}
	return notes
}

// roundUp rounds a lateness up to what people would write.
func roundUp(d cep.Duration) cep.Duration {
	unit := cep.Duration(cep.Second)
	switch {
	case d > cep.Duration(2*cep.Hour):
		unit = cep.Duration(cep.Hour)
	case d > cep.Duration(2*cep.Minute):
		unit = cep.Duration(cep.Minute)
	}
	return (d + unit - 1) / unit * unit
}

// bad is the number of records of a stream that are no events.
func bad(s *engine.StreamSummary) uint64 {
	var n uint64
	for _, c := range s.Bad {
		n += c
	}
	return n
}

func count(n uint64) string { return thousands(int64(n)) }
