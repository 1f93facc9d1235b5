package spectest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

// Eval runs the directives of a script in order and gives the output of each:
//
//	pattern   one rule, without the list around it; `id: r`, `from: s` and, where there is no `within`, `unbounded: true`
//	          stand in for what it leaves out
//	file      a whole rule file
//	events    what happens (see [ReadEvents]); the output is what each rule lets out (see [Format]). With the argument
//	          `open` a last line for each rule counts the open starts after each entry
//
// A rule set is in force until the next one. The output of `pattern` and `file` is ok, or the codes of what is wrong. An
// error means that the oracle, the machine, and the machine restarted after every entry do not agree.
func Eval(name string, blocks []*Block) ([]string, error) {
	var set *patterns.Set
	outputs := make([]string, len(blocks))
	for i, b := range blocks {
		var err error
		switch b.Command {
		case "pattern":
			set, outputs[i] = load(frame(b.Input))
		case "file":
			set, outputs[i] = load(b.Input)
		case "events":
			outputs[i], err = events(set, b)
		default:
			err = fmt.Errorf("directive %q: known are pattern, file, events", b.Command)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, b.Line, err)
		}
	}
	return outputs, nil
}

// frame makes a rule file of one rule.
func frame(rule string) string {
	has := func(key string) bool { return strings.HasPrefix(rule, key+":") || strings.Contains(rule, "\n"+key+":") }
	var sb strings.Builder
	sb.WriteString("version: 1\nrules:\n")
	lines := []string{}
	for _, d := range [][2]string{{"id", "r"}, {"from", "s"}} {
		if !has(d[0]) {
			lines = append(lines, d[0]+": "+d[1])
		}
	}
	if !has("within") && !has("unbounded") {
		lines = append(lines, "unbounded: true")
	}
	lines = append(lines, strings.Split(strings.TrimSuffix(rule, "\n"), "\n")...)
	for i, l := range lines {
		sb.WriteString([...]string{"- ", "  "}[min(i, 1)] + l + "\n")
	}
	return sb.String()
}

func load(text string) (*patterns.Set, string) {
	set, diagnostics := patterns.Load([]patterns.Source{{Name: "script.yaml", Data: []byte(text)}}, patterns.Options{})
	if set != nil {
		return set, "ok\n"
	}
	var codes []string
	for _, d := range diagnostics {
		if !d.Warning {
			codes = append(codes, d.Code)
		}
	}
	return nil, "refused " + strings.Join(codes, " ") + "\n"
}

func events(set *patterns.Set, b *Block) (string, error) {
	if set == nil {
		return "", fmt.Errorf("no rules")
	}
	rec, err := ReadEvents(b.Input, b.Args, set.Schema)
	if err != nil {
		return "", err
	}
	var sb strings.Builder
	for _, r := range set.Rules {
		want := oracle.Run(r, rec.Input)
		for _, restart := range []bool{false, true} {
			got, err := Play(r, set.Predicates, rec.Input, restart)
			if err != nil {
				return "", fmt.Errorf("rule %s: %w", r.ID, err)
			}
			if d, e := Digest(got), Digest(want); d != e {
				return "", fmt.Errorf("rule %s: machine (restart %v) and oracle differ:\nmachine:\n%s%s\noracle:\n%s%s", r.ID, restart,
					Format(r, rec, got.Matches), d, Format(r, rec, want.Matches), e)
			}
		}
		sb.WriteString(Format(r, rec, want.Matches))
		if slices.Contains(b.Args, "open") {
			fmt.Fprintf(&sb, "open: %s %v\n", r.ID, want.Open)
		}
	}
	return sb.String(), nil
}
