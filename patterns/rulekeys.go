package patterns

import "github.com/cepd/cepd/internal/yamlnode"

// ruleKeys reads a rule, or the defaults of a document.
func (r *reader) ruleKeys(n *yamlnode.Node, what string, doc *document) *ruleSyntax {
	rule := &ruleSyntax{Pos: r.pos(n), document: doc}
	isRule := what == "a rule"
	r.rule = ""
	for k, v := range yamlnode.Pairs(n) {
		if k.Value == "id" && v.Kind == yamlnode.Scalar {
			r.rule = v.Value // known before the rest is read, wherever it stands
		}
	}
	known := keys{
		"id":             r.into(&rule.id),
		"name":           r.into(&rule.name),
		"description":    r.into(&rule.description),
		"status":         r.into(&rule.status),
		"references":     r.intoTextOrTexts(&rule.references),
		"authors":        r.intoTextOrTexts(&rule.authors),
		"falsepositives": r.intoTextOrTexts(&rule.falsePositives),
		"revision":       r.into(&rule.revision),
		"enabled":        r.into(&rule.enabled),
		"severity":       r.into(&rule.severity),
		"tags":           r.intoTexts(&rule.tags),
		"mitre":          r.intoTexts(&rule.mitre),
		"from":           r.intoTextOrTexts(&rule.from),
		"where":          r.into(&rule.where),
		"by":             func(_, v *yamlnode.Node) { rule.by = r.by(v) },
		"within":         r.into(&rule.within),
		"unbounded":      r.into(&rule.unbounded),
		"sequence":       func(_, v *yamlnode.Node) { rule.sequence = r.sequence(v) },
		"pattern":        r.into(&rule.pattern),
		"steps":          func(_, v *yamlnode.Node) { rule.steps = r.steps(v) },
		"after_match":    func(_, v *yamlnode.Node) { rule.after = r.afterMatch(v) },
		"emit":           r.into(&rule.emit),
		"on_timeout":     r.into(&rule.onTimeout),
		"on_change":      r.into(&rule.onChange),
		"exceptions":     func(_, v *yamlnode.Node) { rule.exceptions = r.exceptions(v) },
		"limits":         func(_, v *yamlnode.Node) { r.limits(v, rule) },
		"without":        func(_, v *yamlnode.Node) { rule.without = r.without(v) },
		"keep":           r.into(&rule.keep),
		"mode":           r.into(&rule.mode),
		"keys":           func(_, v *yamlnode.Node) { rule.keys = r.keys(v) },
		"alert":          func(_, v *yamlnode.Node) { rule.alert = r.alert(v) },
		"tests":          func(_, v *yamlnode.Node) { rule.tests = r.tests(v) },
	}
	if !isRule {
		delete(known, "id")
	}
	if what == "defaults" {
		known["contiguity"], known["loop"] = r.into(&rule.contiguity), r.into(&rule.loop)
	}
	rule.given = r.mapping(n, what, known)
	if isRule {
		r.required(n, what, rule.given, "id")
	}
	r.rule = ""
	return rule
}

func (r *reader) by(n *yamlnode.Node) *bySyntax {
	by := &bySyntax{Pos: r.pos(n)}
	switch n.Kind {
	case yamlnode.List:
		for _, t := range r.texts(n, `"by"`) {
			by.parts = append(by.parts, named{value: t})
		}
	case yamlnode.Map:
		by.parts, by.isMap = r.nameds(n, `"by"`), true
	default:
		r.at(n, codeShape, "write by: ["+n.Value+"]", `"by" must be a list, or a map of names and values`)
		return nil
	}
	if len(n.Content) == 0 {
		r.at(n, codeShape, `leave "by" out for one key`, `"by" is empty`)
		return nil
	}
	if len(by.parts) == 0 {
		return nil
	}
	return by
}

func (r *reader) sequence(n *yamlnode.Node) *sequenceSyntax {
	s := &sequenceSyntax{Pos: r.pos(n), elements: r.elements(n, `"sequence"`)}
	if n.Kind == yamlnode.List && len(n.Content) == 0 {
		r.at(n, codeEmpty, "", `"sequence" is empty`)
	}
	return s
}

func (r *reader) afterMatch(n *yamlnode.Node) *afterSyntax {
	after := &afterSyntax{}
	if n.Kind == yamlnode.Scalar {
		after.word = r.text(n, `"after_match"`)
		if after.word == nil {
			return nil
		}
		return after
	}
	read := func(k, v *yamlnode.Node) {
		if after.word != nil {
			r.at(k, codeShape, "", "\"after_match\" takes one of to_first and to_last")
			return
		}
		after.word = r.text(k, `"after_match"`)
		after.target = r.text(v, "the step of "+k.Value)
	}
	r.mapping(n, "\"after_match\"", keys{"to_first": read, "to_last": read})
	if after.word == nil || after.target == nil {
		return nil
	}
	return after
}

