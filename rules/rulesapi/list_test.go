package rulesapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/rules/rulesapi"
)

// pages follows a list to its end and returns the names of what is in it, and how many pages it had.
func pages[T any](s *server, path string, name func(T) string) (names []string, n int) {
	s.Helper()
	next := ""
	for n = 1; ; n++ {
		at := path
		if next != "" {
			at += "&after=" + next
		}
		var list rulesapi.List[T]
		s.ask(get, at, "").want(200).json(&list)
		for _, it := range list.Items {
			names = append(names, name(it))
		}
		if next = list.Next; next == "" {
			return names, n
		}
		if n > 100 {
			s.Fatalf("%s has no end", path)
		}
	}
}

func TestListOfRules(t *testing.T) {
	s := newServer(t)
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range 20 {
		mode := map[bool]string{true: ", mode: shadow", false: ""}[i%4 == 0]
		fmt.Fprintf(&b, "- {id: r%02d, name: Rule %d, from: auth, by: [user], where: x == %d, enabled: %t%s}\n", i, i, i, i%2 == 0, mode)
	}
	s.write("many.yaml", b.String())
	s.ask(put, "/v1/rules/burst", burst).want(201)
	s.fake.states["burst"] = rulesapi.RuleState{
		Open: 2, Keys: 1, LastMatch: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Errors: 1, LastError: "x is no number",
		LastErrorAt: time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC),
		Taken:       []rulesapi.Count{{Name: "fail", Count: 3}}, Ended: []rulesapi.Count{{Name: "matched", Count: 1}},
	}
	id := func(r rulesapi.Rule) string { return r.ID }
	all, n := pages(s, "/v1/rules?limit=5", id)
	if len(all) != 22 || n != 5 || all[0] != "burst" || all[1] != "login-failed" || all[21] != "r19" {
		t.Errorf("%d pages of %q", n, all)
	}
	for query, want := range map[string]int{
		"q=r0": 10, "q=RULE+1": 11, "enabled=false": 10, "enabled=true": 12, "mode=shadow": 5, "mode=alert": 17, "managed=true": 1, "managed=false": 21,
		"never_matched=true": 12, "q=r0&mode=shadow": 3, "q=nothing": 0, "never_matched=false": 22,
	} {
		if got, _ := pages(s, "/v1/rules?limit=3&"+query, id); len(got) != want {
			t.Errorf("%s: %q, want %d", query, got, want)
		}
	}
	// A page goes on although what its cursor names is gone.
	var list rulesapi.List[rulesapi.Rule]
	s.ask(get, "/v1/rules?after=r03x&limit=1", "").json(&list)
	if len(list.Items) != 1 || list.Items[0].ID != "r04" {
		t.Errorf("behind r03x: %+v", list)
	}
	s.ask(get, "/v1/rules?q=burst", "").json(&list)
	if r := list.Items[0]; r.Text != "" || r.State.LastError != "x is no number" || r.Within != "1m" || r.Tests != 1 || strings.Join(r.NeverMatched, " ") != "ok" {
		t.Errorf("%+v", r)
	}
}

