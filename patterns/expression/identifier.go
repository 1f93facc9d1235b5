package expression

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// identifier resolves a bare name.
func (r *resolver) identifier(name string, at span) *node {
	for i, v := range slices.Backward(r.variables) {
		if v.name == name {
			return &node{op: opVariable, kind: v.kind, at: at, name: name, index: i}
		}
	}
	p := r.place
	if strings.HasPrefix(name, "$") {
		return r.dollar(name, at)
	}
	if p.Own != "" && name == p.Own && p.Event {
		return &node{op: opEvent, kind: eventKind, at: at}
	}
	for i, f := range p.Fields {
		if f == name {
			return &node{op: opAlertField, at: at, name: name, index: i}
		}
	}
	for _, s := range p.Steps {
		if s.Name == name {
			return r.step(s, at)
		}
	}
	switch name {
	case "e":
		if !p.Event {
			return r.fail(at, codePlace, r.stepHint(""), "%s has no current event", r.eventless())
		}
		return &node{op: opEvent, kind: eventKind, at: at}
	case "prev":
		if !p.Prev {
			return r.fail(at, codePlace, r.fieldHint(name), "prev cannot be used here")
		}
		return &node{op: opPrev, kind: takenKind, at: at, name: name, origin: origin{prev: true}}
	case "taken":
		if !p.Taken {
			return r.fail(at, codePlace, r.fieldHint(name), "taken can be used only in the condition of a step: it is what this step has taken so far")
		}
		return r.takens(p.OwnIndex, name, at)
	case "match", "duration":
		if !p.Match {
			return r.fail(at, codePlace, r.fieldHint(name), "%s cannot be used here", name)
		}
		if name == "duration" {
			return &node{op: opDuration, kind: durationKind, at: at}
		}
		return &node{op: opMatch, kind: takensKind, at: at, name: name, origin: origin{all: true}}
	}
	if slices.Contains(p.Later, name) {
		return r.fail(at, codeLater, r.fieldHint(name), "step %q stands behind this place: it has taken nothing yet", name)
	}
	if slices.Contains(p.Hidden, name) {
		return r.fail(at, codePlace, r.fieldHint(name), "what %q took cannot be read here: only the current event can", name)
	}
	if !p.Event {
		return r.unknown(name, at)
	}
	if h, ok := foreignWords[name]; ok {
		return r.fail(at, codeName, h+"; e."+name+" is the field", "there is no constant %s", name)
	}
	return r.eventField([]string{name}, at)
}

// foreignWords are constants of other languages: as fields they would be missing in every event, and the rule silent.
var foreignWords = map[string]string{
	"null": "write nil", "None": "write nil", "undefined": "write nil", "NULL": "write nil",
	"True": "write true", "False": "write false", "TRUE": "write true", "FALSE": "write false",
}

// unknown reports a bare name in an alert, where there is no current event.
func (r *resolver) unknown(name string, at span) *node {
	var known []string
	for _, s := range r.place.Steps {
		known = append(known, s.Name)
	}
	known = append(known, r.place.Fields...)
	if hint := didYouMean(name, known); hint != "" {
		return r.fail(at, codeName, hint, "unknown name %q", name)
	}
	path := name + r.members(at)
	if len(r.scopes) > 0 {
		return r.fail(at, codePlace, "write ."+path+" for the field of the element", "%s has no current event, so there is no field %q", r.eventless(), name)
	}
	return r.fail(at, codePlace, r.stepHint(path), "%s has no current event, so there is no field %q", r.eventless(), name)
}

// members is what is written behind a name to reach into it: .address.city.
func (r *resolver) members(at span) string {
	if at.to > len(r.tree.runes) {
		return ""
	}
	return membersBehind.FindString(string(r.tree.runes[at.to:]))
}

var membersBehind = regexp.MustCompile(`^(\??\.[A-Za-z_]\w*|\["[^"\]]*"\])*`)

// eventless names the place without a current event.
func (r *resolver) eventless() string {
	if r.place.Having {
		return "having"
	}
	return "an alert"
}

// stepHint says how to write a field of an event that was taken: of the loop that having is about, else of the last
// single step.
func (r *resolver) stepHint(field string) string {
	if field == "" {
		field = "field"
	}
	for _, s := range slices.Backward(r.place.Steps) {
		if !s.List && !r.place.Having {
			return "write " + s.Name + "." + field
		}
	}
	for _, s := range slices.Backward(r.place.Steps) {
		return "write " + s.Name + "[-1]." + field
	}
	return ""
}

