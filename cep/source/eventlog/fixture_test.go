package eventlog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/eventlog"
)

// centuries are longer ago than any fixture.
const centuries = 200 * 365 * 24 * time.Hour

// A log as any version wrote it opens for ever. Version 1 of the ids does not say what the data was: of what was trimmed
// nobody knows it.
func TestFixture(t *testing.T) {
	for version, differing := range map[string]int{"v1": 2, "v2": 4} {
		t.Run(version, func(t *testing.T) {
			dir := clone(t, filepath.Join("testdata", version))
			l := open(t, eventlog.Config{Dir: dir, IDWindow: centuries})
			defer shut(t, l)
			if r := l.Report(); r.Records != 4 || r.IDs != 4 || r.Gaps != 0 || r.Torn != 0 || r.IDsDamage != nil || l.Name() != "1" {
				t.Errorf("%+v, name %q", r, l.Name())
			}
			if got := texts(everything(t, l)); got != `{"n":3} {"n":4} ! {"n":5}` {
				t.Error(got)
			}
			a, err := l.Append(t.Context(), []eventlog.Event{{ID: "one"}, {ID: "four"}, {ID: "five"}, {ID: "two"}})
			if err != nil || a.Duplicates != 4 || a.Differing != differing {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// TestWriteFixture writes a log as TestFixture reads it into the directory that EVENTLOG_TEST_WRITE names: once for each
// version of the format.
func TestWriteFixture(t *testing.T) {
	dir := os.Getenv("EVENTLOG_TEST_WRITE")
	if dir == "" {
		dir = t.TempDir()
	}
	l := open(t, eventlog.Config{Dir: dir})
	add := func(data, id string) {
		if _, err := l.Append(t.Context(), []eventlog.Event{{Data: []byte(data), ID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	add(`{"n":1}`, "one")
	add(`{"n":2}`, "two")
	end := l.Status().End
	_ = readerOf(t, l).Close() // which names the log, in a new segment
	if err := l.Trim(end); err != nil {
		t.Fatal(err)
	}
	add(`{"n":3}`, "")
	add(`{"n":4}`, "four")
	s := eventlog.NewSource(eventlog.SourceConfig{
		Log: l, Stream: "s", Partitions: source.NewPartitions("s"), Input: &lineThenSilence{text: strings.Repeat("x", 100) + "\n", done: make(chan struct{})}, MaxRecord: 10,
	})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := s.Watch(ctx, []string{"1"}, &finder{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	add(`{"n":5}`, "five")
	if got := texts(everything(t, l)); got != `{"n":3} {"n":4} ! {"n":5}` {
		t.Error(got)
	}
	shut(t, l)
}

// lineThenSilence gives its text, and nothing more until a deadline is set.
type lineThenSilence struct {
	text string
	done chan struct{}
}

func (l *lineThenSilence) Read(p []byte) (int, error) {
	if l.text == "" {
		<-l.done
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, l.text)
	l.text = l.text[n:]
	return n, nil
}

func (l *lineThenSilence) SetReadDeadline(time.Time) error {
	close(l.done)
	return nil
}
