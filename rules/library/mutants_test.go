package library_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/yamlnode"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/library"
	"github.com/cepd/cepd/rules/ruletest"
)

// alike are mutants that no test can tell from their rule, by rule, with the reason.
var alike = map[string]map[string]string{
	"host-under-attack": {
		"no where": "no alert of another shipped rule names a host",
	},
	"impossible-travel": {
		"where: geo_km(a.geo, b.geo) / hours(ts(b) - ts(a)) >= 900": "no two places are a distance apart that makes the speed a whole number",
	},
	"money-flow": {
		"times: 2..": "each transfer is below 10,000, so that it takes two of them anyway",
	},
}

// TestMutants holds the tests of each shipped rule to what the rule says: where a limit is another one, a part of a condition
// or of a list is left out, or a word is not there, one of its tests fails.
func TestMutants(t *testing.T) {
	set, diagnostics, err := rules.LoadFS(library.FS, ".")
	if err != nil || set == nil {
		t.Fatal(err, diagnostics)
	}
	trees := map[string]*yamlnode.Node{}
	for _, s := range set.Sources {
		f, problems := yamlnode.Parse(s.Name, s.Data)
		if len(problems) > 0 || len(f.Documents) != 1 {
			t.Fatalf("%s: %d documents, want one; %v", s.Name, len(f.Documents), problems)
		}
		trees[s.Name] = f.Documents[0]
	}
	byID := map[string]*patterns.Rule{}
	for _, r := range set.Rules {
		byID[r.ID] = r
	}
	for _, r := range set.Rules {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			m := newMutation(t, r, byID, trees)
			if failed := m.failedTest(); failed != "" || m.refused {
				t.Fatalf("the rule is not the same when it is written from its tree: %q fails, refused: %v", failed, m.refused)
			}
			m.words(m.rule)
			m.file()
			if m.mutants == 0 {
				t.Error("there is nothing in the rule that a mutant could say otherwise")
			}
			for what := range alike[r.ID] {
				if !m.alike[what] {
					t.Errorf("%q is listed as alike, and is no mutant or fails a test", what)
				}
			}
		})
	}
}

// mutation makes the mutants of a rule one after the other: it changes the rule's tree, runs the tests, and changes it back.
type mutation struct {
	t    *testing.T
	of   *patterns.Rule
	rule *yamlnode.Node
	// files are the trees of the rule and of those whose alerts it reads, with what else their files say but for the tests.
	files   map[string]*yamlnode.Node
	mutants int
	// refused says that the last mutant was no rule.
	refused bool
	// alike are the mutants among those listed that no test failed with.
	alike map[string]bool
}

func newMutation(t *testing.T, of *patterns.Rule, byID map[string]*patterns.Rule, trees map[string]*yamlnode.Node) *mutation {
	m := &mutation{t: t, of: of, files: map[string]*yamlnode.Node{}, alike: map[string]bool{}}
	wanted := []string{of.ID}
	for i := 0; i < len(wanted); i++ {
		wanted = append(wanted, byID[wanted[i]].Reads...)
	}
	for _, id := range wanted {
		file := byID[id].Pos.File
		if m.files[file] != nil {
			continue
		}
		m.files[file] = clone(trees[file])
		list := member(m.files[file], "rules")
		list.Content = slices.DeleteFunc(list.Content, func(n *yamlnode.Node) bool {
			return !slices.Contains(wanted, member(n, "id").Value)
		})
		for _, n := range list.Content {
			if member(n, "id").Value == of.ID {
				m.rule = n
			}
			if i := indexOf(n, "tests"); i >= 0 {
				n.Content = slices.Delete(n.Content, i, i+2)
			}
		}
	}
	return m
}

// failedTest runs the tests of the rule with the trees as they are, up to the first that fails.
func (m *mutation) failedTest() string {
	files := fstest.MapFS{}
	for name, tree := range m.files {
		files[name] = &fstest.MapFile{Data: []byte(flow(tree))}
	}
	set, _, err := rules.LoadFS(files, ".")
	if err != nil {
		m.t.Fatal(err)
	}
	if m.refused = set == nil; m.refused {
		return ""
	}
	compiled := *set.Set
	at := slices.IndexFunc(compiled.Rules, func(r *patterns.Rule) bool { return r.ID == m.of.ID })
	for _, test := range m.of.Tests {
		tested := *set.Rules[at]
		tested.Tests = []patterns.Test{test}
		compiled.Rules = slices.Clone(set.Rules)
		compiled.Rules[at] = &tested
		result := ruletest.Run(&rules.Set{Set: &compiled, Sources: set.Sources}, nil)[0]
		if result.Err != nil {
			m.t.Fatal(result.Err)
		}
		if !result.Passed() {
			return test.Name
		}
	}
	return ""
}

