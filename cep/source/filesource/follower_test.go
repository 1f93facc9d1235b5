package filesource_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
)

func TestRotation(t *testing.T) {
	in(t, "renamed, and both are seen", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30)))
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second).want(numbered(0, 30))
		rename(t, log, log+".1")
		appendTo(t, log+".1", linesOf("late"))
		w.after(time.Second)
		appendTo(t, log+".1", linesOf("later"))
		overwrite(t, log, linesOf("new"))
		w.after(time.Minute)
		appendTo(t, log+".1", linesOf("last"))
		appendTo(t, log, linesOf("newer"))
		w.after(time.Second).want(numbered(0, 30) + " late later last | new newer")
		w.wantTrouble()
	})
	in(t, "renamed out of sight", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf("a b"))
		w := watch(t, filesource.FollowerConfig{Paths: []string{log}}, nil)
		defer w.stop()
		w.after(time.Second).want("a b")
		rename(t, log, log+".1")
		appendTo(t, log+".1", linesOf("late"))
		overwrite(t, log, linesOf("new"))
		w.after(20 * time.Second).want("a b late | new")
		appendTo(t, log+".1", linesOf("later"))
		w.after(20 * time.Second).want("a b late later | new")
		w.after(20 * time.Second).want("a b late later . | new")
		w.wantTrouble()
	})
	in(t, "copied and truncated, and the copy is seen", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30)))
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second).want(numbered(0, 30))
		appendTo(t, log, linesOf("late")) // which nobody reads in time
		copyFile(t, log, log+".1")
		if err := os.Truncate(log, 0); err != nil {
			t.Fatal(err)
		}
		w.after(5 * time.Second).want(numbered(0, 30) + " late")
		appendTo(t, log, linesOf("new"))
		w.after(time.Minute).want(numbered(0, 30) + " late | new")
		w.wantTrouble()
	})
	in(t, "copied out of sight and truncated", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30)))
		w := watch(t, filesource.FollowerConfig{Paths: []string{log}}, nil)
		defer w.stop()
		w.after(time.Second).want(numbered(0, 30))
		overwrite(t, log, linesOf("new"))
		w.after(time.Second).want(numbered(0, 30) + " | new")
		w.wantTrouble()
		w.after(time.Second).wantTrouble(log+" was truncated", "to byte 1820", "are lost, if there were any")
		w.after(time.Minute).want(numbered(0, 30) + " . | new")
		w.wantTrouble(log+" was truncated", "to byte 1820", "are lost, if there were any")
		w.after(10 * time.Minute).wantTrouble()
		if len(w.said) != 1 {
			t.Errorf("one truncation is told of once, and not %q", w.said)
		}
	})
	in(t, "truncated after a silence", func(t *testing.T, dir string) {
		for name, more := range map[string]int{"shorter.log": 5, "longer.log": 40} {
			log := filepath.Join(dir, name)
			overwrite(t, log, linesOf(numbered(0, 30)))
			w := watch(t, filesource.FollowerConfig{Paths: []string{log}}, nil)
			w.after(5 * time.Minute).want(numbered(0, 30)) // it is not open any more
			overwrite(t, log, linesOf(numbered(100, more)))
			w.after(2 * time.Second).want(numbered(0, 30) + " | " + numbered(100, more))
			w.wantTrouble(log + " was truncated: all that was seen of it was read, to byte 1820")
			w.after(time.Minute).want(numbered(0, 30) + " . | " + numbered(100, more))
			if len(w.said) != 1 {
				t.Errorf("%q", w.said)
			}
			w.stop()
		}
	})
	in(t, "truncated again and again", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		w := watch(t, filesource.FollowerConfig{Paths: []string{dir}}, nil)
		defer w.stop()
		for i := range 3 {
			overwrite(t, log, linesOf(numbered(100*i, 30)))
			w.after(2 * time.Second)
		}
		w.want(numbered(0, 30) + " | " + numbered(100, 30) + " | " + numbered(200, 30))
		w.after(time.Minute).want(numbered(0, 30) + " . | " + numbered(100, 30) + " . | " + numbered(200, 30))
		w.wantTrouble(log + " was truncated")
		w.after(10 * time.Minute).wantTrouble()
	})
	in(t, "copied after it was truncated", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		text := linesOf(numbered(0, 30))
		overwrite(t, log, text)
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second)
		overwrite(t, log, linesOf("new"))
		w.after(5*time.Second).wantTrouble(log+" was truncated", "unless a copy of it is found")
		overwrite(t, log+".1", text+linesOf("late"))
		w.after(2 * time.Second).want(numbered(0, 30) + " late | new")
		w.wantTrouble()
		w.after(2 * time.Minute) // the copy is not held open any more
		remove(t, log+".1")
		w.after(time.Minute).want(numbered(0, 30) + " late . | new")
		w.wantTrouble() // nothing of the copy was lost
	})
	in(t, "written anew beyond where it was read", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30)))
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second).want(numbered(0, 30))
		overwrite(t, log, linesOf(numbered(100, 40)))
		w.after(time.Minute).want(numbered(0, 30) + " . | " + numbered(100, 40))
		w.wantTrouble("was truncated")
	})
	in(t, "truncated with the same beginning", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 40)))
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second).want(numbered(0, 40))
		overwrite(t, log, linesOf(numbered(0, 25)))
		w.after(15 * time.Second)
		w.wantTrouble("it was cut to 1515 bytes")
		appendTo(t, log, linesOf(numbered(100, 30)))
		w.after(15 * time.Second).want(numbered(0, 40))
		w.wantTrouble("it was written anew")
		overwrite(t, log, linesOf(numbered(0, 41)))
		w.after(15 * time.Second).want(numbered(0, 41)) // it was restored
		w.wantTrouble()
	})
	in(t, "renamed and compressed", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30)))
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second)
		rename(t, log, log+".1")
		overwrite(t, log, linesOf("new"))
		appendTo(t, log+".1", linesOf("late"))
		text, err := os.ReadFile(log + ".1")
		if err != nil {
			t.Fatal(err)
		}
		packed := string(zipped(t, string(text)))
		overwrite(t, log+".1.gz", packed[:len(packed)/2])
		w.after(5 * time.Second)
		w.wantTrouble()
		overwrite(t, log+".1.gz", packed)
		remove(t, log+".1")
		w.after(time.Minute).want(numbered(0, 30) + " late . | new")
		rename(t, log+".1.gz", log+".2.gz")
		w.after(time.Minute).want(numbered(0, 30) + " late . | new")
		w.wantTrouble()
	})
	in(t, "gone, and back compressed with more", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30)))
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second)
		remove(t, log)
		w.after(time.Minute).want(numbered(0, 30) + " .")
		overwrite(t, filepath.Join(dir, "back.gz"), string(zipped(t, linesOf(numbered(0, 30)+" more"))))
		w.after(time.Minute).want(numbered(0, 30) + " more .")
		w.wantTrouble()
	})
	in(t, "deleted while it is read", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf("a"))
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second)
		f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		remove(t, log)
		for range 3 {
			if _, err := f.WriteString(lineOf("more")); err != nil {
				t.Fatal(err)
			}
			w.after(20 * time.Second)
		}
		if _, err := f.WriteString(`{"half`); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute).want("a more more more half .")
		w.wantTrouble("no file matches")
	})
}

