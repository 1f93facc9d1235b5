package memsink_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
	"github.com/cepd/cepd/sinks/sinktest"
)

// These make TestConformance run on a mutant, and lose replies, in a process of its own.
const (
	mutantVariable = "CEPD_MEMSINK_MUTANT"
	lossyVariable  = "CEPD_MEMSINK_LOSSY"
)

// peekMutants are sinks whose Peek breaks its promise. A destination cannot: it is asked nothing but where it stands.
var peekMutants = map[string]func(k sinks.Sink) sinks.Sink{
	"peek fences":        func(k sinks.Sink) sinks.Sink { return fencing{k} },
	"peek finds nothing": func(k sinks.Sink) sinks.Sink { return blind{k} },
}

type fencing struct{ sinks.Sink }

func (f fencing) Peek(ctx context.Context) (sinks.Progress, error) { return f.Open(ctx) }

type blind struct{ sinks.Sink }

func (b blind) Peek(ctx context.Context) (sinks.Progress, error) { return sinks.Progress{}, ctx.Err() }

func TestConformance(t *testing.T) {
	mutant, peeks := memsink.Sound, peekMutants[os.Getenv(mutantVariable)]
	for _, m := range memsink.Mutants {
		if m.String() == os.Getenv(mutantVariable) {
			mutant = m
		}
	}
	var calls atomic.Int64
	lossy := os.Getenv(lossyVariable) != ""
	sinktest.Run(t, sinktest.Subject{New: func(*testing.T) sinktest.Destination {
		server := memsink.NewServer(memsink.Options{Mutant: mutant, Fault: func(memsink.Call, *sinks.Batch) memsink.Fault {
			return memsink.Fault{LoseReply: calls.Add(1)%7 == 0 && lossy}
		}})
		return sinktest.Destination{
			Sink: func() sinks.Sink {
				if peeks != nil {
					return peeks(server.Sink())
				}
				return server.Sink()
			},
			Bodies: server.Bodies,
		}
	}})
}

// suite runs the suite, or one test of it, on a mutant, and returns the names of what failed.
func suite(t *testing.T, mutant, one string, lossy bool) (failed []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestConformance$"+one)
	cmd.Env = append(os.Environ(), mutantVariable+"="+mutant)
	if lossy {
		cmd.Env = append(cmd.Env, lossyVariable+"=1")
	}
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: TestConformance/"); ok {
			failed = append(failed, strings.Fields(name)[0])
		}
	}
	if (err == nil) != (len(failed) == 0) || !strings.Contains(string(out), "PASS") && len(failed) == 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	return failed
}

// TestSuiteCatchesMutants: the suite would notice a sink that breaks a promise.
func TestSuiteCatchesMutants(t *testing.T) {
	for _, m := range memsink.Mutants {
		// A position that moves apart shows itself only where a call breaks between the two steps: the destination breaks it,
		// and what a publisher makes of it must be the same.
		one, lossy := "", false
		if m == memsink.PositionApart {
			one, lossy = "/^through_a_publisher$", true
			if failed := suite(t, memsink.Sound.String(), one, lossy); failed != nil {
				t.Fatalf("a sound destination fails %v", failed)
			}
		}
		failed := suite(t, m.String(), one, lossy)
		if failed == nil {
			t.Errorf("mutant %q passes", m)
		}
		t.Logf("mutant %q: %v", m, failed)
	}
	for name := range peekMutants {
		failed := suite(t, name, "", false)
		if failed == nil {
			t.Errorf("mutant %q passes", name)
		}
		t.Logf("mutant %q: %v", name, failed)
	}
}

// TestFaults: what the doc comment promises of the fault model.
func TestFaults(t *testing.T) {
	var next memsink.Fault
	server := memsink.NewServer(memsink.Options{Replicated: true, Fault: func(memsink.Call, *sinks.Batch) memsink.Fault {
		f := next
		next = memsink.Fault{}
		return f
	}})
	k := server.Sink()
	if _, err := k.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := sinks.Progress{Lineage: 1}
	if err := k.Begin(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	server.Replicate()
	all := sinktest.Messages(at, 4, "a")
	b := sinks.Batch{Base: at, Messages: all[:2]}
	try := func(f memsink.Fault) error {
		next = f
		_, err := k.Publish(t.Context(), b)
		return err
	}
	if err := try(memsink.Fault{LoseRequest: true}); err == nil || len(server.Bodies()) != 0 {
		t.Errorf("a lost request: %v, %v", err, server.Bodies())
	}
	if err := try(memsink.Fault{Refuse: fmt.Errorf("no room")}); err == nil || len(server.Bodies()) != 0 {
		t.Errorf("refused: %v, %v", err, server.Bodies())
	}
	if err := try(memsink.Fault{LoseReply: true}); err == nil || len(server.Bodies()) != 2 {
		t.Errorf("a lost reply: %v, %v", err, server.Bodies())
	}
	if err := try(memsink.Fault{FailoverAfter: true}); err != nil || len(server.Bodies()) != 0 {
		t.Errorf("a failover behind it: %v, %v", err, server.Bodies())
	}
	ack, err := k.Publish(t.Context(), b)
	if err != nil || ack.Acknowledged != 0 || ack.Published.Sequence != 2 {
		t.Errorf("%+v, %v", ack, err)
	}
	server.Replicate()
	if ack, err = k.Publish(t.Context(), sinks.Batch{Base: b.End()}); err != nil || ack.Acknowledged != 2 {
		t.Errorf("%+v, %v", ack, err)
	}
	server.Failover()
	if got := len(server.Bodies()); got != 2 {
		t.Errorf("%d left of what was replicated", got)
	}
	if got := server.Applied(); got != 4 {
		t.Errorf("%d applied in all", got)
	}
	server.Stop()
	if err := try(memsink.Fault{}); err == nil {
		t.Error("a destination that is stopped answers")
	}
	server.Start()
	server.ForgetFence()
	if _, err := k.Publish(t.Context(), sinks.Batch{Base: b.End()}); err == nil {
		t.Error("published without a fence")
	}
}
