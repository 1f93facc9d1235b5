package engine

import (
	"cmp"
	"fmt"
	"slices"

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
	clock   *clock
	router  *rules.Router
	machine *nfa.Machine
	maker   *alert.Maker
	// feed makes events of its alerts; nil where no rule reads them.
	feed *feed
	// active says that the rule saw an event in this release, started that it knows its first time.
	active, started bool
	// after is the time up to which the rule has seen everything, or from which on it exists: what lies at or below it and
	// is read again is not for it.
	after cep.Time
	// heir is the version of the rule that took over from this one, which opens no starts any more; drains are the older
	// versions that this one took over from, on the same clock, oldest first.
	heir   *running
	drains []*running
	// over are the events of this release that end open alerts, in order.
	over  []resolution
	found []found // scratch of advance
	// disabled says why the rule no longer runs, "" while it does; until is how far its time may still go, and mute that it
	// makes no more alerts.
	disabled string
	until    cep.Time
	mute     bool
}

// resolution is an event that ends the open alert of a key.
type resolution struct {
	moment cep.Moment
	key    cep.Key
}

func newRunning(r *rules.Rule, rank int, machine *nfa.Machine) *running {
	x := &running{
		rule:    r,
		rank:    rank,
		router:  rules.NewRouter(r),
		machine: machine,
		maker:   alert.NewMaker(planOf(r)),
		until:   cep.AfterAll,
		after:   cep.BeforeAll,
	}
	return x
}

// start tells the rule its first time, and lets the keys wait that count as present from then on.
func (r *running) start(first cep.Time) {
	r.started = true
	r.machine.SetFirstTime(first)
	for _, key := range r.rule.Keys {
		r.machine.Await([]byte(key), first)
	}
}

