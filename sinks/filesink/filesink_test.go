//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filesink_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
	"github.com/cepd/cepd/sinks/sinktest"
)

func newSink(t *testing.T, path string) *filesink.Sink {
	t.Helper()
	k, err := filesink.New(filesink.Config{Path: path, Owner: "job/out"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return k
}

// lines returns the lines of a file without their ends; the last one must have one.
func lines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return nil
	}
	text, ok := strings.CutSuffix(string(b), "\n")
	if !ok {
		t.Fatalf("%s ends in half a line", path)
	}
	return strings.Split(text, "\n")
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Subject{New: func(t *testing.T) sinktest.Destination {
		path := filepath.Join(t.TempDir(), "alerts.jsonl")
		return sinktest.Destination{
			Sink: func() sinks.Sink {
				k, err := filesink.New(filesink.Config{Path: path, Owner: "job/out"})
				if err != nil {
					t.Fatal(err)
				}
				return k
			},
			Bodies: func() []string { return lines(t, path) },
		}
	}})
}

func TestWriterConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Subject{Apart: true, Unfenced: true, New: func(*testing.T) sinktest.Destination {
		var out bytes.Buffer
		return sinktest.Destination{
			Sink: func() sinks.Sink { return filesink.NewWriter(&out, sinks.Raw, "") },
			Bodies: func() []string {
				var list []string
				for line := range strings.Lines(out.String()) {
					list = append(list, strings.TrimSuffix(line, "\n"))
				}
				return list
			},
		}
	}})
}

func Example() {
	out := os.Stdout
	w := filesink.NewWriter(out, sinks.Raw, "")
	m := sinks.Message{Sequence: 1, Body: []byte(`{"rule":"brute","title":"5 failures"}`)}
	ack, err := w.Publish(context.Background(), sinks.Batch{Messages: []sinks.Message{m}})
	fmt.Println(ack.Published.Sequence, err)
	// Output:
	// {"rule":"brute","title":"5 failures"}
	// 1 <nil>
}
