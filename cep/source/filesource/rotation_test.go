package filesource_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// logs is a directory of rotated logs and what was written to them.
type logs struct {
	t       *rapid.T
	dir     string
	next    int // the number of the next line
	half    string
	rotated []string // oldest first, without those that are deleted
	count   int
}

func (l *logs) check(err error) {
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *logs) current() string { return filepath.Join(l.dir, "app.log") }

func (l *logs) append(text string) {
	f, err := os.OpenFile(l.current(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	l.check(err)
	_, err = f.WriteString(text)
	l.check(errors.Join(err, f.Close()))
}

// write appends lines; cut says that the last one is written in part.
func (l *logs) write(n int, cut bool) {
	text := l.half
	l.half = ""
	for range n {
		text += lineOf(fmt.Sprint("n", l.next))
		l.next++
	}
	if cut && n > 0 {
		k := len(text) - rapid.IntRange(1, 40).Draw(l.t, "missing")
		text, l.half = text[:k], text[k:]
	}
	l.append(text)
}

// rotate moves the log away, and says whether there was anything.
func (l *logs) rotate(copied bool) {
	l.write(0, false) // a writer ends its line
	if info, err := os.Stat(l.current()); err != nil || info.Size() == 0 {
		return
	}
	l.count++
	to := filepath.Join(l.dir, fmt.Sprintf("app.log.%03d", l.count))
	if copied {
		b, err := os.ReadFile(l.current())
		l.check(errors.Join(err, os.WriteFile(to, b, 0o600), os.Truncate(l.current(), 0)))
	} else {
		l.check(os.Rename(l.current(), to))
	}
	l.rotated = append(l.rotated, to)
}

func (l *logs) compress(t *testing.T, i int) {
	from := l.rotated[i]
	if strings.HasSuffix(from, ".gz") {
		return
	}
	b, err := os.ReadFile(from)
	l.check(err)
	l.check(errors.Join(os.WriteFile(from+".gz", zipped(t, string(b)), 0o600), os.Remove(from)))
	l.rotated[i] += ".gz"
}

// Whatever is done to logs, by rename, by copy, by compression, while somebody watches or not: every line is read once, and
// the lines of a file in their order.
func TestAnyRotation(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			r.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) { anyRotation(t, r, dir) })
	})
}

func anyRotation(t *testing.T, r *rapid.T, dir string) {
	l := &logs{t: r, dir: dir}
	seen := map[string]int{}
	w := watch(t, all(dir), nil)
	die := func() map[string]int64 {
		at := w.stop()
		for name, records := range w.got {
			last := -1
			for _, text := range records {
				var n int
				if _, err := fmt.Sscanf(word(text), "n%d", &n); err != nil {
					r.Fatalf("%s: a record %q", name, text)
				}
				if n <= last {
					r.Errorf("%s: line %d follows %d", name, n, last)
				}
				last = n
				seen[word(text)]++
			}
		}
		return at
	}
	for range rapid.IntRange(1, 40).Draw(r, "steps") {
		switch step := rapid.SampledFrom([]string{"write", "write", "write", "half", "rename", "copy", "compress", "delete", "wait", "wait", "long", "restart", "away"}).
			Draw(r, "step"); step {
		case "write", "half":
			l.write(rapid.IntRange(1, 30).Draw(r, "lines"), step == "half")
		case "rename", "copy":
			l.rotate(step == "copy")
		case "compress":
			if n := len(l.rotated); n > 0 {
				l.compress(t, rapid.IntRange(0, n-1).Draw(r, "file"))
			}
		case "delete": // who deletes what nobody has read loses it
			w.after(5 * time.Second)
			if len(l.rotated) > 0 {
				l.check(os.Remove(l.rotated[0]))
				l.rotated = l.rotated[1:]
			}
		case "wait":
			w.after(time.Duration(rapid.IntRange(1, 3000).Draw(r, "ms")) * time.Millisecond)
		case "long":
			w.after(time.Minute)
		case "restart":
			w = watch(t, all(dir), die())
		case "away":
			at := die()
			l.write(rapid.IntRange(1, 30).Draw(r, "lines"), false)
			l.rotate(rapid.Bool().Draw(r, "copied"))
			if n := len(l.rotated); n > 0 && rapid.Bool().Draw(r, "compressed") {
				l.compress(t, n-1)
			}
			l.write(rapid.IntRange(0, 3).Draw(r, "lines"), false)
			w = watch(t, all(dir), at)
		}
	}
	l.write(0, false)
	w.after(time.Minute)
	die()
	for i := range l.next {
		if n := seen[fmt.Sprint("n", i)]; n != 1 {
			r.Errorf("line %d of %d was read %d times", i, l.next, n)
		}
	}
}
