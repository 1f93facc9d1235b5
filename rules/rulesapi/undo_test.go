package rulesapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files are the contents of a directory, by name.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// TestCrashInReplace ends a process behind each write of a replacement: the next start finds all as it was, or all as it is to be.
func TestCrashInReplace(t *testing.T) {
	before := map[string]string{"a.yaml": "a 1", "b.yaml": "b 1", "c.yaml": "c 1"}
	after := map[string]string{"a.yaml": "a 2", "b.yaml": "b 1", "d.yaml": "d 1"}
	names := []string{"a.yaml", "c.yaml", "d.yaml"}
	for crash := range len(names) + 3 {
		dir := t.TempDir()
		m := managedFiles{dir: filepath.ToSlash(dir)}
		for name, text := range before {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		held, write := map[string][]byte{}, map[string][]byte{}
		for _, name := range names {
			file := m.dir + "/" + name
			held[file], write[file] = nil, nil
			if text, ok := before[name]; ok {
				held[file] = []byte(text)
			}
			if text, ok := after[name]; ok {
				write[file] = []byte(text)
			}
		}
		// The steps of exchange, up to the crash.
		step := func(n int, f func() error) {
			if n < crash {
				if err := f(); err != nil {
					t.Fatal(err)
				}
			}
		}
		step(0, func() error { return m.noteUndo(held) })
		for i, name := range names {
			step(i+1, func() error { return put(filepath.Join(dir, name), write[m.dir+"/"+name]) })
		}
		step(len(names)+1, m.forgetUndo)
		want := before
		if crash == len(names)+2 {
			want = after
		}
		for range 2 { // a crash in recovery, too
			if _, err := Recover(m.dir); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, files(t, dir)); d != "" {
				t.Errorf("crash behind step %d (-want +got):\n%s", crash, d)
			}
		}
	}
}

// TestExchange does the steps that the test above has by themselves, and takes them back.
func TestExchange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rules", "managed")
	m := managedFiles{dir: filepath.ToSlash(dir)}
	if err := os.Mkdir(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	a, b := m.name("a"), m.name("b")
	if _, err := m.write(map[string][]byte{a: []byte("a 1")}); err != nil {
		t.Fatal(err)
	}
	undo, err := m.write(map[string][]byte{a: nil, b: []byte("b 1")})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"b.yaml": "b 1"}, files(t, dir)); d != "" {
		t.Error(d)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"a.yaml": "a 1"}, files(t, dir)); d != "" {
		t.Error(d)
	}
	// A write that fails leaves what was: the second file cannot be written, as it is a directory.
	if err := os.Mkdir(filepath.Join(dir, "b.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.exchange(map[string][]byte{a: []byte("a 1"), b: nil}, map[string][]byte{a: []byte("a 2"), b: []byte("b 1")}); err == nil {
		t.Error("a directory was overwritten")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a.yaml")); err != nil || string(text) != "a 1" {
		t.Errorf("%q %v", text, err)
	}
}

// TestRecover refuses what it does not know.
func TestRecover(t *testing.T) {
	dir := t.TempDir()
	if n, err := Recover(filepath.ToSlash(filepath.Join(dir, "nowhere"))); n != 0 || err != nil {
		t.Error(n, err)
	}
	text := "x"
	sound, err := encodeUndo(map[string]*string{"a.yaml": &text, "b.yaml": nil})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := sealed(undoNote{undoMagic, 2, nil})
	if err != nil {
		t.Fatal(err)
	}
	outside, err := encodeUndo(map[string]*string{"../a.yaml": &text})
	if err != nil {
		t.Fatal(err)
	}
	for want, note := range map[string]string{
		"damaged": string(sound[:20]) + "#" + string(sound[21:]), "newer version": string(newer), "damaged:": string(outside), "is damaged": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, undoFile), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Recover(filepath.ToSlash(dir)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, undoFile), sound, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := Recover(filepath.ToSlash(dir)); n != 2 || err != nil {
		t.Error(n, err)
	}
}

func FuzzDecodeUndo(f *testing.F) {
	text := "version: 1\n"
	sound, err := encodeUndo(map[string]*string{"a.yaml": &text, "b.yaml": nil})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sound)
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := decodeUndo(b)
		if err != nil {
			return
		}
		again, err := encodeUndo(files)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeUndo(again)
		if err != nil || !cmp.Equal(files, back) {
			t.Errorf("%v: %v", err, cmp.Diff(files, back))
		}
	})
}
