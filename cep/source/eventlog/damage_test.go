package eventlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep/source/eventlog"
)

// clone copies a log that nobody has open.
func clone(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Wherever the last write breaks off, and whatever of it the disk has kept, everything before it is there, and its offsets
// are not used again.
func TestTorn(t *testing.T) {
	dir := t.TempDir()
	l := open(t, eventlog.Config{Dir: dir})
	appendAll(t, l, "a", "b")
	durable := len(readFile(t, segments(t, dir)[0]))
	before := everything(t, l)
	appendAll(t, l, "c", strings.Repeat("d", 200), "e")
	after := everything(t, l)
	shut(t, l)
	path := segments(t, dir)[0]
	whole := readFile(t, path)
	for name, keep := range map[string]func(n int) []byte{
		"cut": func(n int) []byte { return whole[:n] },
		"zeros": func(n int) []byte {
			return append(slices.Clone(whole[:n]), make([]byte, len(whole)-n)...)
		},
		"beginning lost": func(n int) []byte {
			b := slices.Clone(whole)
			clear(b[durable:n])
			return b
		},
	} {
		for n := durable; n <= len(whole); n += 7 {
			dir := clone(t, dir)
			writeFile(t, segments(t, dir)[0], keep(n))
			l := open(t, eventlog.Config{Dir: dir})
			r := l.Report()
			got := everything(t, l)
			if len(got) < 2 || !cmp.Equal(got[:2], before) {
				t.Fatalf("%s at %d: %v", name, n, got)
			}
			for _, e := range got[2:] {
				if e.Err == "" && !slices.Contains(after, e) {
					t.Fatalf("%s at %d: %v was never written", name, n, e)
				}
			}
			if r.Torn == 0 && r.Gaps == 0 && n != durable && n != len(whole) && len(got) != 3 && len(got) != 4 {
				t.Errorf("%s at %d: %+v", name, n, r)
			}
			end := l.Status().End
			appendAll(t, l, "new")
			again := everything(t, l)
			if last := again[len(again)-1]; last.Data != "new" || last.Offset < end || r.Torn > 0 && last.Offset < end+r.Torn {
				t.Errorf("%s at %d: appended at %d; the log ended at %d, with %d torn behind", name, n, last.Offset, end, r.Torn)
			}
			shut(t, l)
			l = open(t, eventlog.Config{Dir: dir})
			if d := cmp.Diff(again, everything(t, l)); d != "" {
				t.Errorf("%s at %d, opened again: %s", name, n, d)
			}
			if r := l.Report(); r.Torn != 0 {
				t.Errorf("%s at %d, opened again: %+v", name, n, r)
			}
			shut(t, l)
			_ = os.RemoveAll(dir)
		}
	}
}

// large makes a log of several segments, in which each record is known by its number.
func large(t testing.TB) (dir string, all []entry) {
	t.Helper()
	dir = t.TempDir()
	l := open(t, eventlog.Config{Dir: dir, Max: eventlog.MaxMin})
	for i := range 30 {
		appendAll(t, l, fmt.Sprintf("%d %s", i, strings.Repeat("x", 60_000)))
	}
	all = everything(t, l)
	shut(t, l)
	if n := len(segments(t, dir)); n < 3 || n > 6 {
		t.Fatalf("%d segments", n)
	}
	return dir, all
}

// numbers are the first words of records; a gap is its text.
func numbers(all []entry) string {
	var b []string
	for _, e := range all {
		if e.Err != "" {
			b = append(b, "!"+e.Err[strings.LastIndex(e.Err, ": ")+2:])
			continue
		}
		n, _, _ := strings.Cut(e.Data, " ")
		b = append(b, n)
	}
	return strings.Join(b, " ")
}

func TestDamage(t *testing.T) {
	whole, all := large(t)
	want := numbers(all)
	for name, test := range map[string]struct {
		damage func(t *testing.T, dir string, files []string)
		want   func() string
		gaps   int
		lost   uint64
	}{
		"a byte of a record": {
			damage: func(t *testing.T, _ string, files []string) {
				b := readFile(t, files[0])
				b[56+3*60_100] ^= 1
				writeFile(t, files[0], b)
			},
			want: func() string {
				return strings.Replace(want, " 2 3 ", fmt.Sprintf(" 2 !%d bytes that held 1 records are skipped ", len(all[3].Data)+32), 1)
			},
			gaps: 1, lost: 1,
		},
		"a stretch over a boundary": {
			damage: func(t *testing.T, _ string, files []string) {
				b := readFile(t, files[0])
				clear(b[56+2*60_100 : 56+4*60_000])
				writeFile(t, files[0], b)
			},
			want: func() string {
				return strings.Replace(want, " 2 3 ", fmt.Sprintf(" !%d bytes that held 2 records are skipped ", len(all[2].Data)+len(all[3].Data)+64), 1)
			},
			gaps: 1, lost: 2,
		},
		"a header": {
			damage: func(t *testing.T, _ string, files []string) {
				b := readFile(t, files[1])
				b[30] ^= 1
				writeFile(t, files[1], b)
			},
			want: func() string { return want }, gaps: 1,
		},
		"a segment is gone": {
			damage: func(t *testing.T, _ string, files []string) {
				if err := os.Remove(files[1]); err != nil {
					t.Fatal(err)
				}
			},
			want: func() string { return "" }, gaps: 1, lost: 9,
		},
		"a new segment without a header": {
			damage: func(t *testing.T, dir string, _ []string) {
				writeFile(t, filepath.Join(dir, fmt.Sprintf("%020d.log", 9_000_000)), []byte("cepd"))
			},
			want: func() string { return want },
		},
		"other files": {
			damage: func(t *testing.T, dir string, _ []string) {
				writeFile(t, filepath.Join(dir, "notes.log"), nil)
				writeFile(t, filepath.Join(dir, "1.log"), nil)
			},
			want: func() string { return want },
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := clone(t, whole)
			test.damage(t, dir, segments(t, dir))
			for range 2 {
				l := open(t, eventlog.Config{Dir: dir, Max: eventlog.MaxMin})
				if r := l.Report(); r.Gaps != test.gaps || r.Lost != test.lost || r.Torn != 0 {
					t.Errorf("%+v", r)
				}
				got := everything(t, l)
				if w := test.want(); w != "" {
					if d := cmp.Diff(w, numbers(got)); d != "" {
						t.Error(d)
					}
				} else if !strings.Contains(numbers(got), fmt.Sprintf("that held %d records are skipped", test.lost)) {
					t.Error(numbers(got))
				}
				shut(t, l)
			}
		})
	}
	t.Run("every header", func(t *testing.T) {
		dir := clone(t, whole)
		for _, f := range segments(t, dir) {
			b := readFile(t, f)
			b[0] = 'x'
			writeFile(t, f, b)
		}
		if _, err := eventlog.Open(eventlog.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "move the log away") {
			t.Error(err)
		}
	})
	t.Run("newer", func(t *testing.T) {
		dir := clone(t, whole)
		b := readFile(t, segments(t, dir)[0])
		b[8] = 2
		writeFile(t, segments(t, dir)[0], b)
		if _, err := eventlog.Open(eventlog.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "newer version of cepd (format 2; this one knows 1)") {
			t.Error(err)
		}
	})
	t.Run("ids", func(t *testing.T) {
		dir := clone(t, whole)
		writeFile(t, filepath.Join(dir, "ids"), []byte("cepd-ids\x01\x00\x00\x00 and nothing that makes sense"))
		l := open(t, eventlog.Config{Dir: dir})
		if r := l.Report(); !errors.Is(r.IDsDamage, eventlog.ErrDamaged) {
			t.Errorf("%+v", r)
		}
		shut(t, l)
	})
}

