package engine

import (
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// running is a rule at work. A panic in it disables it, and nothing else.
type running struct {
	rule    *rules.Rule
	rank    int // among all rules of the set, in the order of their ids
	place   int // among the rules of its clock
	router  *rules.Router
	machine *nfa.Machine
	maker   *alert.Maker
	// active says that the rule saw an event in this release, started that it knows its first time.
	active, started bool
	// disabled says why the rule no longer runs, "" while it does; until is how far its time may still go, and mute that it
	// makes no more alerts.
	disabled string
	until    cep.Time
	mute     bool
}

func newRunning(r *rules.Rule, rank int, memo *nfa.Memo) *running {
	x := &running{
		rule:    r,
		rank:    rank,
		router:  rules.NewRouter(r),
		machine: nfa.NewMachine(r.Program, memo),
		maker:   alert.NewMaker(planOf(r)),
		until:   cep.AfterAll,
	}
	// Until its first time is known nothing lies above it.
	x.machine.SetFirstTime(cep.AfterAll)
	return x
}

// route adds the keys that an event belongs to.
func (r *running) route(ev *cep.Event, e *entry) {
	n := len(e.routes)
	defer func() {
		if cause := recover(); cause != nil {
			e.routes = append(e.routes[:n], route{rule: r, broken: fmt.Sprint(cause)})
		}
	}()
	for _, d := range r.router.Route(ev) {
		start := len(e.keys)
		e.keys = append(e.keys, d.Key...)
		e.routes = append(e.routes, route{rule: r, start: start, end: len(e.keys), mask: d.Mask})
	}
}

// event offers an event to the machine for one of its keys.
func (r *running) event(e *entry, to *route) {
	defer func() {
		if cause := recover(); cause != nil {
			// What time alone decides before this event still counts, whatever else is released together with it.
			r.disable("event", cause, e.ev.Time-1)
		}
	}()
	if to.broken != "" {
		r.disable("key", to.broken, e.ev.Time-1)
		return
	}
	r.machine.Event(e.keys[to.start:to.end], &e.ev, to.mask)
}

// advance moves time and appends what the machine let out.
func (r *running) advance(w cep.Time, dst []found) (out []found) {
	defer func() {
		if cause := recover(); cause != nil {
			r.disable("time", cause, cep.BeforeAll)
			out = dst
		}
	}()
	if to := min(w, r.until); r.machine.NextDeadline() <= to {
		r.machine.Advance(to)
	}
	out = dst
	for _, m := range r.machine.Matches() {
		out = append(out, found{r, m})
	}
	return out
}

// deadline is the next time at which the rule needs to be moved.
func (r *running) deadline() (t cep.Time) {
	if r.disabled != "" {
		return cep.AfterAll
	}
	return r.machine.NextDeadline()
}

// alert makes the alert of a match; nil where it is suppressed.
func (r *running) alert(m *cep.Match) (a *cep.Alert) {
	if r.mute {
		return nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			r.mute = true
			r.disable("alert", cause, cep.BeforeAll)
		}
	}()
	return r.maker.Make(m)
}

func (r *running) disable(during string, cause any, until cep.Time) {
	if r.disabled == "" {
		r.disabled = fmt.Sprintf("panic (%s): %v", during, cause)
		r.until = until
	}
}

// planOf translates what the rule says about its alerts.
func planOf(r *rules.Rule) *alert.Plan {
	p := &alert.Plan{
		Rule:        r.ID,
		Revision:    r.Revision,
		Fingerprint: r.Fingerprint,
		Name:        r.Name,
		Tags:        r.Tags,
		Mitre:       r.Mitre,
		Ordered:     r.Ordered,
		Key:         r.Key,
		Severity:    r.Severity,
		Steps:       make([]alert.Step, len(r.Names)),
	}
	if p.Name == "" {
		p.Name = r.ID
	}
	for i, name := range r.Names {
		p.Steps[i].Name = name
	}
	for i := range r.Elements {
		p.Steps[r.Elements[i].Name].Absent = r.Elements[i].Absent
	}
	for _, f := range r.Alert.Fields {
		p.Fields = append(p.Fields, alert.Field{Name: f.Name, Eval: f.Expr.Eval})
	}
	if r.Alert.Severity != nil {
		p.SeverityOf = r.Alert.Severity.Eval
	}
	for _, s := range r.Alert.Title {
		seg := alert.Segment{Text: s.Text}
		if s.Expr != nil {
			seg.Eval = s.Expr.Eval
		}
		p.Title = append(p.Title, seg)
	}
	switch r.Alert.Include {
	case rules.IncludeNone:
		p.Include = alert.IncludeNone
	case rules.IncludeIDs:
		p.Include = alert.IncludeIDs
	case rules.IncludeFirstLast:
		p.Include = alert.IncludeFirstLast
	case rules.IncludeAll:
		p.Include = alert.IncludeAll
	}
	if s := r.Alert.Suppress; s != nil {
		p.Suppress = &alert.Suppress{For: s.For, Max: s.Max}
		for _, by := range s.By {
			p.Suppress.By = append(p.Suppress.By, alert.SuppressBy{Field: by.Field, Key: by.Key})
		}
	}
	return p
}