func TestStreamsSinksCheckpoints(t *testing.T) {
	s := newServer(t)
	lag := int64(12)
	s.fake.streams = []rulesapi.Stream{
		{Name: "auth", Kind: "file", Watermark: time.Unix(1, 0).UTC(), Events: 3, Partitions: []rulesapi.Partition{{Name: "0", Read: 3, Lag: &lag}}},
		{Name: "a/b c", Kind: "http"},
	}
	s.fake.sinks = []rulesapi.Sink{{Name: "out", Kind: "file", Guarantee: "exactly_once", Error: "no room", Since: time.Unix(2, 0).UTC()}}
	name := func(s rulesapi.Stream) string { return s.Name }
	if got, _ := pages(s, "/v1/streams?", name); strings.Join(got, " ") != "auth a/b c" {
		t.Errorf("streams %q", got)
	}
	var st rulesapi.Stream
	s.ask(get, "/v1/streams/auth", "").want(200).json(&st)
	if st.Partitions[0].Lag == nil || *st.Partitions[0].Lag != 12 || st.Bad == nil {
		t.Errorf("%+v", st)
	}
	s.ask(get, "/v1/streams/a%2Fb%20c", "").want(200).json(&st)
	if got, _ := pages(s, "/v1/sinks?", func(s rulesapi.Sink) string { return s.Name }); strings.Join(got, " ") != "out" {
		t.Errorf("sinks %q", got)
	}
	var sink rulesapi.Sink
	if s.ask(get, "/v1/sinks/out", "").want(200).json(&sink); sink.Error != "no room" {
		t.Errorf("%+v", sink)
	}

	for e := cep.Epoch(10); e < 35; e++ {
		s.fake.checkpoints = append(s.fake.checkpoints, rulesapi.Checkpoint{Epoch: e, Base: e%10 == 0, Bytes: 7, Created: time.Unix(int64(e), 0).UTC()})
	}
	s.fake.checkpoints[3] = rulesapi.Checkpoint{Epoch: 13, Damage: "its checksum does not fit"}
	epochs, n := pages(s, "/v1/checkpoints?limit=10", func(c rulesapi.Checkpoint) string { return fmt.Sprint(c.Epoch) })
	if len(epochs) != 25 || n != 3 || epochs[0] != "34" || epochs[24] != "10" {
		t.Errorf("%d pages of %q", n, epochs)
	}
	var made struct {
		Epoch cep.Epoch `json:"epoch"`
	}
	if s.ask(post, "/v1/checkpoints", "").want(201).json(&made); made.Epoch != 41 {
		t.Errorf("epoch %d", made.Epoch)
	}
	if c := s.changes[len(s.changes)-1]; c.Action != "checkpoint" || c.Subject != "41" {
		t.Errorf("told of %+v", c)
	}
	a := s.ask(post, "/v1/savepoints", "").want(200)
	if a.Body.String() != "savepoint of 42" || a.Header().Get("Cepd-Epoch") != "42" || !strings.Contains(a.Header().Get("Content-Disposition"), "epoch-42.savepoint") {
		t.Errorf("%v %s", a.Header(), a.Body)
	}
	if a := s.ask(post, "/v1/savepoints?epoch=41", "").want(200); a.Body.String() != "savepoint of 41" {
		t.Errorf("%s", a.Body)
	}
	s.fake.failSavepoint = errors.New("the store is damaged")
	s.ask(post, "/v1/savepoints", "").problem(500, "internal")
	s.fake.savepointBytes = 100
	func() { // half a file is no answer: the connection is cut
		defer func() {
			if r := recover(); r != http.ErrAbortHandler { //nolint:errorlint // a panic's value, as net/http compares it
				t.Errorf("half a savepoint: %v", r)
			}
		}()
		s.ask(post, "/v1/savepoints", "")
		t.Error("half a savepoint is an answer")
	}()
	s.changing = errors.New("the audit log is full")
	s.ask(post, "/v1/savepoints", "").problem(503, "unavailable")
	s.ask(post, "/v1/checkpoints", "").problem(503, "unavailable")
	s.changing, s.fake.failCheckpoint = nil, errors.New("the disk is full")
	s.ask(post, "/v1/savepoints", "").problem(500, "internal")
	s.ask(post, "/v1/checkpoints", "").problem(500, "internal")
	s.ask(get, "/v1/checkpoints", "").problem(500, "internal")
}

