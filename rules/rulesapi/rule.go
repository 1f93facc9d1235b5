package rulesapi

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

const (
	// PageMax is the largest page of a list: a megabyte or so of rules.
	PageMax = 1000
	// pageDefault is the size of a page where nobody says.
	pageDefault = 100
)

// Rule is a rule of the set in force.
type Rule struct {
	ID          string   `json:"id"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Status      string   `json:"status,omitempty"`
	Revision    int64    `json:"revision"`
	Fingerprint string   `json:"fingerprint"`
	Enabled     bool     `json:"enabled"`
	Mode        string   `json:"mode"`
	Severity    string   `json:"severity"`
	Tags        []string `json:"tags"`
	Mitre       []string `json:"mitre"`
	// File and Line are where it stands; Managed says that the API writes that file.
	File    string `json:"file"`
	Line    int    `json:"line"`
	Managed bool   `json:"managed"`
	// ETag is the version of its text.
	ETag     string   `json:"etag"`
	Streams  []string `json:"streams"`
	AlertsOf []string `json:"alerts_of"`
	Key      []string `json:"key"`
	Within   string   `json:"within,omitempty"`
	Tests    int      `json:"tests"`
	// State is how it is doing.
	State RuleState `json:"state"`
	// NeverMatched are the steps that no event was ever taken for.
	NeverMatched []string `json:"never_matched"`
	// Text is the rule as it is written: the whole file of one that is managed, else the piece of the file. Lists leave it out.
	Text string `json:"text,omitempty"`
}

// List is a page of a list. Next is the cursor of the page behind it, "" where it is the last one.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// ruleText is the text of a rule.
type ruleText struct {
	text    string
	hash    string
	managed bool
}

// ruleTexts are the texts of all rules of a set.
type ruleTexts struct {
	set   *rules.Set
	rules map[string]ruleText
	// files are the sources that the texts come from.
	files map[string][]byte
}

// textsOf finds the texts of the rules of a set. What a set before had in a file that has not changed is taken from there.
func (a *API) textsOf(set *rules.Set) *ruleTexts {
	a.textsMu.Lock()
	defer a.textsMu.Unlock()
	before := a.texts
	if before != nil && before.set == set {
		return before
	}
	t := &ruleTexts{set: set, rules: make(map[string]ruleText, len(set.Rules)), files: make(map[string][]byte, len(set.Sources))}
	inFile := make(map[string][]*patterns.Rule, len(set.Sources))
	for _, r := range set.Rules {
		inFile[r.Pos.File] = append(inFile[r.Pos.File], r)
	}
	for _, src := range set.Sources {
		t.files[src.Name] = src.Data
		list := inFile[src.Name]
		if before != nil && bytes.Equal(before.files[src.Name], src.Data) && before.takes(t, list) {
			continue
		}
		if len(list) == 1 && src.Name == a.managed.name(list[0].ID) {
			t.rules[list[0].ID] = ruleText{string(src.Data), hashOf(src.Data), true}
			continue
		}
		doc, ok := parse(src.Name, src.Data)
		for _, r := range list {
			text := ""
			if ok {
				all := doc.items("rules")
				if i := slices.IndexFunc(all, func(it item) bool { return it.id == r.ID }); i >= 0 {
					text = doc.text(all[i])
				}
			}
			t.rules[r.ID] = ruleText{text: text, hash: hashOf([]byte(text))}
		}
	}
	a.texts = t
	return t
}

// takes hands the texts of some rules over to a newer set; false where one is missing.
func (t *ruleTexts) takes(to *ruleTexts, list []*patterns.Rule) bool {
	for _, r := range list {
		text, ok := t.rules[r.ID]
		if !ok {
			return false
		}
		to.rules[r.ID] = text
	}
	return true
}

// find returns a rule of a set; nil where there is none.
func find(set *rules.Set, id string) *patterns.Rule {
	i, ok := slices.BinarySearchFunc(set.Rules, id, func(r *patterns.Rule, id string) int { return cmp.Compare(r.ID, id) })
	if !ok {
		return nil
	}
	return set.Rules[i]
}

// viewOf describes a rule, without its text.
func viewOf(r *patterns.Rule, text ruleText, state RuleState) Rule {
	v := Rule{
		ID: r.ID, Name: r.Name, Description: r.Description, Status: r.Status, Revision: r.Revision, Fingerprint: r.Fingerprint,
		Enabled: r.Enabled, Mode: "alert", Severity: r.Severity, Tags: some(r.Tags), Mitre: some(r.Mitre),
		File: r.Pos.File, Line: r.Pos.Line, Managed: text.managed, ETag: etagOf(text.hash),
		Streams: some(r.Inputs()), AlertsOf: some(r.Reads), Key: some(r.Key), Tests: len(r.Tests), State: state,
	}
	if r.Shadow {
		v.Mode = "shadow"
	}
	if r.Within > 0 {
		v.Within = cep.FormatDuration(r.Within)
	}
	v.State.Taken, v.State.Ended = some(state.Taken), some(state.Ended)
	v.NeverMatched = neverMatched(r, state)
	return v
}

// some is a list that JSON writes as one even where it is empty.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// neverMatched returns the steps of a rule that runs which no event was taken for. An absence that never was is none of them.
func neverMatched(r *patterns.Rule, state RuleState) []string {
	never := []string{}
	if !r.Enabled || state.Stopped != "" {
		return never
	}
	taken := make(map[string]uint64, len(state.Taken))
	for _, c := range state.Taken {
		taken[c.Name] += c.Count
	}
	for _, e := range r.Leaves() {
		if name := r.Names[e.Name]; !e.Absent && taken[name] == 0 && !slices.Contains(never, name) {
			never = append(never, name)
		}
	}
	return never
}

// page reads the parameters of a list.
func (r *request) page() (limit int, after string, err error) {
	limit, after = pageDefault, r.param("after")
	if text := r.param("limit"); text != "" {
		limit, err = strconv.Atoi(text)
		if err != nil || limit < 1 || limit > PageMax {
			return 0, "", kindBadRequest.problem("limit is a number from 1 to %d", PageMax)
		}
	}
	return limit, after, nil
}

// id returns the id in the path.
func (r *request) id() (string, error) {
	id := r.Param("id")
	if !validID(id) {
		return "", kindBadRequest.problem("an id is 1 to %d of a-z, 0-9, dot, underscore and hyphen, begins with a letter or digit, and has no two dots in a row", idMax)
	}
	return id, nil
}

// ruleFilter says which rules of a list are meant.
type ruleFilter struct {
	text             string
	enabled, managed *bool
	mode             string
	neverMatched     bool
}

func (r *request) ruleFilter() (f ruleFilter, err error) {
	f.text, f.mode = strings.ToLower(r.param("q")), r.param("mode")
	if f.mode != "" && f.mode != "alert" && f.mode != "shadow" {
		return f, kindBadRequest.problem("mode is alert or shadow")
	}
	for name, to := range map[string]**bool{"enabled": &f.enabled, "managed": &f.managed} {
		on, set, err := r.flag(name)
		if err != nil {
			return f, err
		}
		if set {
			*to = &on
		}
	}
	f.neverMatched, _, err = r.flag("never_matched")
	return f, err
}

// admits reports whether a rule is meant.
func (f *ruleFilter) admits(r *patterns.Rule, text ruleText, state RuleState) bool {
	return (f.text == "" || strings.Contains(r.ID, f.text) || strings.Contains(strings.ToLower(r.Name), f.text)) &&
		(f.enabled == nil || *f.enabled == r.Enabled) &&
		(f.managed == nil || *f.managed == text.managed) &&
		(f.mode == "" || (f.mode == "shadow") == r.Shadow) &&
		(!f.neverMatched || len(neverMatched(r, state)) > 0)
}

// listRules answers with the rules in force.
func (a *API) listRules(r *request) error {
	limit, after, err := r.page()
	if err != nil {
		return err
	}
	filter, err := r.ruleFilter()
	if err != nil {
		return err
	}
	set := a.config.Daemon.Rules()
	texts, states := a.textsOf(set), a.config.Daemon.RuleStates()
	list := List[Rule]{Items: []Rule{}}
	from, found := slices.BinarySearchFunc(set.Rules, after, func(r *patterns.Rule, id string) int { return cmp.Compare(r.ID, id) })
	if found {
		from++
	}
	for _, rule := range set.Rules[from:] {
		text, state := texts.rules[rule.ID], states[rule.ID]
		if !filter.admits(rule, text, state) {
			continue
		}
		if len(list.Items) == limit {
			list.Next = list.Items[limit-1].ID
			break
		}
		list.Items = append(list.Items, viewOf(rule, text, state))
	}
	return r.respond(http.StatusOK, list)
}

// getRule answers with a rule: its state and its text, or the text alone.
func (a *API) getRule(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	set := a.config.Daemon.Rules()
	rule := find(set, id)
	if rule == nil {
		return kindNotFound.problem("no rule %s is in force", id)
	}
	text := a.textsOf(set).rules[id]
	h := r.Response().Header()
	h.Set("ETag", etagOf(text.hash))
	h.Set("Vary", "Accept")
	if accepts(r.Request().Header.Get("Accept"), typeYAML) {
		if r.unchanged(etagOf(text.hash)) {
			return r.NoContent(http.StatusNotModified)
		}
		return r.Blob(http.StatusOK, typeYAML, []byte(text.text))
	}
	// The state is part of this answer, and has changed whatever the version of the text: it is never 304.
	v := viewOf(rule, text, a.config.Daemon.RuleStates()[id])
	v.Text = text.text
	return r.respond(http.StatusOK, v)
}

// accepts reports whether a client prefers a media type to JSON: it names it, and names no JSON before.
func accepts(header, mediaType string) bool {
	for part := range strings.SplitSeq(header, ",") {
		switch name, _, _ := strings.Cut(part, ";"); strings.TrimSpace(name) {
		case mediaType:
			return true
		case typeJSON, "*/*":
			return false
		}
	}
	return false
}
