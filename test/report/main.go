// Command report reads `go test -json` on standard input and prints what a person wants to see: a line for each package,
// the output of what failed, and one line for each test that was skipped with what it lacks.
//
//	go test -json ./... | go run ./test/report
//
// With CEPD_CI=1 a skip is a failure, but for those whose reason stands in test/skips.txt. The exit status is 1 if a test
// or a build failed, if a skip is not allowed, or if no test ran at all.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is a line of test2json.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

type key struct{ pkg, test string }

// report collects the output of each running test until its verdict is known.
type report struct {
	out     io.Writer
	ci      bool
	allowed []string
	output  map[key][]string
	ran     int
	skips   int
	failed  bool
}

func main() {
	allowed, err := readSkips("test/skips.txt")
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	r := &report{out: os.Stdout, ci: os.Getenv("CEPD_CI") == "1", allowed: allowed, output: map[key][]string{}}
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	os.Exit(r.close())
}

// readSkips reads the reasons that may be skipped in CI: `text of the skip message # why`.
func readSkips(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var l []string
	for line := range strings.Lines(string(b)) {
		text, _, _ := strings.Cut(line, "#")
		if text = strings.TrimSpace(text); text != "" {
			l = append(l, text)
		}
	}
	return l, nil
}

// print writes; where nobody can read the report any more the run counts as failed.
func (r *report) print(text string) {
	if _, err := io.WriteString(r.out, text); err != nil {
		r.failed = true
	}
}

func (r *report) read(in io.Reader) error {
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 16<<20) // a failing test may print a large diff on one line
	for sc.Scan() {
		var e event
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			r.print(sc.Text() + "\n") // go test prints build trouble as it is
			continue
		}
		r.event(e)
	}
	return sc.Err()
}

func (r *report) event(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.print(e.Output)
	case "build-fail":
		r.failed = true
	case "output":
		r.output[k] = append(r.output[k], e.Output)
		if isFigure(e.Output) {
			r.print(e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.test(k, e)
		} else {
			r.pkg(k, e)
		}
		delete(r.output, k)
	}
}

// isFigure says whether a line is worth seeing though its test passes: what was counted, and how much of it.
func isFigure(line string) bool {
	if _, text, ok := strings.Cut(strings.TrimSpace(line), "_test.go:"); ok { // a line of t.Log
		_, line, _ = strings.Cut(text, ": ")
	}
	for _, p := range []string{"vectors ", "timeouts ", "exhaustive ", "cases "} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

func (r *report) test(k key, e event) {
	r.ran++
	switch e.Action {
	case "fail":
		r.failed = true
		r.print(strings.Join(r.output[k], ""))
	case "skip":
		r.skips++
		reason := r.reason(k)
		verdict := "skip"
		if r.ci && !r.isAllowed(reason) {
			verdict = "skip not allowed in CI"
			r.failed = true
		}
		r.print(fmt.Sprintf("%s: %s: %s\n", verdict, e.Test, reason))
	}
}

// reason is the message of t.Skip: the output without go test's own lines and the file position.
func (r *report) reason(k key) string {
	for _, line := range r.output[k] {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		if _, msg, ok := strings.Cut(line, ".go:"); ok {
			_, msg, _ = strings.Cut(msg, ": ")
			return msg
		}
		return line
	}
	return "no reason given"
}

func (r *report) isAllowed(reason string) bool {
	for _, a := range r.allowed {
		if strings.Contains(reason, a) {
			return true
		}
	}
	return false
}

func (r *report) pkg(k key, e event) {
	if e.Action == "fail" {
		r.failed = true
		r.print(strings.Join(r.output[k], ""))
		if e.FailedBuild != "" {
			r.print(fmt.Sprintf("FAIL\t%s [build failed]\n", e.Package))
		}
		return
	}
	for _, line := range r.output[k] {
		if strings.HasPrefix(line, "ok ") {
			r.print(line)
		}
	}
}

func (r *report) close() int {
	r.print(fmt.Sprintf("tests: %d run, %d skipped\n", r.ran-r.skips, r.skips))
	if r.ran == r.skips {
		r.print("no test ran\n")
		r.failed = true
	}
	if r.failed {
		r.print("FAIL\n")
		return 1
	}
	r.print("PASS\n")
	return 0
}
