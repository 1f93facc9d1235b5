package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns"
)

// place is where a value was written.
type place struct {
	pos     patterns.Pos
	length  int
	excerpt string
	// origin is how people call the place: a file and line, a variable, a flag.
	origin string
}

// places are those of all settings that were set, by path: "streams.auth.lateness". The places of maps are those of their
// keys.
type places map[string]place

// reader reads a file, then what stands above it, into a Config.
type reader struct {
	config *Config
	dir    string
	file   *yamlnode.File
	list   patterns.Diagnostics
	// refused are nodes that have a diagnostic already.
	refused map[*yamlnode.Node]bool
	// wrong are the settings whose value was refused: nothing more is said about them.
	wrong map[string]bool
	// masks are the texts of secrets in the file, which excerpts do not show.
	masks []mask
}

// mask is a text in a line: places count runes from 1.
type mask struct{ line, column, length int }

// maxMistakes is the number of mistakes that are kept: nobody reads more before mending some.
const maxMistakes = 200

func (r *reader) report(p place, code, hint, format string, args ...any) {
	if len(r.list) >= maxMistakes {
		return
	}
	r.list = append(r.list, patterns.Diagnostic{
		Pos: p.pos, Length: max(1, p.length), Excerpt: p.excerpt, Code: code, Hint: hint, Message: fmt.Sprintf(format, args...),
	})
}

// warn reports what does not keep a job from running.
func (r *reader) warn(p place, code, hint, format string, args ...any) {
	n := len(r.list)
	if r.report(p, code, hint, format, args...); len(r.list) > n {
		r.list[n].Warning = true
	}
}

// at is the place of a node.
func (r *reader) at(n *yamlnode.Node) place {
	pos := patterns.Pos{File: r.file.Name, Line: n.Line, Column: n.Column}
	return place{pos: pos, length: r.file.Width(n), excerpt: r.file.Line(n.Line), origin: fmt.Sprintf("%s:%d", filepath.Base(r.file.Name), n.Line)}
}

// readFile reads the text of a file.
func (r *reader) readFile(name string, data []byte) {
	file, problems := yamlnode.Parse(name, data)
	r.file, r.refused = file, map[*yamlnode.Node]bool{}
	for _, p := range problems {
		r.problem(p)
	}
	start := place{pos: patterns.Pos{File: name, Line: 1, Column: 1}, length: 1, excerpt: file.Line(1)}
	switch len(file.Documents) {
	case 0:
		if len(problems) == 0 {
			r.report(start, codeShape, "begin with version: 1", "the file is empty")
		}
		return
	case 1:
	default:
		r.report(r.at(file.Documents[1]), codeShape, "", "a configuration is one document, and here begins another")
	}
	number := ""
	known := slices.Concat(section{{name: "version", value: &scalar{
		set: func(in input) *mistake { number = in.text; return nil },
	}}}, r.config.settings())
	r.section(file.Documents[0], "", "the configuration", known)
	version, written := r.config.places["version"]
	if number != "" && number != "1" {
		r.report(version, codeVersion, "write version: 1", "this program knows version 1 of the configuration, not %q", number)
	}
	if !written && !r.wrong["version"] && file.Documents[0].Kind == yamlnode.Map {
		r.report(r.at(file.Documents[0]), codeMissing, "write version: 1", `the configuration needs the key "version"`)
	}
}

// problem reports what the YAML reader found.
func (r *reader) problem(p yamlnode.Problem) {
	code := map[yamlnode.Kind]string{
		yamlnode.Syntax: codeSyntax, yamlnode.Encoding: codeText, yamlnode.TooLarge: codeText, yamlnode.Tag: codeTag, yamlnode.Alias: codeTag,
		yamlnode.DuplicateKey: codeDuplicate,
	}[p.Kind]
	r.report(place{
		pos: patterns.Pos{File: r.file.Name, Line: p.Line, Column: p.Column}, length: p.Length, excerpt: r.file.Line(p.Line),
	}, code, "", "%s", p.Message)
	if p.Node != nil {
		r.refused[p.Node] = true
	}
}

