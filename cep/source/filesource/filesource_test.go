package filesource_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/cep/source/sourcetest"
)

func Example() {
	parts := source.NewPartitions("auth")
	readers, err := filesource.Open(filesource.Config{
		Stream: "auth", Paths: []string{filesource.Stdin}, Partitions: parts,
		Stdin: strings.NewReader("{\"user\":\"root\"}\n{\"user\":\"guest\"}"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		rec, err := readers[0].Next(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Offset, string(rec.Data))
	}
	// Output:
	// 0 {"user":"root"}
	// 16 {"user":"guest"}
	// EOF
}

// lines are records that need some of everything: long ones, blank lines between, both line ends, none at the end.
func lines() (text string, want []string) {
	for i := range 40 {
		want = append(want, fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("x", i*i%97)))
	}
	want[7] = fmt.Sprintf(`{"pad":%q}`, strings.Repeat("y", 70_000)) // more than the buffer
	want[8] = fmt.Sprintf(`{"pad":%q}`, strings.Repeat("z", 200_000))
	for i, l := range want {
		text += l
		switch {
		case i == len(want)-1:
		case i%5 == 0:
			text += "\r\n"
		case i%7 == 0:
			text += "\n\n \r\n"
		default:
			text += "\n"
		}
	}
	return text, want
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for _, half := range []string{text[:len(text)/2], text[len(text)/2:]} { // two members, as logrotate appends
		w.Reset(&b)
		write(t, w, half)
	}
	return b.Bytes()
}

func zstandard(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.Write([]byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}) // a frame to be skipped
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, text)
	return b.Bytes()
}

