package rulesapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
)

const (
	put, get, post = http.MethodPut, http.MethodGet, http.MethodPost
	patch, del     = http.MethodPatch, http.MethodDelete
)

// burst is a managed rule with comments that have to stay.
const burst = `version: 1
rules:
- id: burst     # the name that alerts have
  from: auth
  # by user, as everywhere
  by: [user]
  severity: low   # for now
  within: 1m
  sequence:
  - {step: fail, where: outcome == "failure", times: 3..}
  - {step: ok, where: outcome == "success"}
  tests:
  - name: fires
    events:
    - {at: 0s, times: 3, every: 1s, event: {outcome: failure, user: ann}}
    - {at: 5s, event: {outcome: success, user: ann}}
    expect: {alerts: [{at: 5s}]}
`

func quoted(text string) string {
	sum := sha256.Sum256([]byte(text))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// TestLifeOfARule makes, changes and deletes a rule, and finds the truth on the disk each time.
func TestLifeOfARule(t *testing.T) {
	s := newServer(t)
	made := s.ask(put, "/v1/rules/burst", burst, "If-None-Match", "*").want(201)
	if made.etag() != quoted(burst) || made.Header().Get("Location") != "/v1/rules/burst" || s.onDisk("managed/burst.yaml") != burst {
		t.Fatalf("ETag %s, Location %s, on disk %q", made.etag(), made.Header().Get("Location"), s.onDisk("managed/burst.yaml"))
	}
	r := made.report()
	if !r.Applied || r.Epoch != 41 || len(r.Changes) != 1 || r.Changes[0].Kind != "added" || r.Rule == nil || r.Rule.ID != "burst" || !r.Rule.Managed {
		t.Fatalf("report %+v", r)
	}
	s.ask(put, "/v1/rules/burst", burst, "If-None-Match", "*").problem(412, "stale")

	// What exists is changed only by who knows it.
	longer := strings.Replace(burst, "within: 1m", "within: 5m", 1)
	if p := s.ask(put, "/v1/rules/burst", longer).problem(428, "precondition-required"); p.ETag != quoted(burst) {
		t.Errorf("the problem names %s", p.ETag)
	}
	s.ask(put, "/v1/rules/burst", longer, "If-Match", quoted("something else")).problem(412, "stale")
	s.fake.states["burst"] = rulesapi.RuleState{Open: 214}
	changed := s.ask(put, "/v1/rules/burst", longer, "If-Match", made.etag()).want(200)
	if r := changed.report(); len(r.Changes) != 1 || r.Changes[0].Starts != 214 {
		t.Errorf("changes %+v", r.Changes)
	}
	s.ask(put, "/v1/rules/burst", burst, "If-Match", made.etag()).problem(412, "stale")

	// Switches change one word of the text.
	etag := changed.etag()
	for _, c := range []struct{ action, from, to string }{
		{"disable", "  from: auth", "  enabled: false\n  from: auth"},
		{"enable", "enabled: false", "enabled: true"},
		{"shadow", "  enabled: true", "  mode: shadow\n  enabled: true"},
		{"alert", "mode: shadow", "mode: alert"},
	} {
		want := strings.Replace(s.onDisk("managed/burst.yaml"), c.from, c.to, 1)
		s.ask(post, "/v1/rules/burst/"+c.action, "").problem(428, "precondition-required")
		a := s.ask(post, "/v1/rules/burst/"+c.action, "", "If-Match", etag).want(200)
		if got := s.onDisk("managed/burst.yaml"); got != want {
			t.Fatalf("%s:\n%s", c.action, cmp.Diff(want, got))
		}
		etag = a.etag()
	}
	a := s.ask(patch, "/v1/rules/burst", `{"severity": "high", "enabled": null, "mode": null}`, "If-Match", etag).want(200)
	want := strings.Replace(longer, "severity: low   #", "severity: high   #", 1)
	if got := s.onDisk("managed/burst.yaml"); got != want {
		t.Fatalf("patched:\n%s", cmp.Diff(want, got))
	}
	if r := a.report(); r.Rule.Severity != "high" {
		t.Errorf("severity %s", r.Rule.Severity)
	}

	// The text comes back as it is written.
	got := s.ask(get, "/v1/rules/burst", "", "Accept", "application/yaml").want(200)
	if got.Body.String() != want || got.etag() != quoted(want) {
		t.Errorf("text %q", got.Body)
	}
	if a := s.ask(get, "/v1/rules/burst", "", "Accept", "application/yaml", "If-None-Match", got.etag()).want(304); a.Body.Len() > 0 {
		t.Error("304 with a body")
	}
	var rule rulesapi.Rule
	s.ask(get, "/v1/rules/burst", "").want(200).json(&rule)
	if rule.Text != want || rule.ETag != quoted(want) || rule.State.Open != 214 || !slices.Equal(rule.NeverMatched, []string{"fail", "ok"}) {
		t.Errorf("rule %+v", rule)
	}

	// What is there already changes nothing.
	swaps := s.fake.swaps
	if r := s.ask(put, "/v1/rules/burst", want, "If-Match", "*").want(200).report(); r.Epoch != 0 || s.fake.swaps != swaps {
		t.Errorf("the same text made epoch %d", r.Epoch)
	}

	s.ask(del, "/v1/rules/burst", "").problem(428, "precondition-required")
	s.ask(del, "/v1/rules/burst", "", "If-Match", quoted(burst)).problem(412, "stale")
	s.ask(del, "/v1/rules/burst", "", "If-Match", quoted(want)).want(200)
	if s.onDisk("managed/burst.yaml") != "" {
		t.Error("the file is still there")
	}
	s.ask(get, "/v1/rules/burst", "").problem(404, "not-found")
	s.ask(del, "/v1/rules/burst", "", "If-Match", "*").problem(404, "not-found")
	s.ask(patch, "/v1/rules/burst", `{"enabled": true}`, "If-Match", "*").problem(404, "not-found")

	// All of it was told of, with the hashes on both sides.
	var told []string
	for _, c := range s.changes {
		if c.By.Name != "root" || c.At.IsZero() {
			t.Errorf("change %+v", c)
		}
		if c.Err == nil {
			told = append(told, fmt.Sprintf("%s %s %.4s>%.4s", c.Action, c.Subject, c.Old, c.New))
		}
	}
	h := func(text string) string { return quoted(text)[1:5] }
	if told[0] != "create burst >"+h(burst) || told[1] != "update burst "+h(burst)+">"+h(longer) || told[len(told)-1] != "delete burst "+h(want)+">" || len(told) != 9 {
		t.Errorf("told of %q", told)
	}
	if st := s.api.Stats(); st.Changes != 9 || st.ChangesFailed != uint64(len(s.changes)-9) {
		t.Errorf("stats %+v of %d", st, len(s.changes))
	}
}

// TestJSON makes a rule of JSON: what is written is what a person would write.
func TestJSON(t *testing.T) {
	s := newServer(t)
	s.ask(put, "/v1/rules/odd", `{"version": 1, "rules": [{"id": "odd", "from": ["auth", "web"], "where": "user == \"\u00e9\" or x > 1.5", "by": ["user"], "tags": [], "revision": 3}]}`).want(201)
	want := "version: 1\nrules:\n  - id: odd\n    from:\n      - auth\n      - web\n    where: \"user == \\\"é\\\" or x > 1.5\"\n    by:\n      - user\n    tags: []\n    revision: 3\n"
	if got := s.onDisk("managed/odd.yaml"); got != want {
		t.Errorf("%s", cmp.Diff(want, got))
	}
	for _, body := range []string{`{`, `{"a": 1} 2`, `{"a": ` + strings.Repeat(`[`, 1000), `{"a": ` + strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000) + `}`, "{\"a\": \"\xff\"}", `{"a": 1e}`, `{"a": tru}`} {
		s.ask(put, "/v1/rules/odd", body, "If-Match", "*").problem(400, "bad-request")
	}
	// A list on the outside is JSON and no rule file.
	s.ask(put, "/v1/rules/odd", `[1]`, "If-Match", "*", "Content-Type", "application/json").problem(400, "bad-request")
}

