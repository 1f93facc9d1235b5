package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// suite runs programs side by side and prints tables of docs/benchmarks.md.
type suite struct {
	dir, reference string
	events, live   int
	held           int // the live starts where epochs are measured
	window         int64
	repeat         int
	element        string // only these in the table of elements
}

// naiveEvents is how many events the naive program gets: it is slow, and its cost an event does not depend on how many.
const naiveEvents = 200_000

func (s suite) run(w io.Writer) error {
	remove, err := s.place()
	if err != nil {
		return err
	}
	defer remove()
	warm := roundUp(s.live*8/5, markEvery)
	files := map[string]string{}
	for name, in := range map[string]shape{
		"w1": {Events: s.events, Window: s.window},
		"w2": {Events: warm + s.events, Live: s.live, Window: s.window},
		"w5": {Events: s.events, Window: s.window},
	} {
		if files[name], err = s.input(name, in); err != nil {
			return err
		}
	}
	me, err := os.Executable()
	if err != nil {
		return err
	}
	// Outside of the module, whose tools would take it for a part of it.
	elsewhere, err := os.MkdirTemp("", "cepd-prototype")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(elsewhere) }() // as above
	prototype := s.prototype(elsewhere)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, %d cores, %s\n\n", processor(), runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(&b, "| work | cepd | naive | naive / cepd | prototype | cepd / prototype |\n|---|---|---|---|---|---|\n")
	var loaded result
	for _, c := range []struct {
		work string
		warm int
	}{{"w1", 0}, {"w2", warm}} {
		start := []string{"-w", c.work, "-file", files[c.work], "-warm", strconv.Itoa(c.warm)}
		runs := [][]string{
			append([]string{me, "-variant", "cepd"}, start...),
			append([]string{me, "-variant", "naive", "-limit", strconv.Itoa(c.warm + naiveEvents)}, start...),
		}
		if prototype != "" {
			runs = append(runs, append([]string{prototype, "-variant", "proto"}, start...))
		}
		results, err := s.middle(runs)
		if err != nil {
			return err
		}
		mine, naive := results[0], results[1]
		other, ratio := "-", "-"
		if prototype != "" {
			p := results[2]
			other, ratio = fmt.Sprintf("%.0f ns", p.nanoseconds()), fmt.Sprintf("%.2f", mine.nanoseconds()/p.nanoseconds())
		}
		fmt.Fprintf(&b, "| %s | %.0f ns | %.0f ns | %.1f | %s | %s |\n", strings.ToUpper(c.work), mine.nanoseconds(), naive.nanoseconds(),
			naive.nanoseconds()/mine.nanoseconds(), other, ratio)
		loaded = mine
	}
	e, err := expectation(files["w2"])
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nW2 at its end: %d live starts, %.0f MB on the heap, %.0f B a live start; after a month without relevant events %.1f MB.\n\n",
		e.live, loaded.heap, loaded.heap*1e6/float64(e.live), loaded.idle)
	w5 := []string{me, "-w", "w5", "-file", files["w5"], "-rules"}
	results, err := s.middle([][]string{append(slices.Clone(w5), "1"), append(slices.Clone(w5), strconv.Itoa(types))})
	if err != nil {
		return err
	}
	one, many := results[0], results[1]
	fmt.Fprintf(&b, "| W5 | an event | rate, relative to one rule |\n|---|---|---|\n| 1 rule | %.0f ns | 100 %% |\n", one.nanoseconds())
	fmt.Fprintf(&b, "| %d rules | %.0f ns | %.0f %% |\n", types, many.nanoseconds(), 100*one.nanoseconds()/many.nanoseconds())
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// place makes the directory of the inputs, and returns what removes it where nobody wants to keep it.
func (s *suite) place() (remove func(), err error) {
	if s.dir != "" {
		return func() {}, os.MkdirAll(s.dir, 0o755)
	}
	if s.dir, err = os.MkdirTemp("", "cepd-bench"); err != nil {
		return nil, err
	}
	return func() { _ = os.RemoveAll(s.dir) }, nil // what is left of it harms nobody
}

// input writes an input, unless it is there.
func (s *suite) input(name string, in shape) (string, error) {
	file := filepath.Join(s.dir, fmt.Sprintf("%s-%d-%d.jsonl", name, in.Events, in.Live))
	if _, err := os.Stat(file + ".expect"); err == nil {
		return file, nil
	}
	fmt.Fprintf(os.Stderr, "writing %s, %d events\n", file, in.Events)
	_, err := generate(name, file, in)
	return file, err
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

func expectation(file string) (*expect, error) {
	f, err := os.Open(file + ".expect")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	e, _, err := readExpect(f)
	return e, err
}

// middle runs programs in turn, s.repeat times, and returns for each the run that took the middle processor time: what
// else the machine does, and how fast its processor is just then, moves single runs both ways.
func (s suite) middle(runs [][]string) ([]result, error) {
	all := make([][]result, len(runs))
	for range max(1, s.repeat) {
		for i, args := range runs {
			r, err := execute(args[0], args[1:]...)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], r)
		}
	}
	middle := make([]result, len(runs))
	for i, list := range all {
		slices.SortFunc(list, func(a, b result) int { return cmp.Compare(a.nanoseconds(), b.nanoseconds()) })
		middle[i] = list[len(list)/2]
	}
	return middle, nil
}

func execute(program string, args ...string) (result, error) {
	fmt.Fprintln(os.Stderr, filepath.Base(program), strings.Join(args, " "))
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	fmt.Fprint(os.Stderr, "  ", string(out))
	return parseLine(string(out))
}

// prototype builds the prototype in a copy of its folder, dir, and returns the program; "" where it is not there or does
// not build, which is said.
func (s suite) prototype(dir string) string {
	if _, err := os.Stat(filepath.Join(s.reference, "workloads", "gopeer", "main.go")); err != nil {
		fmt.Fprintf(os.Stderr, "no prototype in %s: its columns stay empty\n", s.reference)
		return ""
	}
	program := filepath.Join(dir, "prototype")
	err := os.CopyFS(dir, os.DirFS(s.reference))
	if err == nil {
		cmd := exec.Command("go", "build", "-mod=mod", "-o", program, ".")
		cmd.Dir = filepath.Join(dir, "workloads", "gopeer")
		var out bytes.Buffer
		cmd.Stderr = &out
		if err = cmd.Run(); err != nil {
			err = fmt.Errorf("%w: %s", err, out.String())
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the prototype does not build, its columns stay empty: %v\n", err)
		return ""
	}
	return program
}

// processor is what the system calls the processor.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
