package rulesapi

import (
	"fmt"
	"net/http"
	"path"
	"slices"

	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// Verdict is what is to be said of a text that was sent to be looked at.
type Verdict struct {
	OK          bool         `json:"ok"`
	Diagnostics []Diagnostic `json:"diagnostics"`
	// Rules are the ids of the rules in the text, Changes and Kept what putting it in force would do; only where it is ok.
	Rules   []string     `json:"rules"`
	Changes []RuleChange `json:"changes"`
	Kept    int          `json:"kept"`
	// Tests are what the tests of those rules give, where they were asked for.
	Tests []TestResult `json:"tests,omitempty"`
}

// unnamed is the file that a text is looked at as where it could be that of no rule. No id gives this name.
const unnamed = "Validate.yaml"

// validate looks at a text among the rules in force, and changes nothing.
func (a *API) validate(r *request) error {
	text, err := r.ruleText()
	if err != nil {
		return err
	}
	withTests, _, err := r.flag("tests")
	if err != nil {
		return err
	}
	set := a.config.Daemon.Rules()
	name, err := a.nameFor(set, text, r.param("file"))
	if err != nil {
		return err
	}
	ctx := r.Request().Context()
	select {
	case a.compiling <- struct{}{}:
		defer func() { <-a.compiling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	next, diagnostics, err := a.config.Daemon.Compile(ctx, map[string][]byte{name: text})
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(diagnostics), func(d patterns.Diagnostic) bool { return d.Warning && d.File != name })
	v := Verdict{OK: next != nil, Diagnostics: DiagnosticsOf(own), Rules: []string{}, Changes: []RuleChange{}}
	if next == nil {
		return r.respond(http.StatusOK, v)
	}
	for _, rule := range next.Rules {
		if rule.Pos.File == name {
			v.Rules = append(v.Rules, rule.ID)
		}
	}
	changes, err := a.config.Daemon.Plan(ctx, next)
	if err != nil {
		return fmt.Errorf("foresee the change: %w", err)
	}
	v.Changes, v.Kept = changesAbout(changes, v.Rules)
	if withTests {
		if v.Tests, err = a.runTests(ctx, next, v.Rules); err != nil {
			return err
		}
	}
	return r.respond(http.StatusOK, v)
}

// nameFor is the file that a text is looked at as: the one that was named, else that of the one rule in it.
func (a *API) nameFor(set *rules.Set, text []byte, file string) (string, error) {
	if file != "" {
		if !slices.ContainsFunc(set.Sources, func(s patterns.Source) bool { return s.Name == file }) {
			return "", kindNotFound.problem("no rule file in force is called %.200q", file)
		}
		return file, nil
	}
	if a.managed.dir == "" {
		return "", kindConflict.problem("rules are read from single files: say with ?file= which one the text would take the place of")
	}
	if doc, ok := parse(unnamed, text); ok {
		if items := doc.items("rules"); len(items) == 1 && validID(items[0].id) {
			return a.managed.name(items[0].id), nil
		}
	}
	return path.Join(a.managed.dir, unnamed), nil
}