func archive(t *testing.T, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		w, err := z.Create(members[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, members[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(t *testing.T, w io.WriteCloser, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// save writes files, a name and a content in turn, and returns their directory.
func save(t *testing.T, files ...any) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i].(string))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		var data []byte
		switch x := files[i+1].(type) {
		case string:
			data = []byte(x)
		case []byte:
			data = x
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func config(paths ...string) filesource.Config {
	return filesource.Config{Stream: "s", Paths: paths, Partitions: source.NewPartitions("s")}
}

// one opens what is one partition.
func one(c filesource.Config) (source.Reader, error) {
	readers, err := filesource.Open(c)
	if err != nil {
		return nil, err
	}
	if len(readers) != 1 {
		return nil, fmt.Errorf("%d partitions", len(readers))
	}
	return readers[0], nil
}

// finite opens what a job reads to its end.
func finite(t *testing.T, path string) (source.Reader, error) {
	w := &watching{t: t, paused: true, at: map[string]int64{}, ended: map[string]bool{}}
	if err := follower(t, filesource.FollowerConfig{Paths: []string{path}, Finite: true}).Watch(t.Context(), nil, w); err != nil {
		return nil, err
	}
	if len(w.found) != 1 || !w.ready {
		return nil, fmt.Errorf("%d partitions", len(w.found))
	}
	return w.found[0], nil
}

func readAll(t *testing.T, r source.Reader) (records []string) {
	t.Helper()
	for {
		rec, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, string(rec.Data))
	}
}

func TestConformance(t *testing.T) {
	text, want := lines()
	rows := "time,note\r\n1,\"a\r\nb\"\n\n2,\"c \"\"d\"\"\n\n\",\n3,e\"f"
	rowsWant := []string{"1,\"a\nb\"", "2,\"c \"\"d\"\"\n\n\",", "3,e\"f"}
	for _, test := range []struct {
		name string
		data any
		want []string
	}{
		{"plain.jsonl", text, want},
		{"mark.jsonl", "\ufeff" + text, want},
		{"packed.jsonl.gz", zipped(t, text), want},
		{"packed.jsonl.zst", zstandard(t, text), want},
		{"packed.zip", archive(t, "dir/", "", "dir/a.jsonl", text, "__MACOSX/a.jsonl", "x", "dir/.hidden", "x", "empty", ""), want},
		{"nested.zip", archive(t, "a.gz", string(zipped(t, text))), want},
		{"rows.csv", rows, rowsWant},
		{"mark.csv", "\ufeff" + rows, rowsWant},
		{"rows.CSV.gz", zipped(t, rows), rowsWant},
		{"one", `{"a":1}`, []string{`{"a":1}`}},
		{"header.csv", "a,b\n", nil},
		{"blank", "\n\r\n \n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(save(t, test.name, test.data), test.name)
			sourcetest.Run(t, sourcetest.Source{
				Open: func() (source.Reader, error) { return one(config(path)) }, Want: test.want,
			})
		})
	}
	small := strings.Join(want[:6], "\n")
	for _, test := range []struct {
		name string
		data any
		want []string
	}{
		{"plain", small, want[:6]},
		{"packed.gz", zipped(t, small), want[:6]},
		{"packed.zst", zstandard(t, small), want[:6]},
		{"packed.zip", archive(t, "a.jsonl", small), want[:6]},
		{"rows.csv", rows, rowsWant},
		{"header.csv", "a,b\n", nil},
	} {
		t.Run("finite "+test.name, func(t *testing.T) {
			path := filepath.Join(save(t, test.name, test.data), test.name)
			sourcetest.Run(t, sourcetest.Source{Open: func() (source.Reader, error) { return finite(t, path) }, Want: test.want})
		})
	}
	t.Run("stdin", func(t *testing.T) {
		sourcetest.Run(t, sourcetest.Source{Want: want, Once: true, Open: func() (source.Reader, error) {
			c := config("-")
			c.Stdin = bytes.NewReader(zipped(t, text))
			return one(c)
		}})
	})
}

func TestFormats(t *testing.T) {
	dir := save(t, "a.tsv", "x\t\"y z\"\n1\t2\n", "b.txt", "p,q\n1,2\n", "c.csv", "{\"a\":1}\n")
	for _, test := range []struct {
		file string
		form filesource.Form
		want source.Format
	}{
		{"a.tsv", "", source.Format{Columns: []string{"x", "y z"}, Comma: '\t'}},
		{"b.txt", filesource.FormAuto, source.Format{}},
		{"b.txt", filesource.FormCSV, source.Format{Columns: []string{"p", "q"}, Comma: ','}},
		{"c.csv", filesource.FormJSON, source.Format{}},
	} {
		c := config(filepath.Join(dir, test.file))
		c.Form = test.form
		r, err := one(c)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(test.want, r.Format()); d != "" {
			t.Errorf("%s as %q: %s", test.file, test.form, d)
		}
	}
	c := config(filepath.Join(dir, "a.tsv"))
	c.Form = "xml"
	if _, err := filesource.Open(c); err == nil || err.Error() != `format "xml": known are auto, json, csv, tsv` {
		t.Error(err)
	}
}

// Rotation and compression are not seen: name and offsets stay.
func TestIdentity(t *testing.T) {
	text, _ := lines()
	dir := save(t, "app.log", text, "app.log.1.gz", zipped(t, text), "app.zst", zstandard(t, text), "app.zip", archive(t, "old.log", text),
		"longer.log", text+"\n{}\n", "other.log", "{}\n"+text)
	var first source.Reader
	for _, name := range []string{"app.log", "app.log.1.gz", "app.zst", "app.zip", "longer.log"} {
		r, err := one(config(filepath.Join(dir, name)))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = r
		}
		if r.Partition().Name != first.Partition().Name || len(r.Partition().Name) != 16 {
			t.Errorf("%s is %s, app.log is %s", name, r.Partition().Name, first.Partition().Name)
		}
	}
	r, err := one(config(filepath.Join(dir, "other.log")))
	if err != nil {
		t.Fatal(err)
	}
	if r.Partition().Name == first.Partition().Name {
		t.Error("another content has the same name")
	}
	_, err = filesource.Open(config(filepath.Join(dir, "app.log"), filepath.Join(dir, "app.zip")))
	if err == nil || !strings.HasSuffix(err.Error(), "app.log and "+dir+"/app.zip:old.log begin with the same bytes: they are one partition, leave one of them out") {
		t.Error(err)
	}
}

func TestExpand(t *testing.T) {
	dir := save(t, "a/1.jsonl", `{"n":1}`, "a/2.jsonl", `{"n":2}`, "a/.hidden", `{"n":3}`, "a/.git/x", `{"n":4}`, "a/sub/5.jsonl", `{"n":5}`,
		"a/empty.jsonl", "", "b[1].jsonl", `{"n":6}`, "two.zip", archive(t, "z.jsonl", `{"n":8}`, "y.jsonl", `{"n":7}`))
	if err := os.Symlink(filepath.Join(dir, "b[1].jsonl"), filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		paths string
		want  string
	}{
		{"a", "1 2 6 5"},
		{"a/*.jsonl", "1 2"},
		{"a/1.jsonl a a/../a/1.jsonl", "1 2 6 5"},
		{"a/.hidden", "3"},
		{"b[1].jsonl", "6"},
		{"two.zip a/1.jsonl", "7 8 1"},
		{"a/empty.jsonl", ""},
		{"c/*.jsonl d.jsonl", "pattern c/*.jsonl: no file matches\nlstat d.jsonl: no such file or directory"},
		{"[", "pattern [: syntax error in pattern"},
	} {
		t.Chdir(dir)
		readers, err := filesource.Open(config(strings.Fields(test.paths)...))
		var got []string
		for _, r := range readers {
			for _, l := range readAll(t, r) {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(l, `{"n":`), "}"))
			}
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if d := cmp.Diff(test.want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", test.paths, d)
		}
	}
}

