package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInterrupt stops a replay that waits for more input: what was found is written, and the exit code says why it ended.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "any.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules:\n- {id: any, from: s, by: [k]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "cepd", "replay", "-r", rules, "-s", "s=-", "-t", "ts,unix", "--lateness", "0s")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// More than one read of the replay, so that alerts are out before the end.
	var lines strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&lines, `{"ts":%d,"k":1}`+"\n", 1777629600+i)
	}
	if _, err := stdin.Write([]byte(lines.String())); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = out.ReadString('\n')
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("%v\n%s", err, stderr.String())
	}
	if !strings.Contains(stderr.String(), "interrupted: the summary covers what was read until then") ||
		!strings.Contains(stderr.String(), "any") {
		t.Errorf("standard error:\n%s", stderr.String())
	}
}
