package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the lists of decisions.txt anew; the diff is to be read like code")

const decisionsFile = "decisions.txt"

// summary is printed last, after the verdict of the tests.
var summary []string

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, line := range summary {
		fmt.Fprintln(os.Stdout, line)
	}
	os.Exit(code)
}

// folder is where the vectors are.
func folder(t *testing.T) string {
	dir := os.Getenv("CEPD_VECTORS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "vectors")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no test vectors of peers: set CEPD_VECTORS, or put them at %s", dir)
	}
	return dir
}

// tally counts the verdicts of a file.
type tally [Wrong + 1]int

func (n tally) line(kind, file string) string {
	return fmt.Sprintf("%s %s: %d equal, %d decided, %d not expressible, %d wrong",
		kind, file, n[Equal], n[Decided], n[NotExpressible], n[Wrong])
}

func TestMatchVectors(t *testing.T) {
	for _, file := range []string{"flink_match.jsonl", "flink_observed.jsonl", "flink_random.jsonl.gz"} {
		t.Run(file, func(t *testing.T) { matchFile(t, file) })
	}
}

func matchFile(t *testing.T, file string) {
	vectors, sum, err := Load(folder(t), file)
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := ReadDecisions(decisionsFile)
	if err != nil {
		t.Fatal(err)
	}
	var matches, timeouts tally
	lack := map[string]int{}
	var rewritten []string
	for _, v := range vectors {
		if v.Kind != "match" {
			t.Errorf("%s: kind %q is unknown", v.ID, v.Kind)
			continue
		}
		tr := v.Translate()
		if tr.Missing != "" {
			lack[tr.Missing]++
			matches[NotExpressible]++
			continue
		}
		got, refusal, err := Run(v, tr)
		if err != nil {
			matches[Wrong]++
			t.Errorf("%s: %s\n%v\n%s", v.ID, v.Shorthand, err, tr.Text)
			continue
		}
		diff := refusal
		switch {
		case refusal != "":
		case v.Raises != "":
			if diff = v.DiffRaised(got.Matches); diff != "" {
				matches[Wrong]++
				t.Errorf("%s: %s\n%s\n%s", v.ID, v.Shorthand, diff, tr.Text)
				continue
			}
			diff = "the peer's run fails with " + v.Raises
		default:
			diff = v.DiffMatches(got.Matches)
		}
		verdict, because := decisions.Judge(file, sum, v, diff, refusal != "")
		if verdict == Wrong {
			t.Errorf("%s: %s\n%s\n%s\n%s", v.ID, v.Shorthand, because, diff, tr.Text)
		}
		if diff != "" && len(v.reasons()) > 0 {
			rewritten = append(rewritten, fmt.Sprintf("vector %s %s %s %s", file, v.ID, v.Sum, strings.Join(v.reasons(), "; ")))
		}
		matches[verdict]++
		if verdict == Equal {
			if d := v.DiffOrder(got.Matches); d != "" {
				t.Errorf("%s: order: %s\n%s\n%s", v.ID, v.Shorthand, d, tr.Text)
			}
		}
		if verdict != Equal || !v.EmitTimeouts {
			continue
		}
		diff = v.DiffTimeouts(got)
		verdict, because = decisions.JudgeTimeouts(file, sum, v, diff)
		if verdict == Wrong {
			t.Errorf("%s: timeouts: %s\n%s\n%s\n%s", v.ID, v.Shorthand, because, diff, tr.Text)
		}
		if reasons := v.timeoutReasons(); diff != "" && len(reasons) > 0 {
			rewritten = append(rewritten, fmt.Sprintf("timeout %s %s %s %s", file, v.ID, v.Sum, strings.Join(reasons, "; ")))
		}
		timeouts[verdict]++
	}
	finish(t, decisions, file, sum, rewritten)
	t.Logf("not expressible: %v", lack)
	summary = append(summary, timeouts.line("timeouts", file), matches.line("vectors", file))
}

// finish holds the list against the file it covers, or writes it anew.
func finish(t *testing.T, decisions *Decisions, file, sum string, lists []string) {
	if *update {
		if err := rewrite(decisionsFile, file, sum, lists); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, entry := range decisions.Stale(file, sum) {
		t.Errorf("%s lists %s, which no vector needs", decisionsFile, entry)
	}
}

// rewrite replaces the lists of one file, and what it covers.
func rewrite(name, file, sum string, lists []string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		f := strings.Fields(line)
		if len(f) > 1 && f[1] == file && slices.Contains([]string{"covers", "vector", "timeout"}, f[0]) {
			continue
		}
		out = append(out, line)
	}
	slices.Sort(lists)
	out = append(out, "covers "+file+" "+sum)
	out = append(out, lists...)
	return os.WriteFile(name, []byte(strings.Join(out, "\n")+"\n"), 0o644)
}