// fieldHint says how to read a field whose name has another meaning.
func (r *resolver) fieldHint(name string) string {
	if r.place.Event {
		return "e." + name + " is the field of the current event"
	}
	return ""
}

// dollar resolves $key, a list, a map or a macro.
func (r *resolver) dollar(name string, at span) *node {
	p, bare := r.place, name[1:]
	if bare == "key" {
		if len(p.Key) == 0 {
			return r.fail(at, codeConstant, "", "the rule has no key: there is no by")
		}
		return r.fail(at, codeConstant, "write $key."+p.Key[0], "$key is not a value itself, its parts are")
	}
	if l, ok := p.Lists[bare]; ok {
		return &node{op: opTable, kind: tableKind, at: at, name: name, list: l}
	}
	if m, ok := p.Maps[bare]; ok {
		return &node{op: opTable, kind: tableKind, at: at, name: name, mapping: m}
	}
	if text, ok := p.Macros[bare]; ok {
		return r.inline(bare, text, at)
	}
	known := slices.Collect(maps.Keys(p.Lists))
	known = slices.AppendSeq(known, maps.Keys(p.Maps))
	known = slices.AppendSeq(known, maps.Keys(p.Macros))
	slices.Sort(known)
	hint := ""
	if c := Nearest(bare, known); c != "" {
		hint = `did you mean "$` + c + `"?`
	} else if bare == p.Own || slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Name == bare }) {
		hint = "a step has no $: write " + bare
	} else if slices.Contains(p.Key, bare) {
		hint = "write $key." + bare
	}
	return r.fail(at, codeConstant, hint, "unknown name %q: no list, map or macro has it", name)
}

// inline resolves a macro in its place.
func (r *resolver) inline(name, text string, at span) *node {
	if slices.Contains(r.macros, name) {
		return r.fail(at, codeMacro, "", "macro $%s uses itself: $%s", name, strings.Join(append(slices.Clone(r.macros), name), " > $"))
	}
	t, problem := parse(text, name)
	if problem != nil {
		r.problems = append(r.problems, *problem)
		return r.bad(at)
	}
	// A macro means the same wherever it stands: it sees no variables; # in it outside of a predicate does not parse.
	macro, variables := r.macro, r.variables
	r.macro, r.macros = name, append(r.macros, name)
	r.variables = make([]variable, len(variables))
	n := r.resolve(t)
	r.macro, r.macros, r.variables = macro, r.macros[:len(r.macros)-1], variables
	// What is wrong inside has been reported there; what does not fit outside is shown where the macro is used.
	n.at = at
	return n
}

// step resolves a step's name.
func (r *resolver) step(s Step, at span) *node {
	if s.List {
		return r.takens(s.Index, s.Name, at)
	}
	return &node{op: opStep, kind: takenKind, at: at, name: s.Name, index: s.Index, origin: origin{steps: []int{s.Index}}}
}

func (r *resolver) takens(step int, name string, at span) *node {
	return &node{op: opSteps, kind: takensKind, at: at, name: name, index: step, origin: origin{steps: []int{step}}}
}

// eventField is a field of the current event, the whole of it where the path is empty. Its slot is given out when the
// whole expression stands: user.name must not make the decoder read user.
func (r *resolver) eventField(path []string, at span) *node {
	n := &node{op: opField, at: at, names: path, name: r.fieldName(path)}
	if len(path) == 0 {
		n.kind = objectKind
	}
	return n
}

func (r *resolver) takenField(item *node, path []string, at span) *node {
	n := &node{op: opTakenField, at: at, args: []*node{item}, names: path}
	if len(path) == 0 {
		n.kind = objectKind
	}
	return n
}

// fieldName prints a path of the current event so that it cannot be taken for another name of the rule.
func (r *resolver) fieldName(path []string) string {
	if len(path) == 0 {
		return "e"
	}
	_, foreign := foreignWords[path[0]]
	if !isName(path[0]) || foreign || slices.Contains(reservedNames, path[0]) || path[0] == r.place.Own ||
		slices.Contains(r.place.Later, path[0]) || slices.Contains(r.place.Hidden, path[0]) ||
		slices.ContainsFunc(r.place.Steps, func(s Step) bool { return s.Name == path[0] }) {
		return printPath("e", path)
	}
	return printPath("", path)
}

// reservedNames have a meaning of their own in every place.
var reservedNames = []string{"e", "prev", "taken", "match", "duration", "true", "false", "nil"}
