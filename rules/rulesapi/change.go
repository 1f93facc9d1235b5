package rulesapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// Report is what a change did, or with dry_run would do.
type Report struct {
	// Applied says that it is in force.
	Applied bool `json:"applied"`
	// Epoch is the one that it is durable with; 0 where nothing has changed. Set is the id of the set.
	Epoch cep.Epoch `json:"epoch"`
	Set   string    `json:"set"`
	// Pause is how long no event was worked on.
	Pause int64 `json:"pause_ns"`
	// Changes are the rules that are not as before, and those that this is about, with what becomes of their open starts. Kept is
	// the number of all others.
	Changes []RuleChange `json:"changes"`
	Kept    int          `json:"kept"`
	// Diagnostics are warnings about what was sent.
	Diagnostics []Diagnostic `json:"diagnostics"`
	// Tests are what the tests of the rules give that were sent; only with dry_run.
	Tests []TestResult `json:"tests,omitempty"`
	// Rule or Silence is what was changed as it is now, where there is one.
	Rule    *Rule    `json:"rule,omitempty"`
	Silence *Silence `json:"silence,omitempty"`
}

// draft is a change that was decided on, as files.
type draft struct {
	files map[string][]byte
	// main is the file that mistakes are looked for in; "": all of them.
	main string
	// ids are the rules that it is about. rule is the one that the answer shows; "": none.
	ids  []string
	rule string
	// silence is the silence that the answer shows; "": none.
	silence string
	// old and new are the hashes of what is changed; "" where there was, or is to be, nothing.
	old, new string
	// check says what is wrong with a set that has no mistakes; nil: nothing can be.
	check func(set *rules.Set) error
	// refuse says which warnings are reasons not to; nil: none.
	refuse func(d patterns.Diagnostic) bool
}

// location is where what the answer shows can be got; "" where it shows nothing.
func (d *draft) location() string {
	switch {
	case d.rule != "":
		return "/v1/rules/" + d.rule
	case d.silence != "" && d.new != "":
		return "/v1/silences/" + d.silence
	}
	return ""
}

// change carries out what decide decides on, while nobody else changes rules.
func (a *API) change(r *request, action, subject string, decide func(set *rules.Set) (*draft, error)) error {
	dry, _, err := r.flag("dry_run")
	if err != nil {
		return err
	}
	ctx := r.Request().Context()
	done, err := a.config.Daemon.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	before := a.config.Daemon.Rules()
	c := Change{Action: action, Subject: subject}
	d, err := decide(before)
	var report *Report
	if err == nil {
		c.Old, c.New = d.old, d.new
		report, err = a.carryOut(ctx, r.by, c, before, d, dry)
	}
	if !dry {
		c.Err = err
		a.tell(ctx, r.by, c)
	}
	if err != nil {
		return err
	}
	status, h := http.StatusOK, r.Response().Header()
	if d.new != "" && !dry {
		h.Set("ETag", etagOf(d.new))
	}
	if one := d.location(); d.old == "" && one != "" && !dry {
		status = http.StatusCreated
		h.Set("Location", one)
	}
	return r.respond(status, report)
}

// carryOut compiles, writes and swaps.
func (a *API) carryOut(ctx context.Context, by Caller, c Change, before *rules.Set, d *draft, dry bool) (*Report, error) {
	report := &Report{Set: before.ID(), Changes: []RuleChange{}, Diagnostics: []Diagnostic{}}
	maps.DeleteFunc(d.files, func(name string, data []byte) bool {
		old, err := a.managed.read(name)
		return err == nil && bytes.Equal(old, data) && (old == nil) == (data == nil)
	})
	next := before
	if len(d.files) > 0 {
		var err error
		if next, err = a.compile(ctx, d, report); err != nil {
			return nil, err
		}
		report.Set = next.ID()
	}
	if dry {
		return report, a.foresee(ctx, next, d, report)
	}
	if len(d.files) > 0 {
		if err := a.ask(ctx, by, c); err != nil {
			return nil, err
		}
		swapped, err := a.putInForce(ctx, next, d.files)
		if err != nil {
			return nil, err
		}
		report.Epoch, report.Pause = swapped.Epoch, swapped.Pause.Nanoseconds()
		report.Changes, report.Kept = changesAbout(swapped.Changes, d.ids)
		ids := map[string]bool{}
		for _, id := range d.ids {
			ids[id] = true
		}
		a.observe(next, ids, by.Name, c.Action)
	}
	report.Applied = true
	if rule := find(next, d.rule); rule != nil {
		v := viewOf(rule, a.textsOf(next).rules[d.rule], a.config.Daemon.RuleStates()[d.rule])
		report.Rule = &v
	}
	if s := findSilence(next, d.silence); s != nil {
		v := a.silenceView(next, s, a.eventTime())
		report.Silence = &v
	}
	return report, nil
}

