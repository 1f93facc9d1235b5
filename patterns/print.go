package patterns

import (
	"fmt"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// String prints what the rule means, with everything that was left out written out. Expressions stand in their normal
// form. Equal meanings print alike.
func (r *Rule) String() string {
	p := printer{rule: r}
	p.line("rule %s, severity %s, revision %d%s%s", r.ID, r.Severity, r.Revision, when(!r.Enabled, ", disabled"), when(r.Shadow, ", shadow"))
	p.line("from %s", strings.Join(r.Streams, ", "))
	if len(r.Reads) > 0 {
		p.line("reads %s, layer %d", strings.Join(r.Reads, ", "), r.Layer)
	}
	if len(r.Key) > 0 {
		p.line("key %s", strings.Join(r.Key, ", "))
	}
	if r.Where != nil {
		p.line("where %s", r.Where.Canonical)
	}
	for _, x := range r.Exceptions {
		p.line("exception %q%s%s where %s", x.Name, when(x.Steps != nil, " for "+p.names(x.Steps)),
			when(x.Expires != cep.AfterAll, " before "+x.Expires.String()), x.Where.Canonical)
	}
	p.elements(r.Elements, 1)
	for _, w := range r.Without {
		p.line("without %s from %s%s%s", r.Names[w.Name], strings.Join(w.From, ", "), when(len(w.By) > 0, " by "+canonical(w.By)), p.where(w.Where))
	}
	if len(r.Keys) > 0 {
		p.line("%s", count(len(r.Keys), "key")+" from the beginning")
	}
	p.line("after_match %s%s, emit %s, on_timeout %s, on_change %s, within %s", r.After,
		when(r.After == nfa.SkipToFirst || r.After == nfa.SkipToLast, " "+r.Names[r.Target]),
		either(r.Ordered, "ordered", "eager"), either(r.Timeouts, "emit", "drop"), either(r.DropOnChange, "drop", "drain"),
		either(r.Within > 0, cep.FormatDuration(r.Within), "unbounded"))
	p.line("limits %d starts a key%s, %d events a match%s%s%s", r.Limits.StartsPerKey, when(r.Limits.DropOldest, " (the oldest goes)"),
		r.Limits.EventsPerMatch, when(r.Limits.KeysMax > 0, fmt.Sprintf(", %d keys", r.Limits.KeysMax)),
		when(r.Limits.StateBytes > 0, fmt.Sprintf(", %d bytes", r.Limits.StateBytes)), when(r.Newest, ", keep newest"))
	p.alert()
	for _, t := range r.Tests {
		p.line("test %q, lateness %s, %d steps", t.Name, cep.FormatDuration(t.Lateness), len(t.Steps))
	}
	p.line("fingerprint %s", r.Fingerprint)
	return p.String()
}

type printer struct {
	strings.Builder
	rule *Rule
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(&p.Builder, format, args...)
	p.WriteByte('\n')
}

func (p *printer) names(steps []int) string {
	var names []string
	for _, s := range steps {
		names = append(names, p.rule.Names[s])
	}
	return strings.Join(names, ", ")
}

func (p *printer) elements(elements []Element, depth int) {
	for _, e := range elements {
		p.WriteString(strings.Repeat("  ", depth))
		p.element(e)
		p.elements(e.Elements, depth+1)
		for i, a := range e.Alternatives {
			p.WriteString(strings.Repeat("  ", depth))
			p.line("alternative %d", i+1)
			p.elements(a, depth+1)
		}
	}
}

func (p *printer) where(e *expression.Expr) string {
	if e == nil {
		return ""
	}
	return " where " + e.Canonical
}

var kindWords = [...]string{"step", "group", "any_of", "all_of"}

func (p *printer) element(e Element) {
	words := []string{either(e.Absent, "absent", kindWords[e.Kind])}
	add := func(ok bool, format string, args ...any) {
		if ok {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	leaf := e.Kind == nfa.KindLeaf
	if leaf {
		words = append(words, p.rule.Names[e.Name])
	}
	add(leaf, "from %s", strings.Join(e.From, ", "))
	add(len(e.By) > 0, "by %s", canonical(e.By))
	add(!e.Absent && e.Max < 0, "times %d..", e.Min)
	add(!e.Absent && e.Max >= 0 && (e.Min != 1 || e.Max != 1), "times %d..%d", e.Min, e.Max)
	add(e.Times && e.Max == 1, "times 1")
	add(e.Need > 0, "at_least %d", e.Need)
	add(e.Optional, "optional")
	add(e.Greedy, "greedy")
	add(e.Edge, "edge")
	add(e.Link != nfa.NoLink, "contiguity %s", e.Link)
	add(!e.Absent && e.Loop != nfa.NoLink, "loop %s", e.Loop)
	add(e.Within > 0, "within %s", cep.FormatDuration(e.Within))
	add(e.LoopWithin > 0, "loop_within %s", cep.FormatDuration(e.LoopWithin))
	add(e.For > 0, "for %s", forever(e.For))
	add(e.FromStart, "from_start")
	for _, x := range []struct {
		word string
		expr *expression.Expr
	}{{"where", e.Where}, {"until", e.Until}, {"having", e.Having}, {"distinct", e.Distinct}} {
		if x.expr != nil {
			add(true, "%s %s", x.word, x.expr.Canonical)
		}
	}
	if f := e.FirstSeen; f != nil {
		add(true, "first_seen %s for %s%s", canonical(f.By), forever(f.For), when(f.FromStart, " from_start"))
	}
	p.line("%s", strings.Join(words, " "))
}

func forever(d cep.Duration) string {
	if d == nfa.Forever {
		return "forever"
	}
	return cep.FormatDuration(d)
}

func (p *printer) alert() {
	a := p.rule.Alert
	if len(a.Title) > 0 {
		var b strings.Builder
		for _, s := range a.Title {
			if s.Expr != nil {
				fmt.Fprintf(&b, "{{%s}}", s.Expr.Canonical)
			} else {
				b.WriteString(s.Text)
			}
		}
		p.line("title %s", b.String())
	}
	for _, f := range a.Fields {
		p.line("field %s = %s", f.Name, f.Expr.Canonical)
	}
	if a.Severity != nil {
		p.line("alert severity %s", a.Severity.Canonical)
	}
	p.line("include_events %s%s", includeWords[a.Include], when(len(a.To) > 0, ", to "+strings.Join(a.To, ", ")))
	if x := a.Resolve; x != nil {
		p.line("resolve from %s%s%s%s, while_open %s%s", strings.Join(x.From, ", "), when(len(x.By) > 0, " by "+canonical(x.By)), p.where(x.Where),
			when(x.Quiet > 0, ", quiet "+cep.FormatDuration(x.Quiet)), openWords[a.WhileOpen], when(a.Repeat > 0, ", repeat "+cep.FormatDuration(a.Repeat)))
	}
	if s := a.Suppress; s != nil {
		var by []string
		for _, b := range s.By {
			if b.Field >= 0 {
				by = append(by, a.Fields[b.Field].Name)
			} else {
				by = append(by, "$key."+p.rule.Key[b.Key])
			}
		}
		p.line("suppress by (%s) for %s, max %d", strings.Join(by, ", "), cep.FormatDuration(s.For), s.Max)
	}
}

func canonical(parts []*expression.Expr) string {
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.Canonical)
	}
	return "(" + strings.Join(texts, ", ") + ")"
}

func when(ok bool, s string) string { return either(ok, s, "") }

func either(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}