func (r *reader) exceptions(n *yamlnode.Node) []*exceptionSyntax {
	list := []*exceptionSyntax{}
	for _, item := range r.items(n, `"exceptions"`) {
		e := &exceptionSyntax{Pos: r.pos(item)}
		given := r.mapping(item, "an exception", keys{
			"name":    r.into(&e.name),
			"where":   r.into(&e.where),
			"expires": r.into(&e.expires),
			"steps":   r.intoTexts(&e.steps),
		})
		r.required(item, "an exception", given, "name", "where")
		if e.name != nil && e.where != nil {
			list = append(list, e)
		}
	}
	return list
}

func (r *reader) limits(n *yamlnode.Node, rule *ruleSyntax) {
	r.mapping(n, `"limits"`, keys{
		"starts_per_key":   r.into(&rule.startsPerKey),
		"events_per_match": r.into(&rule.eventsPerMatch),
		"on_limit":         r.into(&rule.onLimit),
		"keys_max":         r.into(&rule.keysMax),
		"state_bytes":      r.into(&rule.stateBytes),
	})
}

func (r *reader) alert(n *yamlnode.Node) *alertSyntax {
	a := &alertSyntax{}
	r.mapping(n, `"alert"`, keys{
		"title":          r.into(&a.title),
		"severity":       r.into(&a.severity),
		"include_events": r.into(&a.include),
		"to":             r.intoTextOrTexts(&a.to),
		"fields":         func(_, v *yamlnode.Node) { a.fields = r.nameds(v, `"fields"`) },
		"resolve":        func(_, v *yamlnode.Node) { a.resolve = r.resolve(v) },
		"while_open":     r.into(&a.whileOpen),
		"repeat":         r.into(&a.repeat),
		"suppress": func(_, v *yamlnode.Node) {
			s := &suppressSyntax{Pos: r.pos(v)}
			given := r.mapping(v, `"suppress"`, keys{
				"by":  r.intoTexts(&s.by),
				"for": r.into(&s.hold),
				"max": r.into(&s.max),
			})
			r.required(v, `"suppress"`, given, "for")
			if s.hold != nil {
				a.suppress = s
			}
		},
	})
	return a
}

// without reads a list of what may not happen anywhere in a match.
func (r *reader) without(n *yamlnode.Node) []*withoutSyntax {
	list := []*withoutSyntax{}
	for _, item := range r.items(n, `"without"`) {
		w := &withoutSyntax{Pos: r.pos(item)}
		given := r.mapping(item, `an entry of "without"`, keys{
			"name":  r.into(&w.name),
			"where": r.into(&w.where),
			"from":  r.intoTextOrTexts(&w.from),
			"by":    func(_, v *yamlnode.Node) { w.by = r.by(v) },
		})
		r.required(item, `an entry of "without"`, given, "name")
		if w.name != nil {
			list = append(list, w)
		}
	}
	return list
}

// keys reads the name of a list, or keys: a value each, or a list of the values of its parts.
func (r *reader) keys(n *yamlnode.Node) *keysSyntax {
	k := &keysSyntax{Pos: r.pos(n)}
	if n.Kind == yamlnode.Scalar {
		if k.list = r.text(n, `"keys"`); k.list == nil {
			return nil
		}
		return k
	}
	for _, item := range r.items(n, `"keys"`) {
		if item.Kind == yamlnode.List {
			k.keys = append(k.keys, r.texts(item, "a key"))
		} else if t := r.text(item, "a key"); t != nil {
			k.keys = append(k.keys, []*text{t})
		}
	}
	return k
}

func (r *reader) resolve(n *yamlnode.Node) *resolveSyntax {
	s := &resolveSyntax{Pos: r.pos(n)}
	if r.mapping(n, `"resolve"`, keys{
		"where": r.into(&s.where),
		"quiet": r.into(&s.quiet),
		"from":  r.intoTextOrTexts(&s.from),
		"by":    func(_, v *yamlnode.Node) { s.by = r.by(v) },
	}) == nil {
		return nil
	}
	return s
}

// overrides reads changes to rules of other files.
func (r *reader) overrides(n *yamlnode.Node, doc *document) []*overrideSyntax {
	var list []*overrideSyntax
	for _, item := range r.items(n, `"overrides"`) {
		o := &overrideSyntax{Pos: r.pos(item)}
		given := r.mapping(item, "an override", keys{
			"rule":   r.into(&o.rule),
			"set":    func(_, v *yamlnode.Node) { o.set = r.ruleKeys(v, `"set"`, doc) },
			"append": func(_, v *yamlnode.Node) { o.add = r.ruleKeys(v, `"append"`, doc) },
		})
		r.required(item, "an override", given, "rule")
		if o.rule != nil && (o.set != nil || o.add != nil) {
			list = append(list, o)
		}
	}
	return list
}