// kill wants a test that fails with the mutant that the trees are now. One that is refused hurts nobody.
func (m *mutation) kill(at *yamlnode.Node, what string) {
	m.t.Helper()
	failed := m.failedTest()
	if m.refused {
		return
	}
	m.mutants++
	if _, listed := alike[m.of.ID][what]; failed == "" && listed {
		m.alike[what] = true
	} else if failed == "" {
		m.t.Errorf("%s:%d:%d: all tests of %s pass with %s", m.of.Pos.File, at.Line, at.Column, m.of.ID, what)
	}
}

// words mutates the words of a rule, of an element, or of what stands inside them.
func (m *mutation) words(n *yamlnode.Node) {
	for key, value := range yamlnode.Pairs(n) {
		switch key.Value {
		case "within", "loop_within", "for", "quiet", "repeat":
			m.duration(key, value)
		case "times", "at_least", "max":
			m.count(key, value)
		case "where", "until", "having", "distinct":
			m.expression(key, value)
		case "by":
			m.key(value)
		case "pattern":
			m.pattern(key, value)
		case "sequence", "all_of", "any_of", "group", "exceptions", "without":
			m.items(value)
		case "alert", "suppress", "resolve", "first_seen":
			m.words(value)
		case "steps":
			for _, step := range yamlnode.Pairs(value) {
				m.words(step)
			}
		case "id", "name", "description", "status", "severity", "tags", "mitre", "references", "falsepositives", // for people
			"step", "absent", "hold", "expires", "from", "title", "fields", "include_events", "unbounded",
			"contiguity", "loop", "optional", "greedy", "from_start", "after_match", "on_timeout", "emit", "keep", "keys", "while_open":
		default:
			m.t.Errorf("%s:%d:%d: say what mutants of %q there are", m.of.Pos.File, key.Line, key.Column, key.Value)
		}
		switch key.Value {
		case "where", "until", "having", "distinct", "contiguity", "loop", "optional", "greedy", "from_start", "first_seen", "without",
			"exceptions", "after_match", "on_timeout", "emit", "keep", "keys", "suppress", "resolve", "while_open", "repeat":
			m.leaveOut(n, key)
		}
	}
}

// duration mutates a window: the double, the half, and a second to each side.
func (m *mutation) duration(key, n *yamlnode.Node) {
	d, err := patterns.ParseDuration(n.Value)
	if err != nil { // forever
		return
	}
	for _, other := range []cep.Duration{2 * d, d / 2, d + time.Second, d - time.Second} {
		m.say(key, n, cep.FormatDuration(other))
	}
}

// count mutates a count, or both ends of a range.
func (m *mutation) count(key, n *yamlnode.Node) {
	least, most, isRange := strings.Cut(n.Value, "..")
	for _, other := range others(least) {
		if isRange {
			other += ".." + most
		}
		m.say(key, n, other)
	}
	for _, other := range others(most) {
		m.say(key, n, least+".."+other)
	}
}

// others are the numbers beside one: the double, the half, and the next ones.
func others(number string) []string {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil
	}
	list := []int{2 * n, n / 2, n + 1, n - 1}
	slices.Sort(list)
	var texts []string
	for _, other := range slices.Compact(list) {
		if other != n && other >= 0 {
			texts = append(texts, strconv.Itoa(other))
		}
	}
	return texts
}

// pattern mutates the numbers of a row pattern.
func (m *mutation) pattern(key, n *yamlnode.Node) {
	text := n.Value
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	for from := 0; from < len(text); {
		to := len(text) - len(strings.TrimLeftFunc(text[from:], isDigit))
		for _, other := range others(text[from:to]) {
			m.say(key, n, text[:from]+other+text[to:])
		}
		from = to + 1
	}
}

// key leaves out each part of a key, or lets it be the same for all events, and mutates what the parts are computed with.
func (m *mutation) key(n *yamlnode.Node) {
	said := *n
	if n.Kind == yamlnode.List { // the same as a map, in which the parts have names
		m.items(n)
		n.Kind, n.Content = yamlnode.Map, nil
		for _, part := range said.Content {
			name := *part
			name.Value = part.Value[strings.LastIndex(part.Value, ".")+1:]
			n.Content = append(n.Content, &name, part)
		}
	}
	for name, value := range yamlnode.Pairs(n) {
		m.expression(name, value)
		m.say(name, value, `"the same"`)
		m.leaveOut(n, name)
	}
	*n = said
}

// items leaves out each item of a list, and mutates what is in it.
func (m *mutation) items(n *yamlnode.Node) {
	items := n.Content
	for i, item := range items {
		if len(items) > 1 {
			n.Content = slices.Delete(slices.Clone(items), i, i+1)
			m.kill(item, "item "+strconv.Itoa(i+1)+" left out")
			n.Content = items
		}
		if item.Kind == yamlnode.Map {
			m.words(item)
		} else {
			m.items(item)
		}
	}
}

