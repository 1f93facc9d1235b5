// Package sourcetest holds the conformance suites of sources: what package source promises, every implementation keeps.
//
// [Run] checks readers of what has an end; [RunSource] checks sources of running jobs, which find partitions and wait, and
// [RunRealSource] those of them that wait for something outside.
//
//	sourcetest.Run(t, sourcetest.Source{
//		Open: func() (source.Reader, error) { ... },
//		Want: []string{`{"a":1}`, `{"a":2}`},
//	})
//
// # Concurrency
//
// Run opens readers one after the other. RunSource starts what it needs and waits for it; its time is that of
// testing/synctest, so a source under test must not wait for anything outside of its own goroutines.
//
// # Cost
//
// It reads the content about twice for each record: use small ones.
//
// # Caveats
//
// A source that cannot be read again is opened anew for each check, so Open must give the same content each time.
package sourcetest

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cepd/cepd/cep/source"
)

// Source is a source under test.
type Source struct {
	// Open opens the same content from its start each time.
	Open func() (source.Reader, error)
	// Want are the records.
	Want []string
	// Once says that a reader cannot go back.
	Once bool
}

// Run checks the promises of [source.Reader], each in a test of its own.
func Run(t *testing.T, s Source) {
	t.Run("reads all", s.readsAll)
	t.Run("is the same partition again", s.samePartition)
	t.Run("seeks", s.seeks)
	t.Run("survives cancellation", s.cancels)
	t.Run("reports progress", s.progress)
	t.Run("closes", s.closes)
}

func (s Source) open(t *testing.T) source.Reader {
	t.Helper()
	r, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// rest reads to the end.
func rest(t *testing.T, r source.Reader) (records []string, offsets []int64) {
	t.Helper()
	for {
		rec, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return records, offsets
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, string(rec.Data))
		offsets = append(offsets, rec.Offset)
	}
}

func (s Source) readsAll(t *testing.T) {
	r := s.open(t)
	got, offsets := rest(t, r)
	if d := cmp.Diff(s.Want, got); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
	for i := 1; i < len(offsets); i++ {
		if offsets[i] <= offsets[i-1] {
			t.Errorf("offset %d follows %d", offsets[i], offsets[i-1])
		}
	}
	if len(offsets) > 0 && offsets[0] < 0 {
		t.Errorf("the first offset is %d", offsets[0])
	}
	if _, err := r.Next(context.Background()); !errors.Is(err, io.EOF) {
		t.Errorf("Next at the end: %v", err)
	}
}

func (s Source) samePartition(t *testing.T) {
	p, q := s.open(t), s.open(t)
	if p.Partition() == nil || p.Partition().Compare(q.Partition()) != 0 {
		t.Errorf("partition %v, then %v", p.Partition(), q.Partition())
	}
	if d := cmp.Diff(p.Format(), q.Format()); d != "" {
		t.Errorf("format: %s", d)
	}
	if p.Name() == "" {
		t.Error("no name")
	}
}

// seeks goes to each record from a reader that has read nothing, some and all.
func (s Source) seeks(t *testing.T) {
	all, offsets := rest(t, s.open(t))
	for i, offset := range offsets {
		for _, before := range []int{0, 1, len(all) / 2, len(all) + 1} {
			r := s.open(t)
			for range before {
				if _, err := r.Next(context.Background()); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			err := r.SeekTo(offset)
			if s.Once && i < before {
				if !errors.Is(err, source.ErrNotSeekable) {
					t.Errorf("to record %d after %d: %v", i, before, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("to record %d after %d: %v", i, before, err)
			}
			got, at := rest(t, r)
			if d := cmp.Diff(all[i:], got); d != "" {
				t.Errorf("to record %d after %d (-want +got):\n%s", i, before, d)
			}
			if d := cmp.Diff(offsets[i:], at); d != "" {
				t.Errorf("offsets from record %d after %d (-want +got):\n%s", i, before, d)
			}
		}
	}
	for i, offset := range offsets {
		r := s.open(t)
		if err := r.SeekTo(offset + 1); err != nil {
			t.Fatalf("behind record %d: %v", i, err)
		}
		if got, _ := rest(t, r); !cmp.Equal(all[i+1:], got, cmpopts.EquateEmpty()) {
			t.Errorf("behind record %d: %d records, want %d", i, len(got), len(all)-i-1)
		}
	}
	if s.Once {
		return
	}
	r := s.open(t)
	for range 2 {
		if err := r.SeekTo(0); err != nil {
			t.Fatal(err)
		}
		if got, _ := rest(t, r); len(got) != len(all) {
			t.Errorf("from 0: %d records of %d", len(got), len(all))
		}
	}
}

func (s Source) cancels(t *testing.T) {
	r := s.open(t)
	ctx, cancel := context.WithCancel(context.Background())
	if len(s.Want) > 0 {
		if _, err := r.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next with a cancelled context: %v", err)
	}
	if got, _ := rest(t, r); len(s.Want) > 0 && len(got) != len(s.Want)-1 {
		t.Errorf("%d records after one and a cancellation, want %d", len(got), len(s.Want)-1)
	}
}

func (s Source) progress(t *testing.T) {
	r := s.open(t)
	_, total := r.Progress()
	last := int64(0)
	for {
		_, err := r.Next(context.Background())
		read, now := r.Progress()
		if read < last {
			t.Errorf("%d bytes read, then %d", last, read)
		}
		if now != total {
			t.Errorf("total %d, then %d", total, now)
		}
		if last = read; err != nil {
			break
		}
	}
	if total >= 0 && last != total {
		t.Errorf("%d of %d bytes read at the end", last, total)
	}
}

func (s Source) closes(t *testing.T) {
	for n := range min(3, len(s.Want)+1) {
		r := s.open(t)
		for range n {
			if _, err := r.Next(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := r.Close(); err != nil {
				t.Errorf("close after %d records: %v", n, err)
			}
		}
	}
}
