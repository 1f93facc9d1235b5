package conformance

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

// trinoVector is a row pattern with what Trino makes of it; vectors/TRINO_FORMAT.md says what the fields mean.
type trinoVector struct {
	ID        string          `json:"id"`
	Shorthand string          `json:"shorthand"`
	After     json.RawMessage `json:"after_match"`
	Columns   []string        `json:"columns"`
	Rows      [][]any         `json:"input_rows"`
	Pattern   struct {
		Regex  string `json:"regex"`
		Define string `json:"define"`
		Skip   string `json:"after_match_skip"`
		Subset string `json:"subset"`
	} `json:"pattern"`
	Select   []string                  `json:"select"`
	Steps    map[string]map[string]any `json:"steps"`
	Expected struct {
		Error    string          `json:"error"`
		Fallback json.RawMessage `json:"if_skip_falls_back_to_next"`
		Matches  []trinoMatch    `json:"matches"`
		Rows     [][]any         `json:"rows"`
	} `json:"expected"`
}

// trinoMatch is a match: rows in order, each with its variable, and the row after which no way that is preferred lives.
type trinoMatch struct {
	Part     string   `json:"part"`
	Rows     [][2]any `json:"rows"`
	Excluded []int    `json:"excluded"`
	Settled  any      `json:"no_live_run_at"`
}

// String writes the match as this test compares it.
func (m trinoMatch) String() string {
	var b strings.Builder
	b.WriteString(m.Part)
	for _, r := range m.Rows {
		id := number(r[0])
		mark := ""
		if slices.Contains(m.Excluded, id) {
			mark = "-"
		}
		fmt.Fprintf(&b, " %d%s%v", id, mark, r[1])
	}
	if m.Settled != nil {
		fmt.Fprintf(&b, " @%v", m.Settled)
	}
	return b.String()
}

func number(x any) int {
	f, _ := x.(float64)
	return int(f)
}

// renamed gives another name to the step e, which in our conditions is the current event; text in quotes stays.
func renamed(s string) string {
	parts := strings.Split(s, `"`)
	for i := 0; i < len(parts); i += 2 {
		parts[i] = stepE.ReplaceAllString(parts[i], "step_e")
	}
	return strings.Join(parts, `"`)
}

var stepE = regexp.MustCompile(`\be\b`)

