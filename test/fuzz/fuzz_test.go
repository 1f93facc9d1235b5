//go:build unix

package fuzz

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindings lets a go command answer that is none: the first time as the case says, and with PASS from then on.
func TestFindings(t *testing.T) {
	script, err := filepath.Abs("fuzz.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, output string
		runs         int
		fails        bool
	}{
		{"pass", "", 1, false},
		{"deadline", "fuzz: elapsed: 3s, execs: 40304 (0/sec)\n--- FAIL: FuzzOne (3.20s)\n    context deadline exceeded\nFAIL\n", 2, false},
		{"finding", "--- FAIL: FuzzOne (0.20s)\n    --- FAIL: FuzzOne (0.00s)\n        a_test.go:9: wrong\n\n    Failing input written to testdata/fuzz/FuzzOne/1\n", 1, true},
		{
			"finding of a deadline",
			"--- FAIL: FuzzOne (0.20s)\n        context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzOne/1\n", 1, true,
		},
		{"seed", "--- FAIL: FuzzOne (0.00s)\n    --- FAIL: FuzzOne/seed#0 (0.00s)\n        context deadline exceeded\n", 1, true},
		{"hang", "--- FAIL: FuzzOne (10.2s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\n", 1, true},
		{"build", "a_test.go:3:1: syntax error\nFAIL\tx [setup failed]\n", 1, true},
		{"panic", "panic: no\n    context deadline exceeded\n", 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string, mode os.FileMode) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			write("a_test.go", "package a\n\nfunc FuzzOne(f *testing.F) {}\n", 0o600)
			write("answer", c.output, 0o600)
			write("go", fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%[1]s/runs\n[ -s %[1]s/answer ] || { echo PASS; exit 0; }\ncat %[1]s/answer\n: >%[1]s/answer\nexit 1\n", dir), 0o700)
			cmd := exec.Command("sh", script, "O.*", "7s")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails {
				t.Errorf("%v:\n%s", err, out)
			}
			if c.fails && !strings.Contains(string(out), c.output) {
				t.Errorf("it does not show what was found:\n%s", out)
			}
			runs, err := os.ReadFile(filepath.Join(dir, "runs"))
			want := strings.Repeat("test . -run ^$ -fuzz ^FuzzOne$ -fuzztime 7s -fuzzminimizetime 1x\n", c.runs)
			if err != nil || string(runs) != want {
				t.Errorf("it ran %q, %v", runs, err)
			}
		})
	}
}
