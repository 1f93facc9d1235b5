package rulesapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
)

// document is a rule file as its author wrote it: its text, and where the items of its lists stand in it.
type document struct {
	lines []string // with their ends
	file  *yamlnode.File
}

// parse reads a text; ok is false where it is no YAML, which loading it says better.
func parse(name string, text []byte) (_ *document, ok bool) {
	file, problems := yamlnode.Parse(name, text)
	if len(problems) > 0 {
		return nil, false
	}
	return &document{lines: strings.SplitAfter(string(text), "\n"), file: file}, true
}

// member returns the value of a key of a mapping; nil where it has none.
func member(n *yamlnode.Node, name string) *yamlnode.Node {
	if n == nil || n.Kind != yamlnode.Map {
		return nil
	}
	for k, v := range yamlnode.Pairs(n) {
		if k.Value == name {
			return v
		}
	}
	return nil
}

// has reports whether a document of the file has the key.
func (d *document) has(key string) bool {
	return slices.ContainsFunc(d.file.Documents, func(n *yamlnode.Node) bool { return member(n, key) != nil })
}

// item is an entry of a list of the file: a rule, a silence.
type item struct {
	id   string
	node *yamlnode.Node
	// from and to are the lines that it takes, from 1, to behind the last one.
	from, to int
}

// items returns the entries of the lists that stand under a key, in all documents.
func (d *document) items(key string) []item {
	var all []item
	for i, root := range d.file.Documents {
		end := len(d.lines) + 1
		if i+1 < len(d.file.Documents) {
			end = d.file.Documents[i+1].Line
		}
		list := member(root, key)
		if list == nil || list.Kind != yamlnode.List {
			continue
		}
		for k, v := range yamlnode.Pairs(root) {
			if v != list && k.Line > list.Line {
				end = min(end, k.Line)
			}
		}
		for j, n := range list.Content {
			it := item{node: n, from: n.Line, to: end}
			if id := member(n, "id"); id != nil {
				it.id = id.Value
			}
			if j+1 < len(list.Content) {
				it.to = list.Content[j+1].Line
			}
			it.to = max(it.to, it.from+1)
			for it.to > it.from+1 && !d.says(it.to-1) {
				it.to--
			}
			all = append(all, it)
		}
	}
	return all
}

// says reports whether a line is anything but blank, a comment, or the mark between documents.
func (d *document) says(line int) bool {
	text := strings.TrimSpace(d.lines[line-1])
	return text != "" && text[0] != '#' && !strings.HasPrefix(d.lines[line-1], "---")
}

// text returns the lines of an item as they stand there.
func (d *document) text(it item) string {
	return strings.Join(d.lines[it.from-1:min(it.to-1, len(d.lines))], "")
}

// setting is a key of a rule that gets another value; "" takes the key away.
type setting struct{ key, value string }

// set returns the text in which the keys of an item have other values, and all else stands as it stood. The values are YAML. An
// error says that the text is written in a way that this cannot keep.
func (d *document) set(list, id string, settings []setting) (string, error) {
	text := strings.Join(d.lines, "")
	for _, s := range settings {
		doc, ok := parse("", []byte(text))
		if !ok {
			return "", fmt.Errorf("set %s: the text is no YAML", s.key)
		}
		all := doc.items(list)
		i := slices.IndexFunc(all, func(it item) bool { return it.id == id })
		if i < 0 || all[i].node.Kind != yamlnode.Map {
			return "", fmt.Errorf("set %s: there is no %s", s.key, id)
		}
		want, err := doc.outline(&edit{all[i].node, s})
		if err != nil {
			return "", err
		}
		next := doc.splice(all[i], s)
		after, ok := parse("", []byte(next))
		if ok {
			var got []string
			if got, err = after.outline(nil); err != nil {
				return "", err
			}
			ok = slices.Equal(want, got)
		}
		if !ok {
			return "", fmt.Errorf("%s is written in a way that cannot be changed in place: send the whole text", s.key)
		}
		text = next
	}
	return text, nil
}

