package patterns

import (
	"fmt"
	"strings"
)

// String prints the syntax tree: what was written, and where.
func (d *document) String() string {
	p := &treePrinter{}
	for _, t := range d.lists {
		p.table("list", t)
	}
	for _, t := range d.maps {
		p.table("map", t)
	}
	for _, m := range d.macros {
		p.text("macro "+m.name.value, m.value)
	}
	if d.defaults != nil {
		p.node("defaults", d.defaults.Pos, func() { p.rule(d.defaults) })
	}
	for _, r := range d.rules {
		p.node("rule", r.Pos, func() { p.rule(r) })
	}
	return p.String()
}

// treePrinter writes a line a node, with its line and column behind it.
type treePrinter struct {
	strings.Builder
	depth int
}

func (p *treePrinter) node(what string, pos Pos, inside func()) {
	fmt.Fprintf(&p.Builder, "%s%s @%d:%d\n", strings.Repeat("  ", p.depth), what, pos.Line, pos.Column)
	p.depth++
	inside()
	p.depth--
}

func (p *treePrinter) text(key string, t *text) {
	if t != nil {
		p.node(fmt.Sprintf("%s %q", key, t.value), t.Pos, func() {})
	}
}

func (p *treePrinter) texts(key string, list []*text) {
	for _, t := range list {
		p.text(key, t)
	}
}

func (p *treePrinter) table(what string, t *table) {
	p.node(fmt.Sprintf("%s %s with %d entries", what, t.name.value, len(t.pairs)), t.name.Pos, func() {
		p.text("file", t.file)
		p.text("key", t.key)
		p.text("column", t.value)
	})
}

func (p *treePrinter) rule(r *ruleSyntax) {
	p.text("id", r.id)
	p.text("name", r.name)
	p.text("description", r.description)
	p.text("status", r.status)
	p.texts("reference", r.references)
	p.texts("author", r.authors)
	p.texts("falsepositive", r.falsePositives)
	p.text("revision", r.revision)
	p.text("enabled", r.enabled)
	p.text("severity", r.severity)
	p.texts("tag", r.tags)
	p.texts("mitre", r.mitre)
	p.texts("from", r.from)
	p.text("where", r.where)
	p.by(r.by)
	p.text("within", r.within)
	p.text("unbounded", r.unbounded)
	p.text("contiguity", r.contiguity)
	p.text("loop", r.loop)
	if r.sequence != nil {
		p.node("sequence", r.sequence.Pos, func() {
			p.elements(r.sequence.elements)
		})
	}
	if r.after != nil {
		p.text("after_match", r.after.word)
		p.text("target", r.after.target)
	}
	p.text("emit", r.emit)
	p.text("on_timeout", r.onTimeout)
	p.text("on_change", r.onChange)
	for _, x := range r.exceptions {
		p.node("exception", x.Pos, func() {
			p.text("name", x.name)
			p.texts("step", x.steps)
			p.text("where", x.where)
			p.text("expires", x.expires)
		})
	}
	p.text("starts_per_key", r.startsPerKey)
	p.text("events_per_match", r.eventsPerMatch)
	p.text("keys_max", r.keysMax)
	p.text("state_bytes", r.stateBytes)
	if a := r.alert; a != nil {
		p.text("title", a.title)
		p.named("field", a.fields)
		p.text("alert severity", a.severity)
		p.text("include_events", a.include)
		p.texts("to", a.to)
		if s := a.suppress; s != nil {
			p.node("suppress", s.Pos, func() {
				p.texts("by", s.by)
				p.text("for", s.hold)
				p.text("max", s.max)
			})
		}
	}
	for _, t := range r.tests {
		p.node("test", t.Pos, func() { p.test(t) })
	}
}

func (p *treePrinter) named(what string, list []named) {
	for _, n := range list {
		if n.name != nil {
			p.text(what+" "+n.name.value+" =", n.value)
		} else {
			p.text(what, n.value)
		}
	}
}

func (p *treePrinter) by(by *bySyntax) {
	if by != nil {
		p.named("by", by.parts)
	}
}

func (p *treePrinter) element(e *elementSyntax) {
	what := string(e.kind)
	if !e.kind.isComposite() {
		what += " " + e.name.value
	}
	p.node(what, e.Pos, func() {
		p.texts("from", e.from)
		p.by(e.by)
		p.text("where", e.where)
		p.text("times", e.times)
		p.text("contiguity", e.contiguity)
		p.text("loop", e.loop)
		p.text("within", e.within)
		p.text("loop_within", e.loopWithin)
		p.text("optional", e.optional)
		p.text("for", e.hold)
		p.text("from_start", e.fromStart)
		p.text("until", e.until)
		p.text("having", e.having)
		p.text("distinct", e.distinct)
		p.text("greedy", e.greedy)
		p.text("at_least", e.atLeast)
		if f := e.firstSeen; f != nil {
			p.node("first_seen", f.Pos, func() {
				p.texts("by", f.by)
				p.text("for", f.hold)
				p.text("from_start", f.fromStart)
			})
		}
		p.elements(e.elements)
		for i, a := range e.alternatives {
			p.node(fmt.Sprintf("alternative %d", i+1), e.Pos, func() { p.elements(a) })
		}
	})
}

func (p *treePrinter) elements(list []*elementSyntax) {
	for _, e := range list {
		if e != nil {
			p.element(e)
		}
	}
}

func (p *treePrinter) test(t *testSyntax) {
	p.text("name", t.name)
	p.text("lateness", t.lateness)
	for _, s := range t.steps {
		p.node("event "+string(s.event), s.Pos, func() {
			p.text("at", s.at)
			p.text("times", s.times)
			p.text("every", s.every)
			p.text("from", s.from)
			p.text("file", s.file)
			p.text("advance", s.advance)
			p.text("idle", s.idle)
			p.text("reload", s.reload)
			p.text("restart", s.restart)
		})
	}
	p.text("count", t.expect.count)
	for _, a := range t.expect.alerts {
		p.node("alert", a.Pos, func() {
			p.text("at", a.at)
			p.text("kind", a.kind)
			for _, f := range a.fields {
				p.node(fmt.Sprintf("field %s = %s", f.name.value, f.value), f.name.Pos, func() {})
			}
		})
	}
}
