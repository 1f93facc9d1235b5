package patterns

import (
	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns/expression"
)

// Words of the language that a later version brings.
var (
	laterRuleKeys    = []string{"mode", "pattern", "steps", "without", "keep", "keys"}
	laterLimits      = []string{"on_limit", "keys_max", "state_bytes"}
	laterAlertKeys   = []string{"resolve", "while_open", "repeat"}
	laterStepKeys    = []string{"until", "having", "distinct", "greedy", "first_seen"}
	laterElements    = []string{"hold", "all_of", "any_of", "group"}
	laterTestEntries = []string{"idle", "reload", "restart"}
)

// ruleKeys reads a rule, or the defaults of a document.
func (r *reader) ruleKeys(n *yamlnode.Node, what string, doc *document) *ruleSyntax {
	rule := &ruleSyntax{Pos: r.pos(n), document: doc}
	isDefaults := what == "defaults"
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
		"after_match":    func(_, v *yamlnode.Node) { rule.after = r.afterMatch(v) },
		"emit":           r.into(&rule.emit),
		"on_timeout":     r.into(&rule.onTimeout),
		"on_change":      r.into(&rule.onChange),
		"exceptions":     func(_, v *yamlnode.Node) { rule.exceptions = r.exceptions(v) },
		"limits":         func(_, v *yamlnode.Node) { r.limits(v, rule) },
		"alert":          func(_, v *yamlnode.Node) { rule.alert = r.alert(v) },
		"tests":          func(_, v *yamlnode.Node) { rule.tests = r.tests(v) },
	}
	if isDefaults {
		delete(known, "id")
		known["contiguity"], known["loop"] = r.into(&rule.contiguity), r.into(&rule.loop)
	}
	rule.given = r.mapping(n, what, known, laterRuleKeys...)
	if !isDefaults {
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
	s := &sequenceSyntax{Pos: r.pos(n)}
	for _, item := range r.items(n, `"sequence"`) {
		s.elements = append(s.elements, r.element(item))
	}
	if n.Kind == yamlnode.List && len(n.Content) == 0 {
		r.at(n, codeEmpty, "", `"sequence" is empty`)
	}
	return s
}

// element reads a step, loop or absence; nil where it is none of them, which has been reported.
func (r *reader) element(n *yamlnode.Node) *elementSyntax {
	if n.Kind != yamlnode.Map {
		r.at(n, codeElement, "write {step: "+stepName(n)+", where: ...}", "an element of a sequence is a map that begins with \"step\" or \"absent\"")
		return nil
	}
	e := &elementSyntax{Pos: r.pos(n)}
	kind := ""
	for k := range yamlnode.Pairs(n) {
		switch k.Value {
		case "step", "absent":
			if kind != "" && kind != k.Value {
				r.at(k, codeElement, "", "an element is a step or an absence, not both")
				return nil
			}
			kind = k.Value
		case "hold", "all_of", "any_of", "group":
			r.at(k, codeLater, "", "not supported by this version yet: %q", k.Value)
			return nil
		}
	}
	if kind == "" {
		for k := range yamlnode.Pairs(n) {
			if near := expression.Nearest(k.Value, []string{"step", "absent"}); near != "" && kind == "" {
				kind = near // what is wrong with the key is said below
			}
		}
	}
	known := keys{
		"from":       r.intoTextOrTexts(&e.from),
		"where":      r.into(&e.where),
		"by":         func(_, v *yamlnode.Node) { e.by = r.by(v) },
		"contiguity": r.into(&e.contiguity),
	}
	later := []string(nil)
	switch kind {
	case "step":
		known["step"] = r.into(&e.name)
		known["times"] = r.into(&e.times)
		known["loop"] = r.into(&e.loop)
		known["within"] = r.into(&e.within)
		known["loop_within"] = r.into(&e.loopWithin)
		known["optional"] = r.into(&e.optional)
		known["for"] = func(k, _ *yamlnode.Node) {
			r.at(k, codeElementKey, "\"for\" says how long an absence holds; a step has \"within\"", "a step has no key \"for\"")
		}
		later = laterStepKeys
	case "absent":
		e.isAbsent = true
		known["absent"] = r.into(&e.name)
		known["for"] = r.into(&e.hold)
		known["from_start"] = r.into(&e.fromStart)
		for _, key := range append([]string{"times", "loop", "within", "loop_within", "optional"}, laterStepKeys...) {
			known[key] = func(k, _ *yamlnode.Node) {
				hint := ""
				if k.Value == "within" {
					hint = "how long an absence must hold is its \"for\""
				}
				r.at(k, codeElementKey, hint, "an absence has no key %q", k.Value)
			}
		}
	default:
		r.at(n, codeElement, "", "an element of a sequence needs the key \"step\" or \"absent\"")
		return nil
	}
	r.mapping(n, map[string]string{"step": "a step", "absent": "an absence"}[kind], known, later...)
	if e.name == nil {
		return nil
	}
	return e
}

// stepName is the word to show in a hint for an element that is no map.
func stepName(n *yamlnode.Node) string {
	if n.Kind == yamlnode.Scalar && word.MatchString(n.Value) {
		return n.Value
	}
	return "name"
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
	}, laterLimits...)
}

func (r *reader) alert(n *yamlnode.Node) *alertSyntax {
	a := &alertSyntax{}
	r.mapping(n, `"alert"`, keys{
		"title":          r.into(&a.title),
		"severity":       r.into(&a.severity),
		"include_events": r.into(&a.include),
		"to":             r.intoTextOrTexts(&a.to),
		"fields":         func(_, v *yamlnode.Node) { a.fields = r.nameds(v, `"fields"`) },
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
	}, laterAlertKeys...)
	return a
}
