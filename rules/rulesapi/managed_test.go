package rulesapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/rules/rulesapi"
)

// setOf is a body of texts by id.
func setOf(texts ...string) string {
	all := rulesapi.ManagedSet{Rules: []rulesapi.ManagedRule{}}
	for _, text := range texts {
		_, rest, _ := strings.Cut(text, "id: ")
		id := rest[:strings.IndexAny(rest, " ,\n")]
		all.Rules = append(all.Rules, rulesapi.ManagedRule{ID: id, Text: text})
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func small(id string, x int) string {
	return fmt.Sprintf("version: 1\nrules:\n- {id: %s, from: auth, by: [user], where: x == %d}\n", id, x)
}

// TestReplaceAll replaces the managed rules, and only those.
func TestReplaceAll(t *testing.T) {
	s := newServer(t)
	s.write("managed/of-people.yaml", small("other", 1))
	s.fake.reload(t, s.api)
	ids := func() string {
		var all rulesapi.ManagedSet
		s.ask(get, "/v1/managed", "").want(200).json(&all)
		var got []string
		for _, r := range all.Rules {
			got = append(got, r.ID)
			if r.Text != s.onDisk("managed/"+r.ID+".yaml") || r.ETag != quoted(r.Text) {
				t.Errorf("%+v", r)
			}
		}
		return strings.Join(got, " ")
	}
	if got := ids(); got != "" {
		t.Errorf("managed at first: %s", got)
	}
	first := s.ask(put, "/v1/managed", setOf(small("a", 1), small("b", 1), small("c", 1))).want(200)
	if got := ids(); got != "a b c" || s.fake.swaps != 1 {
		t.Errorf("managed: %s, by %d swaps", got, s.fake.swaps)
	}
	got := s.ask(get, "/v1/managed", "").want(200)
	if got.etag() != first.etag() || got.etag() == "" {
		t.Errorf("ETag %s, and said was %s", got.etag(), first.etag())
	}
	s.ask(get, "/v1/managed", "", "If-None-Match", got.etag()).want(304)
	s.ask(put, "/v1/managed", setOf(small("a", 1))).problem(428, "precondition-required")
	s.ask(put, "/v1/managed", setOf(small("a", 1)), "If-Match", quoted("x")).problem(412, "stale")
	r := s.ask(put, "/v1/managed", setOf(small("c", 2), small("d", 1), small("a", 1)), "If-Match", got.etag()).want(200).report()
	var changes []string
	for _, c := range r.Changes {
		changes = append(changes, c.Rule+" "+c.Kind)
	}
	if d := cmp.Diff([]string{"c draining", "d added", "b deleted"}, changes); d != "" || r.Kept != 3 || ids() != "a c d" {
		t.Errorf("managed: %s, changes %s", ids(), d)
	}
	// All or nothing.
	for _, body := range []string{
		setOf(small("a", 9), "version: 1\nrules:\n- {id: e, from: auth, where: x ==}\n"), setOf(small("a", 9), small("login-failed", 1)),
		setOf(small("a", 9), small("other", 1)), setOf(small("a", 9), small("of-people", 1)), setOf(small("a", 9), small("a", 8)),
	} {
		if a := s.ask(put, "/v1/managed", body, "If-Match", "*"); a.Code < 400 || a.Code >= 500 || ids() != "a c d" || s.onDisk("managed/a.yaml") != small("a", 1) {
			t.Errorf("%d %s", a.Code, a.Body)
		}
	}
	if rev := s.ask(get, "/v1/rules/b/revisions", "").want(200).Body.String(); !strings.Contains(rev, `"action":"replace"`) || !strings.Contains(rev, `"by":"root"`) {
		t.Errorf("revisions of b: %s", rev)
	}
	if a := s.ask(put, "/v1/managed", setOf(), "If-Match", "*").want(200); a.etag() != "" || ids() != "" {
		t.Errorf("ETag %s, managed %s", a.etag(), ids())
	}
}
