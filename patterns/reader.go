package patterns

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns/expression"
)

// reader turns the nodes of one file into the syntax tree. It knows shapes and keys, not meanings.
type reader struct {
	file *yamlnode.File
	*report
	// rule is the id of the rule being read.
	rule string
	// refused are nodes that have a diagnostic already.
	refused map[*yamlnode.Node]bool
}

func (r *reader) pos(n *yamlnode.Node) Pos {
	return Pos{File: r.file.Name, Line: n.Line, Column: n.Column}
}

// at reports a mistake at a node.
func (r *reader) at(n *yamlnode.Node, code, hint, format string, args ...any) {
	if r.refused[n] {
		return
	}
	r.add(Diagnostic{
		Pos: r.pos(n), Length: r.file.Width(n), Code: code, Hint: hint, Rule: r.rule,
		Message: fmt.Sprintf(format, args...), Excerpt: r.file.Line(n.Line),
	})
}

// keys says what a mapping may hold: for each key how its value is read.
type keys map[string]func(key, value *yamlnode.Node)

// names returns the keys that exist, for hints.
func (k keys) names() []string { return slices.Sorted(maps.Keys(k)) }

// given are the keys that a mapping has, whatever is wrong with their values, and those that were most likely meant; nil
// where there is no mapping.
type given map[string]bool

// mapping reads the keys of a mapping in written order.
func (r *reader) mapping(n *yamlnode.Node, what string, known keys) given {
	if n.Kind != yamlnode.Map {
		r.wrongKind(n, what, "a map of keys and values")
		return nil
	}
	if r.asked != nil {
		r.asked(what, known)
	}
	seen := given{}
	// A key that was probably meant is read as that key, so that the mistakes inside it are found, and none is made up of
	// its absence.
	var meant []func()
	skip := 0 // entries that belong to an expression without quotes
	pairs := n.Content
	for i := 0; i+1 < len(pairs); i += 2 {
		k, v := pairs[i], pairs[i+1]
		if skip > 0 {
			skip--
			continue
		}
		if torn := r.torn(n, i); torn >= 0 {
			skip = torn
			continue
		}
		if k.Kind != yamlnode.Scalar {
			r.at(k, codeUnknownKey, "", "a key of %s is a word", what)
			continue
		}
		if r.refused[k] {
			continue // reported: a duplicate, or a merge key
		}
		seen[k.Value] = true
		read, ok := known[k.Value]
		switch {
		case !ok:
			near, hint := "", ""
			if !r.mute(r.file.Name, k.Line) {
				if near, hint = foreignKey(what, k.Value, known); hint == "" {
					near = expression.Nearest(k.Value, known.names())
					hint = r.didYouMean(r.file.Name, k.Value, []string{near})
				}
			}
			if read, ok := known[near]; ok && !r.refused[v] && !yamlnode.IsNull(v) {
				meant = append(meant, func() {
					if !seen[near] {
						seen[near] = true
						read(k, v)
					}
				})
			}
			r.at(k, codeUnknownKey, hint, "%s has no key %q", what, k.Value)
		case r.refused[v]:
		case yamlnode.IsNull(v) && v.Tag == "!!null":
			r.at(k, codeNull, "write a value, or leave the key out", "%q has no value", k.Value)
		default:
			read(k, v)
		}
	}
	for _, read := range meant {
		read()
	}
	return seen
}

// required reports keys that are missing.
func (r *reader) required(n *yamlnode.Node, what string, seen given, names ...string) {
	for _, key := range names {
		if seen != nil && !seen[key] {
			r.at(n, codeMissing, "", "%s needs the key %q", what, key)
		}
	}
}

// wrongKind reports a node that is not of the expected shape.
func (r *reader) wrongKind(n *yamlnode.Node, what, want string) {
	r.at(n, codeShape, shapeHints[what], "%s must be %s, this is %s", what, want, kindOf(n))
}

// shapeHints show what is written where another shape is usual elsewhere.
var shapeHints = map[string]string{
	"a rule file":         "begin with version: 1, and rules: with the list below it",
	`"rules"`:             "each rule is an item of the list: - id: name",
	`"alert"`:             `write alert: {title: "…"}`,
	`"fields"`:            "write fields: {name: …}",
	`"suppress"`:          "write suppress: {by: [field], for: 1h}",
	`"times"`:             "write 3..10, 5.., or 5",
	"a step of a pattern": "write {where: condition}",
}

