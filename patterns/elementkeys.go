package patterns

import (
	"slices"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns/expression"
)

// elementKind is the word that an element begins with.
type elementKind string

// The elements of a sequence.
const (
	kindStep   elementKind = "step"
	kindAbsent elementKind = "absent"
	kindHold   elementKind = "hold"
	kindAllOf  elementKind = "all_of"
	kindAnyOf  elementKind = "any_of"
	kindGroup  elementKind = "group"
)

var elementKinds = []elementKind{kindStep, kindAbsent, kindHold, kindAllOf, kindAnyOf, kindGroup}

// isComposite reports whether an element is made of others.
func (k elementKind) isComposite() bool { return k == kindAllOf || k == kindAnyOf || k == kindGroup }

// article is the kind as messages say it.
func (k elementKind) article() string {
	return map[elementKind]string{
		kindStep: "a step", kindAbsent: "an absence", kindHold: "a hold", kindAllOf: "an all_of", kindAnyOf: "an any_of", kindGroup: "a group",
	}[k]
}

// elementKey is a row of the table "element x key" that docs/rules.md shows.
type elementKey struct {
	name string
	on   []elementKind
	// otherwise is what holds where the key is left out.
	otherwise string
	// codes are those of refusals: on an element that cannot have the key, and where it has no meaning.
	codes []string
	// instead says for elements that cannot have the key what they have; all others say nothing.
	instead map[elementKind]string
}

// elementKeys are all keys of elements beside the word that each begins with.
var elementKeys = []elementKey{
	{"where", []elementKind{kindStep, kindAbsent, kindHold, kindAllOf}, "every visible event", []string{codeElementKey}, map[elementKind]string{
		kindAnyOf: "give each alternative its own condition", kindGroup: "give each element its own condition",
	}},
	{"from", []elementKind{kindStep, kindAbsent, kindHold}, "the rule's", []string{codeElementKey, codeFrom}, nil},
	{"by", []elementKind{kindStep, kindAbsent, kindHold}, "the rule's", []string{codeElementKey, codeBy}, nil},
	{"contiguity", elementKinds, "relaxed", []string{codeContiguity}, nil},
	{"times", []elementKind{kindStep, kindAnyOf, kindGroup}, "1", []string{codeElementKey, codeTimes}, map[elementKind]string{
		kindAllOf: "put it into a group with times",
	}},
	{"loop", []elementKind{kindStep, kindAnyOf, kindGroup}, "relaxed", []string{codeElementKey}, nil},
	{"optional", []elementKind{kindStep, kindAnyOf, kindGroup}, "false", []string{codeElementKey, codeNothing}, map[elementKind]string{
		kindAllOf: "put it into a group that is optional",
	}},
	{"within", []elementKind{kindStep, kindAllOf, kindAnyOf, kindGroup}, "no bound but the rule's", []string{codeElementKey, codeFirstWithin, codeGap}, map[elementKind]string{
		kindAbsent: `how long an absence must hold is its "for"`, kindHold: `how long the condition must hold is its "for"`,
	}},
	{"loop_within", []elementKind{kindStep}, "the step's within", []string{codeElementKey, codeGap}, nil},
	{"for", []elementKind{kindAbsent, kindHold}, "the rule's within for an absence at the end", []string{codeElementKey, codeHold, codeHoldMissing}, map[elementKind]string{
		kindStep: `"for" says how long an absence holds; a step has "within"`,
	}},
	{"from_start", []elementKind{kindAbsent}, "false", []string{codeElementKey, codeHold}, nil},
	{"greedy", []elementKind{kindStep}, "false", []string{codeElementKey}, nil},
	{"until", []elementKind{kindStep, kindGroup}, "never", []string{codeElementKey, codeUntil}, nil},
	{"having", []elementKind{kindStep}, "always", []string{codeElementKey}, nil},
	{"distinct", []elementKind{kindStep}, "events are counted", []string{codeElementKey}, nil},
	{"first_seen", []elementKind{kindStep}, "always", []string{codeElementKey, codeFirstSeen}, nil},
	{"at_least", []elementKind{kindAllOf}, "all members", []string{codeElementKey, codeMembers}, nil},
}

// elements reads a list of elements; one that could not be read is nil.
func (r *reader) elements(n *yamlnode.Node, what string) []*elementSyntax {
	list := []*elementSyntax{}
	for _, item := range r.items(n, what) {
		list = append(list, r.element(item))
	}
	return list
}