// compile makes the set that a draft would give.
func (a *API) compile(ctx context.Context, d *draft, report *Report) (*rules.Set, error) {
	set, diagnostics, err := a.config.Daemon.Compile(ctx, d.files)
	if err != nil {
		return nil, err
	}
	if set == nil {
		return nil, invalid(diagnostics, d.main)
	}
	if d.check != nil {
		if err := d.check(set); err != nil {
			return nil, err
		}
	}
	own := slices.DeleteFunc(slices.Clone(diagnostics), func(g patterns.Diagnostic) bool {
		_, written := d.files[g.File]
		return !written
	})
	if d.refuse != nil && slices.ContainsFunc(own, d.refuse) {
		p := kindInvalid.problem("%s", own[slices.IndexFunc(own, d.refuse)].Error())
		p.Diagnostics = DiagnosticsOf(own)
		return nil, p
	}
	report.Diagnostics = DiagnosticsOf(own)
	return set, nil
}

// foresee says what a set would change, and how the tests of the rules go that were sent.
func (a *API) foresee(ctx context.Context, set *rules.Set, d *draft, report *Report) error {
	changes, err := a.config.Daemon.Plan(ctx, set)
	if err != nil {
		return fmt.Errorf("foresee the change: %w", err)
	}
	report.Changes, report.Kept = changesAbout(changes, d.ids)
	ids := slices.DeleteFunc(slices.Clone(d.ids), func(id string) bool { return find(set, id) == nil })
	report.Tests, err = a.runTests(ctx, set, ids)
	return err
}

// runTests runs the tests of rules.
func (a *API) runTests(ctx context.Context, set *rules.Set, ids []string) ([]TestResult, error) {
	results, err := a.config.Daemon.Test(ctx, set, ids)
	if err != nil {
		return nil, fmt.Errorf("run the tests of the rules: %w", err)
	}
	return results, nil
}

// kept is the kind of change of a rule that is what it was.
const kept = "kept"

// changesAbout leaves out the rules that nothing happens to, unless the change is about them, and counts them.
func changesAbout(all []RuleChange, ids []string) (changes []RuleChange, others int) {
	changes = []RuleChange{}
	for _, c := range all {
		if c.Kind == kept && c.Dropped == 0 && !slices.Contains(ids, c.Rule) {
			others++
			continue
		}
		changes = append(changes, c)
	}
	return changes, others
}

// putInForce writes files and swaps to the set that they give. Where that fails the files are as they were.
func (a *API) putInForce(ctx context.Context, set *rules.Set, files map[string][]byte) (Swapped, error) {
	// From here on the change is completed or undone, whether the client waits or not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), swapMax)
	defer cancel()
	undo, err := a.managed.write(files)
	if err != nil {
		return Swapped{}, err
	}
	swapped, err := a.config.Daemon.Swap(ctx, set)
	if errors.Is(err, ErrNotDurable) {
		return Swapped{}, fmt.Errorf("put the rules in force: %w", err)
	}
	if err != nil {
		if back := undo(); back != nil {
			a.log.Error("the rules in force are not those on the disk: a change failed, and so did putting its files back", "err", back)
			err = errors.Join(err, back)
		}
		return Swapped{}, fmt.Errorf("put the rules in force: %w", err)
	}
	return swapped, nil
}

