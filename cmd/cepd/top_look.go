package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cepd/cepd/rules/rulesapi"
)

// topListed is how many rules are shown: those that matter, and what a terminal has room for.
const topListed = 20

// topLook is what a job said at a moment.
type topLook struct {
	server  string
	at      time.Time
	streams []rulesapi.Stream
	sinks   []rulesapi.Sink
	rules   []rulesapi.Rule
	// more says that there are more rules than were asked for.
	more bool
}

// lines is what there is to see, with what has changed since another look.
func (l *topLook) lines(before *topLook, colours palette) []string {
	var b bytes.Buffer
	p := &printer{palette: colours, w: &b}
	open, keys := 0, 0
	for i := range l.rules {
		open += l.rules[i].State.Open + l.rules[i].State.Draining
		keys += l.rules[i].State.Keys
	}
	rules := plural(len(l.rules), "rule")
	if l.more {
		rules = "the first " + rules
	}
	p.printf("%s  %s  %s, %s in %s\n\n", p.paint(bold, printable(l.server)), l.at.Format(time.TimeOnly), rules, plural(open, "open start"), plural(keys, "key"))
	seconds := l.at.Sub(before.at).Seconds()
	l.writeStreams(p, before, seconds)
	l.writeSinks(p, before, seconds)
	l.writeRules(p, before, seconds)
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// perSecond is what has come since, a second. A counter that went back belongs to a job that was started again.
func perSecond(now, before uint64, seconds float64) string {
	if seconds <= 0 || now < before {
		return ""
	}
	return count(uint64(float64(now-before)/seconds + 0.5))
}

// writeStreams writes a line for each stream.
func (l *topLook) writeStreams(p *printer, before *topLook, seconds float64) {
	old := map[string]*rulesapi.Stream{}
	for i := range before.streams {
		old[before.streams[i].Name] = &before.streams[i]
	}
	t := table{head: []string{"stream", "events", "a second", "lag", "behind", "buffered", "late", "bad", "is"}}
	for i := range l.streams {
		s := &l.streams[i]
		var rest int64
		known := false
		for _, part := range s.Partitions {
			if part.Lag != nil {
				rest, known = rest+*part.Lag, true
			}
		}
		lag, behind, speed := "", "", ""
		if known {
			lag = thousands(rest)
		}
		if !s.Watermark.IsZero() {
			behind = max(0, l.at.Sub(s.Watermark)).Round(time.Second).String()
		}
		if o := old[s.Name]; o != nil {
			speed = perSecond(s.Events, o.Events, seconds)
		}
		var refused uint64
		for _, n := range s.Bad {
			refused += n
		}
		t.add(printable(s.Name), count(s.Events), speed, lag, behind, count(uint64(s.Buffered)), count(s.Late), count(refused), streamText(s))
	}
	t.write(p, "")
	p.printf("\n")
}

// streamText says in a few words what is the matter with a stream.
func streamText(s *rulesapi.Stream) string {
	switch {
	case s.Trouble != "":
		return printable(s.Trouble)
	case s.Paused:
		return "paused: waits for " + printable(strings.Join(s.HeldBy, ", "))
	case len(s.HeldBy) > 0:
		return "waits for " + printable(strings.Join(s.HeldBy, ", "))
	case s.Open > 0 && s.Idle == s.Open:
		return "idle"
	}
	return "well"
}

// writeSinks writes a line for each sink.
func (l *topLook) writeSinks(p *printer, before *topLook, seconds float64) {
	old := map[string]*rulesapi.Sink{}
	for i := range before.sinks {
		old[before.sinks[i].Name] = &before.sinks[i]
	}
	t := table{head: []string{"sink", "published", "a second", "waiting", "is"}}
	for i := range l.sinks {
		s := &l.sinks[i]
		speed, is := "", "well"
		if o := old[s.Name]; o != nil {
			speed = perSecond(s.Published, o.Published, seconds)
		}
		switch {
		case s.Stopped:
			is = "stopped: " + printable(s.Error)
		case s.Error != "":
			is = printable(s.Error)
		case s.Full:
			is = "full"
		}
		t.add(printable(s.Name), count(s.Published), speed, count(uint64(s.Waiting)), is)
	}
	t.write(p, "")
	p.printf("\n")
}

// writeRules writes a line for each rule that matters: those that took most of the time come first, then those with most open.
func (l *topLook) writeRules(p *printer, before *topLook, seconds float64) {
	old := map[string]*rulesapi.RuleState{}
	for i := range before.rules {
		old[before.rules[i].ID] = &before.rules[i].State
	}
	took := func(r *rulesapi.Rule) time.Duration {
		if o := old[r.ID]; o != nil && r.State.Evaluation >= o.Evaluation {
			return r.State.Evaluation - o.Evaluation
		}
		return 0
	}
	sorted := make([]*rulesapi.Rule, len(l.rules))
	for i := range l.rules {
		sorted[i] = &l.rules[i]
	}
	slices.SortStableFunc(sorted, func(a, b *rulesapi.Rule) int {
		return cmp.Or(cmp.Compare(took(b), took(a)), cmp.Compare(b.State.Open, a.State.Open), cmp.Compare(b.State.Matched, a.State.Matched), cmp.Compare(a.ID, b.ID))
	})
	t := table{head: []string{"rule", "busy", "seen a second", "open", "keys", "draining", "matched", "alerts", "errors"}}
	for _, r := range sorted[:min(len(sorted), topListed)] {
		busy, speed := "", ""
		if o := old[r.ID]; o != nil && seconds > 0 {
			busy = fmt.Sprintf("%.1f %%", 100*took(r).Seconds()/seconds)
			speed = perSecond(r.State.Seen, o.Seen, seconds)
		}
		t.add(printable(r.ID), busy, speed, count(uint64(r.State.Open)), count(uint64(r.State.Keys)), count(uint64(r.State.Draining)),
			count(r.State.Matched), count(r.State.Alerts), count(r.State.Errors))
	}
	t.write(p, "")
	if n := len(sorted) - topListed; n > 0 {
		p.printf("and %s\n", plural(n, "other"))
	}
}

// fit cuts a line to the columns of a terminal. What marks text takes none, and is ended where the line is cut.
func fit(line string, columns int) string {
	width, marked, escape := 0, false, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			escape, marked = true, true
		case escape:
			escape = r != 'm'
		case width == columns:
			if marked {
				return line[:i] + "\x1b[0m"
			}
			return line[:i]
		default:
			width++
		}
	}
	return line
}
