package rulesapi_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/rules/rulesapi"
)

// benchmarkList asks for pages of 10,000 rules: of one file, or of one each as the API writes them.
func benchmarkList(b *testing.B, each bool, query string) {
	s := newServer(b)
	const rules = 10_000
	var all strings.Builder
	all.WriteString("version: 1\nrules:\n")
	for i := range rules {
		if each {
			s.write(fmt.Sprintf("managed/rule-%d.yaml", i), small(fmt.Sprintf("rule-%d", i), i))
			continue
		}
		fmt.Fprintf(&all, "- {id: rule-%d, from: auth, by: [user], where: x == %d}\n", i, i)
	}
	if !each {
		for part := range 10 { // a file has at most 1 MiB
			lines := strings.SplitAfter(all.String(), "\n")[2:]
			s.write(fmt.Sprintf("part-%d.yaml", part), "version: 1\nrules:\n"+strings.Join(lines[part*rules/10:(part+1)*rules/10], ""))
		}
	}
	s.fake.reload(b, s.api)
	for _, r := range s.fake.set.Rules {
		s.fake.states[r.ID] = rulesapi.RuleState{Open: 1, Taken: []rulesapi.Count{{Name: "event", Count: 1}}}
	}
	r := httptest.NewRequest(get, "/v1/rules?"+query, nil)
	r = r.WithContext(rulesapi.WithCaller(r.Context(), rulesapi.Caller{Name: "v", Role: rulesapi.Viewer}))
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		w := httptest.NewRecorder()
		s.echo.ServeHTTP(w, r)
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}

func BenchmarkListFirst100(b *testing.B)    { benchmarkList(b, false, "limit=100") }
func BenchmarkListManaged1000(b *testing.B) { benchmarkList(b, true, "limit=1000") }
func BenchmarkListFind(b *testing.B)        { benchmarkList(b, false, "q=rule-9999&limit=100") }

// BenchmarkChange puts another text of one rule among 10,000 in force: all are compiled, which is nearly all of it.
func BenchmarkChange(b *testing.B) {
	s := newServer(b)
	for i := range 10_000 {
		file := filepath.Join(s.dir, "managed", fmt.Sprintf("rule-%d.yaml", i))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(small(fmt.Sprintf("rule-%d", i), i)), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s.fake.reload(b, s.api)
	n := 10_000
	b.ResetTimer()
	for b.Loop() {
		n++
		s.ask(put, "/v1/rules/rule-7", small("rule-7", n), "If-Match", "*").want(200)
	}
}