// TestLostAtTheEnd: a follower that is stopped says first what of contents that are gone has not been read. Nobody else can: the next
// one does not know how much there was.
func TestLostAtTheEnd(t *testing.T) {
	in(t, "truncated a moment ago", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30)))
		w := watch(t, filesource.FollowerConfig{Paths: []string{log}}, nil)
		w.after(time.Second)
		overwrite(t, log, linesOf(numbered(100, 40)))
		w.after(300 * time.Millisecond) // it was read from, and not looked for
		w.wantTrouble()
		w.stop()
		w.wantTrouble(log + " was truncated: all that was seen of it was read, to byte 1820") // the others are of the new content
	})
	in(t, "deleted before it was read to its end", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30)))
		w := &watching{t: t, follow: follower(t, all(dir)), at: map[string]int64{}, got: map[string][]string{}, ended: map[string]bool{}, paused: true}
		w.ctx, w.cancel = context.WithCancel(context.Background())
		w.start(nil)
		w.after(time.Second)
		remove(t, log)
		w.after(5 * time.Second).wantTrouble()
		w.stop()
		w.wantTrouble(log+" was truncated or is gone", "to byte 0 of the 1820")
	})
	in(t, "deleted, and read to its end", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf("a b"))
		overwrite(t, log+".gz", string(zipped(t, linesOf("c d"))))
		overwrite(t, filepath.Join(dir, "other"), linesOf("other"))
		w := watch(t, all(dir), nil)
		w.after(time.Second)
		remove(t, log)
		remove(t, log+".gz")
		w.after(time.Second)
		w.stop()
		w.wantTrouble()
	})
	in(t, "half a compressed file is gone", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.gz")
		good := zipped(t, linesOf(numbered(0, 5000)))
		overwrite(t, log, string(good[:len(good)*3/4]))
		overwrite(t, filepath.Join(dir, "other"), linesOf("other"))
		w := watch(t, all(dir), nil)
		w.after(time.Second)
		remove(t, log)
		w.after(5 * time.Second).wantTrouble()
		w.stop()
		w.wantTrouble(log+" is gone before its end", "is lost")
	})
	in(t, "half a line", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf(numbered(0, 30))+`{"half`)
		overwrite(t, filepath.Join(dir, "other"), linesOf("other"))
		w := watch(t, all(dir), nil)
		w.after(2 * time.Second)
		overwrite(t, log, "")
		w.after(2 * time.Second).wantTrouble("it was read to byte 1820 of the 1826")
		w.stop()
		w.wantTrouble("it was read to byte 1820 of the 1826")
		if len(w.said) != 1 {
			t.Errorf("%q", w.said)
		}
	})
}

