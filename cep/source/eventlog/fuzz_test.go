package eventlog_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep/source/eventlog"
)

// Whatever bytes a segment has, behind a sound header or without one, the log opens or says why not, reads to its end, and
// takes events, which are there when it is opened again.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	l := open(f, eventlog.Config{Dir: dir})
	for _, e := range []eventlog.Event{{Data: []byte(`{"n":1}`)}, {Data: []byte(`{"n":2}`), ID: "two"}, {Data: []byte(strings.Repeat("x", 300))}} {
		if _, err := l.Append(f.Context(), []eventlog.Event{e}); err != nil {
			f.Fatal(err)
		}
	}
	shut(f, l)
	whole := readFile(f, segments(f, dir)[0])
	name := filepath.Base(segments(f, dir)[0])
	f.Add(whole, true)
	f.Add(whole, false)
	for _, n := range []int{0, 8, 55, 56, 57, 100, len(whole) - 1} {
		f.Add(whole[:n], true)
	}
	for _, i := range []int{8, 20, 56, 60, 64, 70, 90, 200} {
		b := slices.Clone(whole)
		b[i] ^= 0x40
		f.Add(b, false)
	}
	header := whole[:56]
	f.Fuzz(func(t *testing.T, b []byte, sound bool) {
		dir := t.TempDir()
		if sound && len(b) >= len(header) {
			b = slices.Concat(header, b[len(header):])
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := eventlog.Open(eventlog.Config{Dir: dir})
		if err != nil {
			return
		}
		appendAll(t, l, "new")
		all := drain(t, l)
		if n := uint64(len(all)); n != l.Report().Records+1 || all[n-1] != "new" {
			t.Errorf("%q; %d records were found", all, l.Report().Records)
		}
		shut(t, l)
		l = open(t, eventlog.Config{Dir: dir})
		if again := drain(t, l); !slices.Equal(all, again) {
			t.Errorf("%q, then %q", all, again)
		}
		shut(t, l)
	})
}

// drain ends the log and returns its records, without what is damaged and what is too large.
func drain(t *testing.T, l *eventlog.Log) (all []string) {
	t.Helper()
	r := readerOf(t, l)
	defer func() { _ = r.Close() }()
	l.End()
	for {
		e := next(r)
		switch {
		case e.Err == "end: EOF":
			return all
		case strings.HasPrefix(e.Err, "end: "):
			t.Fatal(e.Err)
		case e.Err == "":
			all = append(all, e.Data)
		}
	}
}

// Whatever bytes are in the file of ids, the log opens.
func FuzzIDs(f *testing.F) {
	f.Add(readFile(f, filepath.Join("testdata", "v1", "ids")))
	f.Add(readFile(f, filepath.Join("testdata", "v2", "ids")))
	f.Add([]byte("cepd-ids\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ids"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := eventlog.Open(eventlog.Config{Dir: dir, IDWindow: centuries})
		if err != nil {
			if !strings.Contains(err.Error(), "newer version") {
				t.Error(err)
			}
			return
		}
		if r := l.Report(); r.IDs > len(b)/24 {
			t.Errorf("%d ids in %d bytes", r.IDs, len(b))
		}
		shut(t, l)
	})
}