// file mutates what holds for the rule in the rest of its file: defaults, and the lists and macros that it names.
func (m *mutation) file() {
	file := m.files[m.of.Pos.File]
	if indexOf(file, "defaults") >= 0 {
		m.words(member(file, "defaults"))
	}
	for _, word := range []string{"lists", "macros"} {
		if indexOf(file, word) < 0 {
			continue
		}
		for name, value := range yamlnode.Pairs(member(file, word)) {
			switch {
			case !strings.Contains(flow(m.rule), "$"+name.Value):
			case word == "lists":
				m.items(value)
			default:
				m.expression(name, value)
			}
		}
	}
}

// leaveOut leaves out a word and what it says, where it is not all that there is.
func (m *mutation) leaveOut(n, key *yamlnode.Node) {
	pairs := n.Content
	if len(pairs) == 2 {
		return
	}
	i := slices.Index(pairs, key)
	n.Content = slices.Delete(slices.Clone(pairs), i, i+2)
	m.kill(key, "no "+key.Value)
	n.Content = pairs
}

// say lets a word say something else.
func (m *mutation) say(key, n *yamlnode.Node, value string) {
	said := n.Value
	n.Value = value
	m.kill(n, key.Value+": "+value)
	n.Value = said
}

// expression mutates an expression wherever its tree has a limit, a list, or parts that could be left out.
func (m *mutation) expression(key, n *yamlnode.Node) {
	// A maximum over a step is an extension of the language that its parser does not know; a sum is read in the same way.
	const extension, known = "max(", "sum("
	text := n.Value
	extended := strings.Contains(text, extension)
	if extended {
		if strings.Contains(text, known) {
			m.t.Fatalf("%s: sum and max in one expression cannot be told apart here", text)
		}
		text = strings.ReplaceAll(text, extension, known)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		m.t.Fatalf("%s: %v", n.Value, err)
	}
	ast.Walk(&tree.Node, visitor(func(place *ast.Node) {
		for _, other := range otherNodes(*place) {
			node := *place
			*place = other
			mutant := tree.Node.String()
			*place = node
			if extended {
				mutant = strings.ReplaceAll(mutant, known, extension)
			}
			m.say(key, n, mutant)
		}
	}))
}

// otherNodes are what could stand in place of a node.
func otherNodes(node ast.Node) []ast.Node {
	var list []ast.Node
	switch x := node.(type) {
	case *ast.BinaryNode:
		switch x.Operator {
		case "and", "&&", "or", "||", "??":
			list = append(list, x.Left, x.Right)
		case "<", ">":
			list = append(list, &ast.BinaryNode{Operator: x.Operator + "=", Left: x.Left, Right: x.Right})
		case "<=", ">=":
			list = append(list, &ast.BinaryNode{Operator: x.Operator[:1], Left: x.Left, Right: x.Right})
		}
	case *ast.ArrayNode:
		for i := range x.Nodes {
			if len(x.Nodes) > 1 {
				list = append(list, &ast.ArrayNode{Nodes: slices.Delete(slices.Clone(x.Nodes), i, i+1)})
			}
		}
	case *ast.IntegerNode:
		for _, other := range others(strconv.Itoa(x.Value)) {
			value, _ := strconv.Atoi(other)
			list = append(list, &ast.IntegerNode{Value: value})
		}
	case *ast.FloatNode:
		list = append(list, &ast.FloatNode{Value: 2 * x.Value}, &ast.FloatNode{Value: x.Value / 2})
	case *ast.BuiltinNode:
		if x.Name == "lower" || x.Name == "upper" {
			list = append(list, x.Arguments[0])
		}
	}
	return list
}

type visitor func(*ast.Node)

func (v visitor) Visit(n *ast.Node) { v(n) }

// flow writes a tree as YAML on one line.
func flow(n *yamlnode.Node) string {
	var b strings.Builder
	switch {
	case n.Kind == yamlnode.Map:
		b.WriteString("{")
		for key, value := range yamlnode.Pairs(n) {
			b.WriteString(strconv.Quote(key.Value) + ": " + flow(value) + ", ")
		}
		b.WriteString("}")
	case n.Kind == yamlnode.List:
		b.WriteString("[")
		for _, item := range n.Content {
			b.WriteString(flow(item) + ", ")
		}
		b.WriteString("]")
	case yamlnode.IsQuoted(n) || yamlnode.Core(n) == yamlnode.CoreString:
		b.WriteString(strconv.Quote(n.Value))
	default:
		b.WriteString(n.Value)
	}
	return b.String()
}

func clone(n *yamlnode.Node) *yamlnode.Node {
	c := *n
	c.Content = nil
	for _, item := range n.Content {
		c.Content = append(c.Content, clone(item))
	}
	return &c
}

// indexOf returns where a key stands among the nodes of a map, or -1.
func indexOf(n *yamlnode.Node, key string) int {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// member is the value of a key that a map has.
func member(n *yamlnode.Node, key string) *yamlnode.Node { return n.Content[indexOf(n, key)+1] }