func TestGrowing(t *testing.T) {
	in(t, "half a line waits", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second).wantTrouble("no file matches")
		overwrite(t, log, "")
		w.after(time.Second).wantTrouble()
		text := linesOf("a b c")
		for i := range text {
			appendTo(t, log, text[i:i+1])
			w.after(time.Second)
		}
		w.want("a b c")
		w.wantTrouble()
	})
	in(t, "begun at the end", func(t *testing.T, dir string) {
		log, packed := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.gz")
		overwrite(t, log, linesOf(numbered(0, 2000))+`{"ha`)
		overwrite(t, packed, string(zipped(t, linesOf("b c"))))
		w := &watching{t: t, follow: follower(t, all(dir)), at: map[string]int64{}, got: map[string][]string{}, ended: map[string]bool{}, paused: true}
		w.ctx, w.cancel = context.WithCancel(context.Background())
		w.start(nil)
		w.after(time.Second)
		for i, want := range []int64{int64(len(linesOf(numbered(0, 2000)))), int64(len(linesOf("b c")))} {
			r := w.found[i]
			if at, err := r.(source.Ender).SeekEnd(w.ctx); at != want || err != nil {
				t.Errorf("%s ends at %d, %v; want %d", r.Name(), at, err, want)
			}
			w.wg.Go(func() { w.read(r) })
		}
		w.after(10 * time.Second).want(" | .")
		appendTo(t, log, `lf":1}`+"\n"+linesOf("new"))
		w.after(time.Second).want("half new | .")
		w.stop()
	})
	in(t, "a line that is too large", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		c := all(dir)
		c.MaxRecord = 100_000
		overwrite(t, log, linesOf("a"))
		w := watch(t, c, nil)
		defer w.stop()
		for range 5 {
			appendTo(t, log, strings.Repeat("x", 50_000))
			w.after(time.Second)
		}
		w.want("a")
		appendTo(t, log, "\n"+linesOf("b"))
		w.after(time.Second).want("a b")
		if len(w.bad) != 1 || !errors.Is(w.bad[0], source.ErrTooLarge) {
			t.Errorf("%v", w.bad)
		}
	})
	in(t, "rows", func(t *testing.T, dir string) {
		for _, name := range []string{"1.csv", "2.csv"} {
			overwrite(t, filepath.Join(dir, name), "a,b\n")
		}
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Minute).want("") // a header says nothing about who is who
		w.wantTrouble()
		for _, text := range []string{"1,\"x", "\n", "y\"\n", "2,", "z\n"} {
			appendTo(t, filepath.Join(dir, "1.csv"), text)
			w.after(time.Second)
		}
		appendTo(t, filepath.Join(dir, "2.csv"), "3,4\n")
		w.after(time.Second).want("?1,\"x\ny\" ?2,z | ?3,4")
		if d := cmp.Diff(source.Format{Columns: []string{"a", "b"}, Comma: ','}, w.found[1].Format()); d != "" {
			t.Error(d)
		}
		w.wantTrouble()
	})
	in(t, "one beginning", func(t *testing.T, dir string) {
		for _, name := range []string{"1.log", "2.log", "3.log.gz"} {
			text := linesOf("start")
			if strings.HasSuffix(name, ".gz") {
				text = string(zipped(t, text))
			}
			overwrite(t, filepath.Join(dir, name), text)
		}
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(time.Second).wantTrouble()
		w.after(15 * time.Second).want("start")
		w.wantTrouble("1.log and "+filepath.Join(dir, "2.log"), "begin with the same bytes")
		if strings.Contains(w.trouble.Error(), "3.log") {
			t.Errorf("a packed copy is no trouble: %v", w.trouble)
		}
		appendTo(t, filepath.Join(dir, "1.log"), linesOf("one"))
		w.after(time.Second) // now they differ, as far as 2.log goes it is a copy of the beginning
		appendTo(t, filepath.Join(dir, "2.log"), linesOf("two"))
		w.after(15 * time.Second).want("start one | start two")
		w.wantTrouble()
	})
	in(t, "links", func(t *testing.T, dir string) {
		logs := filepath.Join(dir, "logs")
		for i, w := range []string{"a", "b"} {
			if err := os.MkdirAll(logs, 0o755); err != nil {
				t.Fatal(err)
			}
			overwrite(t, filepath.Join(logs, fmt.Sprint(i)), linesOf(w))
		}
		if err := errors.Join(os.Symlink(filepath.Join(logs, "0"), filepath.Join(dir, "current")), os.Symlink(logs, filepath.Join(dir, "link"))); err != nil {
			t.Fatal(err)
		}
		w := watch(t, filesource.FollowerConfig{Paths: []string{filepath.Join(dir, "current")}}, nil)
		w.after(time.Second)
		remove(t, filepath.Join(dir, "current"))
		if err := os.Symlink(filepath.Join(logs, "1"), filepath.Join(dir, "current")); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute).want("a . | b")
		w.stop()
		w = watch(t, filesource.FollowerConfig{Paths: []string{filepath.Join(dir, "link"), filepath.Join(dir, "current"), logs}}, nil)
		w.after(time.Minute).want("a | b")
		w.wantTrouble()
		w.stop()
	})
}

