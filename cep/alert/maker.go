package alert

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
)

// Maker turns the matches of one rule into alerts, in the order in which they were let out. It belongs to one goroutine.
//
// What it remembers of alerts that went out may be shared by Makers of several versions of a rule: see [Maker.Join].
type Maker struct {
	plan      *Plan
	feed      func(*cep.Match, *cep.Alert)
	spans     *spans
	following *following
	counters  *Counters
	// joined and joinedSpans say that open alerts, and spans, are those of a newer version's Maker.
	joined, joinedSpans bool
	scope               cep.Scope
	at                  cep.Time // of the match that is being made
	buf                 []byte
}

// Counters is the last part of a rule's funnel.
type Counters struct {
	// Alerts is the number of alerts that went out, Silenced and Suppressed those of such as were held back, Counted that of
	// matches that changed nothing because an alert was open.
	Alerts, Silenced, Suppressed, Counted uint64
	// Errors is the number of evaluation errors in fields, severities and titles, LastError the newest, ErrorAt the time of its
	// match; 0 where nobody knows: records do not carry it.
	Errors    uint64
	LastError string
	ErrorAt   cep.Time
	// LastMatch is the time of the newest match; cep.BeforeAll before the first.
	LastMatch cep.Time
}

// NewMaker returns a Maker for a rule.
func NewMaker(p *Plan) *Maker {
	return &Maker{plan: p, spans: newSpans(p.Suppress), following: newFollowing(p.Follow), counters: &Counters{LastMatch: cep.BeforeAll}}
}

// Feed sets who is shown every match as an alert of kind match or timeout before it may be held back: the rules over alerts
// (S8). What they are shown has an id, a severity and fields, but no title and no events.
func (m *Maker) Feed(f func(*cep.Match, *cep.Alert)) { m.feed = f }

// Counters returns the counters, which go on counting.
func (m *Maker) Counters() *Counters { return m.counters }

// Spans is the number of spans of suppression that are remembered.
func (m *Maker) Spans() int { return len(m.spans.open) }

// Make returns the alert of a match, or nil where it goes no further. Matches come in the order of their moments, and
// [Maker.Advance] has been called for the moment of each.
func (m *Maker) Make(match *cep.Match) *cep.Alert {
	p := m.plan
	a := &cep.Alert{
		Rule:        p.Rule,
		Revision:    p.Revision,
		Fingerprint: p.Fingerprint,
		Kind:        cep.AlertMatch,
		Time:        match.Moment.Time,
		Timed:       match.Completed.Timed(),
		Ordered:     p.Ordered,
		Events:      match.History.Total(),
		Severity:    p.Severity,
		Key:         m.key(match.Key),
		Tags:        p.Tags,
		Mitre:       p.Mitre,
	}
	if match.Kind == cep.MatchTimeout {
		a.Kind, a.Timed = cep.AlertTimeout, true
	}
	m.counters.LastMatch = max(m.counters.LastMatch, a.Time)
	m.scope, m.at = cep.Scope{History: match.History, Key: match.Key}, match.Moment.Time
	m.fields(a)
	if m.feed != nil {
		m.severity(a)
		a.ID = MatchID(p, match.Key, a.Kind, a.Time, match.History)
		shown := *a
		m.feed(match, &shown)
	}
	if p.Shadow || !m.admit(match, a) {
		return nil
	}
	a.ID = MatchID(p, match.Key, a.Kind, a.Time, match.History)
	if a.Events > 0 {
		a.First, a.Last = match.History.Nth(0).Time(), match.History.Nth(a.Events-1).Time()
	}
	if m.feed == nil {
		m.severity(a)
	}
	m.title(a)
	m.steps(a, match.History)
	m.counters.Alerts++
	if m.following.by != nil && a.Kind != cep.AlertUpdate && m.following.open[match.Key] == nil {
		m.following.begin(match.Key, a, match.Moment)
	}
	return a
}

