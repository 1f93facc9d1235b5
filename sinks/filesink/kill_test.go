//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filesink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
	"github.com/cepd/cepd/sinks/sinktest"
)

const (
	// killTotal is the number of messages that a child publishes in the end; killBatch in one batch, which is more than one
	// write.
	killTotal = 3000
	killBatch = 1500
	// killVariable names the child's orders: path, failpoint, its how manieth visit.
	killVariable = "CEPD_FILESINK_CHILD"
)

// TestMain is the child where it was told so: it publishes everything, and kills itself on the way.
func TestMain(m *testing.M) {
	if orders := os.Getenv(killVariable); orders != "" {
		if err := child(strings.Split(orders, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// killBodies are the messages: the same in every process.
func killMessages() []sinks.Message {
	all := sinktest.Messages(sinks.Progress{}, killTotal, "kill")
	for i := range all {
		all[i].Body = fmt.Appendf(nil, `{"n":%d,"filler":"%s"}`, i+1, strings.Repeat("x", i%80))
	}
	return all
}

func child(orders []string) error {
	path, point := orders[0], orders[1]
	visits, err := strconv.Atoi(orders[2])
	if err != nil {
		return err
	}
	k, err := filesink.New(filesink.Config{Path: path, Owner: "job/out", Failpoint: func(p string) {
		if p == point {
			if visits--; visits == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
	}})
	if err != nil {
		return err
	}
	// The outbox is whole and remembers nothing: every start asks the file.
	o := &sinktest.Outbox{}
	o.Commit(killMessages()...)
	p := sinks.NewPublisher(sinks.PublisherConfig{Name: "out", Sink: k, Outbox: o, BatchMax: killBatch, BytesMax: 1 << 20})
	if point == "filesink.left" || point == "filesink.created" {
		if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	drained := make(chan error, 1)
	go func() { drained <- p.Drained(ctx) }()
	select {
	case err := <-ended:
		return err
	case err := <-drained:
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return errors.Join(err, k.Close())
	}
}

// runChild runs a child and reports whether it was killed.
func runChild(t *testing.T, path, point string, visit int) (killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d", killVariable, path, point, visit))
	var out bytes.Buffer
	cmd.Stderr = &out
	err := cmd.Run()
	if err == nil {
		return false
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := e.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	t.Fatalf("child at %s: %v\n%s", point, err, out.String())
	return false
}

// wantAll compares what is in the file, and in the one that was moved away, with the messages.
func wantAll(t *testing.T, paths ...string) {
	t.Helper()
	var want, got []string
	for _, m := range killMessages() {
		want = append(want, string(m.Body))
	}
	for _, p := range paths {
		got = append(got, lines(t, p)...)
	}
	if !slices.Equal(want, got) {
		t.Fatalf("%d lines, want %d: %.2000s", len(got), len(want), cmp.Diff(want, got))
	}
}

// TestKilledAtEachPoint: kill -9 at every failpoint, at its first and at a later visit, and then once more.
func TestKilledAtEachPoint(t *testing.T) {
	for _, point := range filesink.Failpoints {
		rotates := point == "filesink.left" || point == "filesink.created"
		visits := []int{1, 2}
		if rotates || point == "filesink.opened" || point == "filesink.begun" {
			visits = visits[:1] // a process gets there once
		}
		for _, visit := range visits {
			t.Run(fmt.Sprintf("%s %d", point, visit), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "alerts.jsonl")
				if rotates {
					// Some of it is there before the file is moved away, and a batch was under way.
					runChild(t, path, "filesink.synced", 2)
				}
				if !runChild(t, path, point, visit) {
					t.Fatal("the point was not reached")
				}
				runChild(t, path, "filesink.partly", 1)
				runChild(t, path, "", 0)
				if rotates {
					wantAll(t, path+".1", path)
				} else {
					wantAll(t, path)
				}
			})
		}
	}
}

// TestKilledAtRandom: kill -9 from outside, until one child comes to the end.
func TestKilledAtRandom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alerts.jsonl")
	random := rand.New(rand.NewPCG(5, 6))
	// How long a child lives is found out: a slow machine must not kill all of them before they have begun.
	life := 40 * time.Millisecond
	kills, between, ends := 0, 0, 0
	for between < 10 && kills+ends < 60 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killVariable+"="+path+"||0")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.Int64N(int64(life))))
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err != nil {
			kills++
			if info, err := os.Stat(path); err == nil && info.Size() > 0 {
				between++
			} else {
				life = min(life*5/4, 5*time.Second)
			}
			continue
		}
		ends++
		life = life * 4 / 5
		wantAll(t, path)
		for _, name := range []string{path, path + ".position"} {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d kills, %d of them when something was there; %d ends", kills, between, ends)
	runChild(t, path, "", 0)
	wantAll(t, path)
}
