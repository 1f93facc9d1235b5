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

// summary is printed last, after the verdict of the tests: a line for each file. all counts the vectors of all files.
var (
	summary []string
	all     tally
)

// count adds a line to the summary.
func count(kind, file string, n tally) {
	summary = append(summary, n.line(kind, file))
	if kind == "vectors" {
		for v := range n {
			all[v] += n[v]
		}
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if total := all[Equal] + all[Decided] + all[NotExpressible] + all[Wrong]; total > 0 {
		share := 100 * float64(all[Decided]+all[NotExpressible]) / float64(total)
		summary = slices.Insert(summary, 0, fmt.Sprintf("%s; %.1f %% are decided or not expressible", all.line("vectors", "of all files"), share))
	}
	for _, line := range summary {
		_, _ = fmt.Fprintln(os.Stdout, line) // a closed standard output changes no verdict
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

// All files of the peer in the folder are run, whole: another folder may hold other seeds under these names or others.
func TestVectors(t *testing.T) {
	dir := folder(t)
	var files []string
	for _, peer := range []string{"flink", "siddhi"} {
		found, err := filepath.Glob(filepath.Join(dir, peer+"*.jsonl*"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Fatalf("no file flink*.jsonl, siddhi*.jsonl or one with .gz in %s", dir)
	}
	decisions, err := ReadDecisions(decisionsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			vectors, sum, err := Load(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			r := &fileRun{T: t, file: name, sum: sum, decisions: decisions, lack: map[string]int{}}
			for _, v := range vectors {
				r.vector(v)
			}
			r.finish()
		})
	}
}

// fileRun collects what comes of the vectors of a file.
type fileRun struct {
	*testing.T
	file, sum string
	decisions *Decisions
	matches   tally
	timeouts  tally
	lack      map[string]int // constructs that the language lacks, by name
	lists     []string       // the lines of decisions.txt that these vectors need
}

func (r *fileRun) vector(v *Vector) {
	switch v.Kind {
	case "match":
		r.match(v)
	case "invalid":
		r.invalid(v)
	case "lateness":
		r.late(v)
	case "tree_pattern":
		r.siddhi(v)
	default:
		r.wrong(v, "kind "+v.Kind+" is unknown", "")
	}
}

func (r *fileRun) wrong(v *Vector, because, rule string) {
	r.Helper()
	r.matches[Wrong]++
	r.Errorf("%s: %s\n%s\n%s", v.ID, v.Shorthand, because, rule)
}

// judge counts the verdict about a vector that differs by diff.
func (r *fileRun) judge(v *Vector, diff string, refused bool, rule string) Verdict {
	r.Helper()
	if diff != "" {
		r.list("vector", v, v.reasons())
	}
	verdict, because := r.decisions.Judge(r.file, r.sum, v, diff, refused)
	if verdict == Wrong {
		r.wrong(v, because+"\n"+diff, rule)
		return verdict
	}
	r.matches[verdict]++
	return verdict
}

// list notes what decisions.txt must say about the vector.
func (r *fileRun) list(kind string, v *Vector, reasons []string) {
	if len(reasons) > 0 {
		r.lists = append(r.lists, fmt.Sprintf("%s %s %s %s %s", kind, r.file, v.ID, v.Sum, strings.Join(reasons, "; ")))
	}
}

// finish holds the list against the file it covers, or writes it anew, and prints the tally.
func (r *fileRun) finish() {
	if *update {
		if err := rewrite(decisionsFile, r.file, r.sum, r.lists); err != nil {
			r.Fatal(err)
		}
	} else {
		for _, entry := range r.decisions.Stale(r.file, r.sum) {
			r.Errorf("%s lists %s, which no vector needs", decisionsFile, entry)
		}
	}
	if len(r.lack) > 0 {
		r.Logf("not expressible: %v", r.lack)
	}
	if r.timeouts != (tally{}) {
		count("timeouts", r.file, r.timeouts)
	}
	count("vectors", r.file, r.matches)
}

// lacks counts a vector for which the language has no word.
func (r *fileRun) lacks(v *Vector, what string) {
	r.lack[what]++
	r.matches[NotExpressible]++
	// What the peer does oddly it will do oddly then too, so the list is ready for new words.
	r.decisions.Use(r.file, v)
	if v.Kind == "match" {
		r.list("vector", v, v.reasons())
	}
}

func (r *fileRun) match(v *Vector) {
	tr := v.Translate()
	if tr.Missing != "" {
		r.lacks(v, tr.Missing)
		return
	}
	got, refused, err := Run(v, tr)
	if err != nil {
		r.wrong(v, err.Error(), tr.Text)
		return
	}
	if what := lacking(refused); what != "" {
		r.lacks(v, what)
		return
	}
	diff := ""
	switch {
	case refused != nil:
		diff = refused.Error()
	case v.Raises != "":
		if d := v.DiffRaised(got.Matches); d != "" {
			r.wrong(v, d, tr.Text)
			return
		}
		diff = "the peer's run fails with " + v.Raises
	default:
		diff = v.DiffMatches(got.Matches)
	}
	if r.judge(v, diff, refused != nil, tr.Text) != Equal {
		return
	}
	if d := v.DiffOrder(got.Matches); d != "" {
		r.Errorf("%s: order: %s\n%s\n%s", v.ID, v.Shorthand, d, tr.Text)
	}
	if v.EmitTimeouts {
		r.timeout(v, got, tr.Text)
	}
}

func (r *fileRun) timeout(v *Vector, got Outcome, rule string) {
	diff := v.DiffTimeouts(got)
	verdict, because := r.decisions.JudgeTimeouts(r.file, r.sum, v, diff)
	if verdict == Wrong {
		r.Errorf("%s: timeouts: %s\n%s\n%s\n%s", v.ID, v.Shorthand, because, diff, rule)
	}
	if diff != "" {
		r.list("timeout", v, v.timeoutReasons())
	}
	r.timeouts[verdict]++
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
