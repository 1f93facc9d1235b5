package engine

import (
	"fmt"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// issuer makes the alerts of a version, of what its parts in all shards found. It belongs to the back.
type issuer struct {
	version *version
	maker   *alert.Maker
	// newest is that of the newest version of the rule: open alerts are in its care.
	newest *issuer
	// feed makes events of its alerts; nil where no rule reads them.
	feed *feed
	// disabled says why the version no longer runs, "" while it does; mute that it makes no more alerts.
	disabled string
	mute     bool
	// drained is the number of shards in which an older version has no start open any more.
	drained int
	// read and shown are what the routers of front and back had counted at the last barrier, made what the maker had.
	read, shown routed
	made        alert.Counters
	// recount says that what was written of the counters may not be what they are.
	recount bool
	// globals are those of the parts, by shard and then the back, as of the last barrier; merged is what was written of them,
	// and counters what was written of the counters. Nil: they have no record.
	globals          [][]byte
	merged, counters []byte
	gone             bool // all records are taken back
}

func newIssuer(v *version, shards int) *issuer {
	p := planOf(v.rule)
	newest := v.rule // an older version is silenced by what silences the rule now
	if v.heir != nil {
		newest = v.heir.rule
	}
	p.Silences = silencesOf(newest.Silences, v.rule)
	return &issuer{version: v, maker: alert.NewMaker(p), globals: make([][]byte, shards+1), recount: true}
}

// made is an alert that has not found its place among those of other rules yet.
type made struct {
	issuer *issuer
	order  order
	alert.Out
}

// take appends the alerts that come of what was found, and of time alone before it.
func (x *issuer) take(f *found, b *back, dst []made) []made {
	if x.disabled != "" {
		return dst
	}
	switch f.kind {
	case foundBreak:
		x.disable(f.cause)
		return dst
	case foundResolution:
		dst = x.pass(f.moment, dst)
		if a := x.maker.Resolve(f.order.key, f.moment); a != nil {
			dst = append(dst, made{x, f.order, alert.Out{Moment: f.moment, Key: f.order.key, Alert: a}})
		}
		return dst
	default:
		return x.issue(f, b, dst)
	}
}

// issue appends the alert of a match, if it goes out, and what time alone brings before it.
func (x *issuer) issue(f *found, b *back, dst []made) (out []made) {
	if x.mute {
		return dst
	}
	defer func() {
		if cause := recover(); cause != nil {
			x.mute = true
			x.disable(fmt.Sprintf("panic (alert): %v", cause))
			out = dst
		}
	}()
	m := &f.match
	dst = x.newest.pass(m.Moment, dst)
	b.shown = f
	if a := x.maker.Make(m); a != nil {
		dst = append(dst, made{x, f.order, alert.Out{Moment: m.Moment, Key: m.Key, Alert: a}})
	}
	return dst
}

// pass appends what time alone brings to open alerts before a moment.
func (x *issuer) pass(before cep.Moment, dst []made) []made {
	if x.version.rule.Alert.Resolve == nil || x.maker.NextDue() >= before.Time {
		return dst
	}
	for _, o := range x.maker.Advance(before, nil) {
		dst = append(dst, made{x, x.orderOf(&o), o})
	}
	return dst
}

// orderOf is where an alert stands that time alone brings.
func (x *issuer) orderOf(o *alert.Out) order {
	return order{time: o.Moment.Time, layer: x.version.clock.layer, timed: true, rule: x.version.rule.ID, key: o.Key}
}

func (x *issuer) disable(cause string) {
	if x.disabled == "" {
		x.disabled = cause
		x.version.over.Store(true)
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

// silencesOf translates the silences of a rule, for a version of it: one that asks for a part of the key which the version
// does not have is not for it.
func silencesOf(list []*rules.Silence, r *rules.Rule) []alert.Silence {
	var silences []alert.Silence
next:
	for _, s := range list {
		x := alert.Silence{From: s.From, Until: s.Until}
		for _, p := range s.Key {
			i := slices.Index(r.Key, p.Name)
			if i < 0 {
				continue next
			}
			x.Key = append(x.Key, alert.SilencedPart{Part: i, Value: p.Value})
		}
		silences = append(silences, x)
	}
	return silences
}