// join adds a key to a path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// section reads a map of known keys. what names it in messages.
func (r *reader) section(n *yamlnode.Node, path, what string, settings section) {
	if n.Kind != yamlnode.Map {
		r.shape(n, what, "a map of keys and values")
		r.wrong[path] = true
		return
	}
	for k, v := range yamlnode.Pairs(n) {
		if r.refused[k] || r.refused[v] {
			r.wrong[join(path, k.Value)] = true
			continue
		}
		if k.Kind != yamlnode.Scalar {
			r.report(r.at(k), codeUnknownKey, "", "a key of %s is a word", what)
			continue
		}
		s, o := settings.find(k.Value)
		switch {
		case s == nil:
			hint := nearest(k.Value, settings.names())
			if words, ok := instead[k.Value]; ok && hint == "" {
				hint = words
			}
			r.report(r.at(k), codeUnknownKey, hint, "%s has no key %q", what, k.Value)
			r.wrong[path] = true // so its kind is not missing: it was probably meant here
		case yamlnode.IsNull(v):
			r.report(r.at(k), codeShape, "write a value, or leave the key out", "%q has no value", k.Value)
			r.wrong[join(path, k.Value)] = true
		case o != nil:
			r.config.places[join(path, k.Value)] = r.at(k)
			if r.taken(k, path, s.value.(*choice), o) {
				continue
			}
			r.section(v, join(path, k.Value), fmt.Sprintf("%q", k.Value), o.make())
		default:
			r.value(k, v, join(path, k.Value), s)
		}
	}
}

// instead says what to write for keys that other programs have.
var instead = map[string]string{
	"kind": `write the kind as the key: {file: {path: ...}}`, "type": `write the kind as the key: {file: {path: ...}}`,
}

// taken reports a second kind of one thing.
func (r *reader) taken(k *yamlnode.Node, path string, c *choice, o *option) bool {
	for _, other := range c.options {
		if other.name != o.name && other.made() != nil {
			r.report(r.at(k), codeKind, "", "a %s has one kind, and this one is %s already, in line %d", c.what, other.name,
				r.config.places[join(path, other.name)].pos.Line)
			return true
		}
	}
	return false
}

// find returns the setting with a name, and the option if it is one of a choice that stands beside the keys.
func (s section) find(name string) (*setting, *option) {
	for i := range s {
		if c, ok := s[i].value.(*choice); ok && s[i].name == "" {
			for j := range c.options {
				if c.options[j].name == name {
					return &s[i], &c.options[j]
				}
			}
		} else if s[i].name == name {
			return &s[i], nil
		}
	}
	return nil, nil
}

// names are the keys that a section may have.
func (s section) names() []string {
	var names []string
	for i := range s {
		if c, ok := s[i].value.(*choice); ok && s[i].name == "" {
			names = append(names, c.names()...)
		} else {
			names = append(names, s[i].name)
		}
	}
	return names
}

func (c *choice) names() []string {
	var names []string
	for _, o := range c.options {
		names = append(names, o.name)
	}
	return names
}

// value reads what stands behind a key.
func (r *reader) value(k, v *yamlnode.Node, path string, s *setting) {
	what := fmt.Sprintf("%q", k.Value)
	switch val := s.value.(type) {
	case section:
		r.config.places[path] = r.at(k)
		r.section(v, path, what, val)
	case *choice:
		r.config.places[path] = r.at(k)
		r.section(v, path, what, section{{value: val}})
	case *named:
		r.named(k, v, path, val)
	case *pairs:
		r.config.places[path] = r.at(k)
		r.pairs(v, path, what, val)
	case *scalar:
		if val.secret {
			r.report(r.at(k), codeSecret, fmt.Sprintf("write %s_file: PATH, or set %s in the environment", k.Value, variable(path)), "a secret does not stand in the configuration")
			r.wrong[path] = true
			r.hide(v)
			return
		}
		if v.Kind != yamlnode.Scalar {
			r.shape(v, what, "one value")
			r.wrong[path] = true
			return
		}
		m := val.set(input{v.Value, r.dir})
		if m != nil && m.code == codeSecret {
			r.hide(v)
		}
		r.set(path, r.at(v), m)
	case *list:
		r.texts(v, path, what, val)
	}
}

