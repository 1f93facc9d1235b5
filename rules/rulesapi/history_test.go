package rulesapi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// someRevisions are a history of two rules.
func someRevisions() []Revision {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return []Revision{
		{Rule: "a", At: at, Action: "load", File: "rules/a.yaml", New: "h1", Text: "one\n"},
		{Rule: "b", At: at, By: "ann", Action: "create", File: "rules/managed/b.yaml", New: "h2", Text: "é <>&\u2028\x00\n"},
		{Rule: "a", At: at.Add(time.Hour), Action: "load", File: "rules/a.yaml", New: "h3", Text: "two\n"},
		{Rule: "b", At: at.Add(time.Hour), By: "bob", Action: "delete"},
	}
}

// all reads a history as it is told.
func (h *history) all(t testing.TB, ids ...string) []string {
	t.Helper()
	var out []string
	for _, id := range ids {
		for _, n := range h.numbers(id) {
			rev, err := h.get(id, n)
			if err != nil || rev == nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s@%d %s %s %q %s>%s %q %s", rev.Rule, rev.Number, rev.By, rev.Action, rev.File, rev.Old, rev.New, rev.Text, rev.At.Format(time.RFC3339Nano)))
		}
	}
	return out
}

func open(t testing.TB, dir string, max int64) *history {
	t.Helper()
	h, err := openHistory(dir, max)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestHistory(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, historyBytesMax)
	for _, rev := range someRevisions() {
		if err := h.append([]Revision{rev}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.append([]Revision{{Rule: "a", New: "h3"}, {Rule: "gone"}, {Rule: "b"}}); err != nil { // nothing new
		t.Fatal(err)
	}
	want := []string{
		`a@1  load "rules/a.yaml" >h1 "one\n" 2026-01-02T03:04:05.000000006Z`,
		`a@2  load "rules/a.yaml" h1>h3 "two\n" 2026-01-02T04:04:05.000000006Z`,
		`b@1 ann create "rules/managed/b.yaml" >h2 "é <>&\u2028\x00\n" 2026-01-02T03:04:05.000000006Z`,
		`b@2 bob delete "" h2> "" 2026-01-02T04:04:05.000000006Z`,
	}
	if d := cmp.Diff(want, h.all(t, "a", "b", "gone")); d != "" {
		t.Error(d)
	}
	again := open(t, dir, historyBytesMax)
	if d := cmp.Diff(want, again.all(t, "a", "b")); d != "" {
		t.Error(d)
	}
	if got := again.living(); len(got) != 1 || got[0] != "a" {
		t.Errorf("living %v", got)
	}
	// Several of one rule at once.
	if err := again.append([]Revision{{Rule: "b", New: "h5", Text: "x"}, {Rule: "c", New: "h6"}}); err != nil {
		t.Fatal(err)
	}
	if rev, err := again.get("b", 3); err != nil || rev == nil || rev.Old != "" || rev.Text != "x" {
		t.Errorf("%+v %v", rev, err)
	}
	if rev, err := again.get("b", 9); err != nil || rev != nil {
		t.Errorf("%+v %v", rev, err)
	}
}

// TestTornHistory cuts the log at each seventh byte and around the ends of lines: whole lines stay, what was being written goes, and it can be written on.
func TestTornHistory(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, historyBytesMax)
	ends := []int64{h.size}
	for _, rev := range someRevisions()[:2] {
		if err := h.append([]Revision{rev}); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, h.size)
	}
	whole, err := os.ReadFile(h.path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		if cut%7 != 0 && !slices.ContainsFunc(ends, func(end int64) bool { return int64(cut) >= end-1 && int64(cut) <= end+1 }) {
			continue
		}
		torn := t.TempDir()
		if err := os.WriteFile(filepath.Join(torn, historyFile), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := openHistory(torn, historyBytesMax)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := 0
		for _, end := range ends[1:] {
			if int64(cut) >= end {
				want++
			}
		}
		if h.kept != want || h.damaged > 0 {
			t.Errorf("cut at %d: %d revisions, want %d; %d damaged", cut, h.kept, want, h.damaged)
		}
		if err := h.append([]Revision{{Rule: "z", New: "h", Text: "z"}}); err != nil {
			t.Fatal(err)
		}
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		if h, err = openHistory(torn, historyBytesMax); err != nil || h.kept != want+1 || h.damaged > 0 {
			t.Fatalf("cut at %d, written on: %v", cut, err)
		}
		_ = h.close()
	}
}

// TestDamagedHistory leaves out a line that is not what was written, and keeps the others.
func TestDamagedHistory(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, historyBytesMax)
	head := h.size
	if err := h.append(someRevisions()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(h.path)
	if err != nil {
		t.Fatal(err)
	}
	rest := whole[head:]
	second := int(head) + bytes.IndexByte(rest, '\n') + 1
	for i, end := second, second+bytes.IndexByte(whole[second:], '\n'); i < end; i += 7 {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		if damaged[i] == '\n' {
			continue // two halves, of which neither is sound
		}
		other := t.TempDir()
		if err := os.WriteFile(filepath.Join(other, historyFile), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		h := open(t, other, historyBytesMax)
		if h.damaged != 1 || h.kept != 3 || len(h.all(t, "a")) != 2 {
			t.Fatalf("byte %d: %d damaged, %d kept", i, h.damaged, h.kept)
		}
	}
	damaged := bytes.Clone(whole)
	damaged[12] ^= 1
	newer, err := sealed(historyHead{historyMagic, 2})
	if err != nil {
		t.Fatal(err)
	}
	for want, content := range map[string][]byte{"move the file away": damaged, "newer version": newer, "no history": []byte("something else\n")} {
		other := t.TempDir()
		if err := os.WriteFile(filepath.Join(other, historyFile), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openHistory(other, historyBytesMax); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if got, _ := os.ReadFile(filepath.Join(other, historyFile)); !bytes.Equal(got, content) {
			t.Errorf("%s: it was changed", want)
		}
	}
}

// TestHistoryIsBounded writes far more than is kept.
func TestHistoryIsBounded(t *testing.T) {
	dir := t.TempDir()
	const max = 64 << 10
	h := open(t, dir, max)
	at := time.Unix(0, 0).UTC()
	for i := range 500 {
		revs := []Revision{{Rule: "busy", At: at, New: fmt.Sprint(i), Text: strings.Repeat("x", 200)}}
		if i%10 == 0 {
			revs = append(revs, Revision{Rule: fmt.Sprintf("short-%d", i), At: at, New: "1"}, Revision{Rule: fmt.Sprintf("kept-%d", i), At: at, New: "1"})
		}
		if err := h.append(revs); err != nil {
			t.Fatal(err)
		}
		if i%10 == 5 {
			if err := h.append([]Revision{{Rule: fmt.Sprintf("short-%d", i-5), At: at}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := os.Stat(h.path)
	if err != nil || info.Size() > max+4096 || info.Size() != h.size {
		t.Errorf("the log has %d bytes", info.Size())
	}
	numbers := h.numbers("busy")
	if len(numbers) == 0 || len(numbers) > revisionsMax || numbers[len(numbers)-1] != 500 {
		t.Errorf("numbers %v", numbers)
	}
	for i := range 50 {
		if len(h.numbers(fmt.Sprintf("kept-%d", 10*i))) != 1 {
			t.Errorf("rule %d is forgotten, although it is in force", i)
		}
	}
	want := h.all(t, "busy")
	if d := cmp.Diff(want, open(t, dir, max).all(t, "busy")); d != "" {
		t.Error(d)
	}
	// Where one of each is too much, rules that are gone are forgotten.
	tight := open(t, t.TempDir(), 2000)
	for i := range 40 {
		id := fmt.Sprintf("short-%d", i)
		if err := tight.append([]Revision{{Rule: id, At: at, New: "1"}}); err != nil {
			t.Fatal(err)
		}
		if err := tight.append([]Revision{{Rule: id, At: at}}); err != nil {
			t.Fatal(err)
		}
	}
	if tight.size > 4000 {
		t.Errorf("%d bytes of rules that are gone", tight.size)
	}
}

// TestReleasedHistory reads the log of each version that was released.
func TestReleasedHistory(t *testing.T) {
	kept, err := os.ReadFile("testdata/revisions-v1.log")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, historyFile), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	h := open(t, dir, historyBytesMax)
	fresh := open(t, t.TempDir(), historyBytesMax)
	if err := fresh.append(someRevisions()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fresh.all(t, "a", "b"), h.all(t, "a", "b")); d != "" {
		t.Error(d)
	}
	if got, _ := os.ReadFile(fresh.path); !bytes.Equal(got, kept) {
		t.Errorf("what is written now differs:\n%s", cmp.Diff(string(kept), string(got)))
	}
	note, err := os.ReadFile("testdata/undo-v1")
	if err != nil {
		t.Fatal(err)
	}
	text := "version: 1\n"
	want := map[string]*string{"a.yaml": &text, "b.yaml": nil}
	if got, err := decodeUndo(note); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
}

func FuzzDecodeRevision(f *testing.F) {
	for _, rev := range someRevisions() {
		rev.Number = 1
		line, err := sealed(rev)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		rev, ok := decodeRevision(line)
		if !ok {
			return
		}
		again, err := sealed(rev)
		if err != nil {
			t.Fatal(err)
		}
		if back, ok := decodeRevision(again); !ok || !cmp.Equal(rev, back) {
			t.Errorf("%s", cmp.Diff(rev, back))
		}
	})
}
