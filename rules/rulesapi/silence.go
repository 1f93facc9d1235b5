package rulesapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

const (
	// silenceKeep is how long a silence stays in its file once event time has passed its end: events may come late, and people
	// ask the day after why an alert did not come.
	silenceKeep = 24 * time.Hour
	// codeForNoRule is the warning about a silence that concerns no rule.
	codeForNoRule = "CEP0173"
)

// Silence keeps alerts from being sent for a time.
type Silence struct {
	ID string `json:"id"`
	// Rules are ids of rules, or patterns of such with * and ?.
	Rules []string `json:"rules"`
	// Key are the values that parts of the key must have; none: every alert of the rules.
	Key map[string]any `json:"key"`
	// From and Until are event times; without From it has always been.
	From    time.Time `json:"from,omitzero"`
	Until   time.Time `json:"until"`
	Comment string    `json:"comment,omitempty"`
	// File and Line are where it stands; Managed says that the API writes that file.
	File    string `json:"file"`
	Line    int    `json:"line"`
	Managed bool   `json:"managed"`
	// ETag is the version of its text, where it is managed.
	ETag string `json:"etag,omitempty"`
	// Over says that event time has passed its end.
	Over bool `json:"over"`
}

// sentSilence is a silence as it is sent.
type sentSilence struct {
	Rules   []string                   `json:"rules"`
	Key     map[string]json.RawMessage `json:"key"`
	From    string                     `json:"from"`
	Until   string                     `json:"until"`
	Comment string                     `json:"comment"`
}

// silences is the file of silences that the API writes.
func (a *API) silencesName() string { return path.Join(a.managed.dir, silencesFile) }

// eventTime is the time up to which all streams have been seen; [cep.BeforeAll] where one has not been at all.
func (a *API) eventTime() cep.Time {
	now := cep.AfterAll
	for _, s := range a.config.Daemon.Streams() {
		at, ok := cep.TimeOf(s.Watermark)
		if s.Watermark.IsZero() || !ok {
			return cep.BeforeAll
		}
		now = min(now, at)
	}
	if now == cep.AfterAll {
		return cep.BeforeAll
	}
	return now
}

// silenceView describes a silence.
func (a *API) silenceView(set *rules.Set, s *patterns.Silence, now cep.Time) Silence {
	v := Silence{
		ID: s.ID, Rules: some(s.Rules), Key: map[string]any{}, From: EventTime(s.From), Until: EventTime(s.Until), Comment: s.Comment,
		File: s.Pos.File, Line: s.Pos.Line, Managed: a.managed.dir != "" && s.Pos.File == a.silencesName(), Over: s.Over(now),
	}
	for _, p := range s.Key {
		v.Key[p.Name] = json.RawMessage(cep.AppendJSON(nil, p.Value))
	}
	if v.Managed {
		for _, src := range set.Sources {
			if src.Name == s.Pos.File {
				v.ETag = silenceETag(src.Data, s.ID)
			}
		}
	}
	return v
}

// silenceETag is the version of a silence in a file; "" where it is not there.
func silenceETag(file []byte, id string) string {
	doc, ok := parse("", file)
	if !ok {
		return ""
	}
	items := doc.items("silences")
	i := slices.IndexFunc(items, func(it item) bool { return it.id == id })
	if i < 0 {
		return ""
	}
	return etagOf(hashOf([]byte(doc.text(items[i]))))
}

// listSilences answers with the silences in force.
func (a *API) listSilences(r *request) error {
	limit, after, err := r.page()
	if err != nil {
		return err
	}
	set, now := a.config.Daemon.Rules(), a.eventTime()
	list := List[Silence]{Items: []Silence{}}
	for _, s := range set.Silences {
		if s.ID <= after {
			continue
		}
		if len(list.Items) == limit {
			list.Next = list.Items[limit-1].ID
			break
		}
		list.Items = append(list.Items, a.silenceView(set, s, now))
	}
	return r.respond(http.StatusOK, list)
}

// findSilence returns a silence of a set; nil where there is none.
func findSilence(set *rules.Set, id string) *patterns.Silence {
	i, ok := slices.BinarySearchFunc(set.Silences, id, func(s *patterns.Silence, id string) int { return cmp.Compare(s.ID, id) })
	if !ok {
		return nil
	}
	return set.Silences[i]
}

// getSilence answers with a silence.
func (a *API) getSilence(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	set := a.config.Daemon.Rules()
	s := findSilence(set, id)
	if s == nil {
		return kindNotFound.problem("no silence %s is in force", id)
	}
	v := a.silenceView(set, s, a.eventTime())
	if v.ETag != "" {
		r.Response().Header().Set("ETag", v.ETag)
	}
	return r.respond(http.StatusOK, v)
}

// putSilence makes a silence, or gives it another meaning.
func (a *API) putSilence(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	force, _, err := r.flag("force")
	if err != nil {
		return err
	}
	data, _, err := r.body()
	if err != nil {
		return err
	}
	var sent sentSilence
	if err := decode(data, &sent); err != nil {
		return err
	}
	line, err := sent.line(id)
	if err != nil {
		return err
	}
	return a.changeSilence(r, "silence", id, line, func(d patterns.Diagnostic) bool { return d.Code == codeForNoRule && !force })
}

