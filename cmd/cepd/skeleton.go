package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/layout"
	"github.com/cepd/cepd/rules/ruletest"
)

// skeleton is a rule to begin with: what a survey says, and what was chosen of it.
type skeleton struct {
	survey *survey
	stream string
	files  []string
	id     string
	// by are the key, telling the field that tells events apart, first and then its values that the rule waits for, in turn.
	by          []*surveyed
	telling     *surveyed
	first, then string
	within      string
	time        string
}

// tellingNames are what fields are called that say what an event is, keyNames such that say whom it is about: words that
// occur in their names, the most telling first.
var (
	tellingNames = []string{"outcome", "result", "action", "eventname", "event_type", "eventtype", "event", "type", "kind", "operation", "status", "verb", "method", "level"}
	keyNames     = []string{"user", "account", "src", "client", "ip", "host", "device", "sensor", "card", "customer", "order", "session", "symbol", "id", "key"}
)

// rank is the place of a field among names; those that are none of them come last.
func rank(f *surveyed, names []string) int {
	own := strings.ToLower(f.path[len(f.path)-1])
	if i := slices.Index(names, own); i >= 0 {
		return i
	}
	i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(own, n) })
	if i < 0 || strings.Contains(own, "agent") { // a user agent is no user

		return 2 * len(names)
	}
	return len(names) + i
}

// tells lists the fields that may tell events apart, the likeliest first: most events have them, with a few short values.
func (s *survey) tells(time string) []*surveyed {
	var list []*surveyed
	name, _, _ := strings.Cut(time, ",")
	for _, f := range s.sorted() {
		if strings.Join(f.path, ".") == name || 2*len(f.values) > s.events || f.nested || f.more || 10*f.events < 9*s.events || len(f.values) < 2 || len(f.values) > 40 {
			continue
		}
		if f.texts > 0 && !slices.ContainsFunc(f.frequent(), func(v string) bool { return len(v) > 60 }) {
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b *surveyed) int { return cmp.Compare(rank(a, tellingNames), rank(b, tellingNames)) })
	return list
}

// keys lists the fields that may be the key, the likeliest first: most events have them, and their values come again.
func (s *survey) keys(telling *surveyed, time string) []*surveyed {
	var list []*surveyed
	for _, f := range s.sorted() {
		name, _, _ := strings.Cut(time, ",")
		if f == telling || f.nested || strings.Join(f.path, ".") == name || 10*f.events < 9*s.events || len(f.values) < 2 {
			continue
		}
		if rank(f, keyNames) < 2*len(keyNames) || f.texts > 0 && 2*len(f.values) < s.events && len(f.values) > 4 {
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(a, b *surveyed) int { return cmp.Compare(rank(a, keyNames), rank(b, keyNames)) })
	return list
}

// timeField finds where the events keep their time.
func (s *survey) timeField() string {
	list := s.sorted()
	slices.SortStableFunc(list, func(a, b *surveyed) int {
		return cmp.Compare(rank(a, ruletest.TimeFields), rank(b, ruletest.TimeFields))
	})
	for _, f := range list {
		if f.nested || f.events < s.events {
			continue
		}
		if text := s.time(f); text != "" {
			return text
		}
	}
	return ""
}

// write writes the rule, laid out. It is checked before anybody sees it.
func (k *skeleton) write() ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# yaml-language-server: $schema=%s\n", patterns.SchemaID)
	fmt.Fprintf(&b, "# Begun from %s of %s.\n", plural(k.survey.events, "event"), shortText(strings.Join(k.files, ", ")))
	k.fields(&b)
	fmt.Fprintf(&b, "version: 1\nrules:\n- id: %s\n  description: What it finds, and why that matters.\n  status: experimental\n  severity: info\n  from: %s\n", scalarText(k.id), scalarText(k.stream))
	k.key(&b)
	k.elements(&b)
	k.alert(&b)
	k.tests(&b)
	text, err := layout.Format("the new rule", []byte(b.String()))
	if err != nil {
		return nil, failed(fmt.Errorf("lay out the new rule: %w", err))
	}
	if set, diagnostics := patterns.Load([]patterns.Source{{Name: "the new rule", Data: text}}, patterns.Options{}); set == nil {
		d := diagnostics.Errors()[0] // the id and the name of the stream are as they were given
		return nil, usagef("%s (%s)", d.Message, cmp.Or(d.Hint, d.Code))
	}
	return text, nil
}