// TestFilesOfPeople holds every change away from files that people write.
func TestFilesOfPeople(t *testing.T) {
	s := newServer(t)
	s.write("managed/pair.yaml", "version: 1\nrules:\n- {id: pair, from: auth, by: [user], where: a == 1}\n- {id: other, from: auth, by: [user], where: a == 2}\n")
	s.write("managed/misnamed.yaml", "version: 1\nrules:\n- {id: called-otherwise, from: auth, by: [user], where: a == 1}\n")
	s.fake.reload(t, s.api)
	s.write("managed/linked.yaml", "")
	if err := os.Remove(filepath.Join(s.dir, "managed/linked.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(s.dir, "managed/linked.yaml")); err != nil {
		t.Fatal(err)
	}
	for id, file := range map[string]string{
		"login-failed": "people.yaml", "pair": "managed/pair.yaml", "other": "managed/pair.yaml", "misnamed": "managed/misnamed.yaml",
		"called-otherwise": "managed/misnamed.yaml", "silences": "managed/silences.yaml", "linked": "managed/linked.yaml",
	} {
		text := strings.Replace(burst, "id: burst", "id: "+id, 1)
		for _, a := range []*answer{
			s.ask(put, "/v1/rules/"+id, text, "If-Match", "*"), s.ask(put, "/v1/rules/"+id, text), s.ask(del, "/v1/rules/"+id, "", "If-Match", "*"),
			s.ask(patch, "/v1/rules/"+id, `{"enabled": false}`, "If-Match", "*"), s.ask(post, "/v1/rules/"+id+"/disable", "", "If-Match", "*"),
			s.ask(put, "/v1/managed", fmt.Sprintf(`{"rules": [{"id": %q, "text": %q}]}`, id, text)),
		} {
			if p := a.problem(409, "not-managed"); p.File != filepath.ToSlash(filepath.Join(s.dir, file)) {
				t.Errorf("%s: the file is %s", id, p.File)
			} else if (id == "silences") != strings.Contains(p.Detail, "is reserved for") {
				t.Errorf("%s: %s", id, p.Detail)
			}
		}
	}
	if s.fake.swaps != 0 || s.onDisk("people.yaml") != authRule {
		t.Error("something was changed")
	}
	var rule rulesapi.Rule
	s.ask(get, "/v1/rules/login-failed", "").want(200).json(&rule)
	if want := "- id: login-failed\n  from: auth\n  by: [user]\n  where: outcome == \"failure\"\n"; rule.Text != want || rule.Managed || rule.ETag != quoted(want) || rule.Line != 4 {
		t.Errorf("rule %+v", rule)
	}
}

// TestHandEdit edits a managed file by hand: that is a newer version, before the service has seen it and behind that.
func TestHandEdit(t *testing.T) {
	s := newServer(t)
	etag := s.ask(put, "/v1/rules/burst", burst).want(201).etag()
	edited := burst + "# by hand\n"
	s.write("managed/burst.yaml", edited)
	if p := s.ask(del, "/v1/rules/burst", "", "If-Match", etag).problem(412, "stale"); p.ETag != quoted(edited) {
		t.Errorf("the newest is %s", p.ETag)
	}
	s.fake.reload(t, s.api)
	s.ask(put, "/v1/rules/burst", burst, "If-Match", etag).problem(412, "stale")
	s.ask(put, "/v1/rules/burst", burst, "If-Match", quoted(edited)).want(200)

	// A file that was spoilt by hand can be overwritten, by who says so.
	s.write("managed/burst.yaml", "version: [")
	s.ask(patch, "/v1/rules/burst", `{"enabled": false}`, "If-Match", "*").problem(409, "conflict")
	s.ask(put, "/v1/rules/burst", edited, "If-Match", "*").want(200)
	// One that was removed by hand is not there.
	if err := os.Remove(filepath.Join(s.dir, "managed/burst.yaml")); err != nil {
		t.Fatal(err)
	}
	s.ask(put, "/v1/rules/burst", burst, "If-Match", quoted(edited)).problem(412, "stale")
	s.ask(put, "/v1/rules/burst", burst, "If-None-Match", "*").want(201)
}

// TestMistakes are answered as the command line words them, and change nothing.
func TestMistakes(t *testing.T) {
	s := newServer(t)
	bad := "version: 1\nrules:\n- {id: bad, from: auth, by: [user], where: outcom ==, severty: high}\n"
	p := s.ask(put, "/v1/rules/bad", bad).problem(422, "invalid")
	set, diagnostics, err := rules.LoadOver([]string{s.dir}, map[string][]byte{filepath.ToSlash(s.dir) + "/managed/bad.yaml": []byte(bad)})
	if err != nil || set != nil || len(diagnostics) < 2 {
		t.Fatal(err, diagnostics)
	}
	if len(p.Diagnostics) != len(diagnostics) {
		t.Fatalf("%d diagnostics, want %d", len(p.Diagnostics), len(diagnostics))
	}
	for i, d := range diagnostics {
		got := p.Diagnostics[i]
		if got.File != d.File || got.Line != d.Line || got.Column != d.Column || got.EndLine != d.Line || got.EndColumn != d.Column+d.Length || got.Code != d.Code || got.Message != d.Message || got.Hint != d.Hint || got.Excerpt != d.Excerpt {
			t.Errorf("%+v, want %+v", got, d)
		}
	}
	for text, why := range map[string]string{
		strings.Replace(burst, "id: burst", "id: thrust", 1):              "another id",
		burst + "- {id: second, from: auth, where: a == 1, by: [user]}\n": "two rules",
		"version: 1\n": "no rule",
		burst + "overrides: [{rule: login-failed, set: {severity: low}}]\n":                         "an override of a rule of people",
		burst + "---\nversion: 1\nsilences:\n- {id: x, rule: \"*\", until: 2030-01-01}\n":           "a silence",
		burst + "---\nversion: 1\nrules:\n- {id: login-failed, from: auth, where: a == 1, by: [u]}": "a rule of people",
	} {
		if a := s.ask(put, "/v1/rules/burst", text, "Content-Type", "application/yaml"); a.Code != 422 {
			t.Errorf("%s: %d: %s", why, a.Code, a.Body)
		}
	}
	if s.fake.swaps != 0 || s.onDisk("managed/burst.yaml") != "" {
		t.Error("something was changed")
	}
	// A mistake that somebody made elsewhere is in the way, and said to be elsewhere.
	s.write("broken.yaml", "version: 1\nrules:\n- {id: x}\n")
	if p := s.ask(put, "/v1/rules/burst", burst).problem(409, "conflict"); len(p.Diagnostics) == 0 || !strings.HasSuffix(p.Diagnostics[0].File, "/broken.yaml") {
		t.Errorf("problem %+v", p)
	}
}

// TestFailedChange leaves files and rules as they were, whatever fails.
func TestFailedChange(t *testing.T) {
	s := newServer(t)
	s.ask(put, "/v1/rules/burst", burst).want(201)
	longer := strings.Replace(burst, "within: 1m", "within: 5m", 1)
	unchanged := func(what string) {
		t.Helper()
		if s.onDisk("managed/burst.yaml") != burst || s.onDisk("managed/other.yaml") != "" || s.fake.swaps != 1 {
			t.Errorf("%s: the disk has %q and %q", what, s.onDisk("managed/burst.yaml"), s.onDisk("managed/other.yaml"))
		}
	}
	other := strings.Replace(burst, "id: burst", "id: other", 1)
	all := fmt.Sprintf(`{"rules": [{"id": "other", "text": %q}]}`, other)
	change := func(what string, status int, kind string) {
		t.Helper()
		s.ask(put, "/v1/rules/burst", longer, "If-Match", "*").problem(status, kind)
		unchanged(what + ", update")
		s.ask(put, "/v1/rules/other", other).problem(status, kind)
		unchanged(what + ", create")
		s.ask(del, "/v1/rules/burst", "", "If-Match", "*").problem(status, kind)
		unchanged(what + ", delete")
		s.ask(put, "/v1/managed", all, "If-Match", "*").problem(status, kind)
		unchanged(what + ", replace")
	}
	s.fake.failSwap = errors.New("the disk is full")
	s.fake.swapping = func() {
		if s.onDisk("managed/burst.yaml") == burst && s.onDisk("managed/other.yaml") == "" {
			t.Error("the file is written behind the swap")
		}
	}
	change("no swap", 500, "internal")
	s.fake.failSwap = fmt.Errorf("stopping: %w", rulesapi.ErrUnavailable)
	change("no job", 503, "unavailable")
	s.fake.swapping = nil
	// What is in force already stays on the disk, although it is not durable.
	s.fake.failSwap = fmt.Errorf("the disk is full: %w", rulesapi.ErrNotDurable)
	s.ask(put, "/v1/rules/burst", longer, "If-Match", "*").problem(503, "unavailable")
	if s.onDisk("managed/burst.yaml") != longer {
		t.Error("rules in force are not those on the disk")
	}
	s.write("managed/burst.yaml", burst)
	s.fake.failSwap = nil
	s.changing = errors.New("the audit log is full")
	change("not noted", 503, "unavailable")
	s.changing = nil
	last := s.changes[len(s.changes)-1]
	if last.Err == nil || last.Action != "replace" || last.Old == "" || last.New == "" {
		t.Errorf("the last change is %+v", last)
	}
	s.write("people.yaml", "")
	if err := os.Remove(filepath.Join(s.dir, "people.yaml")); err != nil {
		t.Fatal(err)
	}
	s.ask(del, "/v1/rules/burst", "", "If-Match", "*").problem(409, "conflict") // the last one
	unchanged("no rule left")
}

// TestClientGoes gives a change up only before its files are written.
func TestClientGoes(t *testing.T) {
	s := newServer(t)
	as := rulesapi.WithCaller(t.Context(), rulesapi.Caller{Name: "root", Role: rulesapi.Admin})
	request := func(ctx context.Context, method, body string) *answer {
		t.Helper()
		r := httptest.NewRequest(method, "/v1/rules/burst", strings.NewReader(body)).WithContext(ctx)
		r.Header.Set("Content-Type", "application/yaml")
		r.Header.Set("If-Match", "*")
		if method == put {
			r.Header.Del("If-Match")
		}
		return s.serve(r, body)
	}
	ctx, cancel := context.WithCancel(as)
	s.fake.swapping = cancel // the fake gives up where its context has ended
	request(ctx, put, burst).want(201)
	s.fake.lock <- struct{}{} // a reload is under way
	request(ctx, del, "").problem(503, "unavailable")
	<-s.fake.lock
	if s.onDisk("managed/burst.yaml") != burst {
		t.Error("the rule is gone")
	}
}