// current finds the managed file of a rule: its name, and what it holds, nil where it is not there. The error is that it, or the
// rule, belongs to people.
func (a *API) current(set *rules.Set, id string) (name string, text []byte, err error) {
	if a.managed.dir == "" {
		return "", nil, kindConflict.problem("rules are read from single files, so there is no place for rules of the API: give the job a directory of rules")
	}
	name = a.managed.name(id)
	if name == a.silencesName() {
		p := kindNotManaged.problem("the id %s is reserved for the API's silences, which stand in %s: give the rule another id", id, name)
		p.File = name
		return "", nil, p
	}
	if rule := find(set, id); rule != nil && rule.Pos.File != name {
		return "", nil, a.managed.ofPeople(rule.Pos.File)
	}
	for _, r := range set.Rules {
		if r.Pos.File == name && r.ID != id {
			return "", nil, a.managed.ofPeople(name)
		}
	}
	text, err = a.managed.read(name)
	return name, text, err
}

// existing is current for a request that changes a rule which has to be there, in the version that the request names.
func (a *API) existing(r *request, set *rules.Set, id string) (name string, text []byte, err error) {
	name, text, err = a.current(set, id)
	switch {
	case err != nil:
		return "", nil, err
	case text == nil:
		return "", nil, kindNotFound.problem("there is no rule %s", id)
	}
	return name, text, r.precondition(etagOfFile(text))
}

// ownText says what is wrong with the text of a managed file, beyond what loading it finds.
func ownText(name, id string, text []byte) error {
	doc, ok := parse(name, text)
	if !ok {
		return nil // loading it says it with places
	}
	items := doc.items("rules")
	if len(items) != 1 || items[0].id != id {
		var ids []string
		for _, it := range items {
			ids = append(ids, it.id)
		}
		return kindInvalid.problem("the text holds %d rules (%s), and is to hold the one rule %s", len(items), strings.Join(ids, ", "), id)
	}
	for _, key := range []string{"overrides", "silences"} {
		if doc.has(key) {
			return kindInvalid.problem("%s are not part of a rule: they have no place in the text of %s", key, id)
		}
	}
	return nil
}

// holdsOne says that a file gave the one rule that it is to hold.
func holdsOne(name, id string) func(*rules.Set) error {
	return func(set *rules.Set) error {
		n := 0
		for _, r := range set.Rules {
			if r.Pos.File == name {
				n++
			}
		}
		if rule := find(set, id); n != 1 || rule == nil || rule.Pos.File != name {
			return kindInvalid.problem("the text is to hold the one rule %s", id)
		}
		return nil
	}
}

// ruleDraft is a change of the text of one rule; nil deletes it.
func ruleDraft(name, id string, old, text []byte) *draft {
	d := &draft{files: map[string][]byte{name: text}, main: name, ids: []string{id}}
	if old != nil {
		d.old = hashOf(old)
	}
	if text != nil {
		d.new, d.rule, d.check = hashOf(text), id, holdsOne(name, id)
	}
	return d
}

// etagOfFile is the ETag of what a file holds, "" where it is not there.
func etagOfFile(data []byte) string {
	if data == nil {
		return ""
	}
	return etagOf(hashOf(data))
}

// ruleText reads a body that is a rule file.
func (r *request) ruleText() ([]byte, error) {
	data, mediaType, err := r.body()
	if err != nil {
		return nil, err
	}
	if mediaType == typeYAML {
		return data, nil
	}
	text, err := yamlOf(data)
	if err != nil {
		return nil, kindBadRequest.problem("%v", err)
	}
	return text, nil
}

// putRule creates a rule or gives it another text.
func (a *API) putRule(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	text, err := r.ruleText()
	if err != nil {
		return err
	}
	action := "update"
	if find(a.config.Daemon.Rules(), id) == nil {
		action = "create"
	}
	return a.change(r, action, id, func(set *rules.Set) (*draft, error) {
		name, old, err := a.current(set, id)
		if err == nil {
			err = r.precondition(etagOfFile(old))
		}
		if err == nil {
			err = ownText(name, id, text)
		}
		if err != nil {
			return nil, err
		}
		return ruleDraft(name, id, old, text), nil
	})
}

// deleteRule deletes a rule.
func (a *API) deleteRule(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	return a.change(r, "delete", id, func(set *rules.Set) (*draft, error) {
		name, old, err := a.existing(r, set, id)
		if err != nil {
			return nil, err
		}
		return ruleDraft(name, id, old, nil), nil
	})
}
