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
	p.line("rule %s, severity %s, revision %d%s", r.ID, r.Severity, r.Revision, when(!r.Enabled, ", disabled"))
	p.line("from %s", strings.Join(r.Streams, ", "))
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
	for _, e := range r.Elements {
		p.element(e)
	}
	p.line("after_match %s%s, emit %s, on_timeout %s, on_change %s, within %s", r.After,
		when(r.After == nfa.SkipToFirst || r.After == nfa.SkipToLast, " "+r.Names[r.Target]),
		either(r.Ordered, "ordered", "eager"), either(r.Timeouts, "emit", "drop"), either(r.DropOnChange, "drop", "drain"),
		either(r.Within > 0, cep.FormatDuration(r.Within), "unbounded"))
	p.line("limits %d starts a key, %d events a match", r.Limits.StartsPerKey, r.Limits.EventsPerMatch)
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

func (p *printer) element(e Element) {
	words := []string{either(e.Absent, "absent", "step"), p.rule.Names[e.Name]}
	add := func(ok bool, format string, args ...any) {
		if ok {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(true, "from %s", strings.Join(e.From, ", "))
	add(len(e.By) > 0, "by %s", canonical(e.By))
	add(!e.Absent && e.Max < 0, "times %d..", e.Min)
	add(!e.Absent && e.Max >= 0 && (e.Min != 1 || e.Max != 1), "times %d..%d", e.Min, e.Max)
	add(e.Optional, "optional")
	add(e.Link != nfa.NoLink, "contiguity %s", e.Link)
	add(!e.Absent && e.Loop != nfa.NoLink, "loop %s", e.Loop)
	add(e.Within > 0, "within %s", cep.FormatDuration(e.Within))
	add(e.LoopWithin > 0, "loop_within %s", cep.FormatDuration(e.LoopWithin))
	add(e.For == nfa.Forever, "for forever")
	add(e.For > 0 && e.For != nfa.Forever, "for %s", cep.FormatDuration(e.For))
	add(e.FromStart, "from_start")
	if e.Where != nil {
		add(true, "where %s", e.Where.Canonical)
	}
	p.line("  %s", strings.Join(words, " "))
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