func TestTrouble(t *testing.T) {
	in(t, "paths", func(t *testing.T, dir string) {
		loop, late, zeros := filepath.Join(dir, "loop"), filepath.Join(dir, "late"), filepath.Join(dir, "zeros")
		if err := os.Symlink(loop, loop); err != nil {
			t.Fatal(err)
		}
		overwrite(t, zeros, "\x00\x00\x00"+linesOf("z"))
		w := watch(t, filesource.FollowerConfig{Paths: []string{loop, late, zeros, os.DevNull}}, nil)
		defer w.stop()
		w.after(time.Second).wantTrouble("too many levels", late+": no such file", "begins with zero bytes", os.DevNull+" is no file that can be read again")
		remove(t, loop)
		overwrite(t, loop, linesOf("a"))
		overwrite(t, late, linesOf("b"))
		remove(t, zeros)
		overwrite(t, zeros, linesOf("z"))
		w.after(2 * time.Second).want("a | b | z")
		w.wantTrouble(os.DevNull)
	})
	in(t, "damage", func(t *testing.T, dir string) {
		good := zipped(t, linesOf(numbered(0, 5000)))
		bad := good[:len(good)*3/4]
		log := filepath.Join(dir, "app.gz")
		overwrite(t, log, string(bad))
		overwrite(t, filepath.Join(dir, "other"), linesOf("other"))
		half := filepath.Join(dir, "half.gz")
		overwrite(t, half, string(good[:9]))
		w := watch(t, all(dir), nil)
		defer w.stop()
		w.after(15*time.Second).wantTrouble("read "+log+" at byte", half+": what it unpacks to ends")
		if got := w.records(); !strings.HasSuffix(got, " | other") || !strings.HasPrefix(got, numbered(0, 1000)) || strings.Contains(got, ".") {
			t.Errorf("%.200s…", got)
		}
		overwrite(t, log, string(good))
		remove(t, half)
		w.after(15 * time.Second).want(numbered(0, 5000) + " . | other")
		w.wantTrouble()
	})
	in(t, "many", func(t *testing.T, dir string) {
		var paths []string
		for i := range 30 {
			paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
		}
		w := watch(t, filesource.FollowerConfig{Paths: paths}, nil)
		defer w.stop()
		w.after(time.Second).wantTrouble("and 20 more")
	})
}

