package patterns

import (
	"strings"

	"github.com/cepd/cepd/internal/yamlnode"
)

// readFile turns a file into the syntax trees of its documents.
func readFile(source Source, d *report) []*document {
	file, problems := parse(source, d)
	r := &reader{file: file, report: d, refused: map[*yamlnode.Node]bool{}}
	for _, p := range problems {
		r.problem(p)
	}
	var documents []*document
	for _, root := range file.Documents {
		documents = append(documents, r.document(root))
	}
	return documents
}

// problem reports what the YAML reader found.
func (r *reader) problem(p yamlnode.Problem) {
	d := Diagnostic{
		Pos: Pos{File: r.file.Name, Line: p.Line, Column: p.Column}, Length: p.Length, Message: p.Message,
		Excerpt: r.file.Line(p.Line),
	}
	switch p.Kind {
	case yamlnode.Syntax:
		d.Code = codeSyntax
	case yamlnode.Encoding:
		d.Code = codeEncoding
	case yamlnode.TooLarge:
		d.Code = codeTooLarge
	case yamlnode.DuplicateKey:
		d.Code = codeDuplicateKey
	case yamlnode.Alias:
		d.Code = codeAlias
		d.Hint = "use a macro for a condition that several rules share"
		if line := []rune(d.Excerpt); p.Column <= len(line) && strings.HasPrefix(string(line[p.Column-1:]), "*}") {
			d.Hint = "write 0.. for any number"
		}
	case yamlnode.Tag:
		d.Code = codeTag
		if !strings.HasPrefix(p.Node.Tag, "!!") {
			if mended, ok := r.mended(p.Node); ok {
				d.Code, d.Hint = codeQuotes, mended
				d.Message = "a value that begins with ! is a tag to YAML"
			}
		}
	}
	r.add(d)
	if p.Node != nil {
		r.refused[p.Node] = true
	}
}

func (r *reader) document(root *yamlnode.Node) *document {
	doc := &document{}
	var version *text
	known := keys{
		"version": r.into(&version),
		"lists":   func(_, v *yamlnode.Node) { doc.lists = r.tables(v, "lists") },
		"maps":    func(_, v *yamlnode.Node) { doc.maps = r.tables(v, "maps") },
		"macros":  func(_, v *yamlnode.Node) { doc.macros = r.nameds(v, `"macros"`) },
		"defaults": func(_, v *yamlnode.Node) {
			doc.defaults = r.ruleKeys(v, "defaults", doc)
		},
		"rules": func(_, v *yamlnode.Node) {
			for _, item := range r.items(v, `"rules"`) {
				doc.rules = append(doc.rules, r.ruleKeys(item, "a rule", doc))
			}
		},
	}
	known["overrides"] = func(_, v *yamlnode.Node) { doc.overrides = r.overrides(v, doc) }
	known["silences"] = func(_, v *yamlnode.Node) {
		for _, item := range r.items(v, `"silences"`) {
			if s := r.silence(item); s != nil {
				doc.silences = append(doc.silences, s)
			}
		}
	}
	given := r.mapping(root, "a rule file", known)
	r.required(root, "a rule file", given, "version")
	if version != nil && version.value != "1" {
		r.at(version.node, codeVersion, "write version: 1", "this program knows version 1 of the rule language, not %q", version.value)
	}
	return doc
}

// silence reads an entry of `silences`; nil where it lacks what it needs.
func (r *reader) silence(n *yamlnode.Node) *silenceSyntax {
	s := &silenceSyntax{Pos: r.pos(n)}
	given := r.mapping(n, "a silence", keys{
		"id": r.into(&s.id), "rule": r.intoTextOrTexts(&s.rules),
		"key":  func(_, v *yamlnode.Node) { s.key = r.nameds(v, `"key"`) },
		"from": r.into(&s.from), "until": r.into(&s.until), "comment": r.into(&s.comment),
	})
	r.required(n, "a silence", given, "id", "rule", "until")
	if s.id == nil || s.rules == nil || s.until == nil {
		return nil
	}
	return s
}

// tables reads the lists or the maps of a document.
func (r *reader) tables(n *yamlnode.Node, what string) []*table {
	if n.Kind != yamlnode.Map {
		r.wrongKind(n, `"`+what+`"`, "a map of names and their values")
		return nil
	}
	var tables []*table
	for k, v := range yamlnode.Pairs(n) {
		name := r.text(k, "a name in "+what)
		if name == nil || r.refused[v] {
			continue
		}
		t := &table{name: name}
		switch {
		case v.Kind == yamlnode.Map && isFileTable(v):
			known := keys{"file": r.into(&t.file)}
			if what == "lists" {
				known["column"] = r.into(&t.value)
			} else {
				known["key"], known["value"] = r.into(&t.key), r.into(&t.value)
			}
			given := r.mapping(v, "a file of "+what, known)
			if what == "lists" {
				r.required(v, "a file of lists", given, "file", "column")
			} else {
				r.required(v, "a file of maps", given, "file", "key", "value")
			}
			if t.file == nil || t.value == nil || what == "maps" && t.key == nil {
				continue
			}
		case what == "lists":
			for _, item := range r.items(v, "a list") {
				t.pairs = append(t.pairs, tablePair{value: item})
			}
			if v.Kind != yamlnode.List {
				continue
			}
		case v.Kind != yamlnode.Map:
			r.wrongKind(v, "a map", "a map of keys and values, or {file, key, value}")
			continue
		default:
			for key, value := range yamlnode.Pairs(v) {
				t.pairs = append(t.pairs, tablePair{key, value})
			}
		}
		tables = append(tables, t)
	}
	return tables
}

// isFileTable tells {file: hosts.csv, key: ip, value: host} from a map that is written out.
func isFileTable(n *yamlnode.Node) bool {
	for k := range yamlnode.Pairs(n) {
		if k.Value == "file" {
			return true
		}
	}
	return false
}
