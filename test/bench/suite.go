package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// suite runs everything and prints the tables of docs/benchmarks.md.
type suite struct {
	dir, reference string
	events, live   int
	window         int64
}

// naiveEvents is how many events the naive program gets: it is slow, and its cost an event does not depend on how many.
const naiveEvents = 200_000

func (s suite) run(w io.Writer) error {
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "cepd-bench")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // what is left of it harms nobody
		s.dir = dir
	}
	dir, err := filepath.Abs(s.dir) // the prototype is built in a folder of its own
	if err != nil {
		return err
	}
	s.dir = dir
	warm := roundUp(s.live*8/5, markEvery)
	inputs := map[string]shape{
		"w1": {Events: s.events, Window: s.window},
		"w2": {Events: warm + s.events, Live: s.live, Window: s.window},
		"w5": {Events: s.events, Window: s.window},
	}
	files := map[string]string{}
	for _, name := range []string{"w1", "w2", "w5"} {
		in := inputs[name]
		file := filepath.Join(s.dir, fmt.Sprintf("%s-%d-%d.jsonl", name, in.Events, in.Live))
		files[name] = file
		if _, err := os.Stat(file + ".expect"); err == nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "writing %s, %d events\n", file, in.Events)
		if _, err := generate(name, file, in); err != nil {
			return err
		}
	}
	prototype := s.prototype()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, %d cores, %s\n\n", processor(), runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(&b, "| work | cepd | naive | naive / cepd | prototype | cepd / prototype |\n|---|---|---|---|---|---|\n")
	var loaded result
	for _, c := range []struct {
		work string
		warm int
	}{{"w1", 0}, {"w2", warm}} {
		mine, err := self(c.work, "cepd", files[c.work], "-warm", strconv.Itoa(c.warm))
		if err != nil {
			return err
		}
		naive, err := self(c.work, "naive", files[c.work], "-warm", strconv.Itoa(c.warm), "-limit", strconv.Itoa(c.warm+naiveEvents))
		if err != nil {
			return err
		}
		other, ratio := "-", "-"
		if prototype != "" {
			p, err := execute(prototype, "-w", c.work, "-variant", "proto", "-file", files[c.work], "-warm", strconv.Itoa(c.warm))
			if err != nil {
				return err
			}
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
	one, err := self("w5", "cepd", files["w5"], "-rules", "1")
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "| W5 | an event | rate, relative to one rule |\n|---|---|---|\n| 1 rule | %.0f ns | 100 %% |\n", one.nanoseconds())
	many, err := self("w5", "cepd", files["w5"], "-rules", strconv.Itoa(types))
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "| %d rules | %.0f ns | %.0f %% |\n", types, many.nanoseconds(), 100*one.nanoseconds()/many.nanoseconds())
	_, err = w.Write(b.Bytes())
	return err
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

// self runs one program of this command in a process of its own.
func self(work, variant, file string, args ...string) (result, error) {
	me, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	return execute(me, append([]string{"-w", work, "-variant", variant, "-file", file}, args...)...)
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

// prototype builds the prototype in a copy of its folder and returns the program; "" where it is not there or does not
// build, which is said.
func (s suite) prototype() string {
	if _, err := os.Stat(filepath.Join(s.reference, "workloads", "gopeer", "main.go")); err != nil {
		fmt.Fprintf(os.Stderr, "no prototype in %s: its columns stay empty\n", s.reference)
		return ""
	}
	program := filepath.Join(s.dir, "prototype")
	src := filepath.Join(s.dir, "reference")
	err := os.RemoveAll(src)
	if err == nil {
		err = os.CopyFS(src, os.DirFS(s.reference))
	}
	if err == nil {
		cmd := exec.Command("go", "build", "-mod=mod", "-o", program, ".")
		cmd.Dir = filepath.Join(src, "workloads", "gopeer")
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