// line writes a silence as an item of its file.
func (s *sentSilence) line(id string) (string, error) {
	if len(s.Rules) == 0 || s.Until == "" {
		return "", kindBadRequest.problem("a silence has rules (a list of ids or patterns; \"*\" for all) and an end (until)")
	}
	until, err := timeOf(s.Until)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "- {id: %s, rule: [%s]", scalar(id), scalars(s.Rules))
	if len(s.Key) > 0 {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(s.Key)) {
			value, err := partOf(s.Key[name])
			if err != nil {
				return "", kindBadRequest.problem("key.%.100s: %v", name, err)
			}
			parts = append(parts, scalar(name)+": "+value)
		}
		fmt.Fprintf(&b, ", key: {%s}", strings.Join(parts, ", "))
	}
	if s.From != "" {
		from, err := timeOf(s.From)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, ", from: %s", scalar(from.String()))
	}
	fmt.Fprintf(&b, ", until: %s", scalar(until.String()))
	if s.Comment != "" {
		fmt.Fprintf(&b, ", comment: %s", scalar(s.Comment))
	}
	b.WriteString("}\n")
	return b.String(), nil
}

func scalars(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = scalar(s)
	}
	return strings.Join(out, ", ")
}

// partOf writes the value of a part of a key.
func partOf(raw json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return scalar(v), nil
	case json.Number:
		return v.String(), nil
	case bool:
		return fmt.Sprint(v), nil
	}
	return "", errors.New("a text, a number, or true or false")
}

// deleteSilence ends a silence.
func (a *API) deleteSilence(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	return a.changeSilence(r, "unsilence", id, "", nil)
}

// changeSilence puts a silence into the file of silences, or takes it out where line is "".
func (a *API) changeSilence(r *request, action, id, line string, refuse func(patterns.Diagnostic) bool) error {
	return a.change(r, action, id, func(set *rules.Set) (*draft, error) {
		file, old, err := a.silencesFile(set)
		if err != nil {
			return nil, err
		}
		if s := findSilence(set, id); s != nil && s.Pos.File != file {
			return nil, a.managed.ofPeople(s.Pos.File)
		}
		etag := silenceETag(old, id)
		if etag == "" && line == "" {
			return nil, kindNotFound.problem("there is no silence %s", id)
		}
		if err := r.precondition(etag); err != nil {
			return nil, err
		}
		text, err := withItem(old, id, line)
		if err != nil {
			return nil, err
		}
		d := &draft{files: map[string][]byte{file: text}, main: file, refuse: refuse, old: strings.Trim(etag, `"`), silence: id}
		d.new = strings.Trim(silenceETag(text, id), `"`)
		return d, nil
	})
}

// silencesFile returns the file of silences and what it holds, nil where it is not there.
func (a *API) silencesFile(set *rules.Set) (name string, data []byte, err error) {
	if a.managed.dir == "" {
		return "", nil, kindConflict.problem("rules are read from single files, so there is no place for silences of the API: give the job a directory of rules")
	}
	name = a.silencesName()
	data, err = a.managed.read(name)
	if err != nil || data == nil {
		return name, data, err
	}
	doc, ok := parse(name, data)
	if !ok {
		return "", nil, kindConflict.problem("%s cannot be read as it is: mend it, or remove it", name)
	}
	if doc.has("rules") || doc.has("overrides") || len(doc.file.Documents) != 1 {
		return "", nil, a.managed.ofPeople(name)
	}
	return name, data, nil
}

// withItem returns the file with another text of one silence, "" for none; nil where no silence is left.
func withItem(data []byte, id, line string) ([]byte, error) {
	const head = "version: 1\n# Silences made over HTTP (docs/api.md). Those that have ended are taken out a day later.\nsilences:\n"
	if data == nil {
		return []byte(head + line), nil
	}
	doc, _ := parse("", data) // it could be read a moment ago
	items := doc.items("silences")
	if len(items) == 0 {
		return []byte(head + line), nil
	}
	want := make([]string, 0, len(items)+1)
	at := -1
	for i, it := range items {
		if it.id == id {
			at = i
		}
		if it.id != id || line != "" {
			want = append(want, it.id)
		}
	}
	if at < 0 && line != "" {
		want = append(want, id)
	}
	if len(want) == 0 {
		return nil, nil
	}
	from, to := items[len(items)-1].to, items[len(items)-1].to
	if at >= 0 {
		from, to = items[at].from, items[at].to
	}
	if line != "" {
		line = strings.Repeat(" ", max(0, items[0].node.Column-3)) + line
	}
	before := strings.Join(doc.lines[:from-1], "")
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	text := before + line + strings.Join(doc.lines[min(to-1, len(doc.lines)):], "")
	after, ok := parse("", []byte(text))
	var got []string
	if ok {
		for _, it := range after.items("silences") {
			got = append(got, it.id)
		}
	}
	if !slices.Equal(want, got) {
		return nil, kindConflict.problem("%s is written in a way that cannot be changed in place: change it there", silencesFile)
	}
	return []byte(text), nil
}

// sweepSilences takes silences out of their file whose end event time has long passed.
func (a *API) sweepSilences(ctx context.Context) error {
	done, err := a.config.Daemon.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	set := a.config.Daemon.Rules()
	if a.managed.dir == "" {
		return nil
	}
	name, old, err := a.silencesFile(set)
	if err != nil || old == nil {
		return err
	}
	text, now := old, a.eventTime()
	var gone []string
	for _, s := range set.Silences {
		if s.Pos.File == name && s.Over(now.Add(-silenceKeep)) && text != nil {
			if text, err = withItem(text, s.ID, ""); err != nil {
				return err
			}
			gone = append(gone, s.ID)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	d := &draft{files: map[string][]byte{name: text}, main: name, old: hashOf(old)}
	if text != nil {
		d.new = hashOf(text)
	}
	by, c := Caller{Name: "cepd", Role: Admin}, Change{Action: "unsilence", Subject: strings.Join(gone, " "), Old: d.old, New: d.new}
	_, c.Err = a.carryOut(ctx, by, c, set, d, false)
	a.tell(ctx, by, c)
	return c.Err
}