func kindOf(n *yamlnode.Node) string {
	switch n.Kind {
	case yamlnode.Map:
		return "a map"
	case yamlnode.List:
		return "a list"
	default:
		return either(yamlnode.IsNull(n), "nothing", "a text")
	}
}

// text reads a scalar; nil where it is none.
func (r *reader) text(n *yamlnode.Node, what string) *text {
	switch {
	case r.refused[n]:
		return nil
	case n.Kind != yamlnode.Scalar:
		// {{user}} without quotes is a map in a map.
		if n.Kind == yamlnode.Map && len(n.Content) > 0 && n.Content[0].Kind == yamlnode.Map {
			if mended, ok := r.mended(n); ok {
				r.at(n, codeQuotes, mended, "%s is a text, and braces begin a map", what)
				return nil
			}
		}
		r.wrongKind(n, what, "a text")
		return nil
	case yamlnode.IsNull(n):
		r.at(n, codeNull, "", "%s has no value", what)
		return nil
	}
	return &text{Pos: r.pos(n), value: n.Value, width: r.file.Width(n), file: r.file, node: n}
}

// into reads the text of a key into a field of the syntax tree.
func (r *reader) into(t **text) func(k, v *yamlnode.Node) {
	return func(k, v *yamlnode.Node) { *t = r.text(v, fmt.Sprintf("%q", k.Value)) }
}

// items gives the nodes of a list.
func (r *reader) items(n *yamlnode.Node, what string) []*yamlnode.Node {
	if n.Kind != yamlnode.List {
		r.wrongKind(n, what, "a list")
		return nil
	}
	items := make([]*yamlnode.Node, 0, len(n.Content))
	for i := 0; i < len(n.Content); i++ {
		if torn := r.tornItem(n, i); torn >= 0 {
			i += torn
			continue
		}
		items = append(items, n.Content[i])
	}
	return items
}

// texts reads a list of texts.
func (r *reader) texts(n *yamlnode.Node, what string) []*text {
	if n.Kind != yamlnode.List {
		r.wrongKind(n, what, "a list")
		return nil
	}
	list := []*text{} // written, if only as []
	for _, item := range r.items(n, what) {
		if t := r.text(item, "an entry of "+what); t != nil {
			list = append(list, t)
		}
	}
	return list
}

// intoTexts reads a list into a field of the syntax tree.
func (r *reader) intoTexts(list *[]*text) func(k, v *yamlnode.Node) {
	return func(k, v *yamlnode.Node) { *list = r.texts(v, fmt.Sprintf("%q", k.Value)) }
}

// intoTextOrTexts is [reader.intoTexts] for keys that may have one value without brackets.
func (r *reader) intoTextOrTexts(list *[]*text) func(k, v *yamlnode.Node) {
	return func(k, v *yamlnode.Node) {
		if v.Kind != yamlnode.Scalar {
			*list = r.texts(v, fmt.Sprintf("%q", k.Value))
		} else if t := r.text(v, fmt.Sprintf("%q", k.Value)); t != nil {
			*list = []*text{t}
		}
	}
}

// nameds reads a map of names to texts in written order.
func (r *reader) nameds(n *yamlnode.Node, what string) []named {
	if n.Kind != yamlnode.Map {
		r.wrongKind(n, what, "a map of names and values")
		return nil
	}
	list := []named{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if torn := r.torn(n, i); torn >= 0 {
			i += 2 * torn
			continue
		}
		k, v := n.Content[i], n.Content[i+1]
		if r.refused[k] || r.refused[v] {
			continue
		}
		name := r.text(k, "a name in "+what)
		if name == nil {
			continue
		}
		if yamlnode.IsNull(v) {
			r.at(k, codeNull, "write a value, or leave the name out", "%q has no value", name.value)
			continue
		}
		if value := r.text(v, fmt.Sprintf("%q", name.value)); value != nil {
			list = append(list, named{name, value})
		}
	}
	return list
}

// oneOf formats words for messages: a, b or c.
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