func TestOpenStarts(t *testing.T) {
	s := newServer(t)
	for i := range 25 {
		s.fake.starts = append(s.fake.starts, rulesapi.OpenStart{
			Rule: "login-failed", Fingerprint: "f", Key: []rulesapi.KeyPart{{Name: "user", Value: json.RawMessage(fmt.Sprint(i % 5))}},
			Since: time.Unix(int64(i), 0).UTC(), Taken: []rulesapi.TakenStep{{Step: "a", Count: 1, Events: []rulesapi.TakenEvent{{Stream: "auth", Partition: "0", Offset: 3}}}},
			WaitsFor: []string{"b"},
		})
	}
	since := func(o rulesapi.OpenStart) string { return fmt.Sprint(o.Since.Unix()) }
	if got, n := pages(s, "/v1/rules/login-failed/starts?limit=10", since); len(got) != 25 || n != 3 {
		t.Errorf("%d pages of %q", n, got)
	}
	s.fake.starts[7].Key[0].Value = "ann lee"
	if got, _ := pages(s, "/v1/rules/login-failed/starts?key=ann+lee&limit=1", since); strings.Join(got, " ") != "7" {
		t.Errorf("starts of one key: %q", got)
	}
}

// TestValidate looks at texts among the rules in force.
func TestValidate(t *testing.T) {
	s := newServer(t)
	s.fake.states["login-failed"] = rulesapi.RuleState{Open: 7}
	var v rulesapi.Verdict
	s.ask(post, "/v1/validate?tests=true", burst).want(200).json(&v)
	if !v.OK || strings.Join(v.Rules, " ") != "burst" || len(v.Changes) != 1 || v.Changes[0].Kind != "added" || len(v.Tests) != 1 || !v.Tests[0].Passed {
		t.Errorf("%+v", v)
	}
	// Warnings are told of what was sent alone.
	s.write("warned.yaml", "version: 1\nrules:\n- {id: warned, from: auth, where: a == 1}\n")
	v = rulesapi.Verdict{}
	s.ask(post, "/v1/validate", strings.Replace(burst, "  by: [user]\n", "", 1)).want(200).json(&v)
	if !v.OK || len(v.Diagnostics) != 1 || v.Diagnostics[0].Severity != "warning" || !strings.HasSuffix(v.Diagnostics[0].File, "managed/burst.yaml") || v.Tests != nil {
		t.Errorf("%+v", v)
	}
	// The file of people in another form; a test that does not pass.
	v = rulesapi.Verdict{}
	changed := strings.Replace(authRule, "failure", "denied", 1) + "  tests:\n  - {name: fires, events: [{at: 0s, event: {outcome: failure, user: a}}], expect: {count: 1}}\n"
	s.ask(post, "/v1/validate?tests=true&file="+s.dir+"/people.yaml", changed).want(200).json(&v)
	if !v.OK || len(v.Changes) != 2 || v.Changes[0].Starts != 7 || len(v.Tests) != 1 || v.Tests[0].Passed || len(v.Tests[0].Failure) == 0 {
		t.Errorf("%+v", v)
	}
	for text, code := range map[string]string{
		authRule: "CEP0121", "version: [": "", "version: 1\nrules:\n- {id: a, from: s, where: a ==}\n- {id: b}\n": "",
	} {
		v = rulesapi.Verdict{}
		s.ask(post, "/v1/validate", text, "Content-Type", "application/yaml").want(200).json(&v)
		if v.OK || len(v.Diagnostics) == 0 || code != "" && v.Diagnostics[0].Code != code || len(v.Rules) > 0 {
			t.Errorf("%q: %+v", text, v)
		}
	}
	// A test that cannot be run has failed, and a warning says why.
	stray := small("stray", 1) + "  \n"
	stray = strings.Replace(stray, "x == 1}", "x == 1, tests: [{name: t, events: [{file: ../../secret.jsonl}], expect: {count: 0}}]}", 1)
	v = rulesapi.Verdict{}
	s.ask(post, "/v1/validate?tests=true", stray).want(200).json(&v)
	if !v.OK || len(v.Diagnostics) != 1 || v.Diagnostics[0].Code != "CEP0175" || len(v.Tests) != 1 || v.Tests[0].Passed || !strings.Contains(v.Tests[0].Failure[0], "outside") {
		t.Errorf("%+v", v)
	}
	r := s.ask(put, "/v1/rules/stray?dry_run=true", stray).want(200).report()
	if len(r.Tests) != 1 || r.Tests[0].Passed {
		t.Errorf("%+v", r)
	}
	if s.fake.swaps > 0 || s.onDisk("managed/burst.yaml") != "" {
		t.Error("something was changed")
	}
}