// texts reads a list, or one value in its place.
func (r *reader) texts(v *yamlnode.Node, path, what string, l *list) {
	items := []*yamlnode.Node{v}
	switch v.Kind {
	case yamlnode.List:
		items = v.Content
	case yamlnode.Scalar:
	default:
		r.shape(v, what, "a list")
		r.wrong[path] = true
		return
	}
	l.reset()
	if len(items) == 0 {
		r.report(r.at(v), codeShape, "leave the key out where nothing is meant", "%s is empty", what)
		r.wrong[path] = true
	}
	for _, item := range items {
		switch {
		case r.refused[item]:
		case item.Kind != yamlnode.Scalar || yamlnode.IsNull(item):
			r.shape(item, "an entry of "+what, "one value")
			r.wrong[path] = true
		default:
			r.set(path, r.at(item), l.add(input{item.Value, r.dir}))
		}
	}
	r.config.places[path] = r.at(v) // not that of its last entry
}

// pairs reads a map of names and texts.
func (r *reader) pairs(v *yamlnode.Node, path, what string, p *pairs) {
	if v.Kind != yamlnode.Map {
		r.shape(v, what, "a map of names and texts")
		r.wrong[path] = true
		return
	}
	p.reset()
	for name, text := range yamlnode.Pairs(v) {
		switch {
		case r.refused[name] || r.refused[text]:
		case name.Kind != yamlnode.Scalar:
			r.shape(name, "a name in "+what, "one word")
		case text.Kind != yamlnode.Scalar || yamlnode.IsNull(text):
			r.shape(text, fmt.Sprintf("%q", name.Value), "one text")
		default:
			if m := p.add(name.Value, text.Value); m != nil {
				r.report(r.at(text), m.code, m.hint, "%s", m.message)
				r.wrong[path] = true
				if m.code == codeSecret {
					r.hide(text)
				}
			}
		}
	}
}

// named reads a map of things that the user names.
func (r *reader) named(k, v *yamlnode.Node, path string, n *named) {
	r.config.places[path] = r.at(k)
	if v.Kind != yamlnode.Map {
		r.shape(v, fmt.Sprintf("%q", k.Value), fmt.Sprintf("a map of names and %ss", n.what))
		r.wrong[path] = true
		return
	}
	if len(v.Content) == 0 {
		r.report(r.at(v), codeShape, "", "there is no %s", n.what)
	}
	for name, body := range yamlnode.Pairs(v) {
		switch {
		case r.refused[name] || r.refused[body]:
			continue
		case name.Kind != yamlnode.Scalar:
			r.report(r.at(name), codeName, "", "the name of a %s is a word", n.what)
			continue
		}
		if m := n.check(name.Value); m != nil {
			r.report(r.at(name), m.code, m.hint, "%s", m.message)
			r.wrong[join(path, name.Value)] = true
			continue
		}
		inner := join(path, name.Value)
		r.config.places[inner] = r.at(name)
		r.section(body, inner, fmt.Sprintf("the %s %q", n.what, name.Value), n.add(name.Value))
	}
}

// set notes where a value was written, and what is wrong with it.
func (r *reader) set(path string, p place, m *mistake) {
	if m != nil {
		r.report(p, m.code, m.hint, "%s", m.message)
		r.wrong[path] = true
		return
	}
	r.config.places[path] = p
}

// shape reports a node that is not of the expected shape.
func (r *reader) shape(n *yamlnode.Node, what, want string) {
	is := "a text"
	switch {
	case n.Kind == yamlnode.Map:
		is = "a map"
	case n.Kind == yamlnode.List:
		is = "a list"
	case yamlnode.IsNull(n):
		is = "nothing"
	}
	r.report(r.at(n), codeShape, "", "%s must be %s, this is %s", what, want, is)
}

// hide keeps a value out of excerpts.
func (r *reader) hide(n *yamlnode.Node) {
	r.masks = append(r.masks, mask{n.Line, n.Column, r.file.Width(n)})
}

// sorted returns what was found, by place: the file first, then what stands above it.
func (r *reader) sorted() patterns.Diagnostics {
	for i := range r.list {
		for _, m := range r.masks {
			if d := &r.list[i]; d.File == r.file.Name && d.Line == m.line {
				runes := []rune(d.Excerpt)
				for j := m.column - 1; j < min(m.column-1+m.length, len(runes)); j++ {
					runes[j] = '*'
				}
				d.Excerpt = string(runes)
			}
		}
	}
	slices.SortStableFunc(r.list, func(a, b patterns.Diagnostic) int {
		return cmp.Or(cmp.Compare(above(a.File), above(b.File)), strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.list
}

// above is the layer that a diagnostic comes from.
func above(file string) int {
	switch {
	case strings.HasPrefix(file, "--"):
		return 2
	case strings.HasPrefix(file, prefix):
		return 1
	}
	return 0
}
