package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/checkpoint/boltstore"
	"github.com/cepd/cepd/sinks/filesink"
)

// TestRealFiles follows a file that grows, keeps its state in a real store and sends to a file, while it is abandoned again
// and again at random: each pair is found once, in order. It takes two seconds.
func TestRealFiles(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	var journal journal
	live := func(ctx context.Context, once bool) error {
		set, err := compile(pairs)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := codec.ParseTime("t,unix")
		if err != nil {
			t.Fatal(err)
		}
		parts := source.NewPartitions("auth")
		files, err := filesource.NewFollower(filesource.FollowerConfig{Stream: "auth", Paths: []string{in}, Partitions: parts, Finite: once})
		if err != nil {
			t.Fatal(err)
		}
		store, err := boltstore.Open(context.Background(), filepath.Join(dir, "state"), boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sink, err := filesink.New(filesink.Config{Path: out, Owner: "test/out"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(sink.Close(), store.Close(), files.Close()); err != nil {
				t.Error(err)
			}
		}()
		j, err := New(ctx, Config{
			Name: "test", Rules: set, Store: store, Partitions: parts, Once: once, Interval: 10 * time.Millisecond,
			Streams: []Stream{{Stream: engine.Stream{Name: "auth"}, Source: files, Time: spec}},
			Sinks:   []Sink{{Name: "out", Sink: sink, All: true}},
			Logger:  slog.New(slog.NewTextHandler(&journal, nil)),
		})
		if err != nil {
			return err
		}
		return j.Run(ctx)
	}
	f, err := os.Create(in)
	if err != nil {
		t.Fatal(err)
	}
	random, n := rand.New(rand.NewPCG(1, 2)), 0
	write := func(pairs int) {
		var b bytes.Buffer
		for range pairs {
			fmt.Fprintf(&b, "%s\n%s\n", event(2*n, "a", "x"), event(2*n+1, "b", "x"))
			n++
		}
		if _, err := f.Write(b.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+random.IntN(300))*time.Millisecond)
		ended := make(chan error)
		go func() { ended <- live(ctx, false) }()
		for ctx.Err() == nil {
			write(1 + random.IntN(50))
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("run: %v\n%s", err, &journal)
		}
		cancel()
	}
	write(1)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := live(t.Context(), true); err != nil {
		t.Fatalf("the last run: %v\n%s", err, &journal)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != n {
		t.Errorf("%d alerts of %d\n%s", len(lines), n, &journal)
	}
	for i, line := range lines[:min(len(lines), n)] {
		if want := time.Unix(int64(2*i+1), 0).UTC().Format(`"2006-01-02T15:04:05Z"`); member(line, "time") != want {
			t.Fatalf("alert %d: %s, want time %s", i, line, want)
		}
	}
}