// shownFields and shownValues bound what the comments list: what fits on a screen.
const shownFields, shownValues, shownOfMany = 40, 6, 3

// fields lists the fields with their values, as comments.
func (k *skeleton) fields(b *strings.Builder) {
	list := k.survey.sorted()
	list = slices.DeleteFunc(list, func(f *surveyed) bool { return len(f.values) == 0 })
	width := 0
	for _, f := range list[:min(len(list), shownFields)] {
		width = max(width, min(40, len([]rune(f.text()))))
	}
	b.WriteString("#\n")
	for i, f := range list {
		if i == shownFields {
			fmt.Fprintf(b, "# and %s more\n", plural(len(list)-i, "field"))
			break
		}
		var values []string
		for j, v := range f.frequent() {
			if j == shownValues || j == shownOfMany && len(f.values) > shownValues {
				values = append(values, "…")
				break
			}
			values = append(values, fmt.Sprintf("%s (%s)", shortText(v), share(f.values[v], k.survey.events)))
		}
		count := fmt.Sprintf("%d different: ", len(f.values))
		if f.more {
			count = fmt.Sprintf("more than %d different: ", maxValues)
		} else if len(f.values) <= shownValues {
			count = ""
		}
		fmt.Fprintf(b, "# %-*s %5s  %s%s\n", width, shortText(f.text()), share(f.events, k.survey.events), count, strings.Join(values, ", "))
	}
	if k.time == "" {
		b.WriteString("#\n# No field was found to be a time: cepd replay needs --time FIELD,LAYOUT.\n")
	} else {
		fmt.Fprintf(b, "#\n# Try it: cepd replay --rules THIS_FILE --stream %s=%s --time '%s'\n", shortText(k.stream), shortText(strings.Join(k.files, ",")), shortText(k.time))
		if strings.HasSuffix(k.time, ",UTC") {
			b.WriteString("# The times name no zone; that they are UTC is a guess.\n")
		}
	}
}