// splice puts one value into the text of an item. What it makes of an unusual text may be wrong: the caller compares.
func (d *document) splice(it item, s setting) string {
	flow := it.node.Style&yamlnode.Flow != 0
	var key, value *yamlnode.Node
	next := ""
	for k, v := range yamlnode.Pairs(it.node) {
		if key != nil {
			next = k.Value
			break
		}
		if k.Value == s.key {
			key, value = k, v
		}
	}
	switch {
	case key == nil && s.value == "":
		return strings.Join(d.lines, "")
	case key == nil && flow:
		return d.replace(it.node.Line, it.node.Column+1, 0, s.key+": "+s.value+", ")
	case key == nil:
		first := it.node.Content[0]
		end := "\n"
		if strings.HasSuffix(d.lines[first.Line-1], "\r\n") {
			end = "\r\n"
		}
		line := strings.Repeat(" ", first.Column-1) + s.key + ": " + s.value + end
		if last := d.lines[first.Line-1]; !strings.HasSuffix(last, "\n") {
			line = "\n" + strings.TrimSuffix(line, "\n")
		}
		return strings.Join(d.lines[:first.Line], "") + line + strings.Join(d.lines[first.Line:], "")
	case s.value != "":
		return d.replace(value.Line, value.Column, d.file.Width(value), s.value)
	case flow:
		return d.cutFlow(it.node, key, value, next)
	case key == it.node.Content[0] && len(it.node.Content) > 2:
		// The line has the mark of the list, which the next key is to have.
		second := it.node.Content[2]
		mark := []rune(d.lines[key.Line-1])[:key.Column-1]
		rest := []rune(d.lines[second.Line-1])[second.Column-1:]
		return strings.Join(d.lines[:key.Line-1], "") + strings.Join(d.lines[key.Line:second.Line-1], "") +
			string(mark) + string(rest) + strings.Join(d.lines[second.Line:], "")
	default:
		return strings.Join(d.lines[:key.Line-1], "") + strings.Join(d.lines[key.Line:], "")
	}
}

// cutFlow takes a pair out of a mapping in braces.
func (d *document) cutFlow(mapping, key, value *yamlnode.Node, next string) string {
	if next != "" {
		for k := range yamlnode.Pairs(mapping) {
			if k.Value == next && k.Line == key.Line {
				return d.replace(key.Line, key.Column, k.Column-key.Column, "")
			}
		}
		return ""
	}
	line := []rune(d.lines[key.Line-1])
	comma := key.Column - 2
	for comma >= 0 && line[comma] != ',' {
		comma--
	}
	end := value.Column - 1 + d.file.Width(value)
	if comma < 0 || value.Line != key.Line || end > len(line) {
		return ""
	}
	return d.replace(key.Line, comma+1, end-comma, "")
}

// replace puts a text in the place of runes of a line.
func (d *document) replace(line, column, width int, text string) string {
	r := []rune(d.lines[line-1])
	from := min(column-1, len(r))
	to := min(from+width, len(r))
	mended := string(r[:from]) + text + string(r[to:])
	return strings.Join(d.lines[:line-1], "") + mended + strings.Join(d.lines[line:], "")
}

// edit is what a setting makes of an item.
type edit struct {
	item *yamlnode.Node
	setting
}

// outline is what a file says, without how it is written: a line for each node, with an edit if there is one.
func (d *document) outline(e *edit) ([]string, error) {
	var value *yamlnode.Node
	if e != nil && e.value != "" {
		f, problems := yamlnode.Parse("", []byte("v: "+e.value+"\n"))
		if len(problems) > 0 || len(f.Documents) != 1 {
			return nil, fmt.Errorf("set %s: %q is no value", e.key, e.value)
		}
		value = member(f.Documents[0], "v")
	}
	var lines []string
	var walk func(n *yamlnode.Node, path string)
	walk = func(n *yamlnode.Node, path string) {
		switch n.Kind {
		case yamlnode.Map:
			pairs := map[string]*yamlnode.Node{}
			for k, v := range yamlnode.Pairs(n) {
				pairs[k.Value] = v
			}
			if e != nil && n == e.item {
				delete(pairs, e.key)
				if value != nil {
					pairs[e.key] = value
				}
			}
			lines = append(lines, path+" {")
			for _, k := range slices.Sorted(maps.Keys(pairs)) {
				walk(pairs[k], path+"."+k)
			}
		case yamlnode.List:
			lines = append(lines, path+" [")
			for _, v := range n.Content {
				walk(v, path+"[]")
			}
		default:
			lines = append(lines, fmt.Sprintf("%s = %q %d", path, n.Value, yamlnode.Core(n)))
		}
	}
	for _, root := range d.file.Documents {
		walk(root, "")
	}
	return lines, nil
}