// Damage anywhere costs the records that it touches, and no other.
func TestAnyDamage(t *testing.T) {
	dir := t.TempDir()
	l := open(t, eventlog.Config{Dir: dir})
	for i := range 60 {
		// Some contents look like records themselves.
		appendAll(t, l, fmt.Sprintf("%d \xce\xff\x00\x00\x00\x20%s", i, strings.Repeat("\xce\xff\x00", i%17)))
	}
	all := everything(t, l)
	end := l.Status().End
	shut(t, l)
	path := segments(t, dir)[0]
	whole := readFile(t, path)
	header := len(whole) - int(end)
	rapid.Check(t, func(r *rapid.T) {
		b := slices.Clone(whole)
		for range rapid.IntRange(1, 4).Draw(r, "stretches") {
			from := rapid.IntRange(header, len(b)-1).Draw(r, "from")
			n := min(rapid.IntRange(1, 400).Draw(r, "length"), len(b)-from)
			for i := from; i < from+n; i++ {
				b[i] = rapid.Byte().Draw(r, "byte")
			}
		}
		for _, s := range segments(t, dir) {
			_ = os.Remove(s)
		}
		writeFile(t, path, b)
		var want []string
		lastTouched := false
		for i, e := range all {
			next := int(end)
			if i+1 < len(all) {
				next = int(all[i+1].Offset)
			}
			lastTouched = !bytes.Equal(b[header+int(e.Offset):header+next], whole[header+int(e.Offset):header+next])
			if !lastTouched {
				want = append(want, e.Data)
			}
		}
		l, err := eventlog.Open(eventlog.Config{Dir: dir})
		if err != nil {
			r.Fatal(err)
		}
		report := l.Report()
		if lost := uint64(len(all) - len(want)); report.Records != uint64(len(want)) || report.Torn == 0 && report.Lost != lost || report.Torn > 0 != lastTouched {
			r.Errorf("%+v, want %d records, %d lost", report, len(want), lost)
		}
		var got []string
		for _, e := range readAll(r, l, len(want)+report.Gaps) {
			if e.Err == "" {
				got = append(got, e.Data)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			r.Error(d)
		}
		if err := l.Close(); err != nil {
			r.Error(err)
		}
	})
}

// readAll reads n entries.
func readAll(t *rapid.T, l *eventlog.Log, n int) (all []entry) {
	r, err := newReader(l)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for range n {
		all = append(all, next(r))
	}
	return all
}