// share says a part of the events in percent.
func share(n, of int) string {
	switch p := 100 * float64(n) / float64(max(1, of)); {
	case n == of:
		return "100%"
	case p < 1:
		return "<1%"
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}

func (k *skeleton) key(b *strings.Builder) {
	var others []string
	for _, f := range k.survey.keys(k.telling, k.time) {
		if !slices.Contains(k.by, f) && len(others) < 4 {
			others = append(others, shortText(f.text()))
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(b, "  # The key: events with equal values belong together. It could also be %s.\n", strings.Join(others, ", "))
	}
	if len(k.by) == 0 {
		return
	}
	parts := make([]string, len(k.by))
	for i, f := range k.by {
		parts[i] = f.text()
		if !simplePath.MatchString(parts[i]) {
			parts[i] = "'" + strings.ReplaceAll(parts[i], "'", "''") + "'"
		}
	}
	fmt.Fprintf(b, "  by: [%s]\n", strings.Join(parts, ", "))
}

var simplePath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// condition is true for events with a value in the field that tells them apart.
func (k *skeleton) condition(value string) string { return k.telling.text() + " == " + value }

func (k *skeleton) elements(b *strings.Builder) {
	switch {
	case k.telling == nil:
		b.WriteString("  # Each event is a match. A condition on its fields:\n  # where: FIELD == \"VALUE\"\n")
	case k.then == "":
		fmt.Fprintf(b, "  where: %s\n", scalarText(k.condition(k.first)))
	default:
		fmt.Fprintf(b, "  within: %s\n  sequence:\n  - step: first # times: 3.. makes it three or more\n    where: %s\n  - step: then\n    where: %s\n",
			k.within, scalarText(k.condition(k.first)), scalarText(k.condition(k.then)))
	}
}

func (k *skeleton) alert(b *strings.Builder) {
	step := "event"
	if k.then != "" {
		step = "then"
	}
	fmt.Fprintf(b, "  alert:\n    title: %s\n", scalarText(k.id))
	var fields []string
	for _, f := range append(slices.Clone(k.by), k.telling) {
		if f == nil {
			continue
		}
		name := f.path[len(f.path)-1]
		if !identifier.MatchString(name) || slices.Contains(alertWords, name) || slices.Contains(languageWords, strings.ToLower(name)) || slices.Contains(fields, name) {
			continue
		}
		if fields == nil {
			b.WriteString("    fields:\n")
		}
		fields = append(fields, name)
		fmt.Fprintf(b, "      %s: %s\n", name, scalarText(stepText(step, f.path)))
	}
}

// alertWords are what every alert has already, so that no field is called so.
var alertWords = []string{"rule", "kind", "severity", "key", "tags"}

// tests are a hit and a near miss, made of recorded values.
func (k *skeleton) tests(b *strings.Builder) {
	if k.telling == nil {
		return
	}
	event, first := k.event, k.event(k.first)
	if k.then == "" {
		fmt.Fprintf(b, "  tests:\n  - name: fires\n    events:\n    - {at: 0s, event: %s}\n    expect: {count: 1}\n", first)
		for _, v := range k.telling.frequent() {
			if v != k.first {
				fmt.Fprintf(b, "  - name: near miss\n    events:\n    - {at: 0s, event: %s}\n    expect: {alerts: []}\n", event(v))
				break
			}
		}
		return
	}
	fmt.Fprintf(b, "  tests:\n  - name: fires\n    events:\n    - {at: 0s, event: %s}\n    - {at: 1s, event: %s}\n    expect: {count: 1}\n", first, event(k.then))
	if k.first == k.then {
		fmt.Fprintf(b, "  - name: near miss\n    events:\n    - {at: 0s, event: %s}\n    expect: {alerts: []}\n", first)
		return
	}
	fmt.Fprintf(b, "  - name: near miss\n    events:\n    - {at: 0s, event: %s}\n    - {at: 1s, event: %s}\n    expect: {alerts: []}\n", first, first)
}

// event is an event with a value in the field that tells events apart, and the key of a recorded one.
func (k *skeleton) event(value string) string {
	out := map[string]any{}
	putAt(out, k.telling.path, json.RawMessage(value))
	for _, f := range k.by {
		key := any("x")
		for i := range k.survey.samples {
			switch found := k.survey.samples[i].at(f.path).(type) {
			case string:
				if found != "" {
					key = found
				}
			case json.Number, bool:
				key = found
			default:
				continue
			}
			break
		}
		putAt(out, f.path, json.RawMessage(literalText(key)))
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "{}" // not for maps of texts
	}
	return escaped(string(text))
}

// putAt puts a value at a path of nested maps.
func putAt(fields map[string]any, path []string, v any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := fields[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			fields[name] = inner
		}
		fields = inner
	}
	fields[path[len(path)-1]] = v
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// languageWords mean something else in a condition than the field of that name.
var languageWords = []string{
	"e", "event", "match", "duration", "taken", "prev", "true", "false", "nil", "null", "not", "and", "or", "in", "matches", "contains", "startsWith",
	"endsWith", "let", "if", "else",
}

// pathText is a path as an expression: user.name, or e["@timestamp"] for odd names.
func pathText(path []string) string {
	if !slices.ContainsFunc(path, func(name string) bool { return !identifier.MatchString(name) }) && !slices.Contains(languageWords, path[0]) {
		return strings.Join(path, ".")
	}
	return stepText("e", path)
}

// stepText is a path into what a name stands for.
func stepText(name string, path []string) string {
	var b strings.Builder
	b.WriteString(name)
	for _, part := range path {
		if identifier.MatchString(part) {
			b.WriteString("." + part)
		} else {
			b.WriteString("[" + literalText(part) + "]")
		}
	}
	return b.String()
}

// literalText writes a value as JSON, which conditions and YAML read alike.
func literalText(v any) string {
	if s, ok := v.(string); ok {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s) // texts can be encoded
		return escaped(strings.TrimSuffix(b.String(), "\n"))
	}
	return fmt.Sprint(v)
}

// escaped writes what YAML does not allow, and nobody could see, as \u0000: it stands in quotes.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r), r > 0xFFFF: // JSON has no short way to write these, and YAML allows them
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// plainText is what needs no quotes in YAML as the value of a key.
var plainText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*( == [A-Za-z0-9_."-]+)?$`)

// scalarText is a text as the value of a key in YAML. Expressions hold no line ends.
func scalarText(s string) string {
	if plainText.MatchString(s) && !slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off"}, strings.ToLower(s)) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// shortText is a text of users in one line of printable characters, and short.
func shortText(s string) string {
	s = escaped(s)
	if r := []rune(s); len(r) > 60 {
		s = string(r[:59]) + "…"
	}
	return s
}