// TestDryRun says what would happen, of each change of a rule.
func TestDryRun(t *testing.T) {
	s := newServer(t)
	s.ask(put, "/v1/rules/burst", burst).want(201)
	s.fake.states["burst"] = rulesapi.RuleState{Open: 214}
	told := len(s.changes)
	longer := strings.Replace(burst, "within: 1m", "within: 5m", 1)
	r := s.ask(put, "/v1/rules/burst?dry_run=true", longer, "If-Match", "*").want(200).report()
	if r.Applied || len(r.Changes) != 1 || r.Changes[0].Text != "burst: pattern changed, 214 open starts draining" || len(r.Tests) != 1 || !r.Tests[0].Passed {
		t.Errorf("%+v", r)
	}
	if r = s.ask(del, "/v1/rules/burst?dry_run=true", "", "If-Match", "*").want(200).report(); r.Changes[0].Dropped != 214 || len(r.Tests) > 0 {
		t.Errorf("%+v", r)
	}
	if r = s.ask(patch, "/v1/rules/burst?dry_run=true", `{"severity": "high"}`, "If-Match", "*").want(200).report(); len(r.Changes) != 1 || r.Changes[0].Kind != "kept" || r.Kept != 1 || r.Set == s.fake.set.ID() {
		t.Errorf("%+v", r)
	}
	if r = s.ask(put, "/v1/managed?dry_run=true", `{"rules": []}`, "If-Match", "*").want(200).report(); r.Changes[0].Kind != "deleted" {
		t.Errorf("%+v", r)
	}
	s.ask(put, "/v1/rules/new?dry_run=true", strings.Replace(burst, "id: burst", "id: new", 1)).want(200)
	s.ask(put, "/v1/rules/burst?dry_run=true", "version: [", "If-Match", "*").problem(422, "invalid")
	s.ask(put, "/v1/rules/burst?dry_run=true", longer).problem(428, "precondition-required")
	if s.onDisk("managed/burst.yaml") != burst || s.onDisk("managed/new.yaml") != "" || s.fake.swaps != 1 || len(s.changes) != told {
		t.Error("something was changed, or told")
	}
	if d := cmp.Diff(1, s.fake.swaps); d != "" {
		t.Error(d)
	}
}

// TestPage is a page that needs nothing from elsewhere, and may load nothing.
func TestPage(t *testing.T) {
	s := newServer(t)
	a := s.ask(get, "/v1/docs", "").want(200)
	page, policy := a.Body.String(), a.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("policy %s", policy)
	}
	for _, foreign := range []string{"http://", "https://", "<script", "<link", "<img", " style=", "@import", "url("} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page holds %s", foreign)
		}
	}
	for _, r := range rulesapi.Routes() {
		path := r.Path
		for _, name := range []string{"id", "name", "number"} {
			path = strings.Replace(path, ":"+name, "{"+name+"}", 1)
		}
		if !strings.Contains(page, fmt.Sprintf(`%s</span> %s <span class="role">%s`, r.Method, path, r.Role)) {
			t.Errorf("the page lacks %s %s", r.Method, path)
		}
	}
	for _, kind := range []string{"stale", "invalid", "not-managed"} {
		if !strings.Contains(page, `id="`+kind+`"`) {
			t.Errorf("the page has no place for the problem %s", kind)
		}
	}
	if got := s.ask(get, "/v1/openapi.yaml", "").want(200).Body.String(); got != string(rulesapi.Description()) {
		t.Error("the description is another one")
	}
}