// rule writes the vector as a rule; ok is false for a condition that the language cannot say. The window is one that never
// ends before the input does.
func (v *trinoVector) rule() (string, bool) {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n- id: row\n  from: s\n  by: [part]\n  within: 1000d\n")
	fmt.Fprintf(&b, "  pattern: %s\n  steps:\n", strconv.Quote(renamed(v.Pattern.Regex)))
	for _, name := range sortedKeys(v.Steps) {
		where, said := v.Steps[name]["where"]
		text, _ := where.(string)
		// In SQL a comparison with null is unknown, in our language something missing is unequal to all.
		text = strings.ReplaceAll(text, "price != prev.price", "prev.price != nil and price != prev.price")
		switch {
		case text != "":
			fmt.Fprintf(&b, "    %s: {where: %s}\n", renamed(name), strconv.Quote(renamed(text)))
		case said || len(v.Steps[name]) > 0:
			return "", false
		default:
			fmt.Fprintf(&b, "    %s: {}\n", renamed(name))
		}
	}
	after := string(v.After)
	if target := map[string]string{}; json.Unmarshal(v.After, &target) == nil {
		for word, step := range target {
			after = fmt.Sprintf("{%s: %s}", word, renamed(step))
		}
	}
	fmt.Fprintf(&b, "  after_match: %s\n", after)
	return b.String(), true
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// wanted are the matches that Trino gives, or would give if a skip that fails were one to the next row.
func (v *trinoVector) wanted() ([]string, error) {
	matches := v.Expected.Matches
	if v.Expected.Error != "" {
		var fallback struct {
			Matches []trinoMatch `json:"matches"`
		}
		if err := json.Unmarshal(v.Expected.Fallback, &fallback); err != nil {
			return nil, err
		}
		matches = fallback.Matches
	}
	var out []string
	for _, m := range matches {
		if m.Settled == nil {
			m.Settled = "?" // what follows from a failing skip was computed without the moments
		}
		out = append(out, m.String())
	}
	return out, nil
}

// agree compares matches; a moment that is not known agrees with every one.
func agree(got, want []string) bool {
	return slices.EqualFunc(got, want, func(g, w string) bool {
		if undated, ok := strings.CutSuffix(w, "@?"); ok {
			return strings.HasPrefix(g, undated)
		}
		return g == w
	})
}

// events are the rows as events, a second apart.
func (v *trinoVector) events(schema *cep.Schema) []*cep.Event {
	partition := &cep.Partition{Stream: "s", Name: "0"}
	var out []*cep.Event
	for i, row := range v.Rows {
		ev := &cep.Event{
			Time: cep.Time(i+1) * cep.Second, Seq: uint64(i + 1), Position: cep.Position{Partition: partition, Offset: int64(i)},
			Values: make([]cep.Value, schema.Len()),
		}
		for slot := range schema.Len() {
			column := slices.Index(v.Columns, schema.Name(slot))
			if column < 0 {
				continue
			}
			switch x := row[column].(type) {
			case string:
				ev.Values[slot] = cep.String(x)
			case float64:
				ev.Values[slot] = cep.Int(int64(x))
			}
		}
		out = append(out, ev)
	}
	return out
}

// name writes a match of ours.
func (v *trinoVector) name(rule *patterns.Rule, m *cep.Match, excluded func(cep.Taken) bool) string {
	var out trinoMatch
	for i := range m.History.Total() {
		t := m.History.Nth(i)
		row := v.Rows[t.Position().Offset]
		id := number(row[slices.Index(v.Columns, "id")])
		out.Part = fmt.Sprint(row[slices.Index(v.Columns, "part")])
		out.Rows = append(out.Rows, [2]any{float64(id), strings.TrimPrefix(rule.Names[t.Step()], "step_")})
		if excluded(t) {
			out.Excluded = append(out.Excluded, id)
		}
	}
	out.Settled = "end"
	if !m.Moment.Timed() {
		out.Settled = m.Moment.Seq
	}
	return out.String()
}

// byPart orders matches by partition, and leaves them in their order in each.
func byPart(list []string) []string {
	slices.SortStableFunc(list, func(a, b string) int {
		x, _, _ := strings.Cut(a, " ")
		y, _, _ := strings.Cut(b, " ")
		return strings.Compare(x, y)
	})
	return list
}

func (v *trinoVector) machine(set *patterns.Set, restart bool) ([]string, error) {
	rule := set.Rules[0]
	memo := nfa.NewMemo(set.Predicates)
	m := nfa.NewMachine(rule.Program, memo)
	router := patterns.NewRouter(rule)
	var out []string
	take := func() {
		for _, match := range m.Matches() {
			out = append(out, v.name(rule, &match, nfa.Excluded))
		}
	}
	events := v.events(set.Schema)
	for _, ev := range events {
		memo.Next()
		for _, d := range router.Route(ev) {
			m.Event(d.Key, ev, d.Mask)
		}
		take()
		if restart {
			var err error
			intern := func(string, string) *cep.Partition { return ev.Position.Partition }
			if m, err = nfa.Restore(rule.Program, memo, m.AppendSnapshot(nil), intern); err != nil {
				return nil, err
			}
		}
	}
	m.Advance(cep.AfterAll - 1)
	take()
	if m.Keys() != 0 || m.OpenStarts() != 0 {
		return nil, fmt.Errorf("%d keys and %d starts are left at the end", m.Keys(), m.OpenStarts())
	}
	return byPart(out), nil
}

func (v *trinoVector) oracle(set *patterns.Set) []string {
	in := oracle.Input{FirstTime: cep.BeforeAll}
	for _, ev := range v.events(set.Schema) {
		in.Entries = append(in.Entries, oracle.Entry{Event: ev, Watermark: ev.Time - 1})
	}
	in.Entries = append(in.Entries, oracle.Entry{Watermark: cep.AfterAll - 1})
	var out []string
	for _, match := range oracle.Run(set.Rules[0], in).Matches {
		out = append(out, v.name(set.Rules[0], &match, func(cep.Taken) bool { return false }))
	}
	return byPart(out)
}

// trinoVectors reads a file of vectors.
func trinoVectors(t *testing.T, name string) []*trinoVector {
	t.Helper()
	file, err := os.Open(filepath.Join(folder(t), name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	var in io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		in = z
	}
	var list []*trinoVector
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		v := &trinoVector{}
		if err := json.Unmarshal(lines.Bytes(), v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestTrino: the matches of Trino, the rows of each with their variables, and when each goes out, on the machine, on one
// that is restarted after every event, and on the oracle.
func TestTrino(t *testing.T) {
	for _, file := range []string{"trino_facts.jsonl", "trino_random.jsonl.gz"} {
		t.Run(file, func(t *testing.T) {
			equal, lacking, wrong := 0, 0, 0
			for _, v := range trinoVectors(t, file) {
				text, ok := v.rule()
				if !ok {
					lacking++
					continue
				}
				set, diagnostics := patterns.Load([]patterns.Source{{Name: v.ID, Data: []byte(text)}}, patterns.Options{})
				if set == nil {
					t.Errorf("%s: %v", v.ID, diagnostics)
					wrong++
					continue
				}
				want, err := v.wanted()
				if err != nil {
					t.Fatalf("%s: %v", v.ID, err)
				}
				if problem := v.compare(set, want); problem != "" {
					wrong++
					if wrong <= 20 {
						t.Errorf("%s: %s\n%s", v.ID, v.Shorthand, problem)
					}
					continue
				}
				equal++
			}
			count("vectors", file, tally{Equal: equal, NotExpressible: lacking, Wrong: wrong})
		})
	}
}

// asserted makes a rule and the expected matches of a test of Trino's own: conditions in SQL, the outcome as rows of a
// table. ok is false for what the language has no word for.
func (v *trinoVector) asserted() (rule string, want []string, ok bool) {
	column := func(names ...string) int {
		return slices.IndexFunc(v.Select, func(s string) bool { return slices.Contains(names, s) })
	}
	id, match, label := column("m.id", "m.id AS row_id"), column("m.match"), column("m.label")
	if id < 0 || match < 0 || label < 0 || v.Pattern.Subset != "" && strings.HasSuffix(strings.ToUpper(v.Pattern.Skip), " U") {
		return "", nil, false // what is asked is not which rows a match has, or it skips to a union of variables
	}
	v.Columns = []string{"id", "value", "part"}
	for i := range v.Rows {
		v.Rows[i] = append(v.Rows[i], "p")
	}
	conditions := map[string]string{}
	for d := range strings.SplitSeq(v.Pattern.Define, ", ") {
		name, text, _ := strings.Cut(d, " AS ")
		text = ownColumn.ReplaceAllString(text, "value")
		text = strings.ReplaceAll(text, "PREV (value)", "prev.value")
		text = strings.ReplaceAll(text, "PREV(value)", "prev.value")
		conditions[strings.Trim(name, `"`)] = strings.ReplaceAll(text, " = ", " == ")
	}
	pattern := strings.ReplaceAll(v.Pattern.Regex, `"`, "")
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n- id: row\n  from: s\n  by: [part]\n  within: 1000d\n")
	fmt.Fprintf(&b, "  pattern: %s\n  steps:\n", strconv.Quote(pattern))
	seen := map[string]bool{"PERMUTE": true}
	for _, name := range variable.FindAllString(pattern, -1) {
		if seen[name] {
			continue
		}
		seen[name] = true
		if c := conditions[name]; c != "" {
			fmt.Fprintf(&b, "    %s: {where: %s}\n", name, strconv.Quote(c))
		} else {
			fmt.Fprintf(&b, "    %s: {}\n", name)
		}
	}
	skip := strings.Fields(v.Pattern.Skip)
	switch target := skip[len(skip)-1]; {
	case v.Pattern.Skip == "PAST LAST ROW":
	case v.Pattern.Skip == "TO NEXT ROW":
		b.WriteString("  after_match: to_next\n")
	case strings.HasPrefix(v.Pattern.Skip, "TO FIRST"):
		fmt.Fprintf(&b, "  after_match: {to_first: %s}\n", target)
	default: // TO X is TO LAST X
		fmt.Fprintf(&b, "  after_match: {to_last: %s}\n", target)
	}
	byMatch := map[int]*trinoMatch{}
	var order []int
	for _, row := range v.Expected.Rows {
		if row[label] == nil || row[match] == nil {
			continue // an empty match, or a row of none
		}
		n := number(row[match])
		if byMatch[n] == nil {
			byMatch[n] = &trinoMatch{Part: "p", Settled: "?"}
			order = append(order, n)
		}
		byMatch[n].Rows = append(byMatch[n].Rows, [2]any{row[id], row[label]})
	}
	slices.Sort(order)
	for _, n := range order {
		want = append(want, byMatch[n].String())
	}
	return b.String(), want, true
}

var (
	ownColumn = regexp.MustCompile(`"?[A-Za-z]+"?\.value`)
	variable  = regexp.MustCompile(`[A-Za-z]+`)
)

// TestTrinoAsserted runs the tests of Trino itself. Rows that a match takes and does not output are not in them, and
// patterns with anchors or nothing in them are refused, as LANGUAGE says.
func TestTrinoAsserted(t *testing.T) {
	const file = "trino_row_pattern.jsonl"
	equal, lacking, wrong := 0, 0, 0
	for _, v := range trinoVectors(t, file) {
		text, want, ok := v.asserted()
		if !ok {
			lacking++
			continue
		}
		set, diagnostics := patterns.Load([]patterns.Source{{Name: v.ID, Data: []byte(text)}}, patterns.Options{})
		if set == nil {
			refusable := strings.ContainsAny(v.Pattern.Regex, "^$") || strings.Contains(v.Pattern.Regex, "()")
			if !refusable || !strings.Contains(diagnostics.Error(), "[CEP0301]") {
				wrong++
				t.Errorf("%s: %v", v.ID, diagnostics)
				continue
			}
			lacking++
			continue
		}
		got, err := v.machine(set, false)
		if err != nil {
			t.Fatal(err)
		}
		var listed []string
		for _, m := range got {
			m = notListed.ReplaceAllString(m, "")
			if strings.Count(m, " ") > 1 { // a match of excluded rows alone is not in the table
				listed = append(listed, m)
			}
		}
		if !agree(listed, want) {
			wrong++
			t.Errorf("%s: %s\n%s\nmachine %q\nwant    %q", v.ID, v.Pattern.Regex, text, got, want)
			continue
		}
		if o := v.oracle(set); !slices.Equal(o, unmarked(got)) {
			wrong++
			t.Errorf("%s: oracle %q\nmachine %q", v.ID, o, got)
			continue
		}
		equal++
	}
	count("vectors", file, tally{Equal: equal, NotExpressible: lacking, Wrong: wrong})
}

var notListed = regexp.MustCompile(` \d+-[A-Za-z]+`)

// unmarked takes the marks of exclusion away.
func unmarked(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, strings.ReplaceAll(s, "-", ""))
	}
	return out
}

func (v *trinoVector) compare(set *patterns.Set, want []string) string {
	got, err := v.machine(set, false)
	if err != nil {
		return err.Error()
	}
	if !agree(got, want) {
		return fmt.Sprintf("machine %q\nwant    %q", got, want)
	}
	again, err := v.machine(set, true)
	if err != nil {
		return err.Error()
	}
	if !slices.Equal(again, got) {
		return fmt.Sprintf("restarted %q\nwant      %q", again, got)
	}
	// The oracle knows no exclusion: it changes nothing but what alerts list.
	if o, plain := v.oracle(set), unmarked(want); !agree(o, plain) {
		return fmt.Sprintf("oracle %q\nwant   %q", o, plain)
	}
	return ""
}
