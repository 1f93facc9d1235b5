package patterns

import "github.com/cepd/cepd/internal/yamlnode"

// tests reads the tests of a rule.
func (r *reader) tests(n *yamlnode.Node) []*testSyntax {
	list := []*testSyntax{}
	for _, item := range r.items(n, `"tests"`) {
		t := &testSyntax{Pos: r.pos(item)}
		given := r.mapping(item, "a test", keys{
			"name":     r.into(&t.name),
			"lateness": r.into(&t.lateness),
			"events": func(_, v *yamlnode.Node) {
				for _, entry := range r.items(v, `"events"`) {
					if s := r.testStep(entry); s != nil {
						t.steps = append(t.steps, s)
					}
				}
			},
			"expect": func(_, v *yamlnode.Node) { t.expect = r.expect(v) },
		})
		r.required(item, "a test", given, "name", "events", "expect")
		if t.name != nil && t.expect != nil {
			list = append(list, t)
		}
	}
	return list
}

// testEntries are the words that an entry of `events` is known by.
var testEntries = []string{"event", "file", "advance", "idle", "reload", "restart"}

// testStep reads an event, a file or a time that passes; nil where it is none, which has been reported.
func (r *reader) testStep(n *yamlnode.Node) *testStepSyntax {
	s := &testStepSyntax{Pos: r.pos(n)}
	given := r.mapping(n, "an entry of \"events\"", keys{
		"at":    r.into(&s.at),
		"times": r.into(&s.times),
		"every": r.into(&s.every),
		"from":  r.into(&s.from),
		"event": func(_, v *yamlnode.Node) {
			s.node = v
			if v.Kind != yamlnode.Map {
				r.wrongKind(v, `"event"`, "a map of fields and values")
				return
			}
			s.event = r.json(nil, v)
		},
		"file":    r.into(&s.file),
		"advance": r.into(&s.advance),
		"idle":    r.into(&s.idle),
		"reload":  r.into(&s.reload),
		"restart": r.into(&s.restart),
	})
	forms := 0
	for _, word := range testEntries {
		if given[word] {
			forms++
		}
	}
	if given != nil && forms != 1 {
		r.at(n, codeTest, "", "an entry of \"events\" has one of %s", oneOf(testEntries))
	}
	if forms != 1 || s.node == nil && s.file == nil && s.advance == nil && s.idle == nil && s.reload == nil && s.restart == nil {
		return nil
	}
	return s
}

func (r *reader) expect(n *yamlnode.Node) *expectSyntax {
	e := &expectSyntax{Pos: r.pos(n)}
	given := r.mapping(n, `"expect"`, keys{
		"count": r.into(&e.count),
		"alerts": func(_, v *yamlnode.Node) {
			e.given = true
			for _, item := range r.items(v, `"alerts"`) {
				a := &expectedSyntax{Pos: r.pos(item)}
				r.mapping(item, "an expected alert", keys{
					"at":     r.into(&a.at),
					"kind":   r.into(&a.kind),
					"fields": func(_, v *yamlnode.Node) { a.fields = r.expectedFields(v) },
				})
				e.alerts = append(e.alerts, a)
			}
		},
	})
	switch {
	case given == nil:
		return nil
	case given["alerts"] != given["count"]:
	default:
		r.at(n, codeTest, "alerts: [] says that there are none", "\"expect\" has either \"alerts\" or \"count\"")
		return nil
	}
	if e.count == nil && !e.given {
		return nil
	}
	return e
}

func (r *reader) expectedFields(n *yamlnode.Node) []expectedField {
	if n.Kind != yamlnode.Map {
		r.wrongKind(n, `"fields"`, "a map of names and values")
		return nil
	}
	var fields []expectedField
	for i := 0; i+1 < len(n.Content); i += 2 {
		if torn := r.torn(n, i); torn >= 0 {
			i += 2 * torn
			continue
		}
		k, v := n.Content[i], n.Content[i+1]
		if name := r.text(k, "a name in \"fields\""); name != nil && !r.refused[v] && !r.refused[k] {
			fields = append(fields, expectedField{name, r.literal(v)})
		}
	}
	return fields
}
