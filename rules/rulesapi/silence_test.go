package rulesapi_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/rules/rulesapi"
)

// TestSilences makes, changes and ends silences, and finds them in their file.
func TestSilences(t *testing.T) {
	s := newServer(t)
	s.write("quiet.yaml", "version: 1\nsilences:\n- {id: of-people, rule: login-failed, until: 2030-01-01}\n")
	s.fake.reload(t, s.api)
	made := s.ask(put, "/v1/silences/backup", `{"rules": ["login-*"], "key": {"user": "7"}, "from": "2026-12-01", "until": "2026-12-02T04:00:00+02:00", "comment": "new disk: \"d7\""}`, "If-None-Match", "*").want(201)
	want := "- {id: backup, rule: [\"login-*\"], key: {user: \"7\"}, from: \"2026-12-01T00:00:00Z\", until: \"2026-12-02T02:00:00Z\", comment: \"new disk: \\\"d7\\\"\"}\n"
	if file := s.onDisk("managed/silences.yaml"); !strings.HasSuffix(file, "\nsilences:\n"+want) {
		t.Fatalf("the file is %s", file)
	}
	if made.etag() != quoted(want) || made.Header().Get("Location") != "/v1/silences/backup" || made.report().Silence == nil {
		t.Errorf("ETag %s, Location %s", made.etag(), made.Header().Get("Location"))
	}
	var got rulesapi.Silence
	if a := s.ask(get, "/v1/silences/backup", "").want(200).json(&got); a.etag() != made.etag() {
		t.Errorf("ETag %s", a.etag())
	}
	until := time.Date(2026, 12, 2, 2, 0, 0, 0, time.UTC)
	if d := cmp.Diff(rulesapi.Silence{
		ID: "backup", Rules: []string{"login-*"}, Key: map[string]any{"user": "7"}, From: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Until: until,
		Comment: `new disk: "d7"`, File: filepath.ToSlash(s.dir) + "/managed/silences.yaml", Line: 4, Managed: true, ETag: made.etag(),
	}, got); d != "" {
		t.Error(d)
	}
	s.ask(put, "/v1/silences/backup", `{"rules": ["*"], "until": "2027-01-01"}`).problem(428, "precondition-required")
	s.ask(put, "/v1/silences/night", `{"rules": ["login-failed"], "until": "2027-01-01"}`).want(201)
	// The file is also one that people may write in: what they wrote stays.
	text := strings.Replace(s.onDisk("managed/silences.yaml"), "- {id: night", "# every night\n- {id: night", 1)
	s.write("managed/silences.yaml", text)
	s.fake.reload(t, s.api)
	second := s.ask(put, "/v1/silences/backup", `{"rules": ["*"], "until": "2027-01-01", "key": {"user": 7}}`, "If-Match", made.etag()).want(200)
	if file := s.onDisk("managed/silences.yaml"); !strings.Contains(file, "key: {user: 7}") || !strings.Contains(file, "\n# every night\n- {id: night, rule: [login-failed]") {
		t.Errorf("the file is %s", file)
	}
	var list rulesapi.List[rulesapi.Silence]
	s.ask(get, "/v1/silences?limit=2", "").want(200).json(&list)
	if len(list.Items) != 2 || list.Items[0].ID != "backup" || list.Next != "night" {
		t.Errorf("list %+v", list)
	}
	s.ask(get, "/v1/silences?after=night", "").want(200).json(&list)
	if len(list.Items) != 1 || list.Items[0].ID != "of-people" || list.Items[0].Managed {
		t.Errorf("list %+v", list)
	}

	// Those of people are not changed, mistakes are told, and what concerns nobody is refused.
	s.ask(put, "/v1/silences/of-people", `{"rules": ["*"], "until": "2027-01-01"}`, "If-Match", "*").problem(409, "not-managed")
	s.ask(del, "/v1/silences/of-people", "", "If-Match", "*").problem(409, "not-managed")
	s.ask(put, "/v1/silences/odd", `{"rules": ["login-failed"], "until": "2027-01-01", "key": {"host": "a"}}`).problem(422, "invalid")
	s.ask(put, "/v1/silences/odd", `{"rules": ["*"], "from": "2027-01-01", "until": "2027-01-01"}`).problem(422, "invalid")
	if p := s.ask(put, "/v1/silences/odd", `{"rules": ["logn-failed"], "until": "2027-01-01"}`).problem(422, "invalid"); len(p.Diagnostics) != 1 || p.Diagnostics[0].Code != "CEP0173" {
		t.Errorf("problem %+v", p)
	}
	s.ask(put, "/v1/silences/odd?force=true", `{"rules": ["logn-failed"], "until": "2027-01-01"}`).want(201)
	swaps := s.fake.swaps
	if r := s.ask(del, "/v1/silences/odd?dry_run=true", "", "If-Match", "*").want(200).report(); r.Applied || s.fake.swaps != swaps {
		t.Errorf("a dry run: %+v", r)
	}

	s.ask(del, "/v1/silences/odd", "", "If-Match", "*").want(200)
	s.ask(del, "/v1/silences/odd", "", "If-Match", "*").problem(404, "not-found")
	s.ask(del, "/v1/silences/night", "", "If-Match", "*").want(200)
	s.ask(del, "/v1/silences/backup", "", "If-Match", made.etag()).problem(412, "stale")
	s.ask(del, "/v1/silences/backup", "", "If-Match", second.etag()).want(200)
	if _, err := os.Stat(filepath.Join(s.dir, "managed", "silences.yaml")); !os.IsNotExist(err) {
		t.Errorf("the file without silences: %v", err)
	}
	// A file in which people keep rules too is theirs.
	s.write("managed/silences.yaml", strings.Replace(authRule, "login-failed", "more", 1)+"silences:\n- {id: x, rule: more, until: 2030-01-01}\n")
	s.fake.reload(t, s.api)
	s.ask(put, "/v1/silences/y", `{"rules": ["more"], "until": "2027-01-01"}`).problem(409, "not-managed")
	s.write("managed/silences.yaml", "[")
	s.ask(put, "/v1/silences/y", `{"rules": ["more"], "until": "2027-01-01"}`).problem(409, "conflict")
}