// admit decides whether an alert goes out: silences first, then what the rule does while one is open, then suppression. A
// match that is silenced is a match still: what waits for quiet goes on waiting.
func (m *Maker) admit(match *cep.Match, a *cep.Alert) bool {
	o := m.following.open[match.Key]
	if o != nil {
		m.following.again(o, a.Time)
	}
	if m.silenced(a) {
		return false
	}
	if o != nil {
		switch m.following.by.WhileOpen {
		case OpenCount:
			m.counters.Counted++
			return false
		case OpenUpdate:
			a.Kind, a.Follows = cep.AlertUpdate, o.alert.ID
			return true
		case OpenNew:
		}
	}
	if m.plan.Suppress == nil {
		return true
	}
	m.buf = m.suppressKey(m.buf[:0], a)
	held, out := m.spans.admit(m.buf, a.Time)
	if !out {
		m.counters.Suppressed++
		return false
	}
	a.Suppressed = held
	return true
}

// key names the parts of the key. A key that cannot be decoded is a damaged machine.
func (m *Maker) key(k cep.Key) []cep.Named {
	parts, err := k.Parts()
	if err != nil || len(parts) != len(m.plan.Key) {
		panic(fmt.Sprintf("rule %s: key of %d parts (%v), want %d", m.plan.Rule, len(parts), err, len(m.plan.Key)))
	}
	named := make([]cep.Named, len(parts))
	for i, v := range parts {
		named[i] = cep.Named{Name: m.plan.Key[i], Value: v}
	}
	return named
}

func (m *Maker) fields(a *cep.Alert) {
	if len(m.plan.Fields) == 0 {
		return
	}
	a.Fields = make([]cep.Named, len(m.plan.Fields))
	values := make([]cep.Value, len(m.plan.Fields))
	for i, f := range m.plan.Fields {
		v := m.eval(f.Eval)
		values[i] = v
		a.Fields[i] = cep.Named{Name: f.Name, Value: v}
	}
	m.scope.Fields = values
}

// eval evaluates an expression; an error counts and gives a missing value.
func (m *Maker) eval(f Eval) cep.Value {
	v, err := f(&m.scope)
	if err != nil {
		m.fail(err)
		return cep.Value{}
	}
	return v
}

func (m *Maker) fail(err error) {
	m.counters.Errors++
	m.counters.LastError, m.counters.ErrorAt = err.Error(), m.at
}

func (m *Maker) severity(a *cep.Alert) {
	if m.plan.SeverityOf == nil {
		return
	}
	v, err := m.plan.SeverityOf(&m.scope)
	if err == nil && !slices.Contains(Severities, v.AsString()) {
		err = fmt.Errorf("severity is %s, not one of %v", v, Severities)
	}
	if err != nil {
		m.fail(err)
		return
	}
	a.Severity = v.AsString()
}

func (m *Maker) title(a *cep.Alert) {
	if len(m.plan.Title) == 0 {
		a.Title = string(appendLine(nil, m.plan.Name))
		return
	}
	b := m.buf[:0]
	for _, s := range m.plan.Title {
		if s.Eval == nil {
			b = appendLine(b, s.Text)
			continue
		}
		b = appendTitleValue(b, m.eval(s.Eval))
	}
	m.buf = b
	a.Title = string(cut(b, TitleMax))
}

func (m *Maker) steps(a *cep.Alert, h cep.History) {
	if m.plan.Include == IncludeNone {
		return
	}
	a.Steps = make([]cep.AlertStep, 0, len(m.plan.Steps))
	where := make([]int, len(m.plan.Steps))
	for i, s := range m.plan.Steps {
		where[i] = len(a.Steps)
		if !s.Absent {
			a.Steps = append(a.Steps, cep.AlertStep{Name: s.Name})
		}
	}
	for i := range a.Events {
		t := h.Nth(i)
		if m.plan.Unlisted != nil && m.plan.Unlisted(t) {
			continue
		}
		ev := cep.AlertEvent{Time: t.Time(), Position: t.Position()}
		if m.plan.Include != IncludeIDs {
			ev.Raw = t.Raw()
		}
		s := &a.Steps[where[t.Step()]]
		if m.plan.Include == IncludeFirstLast && len(s.Events) == 2 {
			s.Events[1] = ev
			continue
		}
		s.Events = append(s.Events, ev)
	}
}

// suppressKey appends the values that suppressed alerts have in common.
func (m *Maker) suppressKey(dst []byte, a *cep.Alert) []byte {
	for _, by := range m.plan.Suppress.By {
		if by.Field >= 0 {
			dst = appendValue(dst, a.Fields[by.Field].Value)
			continue
		}
		dst = appendValue(dst, a.Key[by.Key].Value)
	}
	return dst
}