// Names and offsets stay in another life, whatever has become of the files meanwhile.
func TestAnotherLife(t *testing.T) {
	in(t, "short when it was named", func(t *testing.T, dir string) {
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf("a"))
		w := watch(t, all(dir), nil)
		w.after(time.Second).want("a")
		at := w.stop()
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() { appendTo(t, log, linesOf("b")) }, "b"},
			{func() { appendTo(t, log, linesOf(numbered(0, 100))) }, numbered(0, 100)},
			{func() { rename(t, log, log+".1"); overwrite(t, log, linesOf("new")) }, "new | "},
			{func() { appendTo(t, log, linesOf("newer")) }, "newer | "},
			{func() {
				overwrite(t, log+".1.gz", string(zipped(t, linesOf("a b "+numbered(0, 100)+" c"))))
				remove(t, log+".1")
			}, " | c ."},
		} {
			step.do()
			w := watch(t, all(dir), at)
			w.after(time.Minute).want(step.want)
			w.wantTrouble()
			at = w.stop()
		}
		if len(at) != 2 {
			t.Errorf("partitions %v", at)
		}
	})
	in(t, "two that began as one", func(t *testing.T, dir string) {
		// Both begin with the line by which the first was named. The older file is the one.
		log := filepath.Join(dir, "app.log")
		overwrite(t, log, linesOf("start"))
		w := watch(t, all(dir), nil)
		w.after(time.Second)
		at := w.stop()
		appendTo(t, log, linesOf("a"))
		rename(t, log, log+".1")
		overwrite(t, log, linesOf("start b"))
		if err := os.Chtimes(log+".1", time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(log, time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		w = watch(t, all(dir), at)
		w.after(time.Minute).want("start b | a")
		w.stop()
	})
}

// A directory of many files takes a bounded number of descriptors, also where everybody waits for the first record
// of each before any second is taken.
func TestManyFollowed(t *testing.T) {
	const n = 600
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for i := range n {
			text := linesOf(fmt.Sprint("a", i, " b", i))
			if i%10 == 0 {
				text = string(zipped(t, text))
			}
			overwrite(t, filepath.Join(dir, fmt.Sprintf("%04d", i)), text)
		}
		before := descriptors(t)
		w := &watching{t: t, follow: follower(t, all(dir)), at: map[string]int64{}, got: map[string][]string{}, ended: map[string]bool{}, paused: true}
		w.ctx, w.cancel = context.WithCancel(context.Background())
		w.start(nil)
		w.after(time.Second)
		if len(w.found) != n {
			t.Fatalf("%d partitions", len(w.found))
		}
		for round := range 2 {
			for i, r := range w.found {
				rec, err := r.Next(w.ctx)
				if err != nil {
					t.Fatal(err)
				}
				if want := fmt.Sprint(string("ab"[round]), i); word(string(rec.Data)) != want {
					t.Errorf("%s: %s, want %s", r.Name(), rec.Data, want)
				}
			}
			if k := descriptors(t) - before; k > 256+8 {
				t.Errorf("%d descriptors", k)
			}
		}
		for _, r := range w.found {
			w.wg.Go(func() { w.read(r) })
		}
		w.after(90 * time.Second)
		if k := descriptors(t) - before; k > 8 {
			t.Errorf("%d descriptors where all is silent", k)
		}
		appendTo(t, filepath.Join(dir, "0577"), linesOf("c"))
		w.after(5 * time.Second)
		if got := w.got[w.found[577].Partition().Name]; len(got) != 1 || word(got[0]) != "c" {
			t.Errorf("%q", got)
		}
		w.stop()
	})
}