// TestEndedSilencesGo takes silences out of their file a day of event time behind their end, and not by the clock.
func TestEndedSilencesGo(t *testing.T) {
	s := newServer(t)
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	s.ask(put, "/v1/silences/old", `{"rules": ["*"], "until": "2026-01-01"}`).want(201)
	s.ask(put, "/v1/silences/new", `{"rules": ["*"], "until": "2026-01-02"}`).want(201)
	s.write("quiet.yaml", "version: 1\nsilences:\n- {id: of-people, rule: \"*\", until: 2020-01-01}\n")
	s.fake.reload(t, s.api)
	sweep := func() string {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			s.fake.lock = make(chan struct{}, 1) // of this bubble
			go func() { defer close(done); s.api.Run(ctx) }()
			time.Sleep(time.Hour + time.Second)
			cancel()
			<-done
		})
		var list rulesapi.List[rulesapi.Silence]
		s.ask(get, "/v1/silences", "").want(200).json(&list)
		var ids []string
		for _, v := range list.Items {
			ids = append(ids, v.ID)
			if v.Over {
				ids[len(ids)-1] += "(over)"
			}
		}
		return strings.Join(ids, " ")
	}
	for _, c := range []struct{ slow, fast, want string }{
		{"", "", "new of-people old"},
		{"", "2026-06-01T00:00:00Z", "new of-people old"}, // one stream has not been read
		{"2026-01-01T23:59:59Z", "2026-06-01T00:00:00Z", "new of-people(over) old(over)"},
		{"2026-01-02T00:00:00Z", "2026-06-01T00:00:00Z", "new(over) of-people(over)"},
		{"2026-01-03T00:00:00Z", "2026-06-01T00:00:00Z", "of-people(over)"},
		{"2026-01-03T00:00:00Z", "2026-06-01T00:00:00Z", "of-people(over)"},
	} {
		s.fake.streams = []rulesapi.Stream{{Name: "a"}, {Name: "b"}}
		if c.slow != "" {
			s.fake.streams[0].Watermark = at(c.slow)
		}
		if c.fast != "" {
			s.fake.streams[1].Watermark = at(c.fast)
		}
		if got := sweep(); got != c.want {
			t.Errorf("at %s: %s, want %s", c.slow, got, c.want)
		}
	}
	last := s.changes[len(s.changes)-1]
	if last.By.Name != "cepd" || last.Action != "unsilence" || last.Subject != "new" || last.Err != nil {
		t.Errorf("the last change is %+v", last)
	}
}