func TestTooLarge(t *testing.T) {
	big := strings.Repeat("x", 300_000)
	for _, test := range []struct{ name, text, want string }{
		{"plain", "1\n" + big + "\n2\n" + strings.Repeat("y", 1001) + "\n" + strings.Repeat("z", 1000) + "\r\n" + big, "1 !2 2 !300005 z !302009"},
		{"rows.csv", "a\n1\n\"" + strings.Repeat("x\n", 1000) + "\"\n2\n", "1 !4"},
	} {
		c := config(filepath.Join(save(t, test.name, test.text), test.name))
		c.MaxRecord = 1000
		r, err := one(c)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			rec, err := r.Next(context.Background())
			if bad, ok := errors.AsType[*source.RecordError](err); ok {
				if !errors.Is(err, source.ErrTooLarge) || bad.Position.Partition != r.Partition() {
					t.Errorf("%s: %v", test.name, err)
				}
				got = append(got, fmt.Sprint("!", bad.Position.Offset))
				continue
			}
			if err != nil {
				break
			}
			got = append(got, string(rec.Data[:1]))
		}
		if s := strings.Join(got, " "); !strings.HasPrefix(s, test.want) {
			t.Errorf("%s: %s, want %s", test.name, s, test.want)
		}
	}
}

// Damage ends the partition with an error that stays and names the file; what came before it stands.
func TestDamaged(t *testing.T) {
	text, want := lines()
	packed := zipped(t, text)
	flipped := bytes.Clone(packed)
	flipped[len(flipped)/2] ^= 0xff
	good := archive(t, "a", text)
	for name, data := range map[string][]byte{
		"cut.gz": packed[:len(packed)-20], "flipped.gz": flipped, "cut.zst": zstandard(t, text)[:300],
		"cut.zip": good[:len(good)/2], "zip.gz": zipped(t, string(good)), "zip.zip": archive(t, "in.zip", string(good)),
	} {
		r, err := one(config(filepath.Join(save(t, name, data), name)))
		n := 0
		if err == nil {
			for {
				rec, e := r.Next(context.Background())
				if err = e; err != nil {
					break
				}
				if n < len(want) && string(rec.Data) != want[n] && name != "zip.gz" {
					t.Errorf("%s: record %d differs", name, n)
				}
				n++
			}
			if _, again := r.Next(context.Background()); again == nil || again.Error() != err.Error() {
				t.Errorf("%s: %v, then %v", name, err, again)
			}
		}
		if name != "zip.gz" && (err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: %v after %d records", name, err, n)
		}
	}
	c := config("-")
	c.Stdin = bytes.NewReader(good)
	if _, err := filesource.Open(c); err == nil || !strings.Contains(err.Error(), "unpack it") {
		t.Errorf("an archive on standard input: %v", err)
	}
	if _, err := filesource.Open(config("-")); err == nil {
		t.Error("no standard input, no error")
	}
	c = config("-")
	c.Stdin, c.Stream = strings.NewReader("x"), "other"
	if _, err := filesource.Open(c); err == nil || !strings.Contains(err.Error(), `stream "other" is not configured`) {
		t.Error(err)
	}
}

// Many partitions stand side by side without a descriptor each.
func TestManyFiles(t *testing.T) {
	var files []any
	for i := range 300 {
		files = append(files, fmt.Sprintf("%03d", i), fmt.Sprintf(`{"n":%d}`, i))
	}
	readers, err := filesource.Open(config(save(t, files...)))
	if err != nil {
		t.Fatal(err)
	}
	if n := descriptors(t); n > 100 {
		t.Errorf("%d descriptors", n)
	}
	names := map[*cep.Partition]bool{}
	for _, r := range readers {
		names[r.Partition()] = true
	}
	if len(readers) != 300 || len(names) != 300 {
		t.Errorf("%d readers, %d partitions", len(readers), len(names))
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here:", err)
	}
	return len(fds)
}
