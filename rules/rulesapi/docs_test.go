package rulesapi_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/rules/rulesapi"
)

// TestDocs runs the examples of docs/api.md as they stand, one behind the other in one shell, as a reader would. A line of three
// dots stands for any lines.
func TestDocs(t *testing.T) {
	for _, tool := range []string{"curl", "jq", "sh", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: apt-get install %s brings it", tool, tool)
		}
	}
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	lag := int64(12)
	s.fake.streams = []rulesapi.Stream{{Name: "auth", Kind: "kafka", Watermark: time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC), Events: 1843420, Taken: 1843417, Late: 3, Partitions: []rulesapi.Partition{{Name: "logins/0", Read: 1843420, Lag: &lag}}}}
	since := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	s.fake.starts = []rulesapi.OpenStart{{
		Rule: "burst", Key: []rulesapi.KeyPart{{Name: "user", Value: "ann"}}, Since: since, Until: since.Add(10 * time.Minute),
		Taken: []rulesapi.TakenStep{{Step: "fail", Count: 4}}, WaitsFor: []string{"fail", "ok"},
	}}
	at, _ := cep.TimeOf(since)
	s.feed.Committed(41, []*cep.Alert{{ID: cep.AlertID{1}, Rule: "burst", Time: at, Title: "bob is in"}, {ID: cep.AlertID{2}, Rule: "burst", Time: at, Title: "ann is in"}})
	s.api.EndStreams() // so that a live stream says what it has, and ends
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fake.states["burst"] = rulesapi.RuleState{Open: 1, Keys: 1, Taken: []rulesapi.Count{{Name: "fail", Count: 4}}}
		s.echo.ServeHTTP(w, r.WithContext(rulesapi.WithCaller(r.Context(), rulesapi.Caller{Name: "root", Role: rulesapi.Admin})))
	}))
	defer srv.Close()

	dir := t.TempDir()
	script, want := transcript(t, dir, string(page))
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader("api=" + srv.URL + "/v1\n" + script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	got := strings.Split(string(out), mark+"\n")[1:]
	if len(got) != len(want) || len(want) < 15 {
		t.Fatalf("%d commands gave %d results:\n%s", len(want), len(got), out)
	}
	for i, w := range want {
		if d := cmp.Diff(w.lines, fold(w.lines, strings.Split(strings.TrimSuffix(got[i], "\n"), "\n"))); d != "" {
			t.Errorf("%s\n%s", w.command, d)
		}
	}
}

// mark stands before what each command prints.
const mark = "----- the next command"

type example struct {
	command string
	lines   []string
}

// transcript reads the commands of a page and what they print. Its first block of YAML is the file burst.yaml.
func transcript(t *testing.T, dir, page string) (script string, want []example) {
	t.Helper()
	var b strings.Builder
	inside, lang := false, ""
	var file strings.Builder
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			if inside && lang == "yaml" {
				if err := os.WriteFile(filepath.Join(dir, "burst.yaml"), []byte(file.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			inside, lang = !inside, line[3:]
		case inside && lang == "yaml":
			file.WriteString(line + "\n")
		case inside && strings.HasPrefix(line, "$ "):
			b.WriteString("echo '" + mark + "'\n" + line[2:] + "\n")
			want = append(want, example{command: line[2:], lines: []string{}})
		case inside:
			last := &want[len(want)-1]
			last.lines = append(last.lines, line)
		}
	}
	for i := range want {
		if len(want[i].lines) == 0 {
			want[i].lines = []string{""}
		}
	}
	return b.String(), want
}

// fold puts three dots in the place of the lines that they stand for.
func fold(want, got []string) []string {
	for i, line := range want {
		if line == "..." && i <= len(got) {
			rest := len(want) - i - 1
			return append(append(append([]string{}, got[:i]...), "..."), got[max(i, len(got)-rest):]...)
		}
	}
	return got
}