// element reads an element; nil where it is none, which has been reported.
func (r *reader) element(n *yamlnode.Node) *elementSyntax {
	if n.Kind != yamlnode.Map {
		name := "name"
		if n.Kind == yamlnode.Scalar && word.MatchString(n.Value) {
			name = n.Value
		}
		r.at(n, codeElement, "write {step: "+name+", where: ...}", "an element of a sequence is a map that begins with \"step\" or \"absent\"")
		return nil
	}
	kind, at := r.elementKind(n)
	if kind == "" {
		return nil
	}
	e := &elementSyntax{Pos: r.pos(n), kind: kind}
	readers := keys{
		"where":       r.into(&e.where),
		"from":        r.intoTextOrTexts(&e.from),
		"by":          func(_, v *yamlnode.Node) { e.by = r.by(v) },
		"contiguity":  r.into(&e.contiguity),
		"times":       r.into(&e.times),
		"loop":        r.into(&e.loop),
		"optional":    r.into(&e.optional),
		"within":      r.into(&e.within),
		"loop_within": r.into(&e.loopWithin),
		"for":         r.into(&e.hold),
		"from_start":  r.into(&e.fromStart),
		"greedy":      r.into(&e.greedy),
		"until":       r.into(&e.until),
		"having":      r.into(&e.having),
		"distinct":    r.into(&e.distinct),
		"first_seen":  func(_, v *yamlnode.Node) { e.firstSeen = r.firstSeen(v) },
		"at_least":    r.into(&e.atLeast),
	}
	known := keys{}
	for _, key := range elementKeys {
		if slices.Contains(key.on, kind) {
			known[key.name] = readers[key.name]
			continue
		}
		known[key.name] = func(k, _ *yamlnode.Node) {
			r.at(k, codeElementKey, key.instead[kind], "%s has no key %q", kind.article(), k.Value)
		}
	}
	whole := true // the inner elements were read
	switch kind {
	case kindAllOf, kindGroup:
		known[string(kind)] = func(k, v *yamlnode.Node) {
			e.elements = r.elements(v, `"`+k.Value+`"`)
			whole = v.Kind == yamlnode.List
		}
	case kindAnyOf:
		known[string(kind)] = func(k, v *yamlnode.Node) {
			e.alternatives = r.alternatives(v)
			whole = v.Kind == yamlnode.List
		}
	default:
		known[string(kind)] = r.into(&e.name)
	}
	r.mapping(n, kind.article(), known)
	if kind.isComposite() && whole {
		e.name = &text{Pos: r.pos(at), value: string(kind), width: r.file.Width(at), file: r.file, node: at}
	}
	if e.name == nil {
		return nil
	}
	return e
}

// elementKind finds the word that an element begins with, and its key; "" where there is none, or two, which is reported.
func (r *reader) elementKind(n *yamlnode.Node) (elementKind, *yamlnode.Node) {
	var kind elementKind
	var at *yamlnode.Node
	words := make([]string, len(elementKinds))
	for i, k := range elementKinds {
		words[i] = string(k)
	}
	for k := range yamlnode.Pairs(n) {
		if !slices.Contains(words, k.Value) || r.refused[k] {
			continue
		}
		if kind != "" {
			r.at(k, codeElement, "", "an element is %s or %s, not both", kind.article(), elementKind(k.Value).article())
			return "", nil
		}
		kind, at = elementKind(k.Value), k
	}
	if kind != "" {
		return kind, at
	}
	for k := range yamlnode.Pairs(n) {
		if near := expression.Nearest(k.Value, words); near != "" {
			return elementKind(near), k // what is wrong with the key is said where it is read
		}
	}
	hint := ""
	for k := range yamlnode.Pairs(n) {
		for _, w := range words {
			if slices.Contains(foreignKeys[w], strings.ToLower(k.Value)) {
				hint = either(hint == "", "write "+w+" in the place of "+k.Value, hint)
			}
		}
	}
	r.at(n, codeElement, hint, "an element of a sequence needs one of the keys %s", oneOf(words))
	return "", nil
}

// alternatives reads those of an any_of: elements, or lists of elements.
func (r *reader) alternatives(n *yamlnode.Node) [][]*elementSyntax {
	list := [][]*elementSyntax{}
	for _, item := range r.items(n, `"any_of"`) {
		if item.Kind == yamlnode.List {
			if len(item.Content) == 0 {
				r.at(item, codeEmpty, `to leave it out write "optional: true" on the any_of`, "an alternative of an any_of is empty")
			}
			list = append(list, r.elements(item, "an alternative"))
		} else {
			list = append(list, []*elementSyntax{r.element(item)})
		}
	}
	return list
}

func (r *reader) firstSeen(n *yamlnode.Node) *firstSeenSyntax {
	f := &firstSeenSyntax{Pos: r.pos(n)}
	given := r.mapping(n, `"first_seen"`, keys{
		"by":         r.intoTexts(&f.by),
		"for":        r.into(&f.hold),
		"from_start": r.into(&f.fromStart),
	})
	r.required(n, `"first_seen"`, given, "by", "for")
	if f.hold == nil || f.by == nil {
		return nil
	}
	return f
}