// route adds the keys that an event belongs to.
func (r *running) route(ev *cep.Event, e *entry) {
	if ev.Time <= r.after {
		return
	}
	n := len(e.routes)
	defer func() {
		if cause := recover(); cause != nil {
			e.routes = append(e.routes[:n], route{rule: r, broken: fmt.Sprint(cause)})
		}
	}()
	for _, d := range r.router.Route(ev) {
		start := len(e.keys)
		e.keys = append(e.keys, d.Key...)
		e.routes = append(e.routes, route{rule: r, start: start, end: len(e.keys), mask: d.Mask, resolves: d.Resolves})
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
	key := e.keys[to.start:to.end]
	if to.resolves {
		r.over = append(r.over, resolution{cep.Moment{Time: e.ev.Time, Seq: e.ev.Seq}, cep.Key(key)})
		return
	}
	r.machine.Event(key, &e.ev, to.mask)
}

// found is a match of a version of a rule.
type found struct {
	by    *running
	match cep.Match
}

// advance moves time and appends the alerts that come of it, in the order of their moments: those of all versions of the
// rule, because they share what they remember.
func (r *running) advance(w cep.Time, dst []made) []made {
	r.found = r.found[:0]
	for _, old := range r.drains {
		r.find(old, w)
	}
	r.find(r, w)
	if len(r.drains) > 0 {
		// At one moment the version with the older starts comes first, as in S5.3.
		slices.SortStableFunc(r.found, func(a, b found) int {
			return cmp.Or(a.match.Moment.Compare(b.match.Moment), cmp.Compare(a.match.Key, b.match.Key))
		})
		r.letGo(w)
	}
	over := r.over
	r.over = r.over[:0]
	for i := range r.found {
		f := &r.found[i]
		// At one moment an open alert ends first: the event that ends it may complete the match of a new one.
		for len(over) > 0 && over[0].moment.Compare(f.match.Moment) <= 0 {
			dst = r.resolve(over[0], dst)
			over = over[1:]
		}
		dst = f.by.alert(&f.match, dst)
	}
	clear(r.found)
	for _, o := range over {
		dst = r.resolve(o, dst)
	}
	if r.maker.NextDue() <= w {
		dst = r.pass(cep.Moment{Time: w.Add(1)}, dst)
	}
	return dst
}

// find adds the matches of a version.
func (r *running) find(version *running, w cep.Time) {
	for _, m := range version.matches(w) {
		r.found = append(r.found, found{version, m})
	}
}

// letGo drops older versions that have no match to come.
func (r *running) letGo(w cep.Time) {
	r.drains = slices.DeleteFunc(r.drains, func(old *running) bool {
		over := old.disabled != "" || old.machine.OpenStarts() == 0 || w >= old.until
		if over {
			old.disable("drain", "no starts are left", cep.BeforeAll)
		}
		old.clock.deadlines[old.place] = old.deadline()
		return over
	})
}

// matches moves the machine and returns what it lets out.
func (r *running) matches(w cep.Time) (out []cep.Match) {
	defer func() {
		if cause := recover(); cause != nil {
			r.disable("time", cause, cep.BeforeAll)
			out = nil
		}
	}()
	if to := min(w, r.until); r.machine.NextDeadline() <= to {
		r.machine.Advance(to)
	}
	return r.machine.Matches()
}

// deadline is the next time at which the rule needs to be moved. Open alerts are in the care of the newest version.
func (r *running) deadline() cep.Time {
	t := cep.AfterAll
	if r.disabled == "" {
		if t = r.machine.NextDeadline(); t > r.until {
			t = cep.AfterAll
		}
	}
	if r.heir == nil {
		t = min(t, r.maker.NextDue())
	}
	return t
}

// alert appends the alert of a match, if it goes out, and what time alone brings before it.
func (r *running) alert(m *cep.Match, dst []made) (out []made) {
	if r.mute {
		return dst
	}
	defer func() {
		if cause := recover(); cause != nil {
			r.mute = true
			r.disable("alert", cause, cep.BeforeAll)
			out = dst
		}
	}()
	dst = r.pass(m.Moment, dst)
	if a := r.maker.Make(m); a != nil {
		dst = append(dst, made{r, alert.Out{Moment: m.Moment, Key: m.Key, Alert: a}})
	}
	return dst
}

// resolve appends the end of an open alert, and what time alone brings before it.
func (r *running) resolve(o resolution, dst []made) []made {
	dst = r.pass(o.moment, dst)
	if a := r.maker.Resolve(o.key, o.moment); a != nil {
		dst = append(dst, made{r, alert.Out{Moment: o.moment, Key: o.key, Alert: a}})
	}
	return dst
}

// pass appends what time alone brings to open alerts before a moment.
func (r *running) pass(before cep.Moment, dst []made) []made {
	if r.maker.NextDue() >= before.Time {
		return dst
	}
	for _, o := range r.maker.Advance(before, nil) {
		dst = append(dst, made{r, o})
	}
	return dst
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
		Shadow:      r.Shadow,
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
	for i := range p.Steps {
		p.Steps[i].Absent = true // until a step of that name turns up: a hold is a step and an absence of one name
	}
	for _, e := range r.Leaves() {
		if !e.Absent {
			p.Steps[e.Name].Absent = false
		}
	}
	if r.Program.Pattern().Rows != nil {
		p.Unlisted = nfa.Excluded
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
	if o := r.Alert.Resolve; o != nil {
		p.Follow = &alert.Follow{Quiet: o.Quiet, Repeat: r.Alert.Repeat}
		switch r.Alert.WhileOpen {
		case rules.OpenCount:
			p.Follow.WhileOpen = alert.OpenCount
		case rules.OpenUpdate:
			p.Follow.WhileOpen = alert.OpenUpdate
		case rules.OpenNew:
			p.Follow.WhileOpen = alert.OpenNew
		}
	}
	if s := r.Alert.Suppress; s != nil {
		p.Suppress = &alert.Suppress{For: s.For, Max: s.Max}
		for _, by := range s.By {
			p.Suppress.By = append(p.Suppress.By, alert.SuppressBy{Field: by.Field, Key: by.Key})
		}
	}
	return p
}
