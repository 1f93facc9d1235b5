package patterns

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// codeEndless is the code of conditions that are too large, whose bad file is a line of a kilobyte: nobody learns from that.
const codeEndless = "CEP0213"

// mendedBad is how the first mistake of a code's bad file is mended.
type mendedBad struct{ was, is string }

// readMended reads testdata/mended.txt: a line for each code, its parts behind tabs.
func readMended(t *testing.T) map[string]mendedBad {
	t.Helper()
	text, err := os.ReadFile("testdata/mended.txt")
	if err != nil {
		t.Fatal(err)
	}
	unescape := strings.NewReplacer(`\n`, "\n", `\xe9`, "\xe9")
	list := map[string]mendedBad{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "\t")
		if len(parts) != 3 {
			t.Fatalf("%d parts: %s", len(parts), line)
		}
		list[parts[0]] = mendedBad{unescape.Replace(parts[1]), unescape.Replace(parts[2])}
	}
	return list
}

// Each mending takes away the mistake that the documentation shows, and makes none of that code.
func TestMended(t *testing.T) {
	mended := readMended(t)
	for _, c := range Codes() {
		m, ok := mended[c.Code]
		if !ok {
			if c.Code != codeEndless {
				t.Errorf("%s is not mended: add a line to testdata/mended.txt", c.Code)
			}
			continue
		}
		file := "testdata/bad/" + c.Code + ".yaml"
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(data, []byte(m.was)) {
			t.Errorf("%s does not hold %q", file, m.was)
			continue
		}
		count := func(data []byte) int {
			_, diagnostics := Load([]Source{{Name: file, Data: data}}, badFilesBeside())
			n := 0
			for _, d := range diagnostics {
				if d.Code == c.Code {
					n++
				}
			}
			return n
		}
		was, is := count(data), count(bytes.Replace(data, []byte(m.was), []byte(m.is), 1))
		if is >= was {
			t.Errorf("%s: %d of %s before, %d behind", file, was, c.Code, is)
		}
	}
}

// change shows the lines of a bad file that change, as a diff does.
func (m mendedBad) change(data string) string {
	before, _, ok := strings.Cut(data, m.was)
	if !ok {
		return ""
	}
	from := strings.LastIndexByte(before, '\n') + 1
	to := len(before) + len(m.was)
	if end := strings.IndexByte(data[to:], '\n'); end >= 0 && !strings.HasSuffix(m.was, "\n") {
		to += end
	}
	was := data[from:to]
	is := strings.Replace(was, m.was, m.is, 1)
	var b strings.Builder
	for l := range strings.SplitSeq(strings.TrimSuffix(was, "\n"), "\n") {
		fmt.Fprintf(&b, "- %s\n", strings.ToValidUTF8(l, "\ufffd"))
	}
	if is = strings.TrimSuffix(is, "\n"); is != "" {
		for l := range strings.SplitSeq(is, "\n") {
			fmt.Fprintf(&b, "+ %s\n", l)
		}
	}
	return b.String()
}