func TestFinite(t *testing.T) {
	dir := save(t, "a", linesOf("a")+`{"half"`, "b.gz", zipped(t, linesOf("b")), "c.zip", archive(t, "1", linesOf("c"), "2", linesOf("d")), "empty", "")
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, filesource.FollowerConfig{Paths: []string{dir}, Finite: true}, nil)
		w.after(time.Second).want("a half . | b . | c . | d .")
		if !w.ready || w.err != nil {
			t.Errorf("ready %v, %v", w.ready, w.err)
		}
		w.stop()
	})
	overwrite(t, filepath.Join(dir, "copy"), linesOf("a")+`{"half"`)
	overwrite(t, filepath.Join(dir, "bad.gz"), "\x1f\x8bno")
	f := follower(t, filesource.FollowerConfig{Paths: []string{dir, filepath.Join(dir, "none"), os.DevNull}, Finite: true})
	err := f.Watch(t.Context(), nil, &watching{t: t, paused: true, at: map[string]int64{}, ended: map[string]bool{}})
	for _, part := range []string{"begin with the same bytes", "bad.gz: ", "none: no such file", os.DevNull + " is no file"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
}

// A file that goes between the listing and the look into it was not there: nothing is said of it.
func TestFilesThatGo(t *testing.T) {
	dir := save(t, "a.jsonl", linesOf("a"))
	for _, finite := range []bool{true, false} {
		stop, gone := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(gone)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := filepath.Join(dir, fmt.Sprint(i%8, ".jsonl"))
				if err := errors.Join(os.WriteFile(name, []byte(linesOf(fmt.Sprint("gone", i%8))), 0o600), os.Remove(name)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		for range 300 {
			// What was found is opened later: it may be gone then, which is said where it is read.
			w := &watching{t: t, paused: true, at: map[string]int64{}, ended: map[string]bool{}}
			ctx, cancel := context.WithCancel(t.Context())
			if !finite {
				cancel() // after one look
			}
			paths := []string{filepath.Join(dir, "*.jsonl"), dir}
			err := follower(t, filesource.FollowerConfig{Paths: paths, Finite: finite}).Watch(ctx, nil, w)
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) || len(w.said) > 0 {
				t.Errorf("%v, said %q", err, w.said)
				break
			}
		}
		close(stop)
		<-gone
	}
}

func TestFollowerConfig(t *testing.T) {
	for _, test := range []struct {
		config filesource.FollowerConfig
		want   string
	}{
		{filesource.FollowerConfig{}, "no paths"},
		{filesource.FollowerConfig{Paths: []string{"-"}}, "take the source stdin"},
		{filesource.FollowerConfig{Paths: []string{"x"}, Form: "xml"}, `format "xml"`},
	} {
		if _, err := filesource.NewFollower(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
	f, err := filesource.NewFollower(filesource.FollowerConfig{Stream: "other", Partitions: source.NewPartitions("s"), Paths: save1(t), Finite: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Watch(t.Context(), nil, &watching{t: t}); err == nil || !strings.Contains(err.Error(), `stream "other" is not configured`) {
		t.Error(err)
	}
}

func save1(t *testing.T) []string { return []string{save(t, "a", linesOf("a"))} }
