package yamlnode

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawn writes a scalar, and notes for each rune of its text where it wrote it.
type drawn struct {
	t     *rapid.T
	lines [][]rune
	value []rune
	spots []Spot
	// indent is that of the lines behind the first, at least.
	indent int
}

func (d *drawn) pick(what string, from ...string) string {
	return rapid.SampledFrom(from).Draw(d.t, what)
}

func (d *drawn) chance(what string) bool { return rapid.IntRange(0, 3).Draw(d.t, what) == 0 }

// write writes what stands for nothing.
func (d *drawn) write(s string) {
	last := len(d.lines) - 1
	d.lines[last] = append(d.lines[last], []rune(s)...)
}

// put writes what stands for one rune.
func (d *drawn) put(r rune, source string) {
	d.value = append(d.value, r)
	d.spots = append(d.spots, Spot{len(d.lines), len(d.lines[len(d.lines)-1]) + 1, len([]rune(source))})
	d.write(source)
}

// stand is the end of a line that stands for a rune: a space or an end of line.
func (d *drawn) stand(r rune, line int) {
	d.value = append(d.value, r)
	d.spots = append(d.spots, Spot{line, len(d.lines[line-1]) + 1, 0})
}

func (d *drawn) end() { d.lines = append(d.lines, nil) }

// close notes where the text ends.
func (d *drawn) close() {
	d.spots = append(d.spots, Spot{len(d.lines), len(d.lines[len(d.lines)-1]) + 1, 0})
}

// fold goes to a further line, some empty ones between. joined says that the end of the first stands for nothing.
func (d *drawn) fold(joined bool) {
	empty := rapid.IntRange(0, 2).Draw(d.t, "empty lines")
	first := len(d.lines)
	for range empty {
		d.end()
		d.write(d.pick("blanks of an empty line", "", " ", "     ", "          "))
	}
	d.end()
	switch {
	case empty > 0:
		for i := range empty {
			d.stand('\n', first+1+i)
		}
	case !joined:
		d.stand(' ', first)
	}
	d.write(strings.Repeat(" ", d.indent) + d.pick("further indent", "", " ", "\t", "  \t "))
}

// blanks are those inside of a line.
func (d *drawn) blanks() {
	for _, r := range d.pick("blanks", " ", "  ", "\t", " \t ") {
		d.put(r, string(r))
	}
}

func (d *drawn) word(words ...string) {
	for _, r := range d.pick("word", words...) {
		d.put(r, string(r))
	}
}

// plain has words that mean nothing to YAML, here and inside of brackets.
func (d *drawn) plain() {
	words := []string{"a", "bc", "é==ü", "世界", "x😀", "it's", `q"r`, `b\n`, "&&", "a:b", "x#y", ".5", "|", ">"}
	d.word(words[:8]...)
	for range rapid.IntRange(0, 6).Draw(d.t, "words") {
		if d.chance("fold") {
			d.write(d.pick("blanks before an end of line", "", " ", "\t"))
			d.fold(false)
		} else {
			d.blanks()
		}
		d.word(words...)
	}
	d.close()
}

var escapes = map[string]rune{
	`\"`: '"', `\\`: '\\', `\/`: '/', `\n`: '\n', `\t`: '\t', "\\\t": '\t', `\ `: ' ', `\0`: 0, `\a`: 7, `\b`: 8, `\v`: 11, `\f`: 12,
	`\r`: 13, `\e`: 27, `\N`: 0x85, `\_`: 0xA0, `\L`: 0x2028, `\P`: 0x2029, `\x41`: 'A', `\xe9`: 'é', `\u4e16`: '世', `\U0001F600`: '😀',
}

// quoted has everything, and blanks at its ends.
func (d *drawn) quoted(quote string) {
	d.write(quote)
	words := []string{"a", "bc", "é==ü", "世界", "x😀", ": ", " #", "{[,", "-"}
	for i := range rapid.IntRange(0, 8).Draw(d.t, "words") {
		switch {
		case i > 0 && d.chance("fold"):
			d.write(d.pick("blanks before an end of line", "", " ", "\t"))
			d.fold(false)
			d.word("w", "é") // two folds would be one, and blanks would be none
		case d.chance("blanks"):
			d.blanks()
			d.word("w", "é")
		case quote == "'" && d.chance("quote"):
			d.put('\'', "''")
		case quote == `"` && d.chance("joined lines"):
			d.write(`\`)
			d.fold(true)
			d.word("w", "é")
		case quote == `"` && rapid.Bool().Draw(d.t, "escape"):
			e := d.pick("which", slices.Sorted(maps.Keys(escapes))...)
			d.put(escapes[e], e)
		default:
			d.word(words...)
			d.word("w", "é")
		}
	}
	d.close()
	d.write(quote)
}

// block is a block of text, literal or folded.
func (d *drawn) block(style string) {
	by := rapid.IntRange(1, 4).Draw(d.t, "indent")
	explicit, chomp := d.chance("explicit indent"), d.pick("chomp", "", "-", "+")
	indicator := ""
	if explicit {
		indicator = fmt.Sprint(by)
	}
	if rapid.Bool().Draw(d.t, "order") {
		indicator += chomp
	} else {
		indicator = chomp + indicator
	}
	d.write(style + indicator + d.pick("comment", "", " ", "  # said\t: so"))
	indent := strings.Repeat(" ", max(0, d.indent-1)+by)

	empty := func() {
		for range rapid.IntRange(0, 2).Draw(d.t, "empty lines") {
			d.end()
			d.write(indent[:rapid.IntRange(0, len(indent)).Draw(d.t, "blanks of an empty line")])
		}
	}
	count := rapid.IntRange(1, 5).Draw(d.t, "lines")
	header := len(d.lines)
	empty()
	for line := header + 1; line <= len(d.lines); line++ {
		d.stand('\n', line)
	}
	before := "" // what the line before begins with
	last := 0    // that line
	for i := range count {
		d.end()
		d.write(indent)
		first := ""
		if i > 0 || explicit {
			first = d.pick("more indented", "", "", " ", "\t", "  ")
		}
		if i > 0 {
			// What stands between two lines of text is one space or the ends of the empty lines; elsewhere every end counts.
			folds := style == ">" && before == "" && first == ""
			if !folds {
				d.stand('\n', last)
			} else if len(d.lines) == last+1 {
				d.stand(' ', last)
			}
			for line := last + 1; line < len(d.lines); line++ {
				d.stand('\n', line)
			}
		}
		for _, r := range first {
			d.put(r, string(r))
		}
		if first == "" || !d.chance("blank line") || i == 0 {
			d.word("a", "é == 1", "# no comment", "世 😀", `\n`, "- x: 'y'", "tail  ")
		}
		before, last = first, len(d.lines)
		if i < count-1 {
			empty()
		}
	}
	ends := []int{last}
	for range rapid.IntRange(0, 2).Draw(d.t, "empty lines at the end") {
		d.end()
		d.write(indent[:rapid.IntRange(0, len(indent)).Draw(d.t, "blanks of an empty line")])
		ends = append(ends, len(d.lines))
	}
	if d.chance("the file ends here") {
		// The end of a file is that of a line of blanks, and of no other.
		if line := string(d.lines[len(d.lines)-1]); line == "" || strings.Trim(line, " \t") != "" {
			ends = ends[:len(ends)-1]
		}
	} else {
		d.end()
	}
	switch chomp {
	case "-":
		ends = nil
	case "":
		ends = ends[:min(1, len(ends))]
	}
	for _, line := range ends {
		d.stand('\n', line)
	}
	at := last
	if len(ends) > 0 {
		at = ends[len(ends)-1]
	}
	d.spots = append(d.spots, Spot{at, len(d.lines[at-1]) + 1, 0})
}

// Each rune of a scalar, in whatever style it is written, is found where it was written.
func TestSpots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &drawn{t: t, lines: [][]rune{nil}}
		style := d.pick("style", "plain", "'", `"`, "|", ">")
		for range rapid.IntRange(0, 2).Draw(t, "lines above") {
			d.write("# é, above")
			d.end()
		}
		path := []int{} // of the indices of what holds the scalar
		for range rapid.IntRange(0, 2).Draw(t, "levels") {
			d.write("ü世:")
			d.end()
			d.indent += 2
			d.write(strings.Repeat(" ", d.indent))
			path = append(path, 1)
		}
		if d.chance("item") {
			d.write("- ")
			d.indent += 2
			path = append(path, 0)
		}
		d.write("é:" + d.pick("blanks before", " ", "  ", " \t"))
		d.indent++
		path = append(path, 1)
		closing := ""
		if strings.ContainsAny(style, "|>") {
			d.block(style)
		} else {
			switch d.pick("inside of", "", "", "[", "{世: ") {
			case "[":
				d.write("[")
				closing = "]"
				path = append(path, 0)
			case "{世: ":
				d.write("{世: ")
				closing = "}"
				path = append(path, 1)
			}
			if style == "plain" {
				d.plain()
			} else {
				d.quoted(style)
			}
		}
		d.write(closing)
		if !strings.ContainsAny(style, "|>") && rapid.Bool().Draw(t, "ends with a line") {
			d.end()
		}
		if len(d.lines[len(d.lines)-1]) == 0 {
			d.write(d.pick("behind", "", "# behind", "--- z"))
		}
		var lines []string
		for _, l := range d.lines {
			lines = append(lines, string(l))
		}
		source := d.pick("mark", "", "\ufeff") + strings.Join(lines, d.pick("line end", "\n", "\r\n"))

		f, problems := Parse("x.yaml", []byte(source))
		if len(problems) > 0 {
			t.Fatalf("%q: %v", source, problems)
		}
		n := f.Documents[0]
		for _, i := range path {
			n = n.Content[i]
		}
		if n.Value != string(d.value) {
			t.Fatalf("%q has %q, and should have %q", source, n.Value, string(d.value))
		}
		if diff := cmp.Diff(d.spots, f.Spots(n)); diff != "" {
			t.Fatalf("%q in %q (-want +got):\n%s", n.Value, source, diff)
		}
		spotsHold(t, f, n)
	})
}

// A text of a megabyte is walked once, whatever it consists of.
func TestSpotsOfLongTexts(t *testing.T) {
	blanks, lines := strings.Repeat(" ", MaxBytes-100), strings.Repeat("\n", MaxNodes-100)
	for _, text := range []string{
		"a: 'x" + blanks + "y'", `a: "` + blanks + `"`, "a: x" + blanks + "y", "a: x" + blanks + "\n   y", "a: |1\n   " + blanks, "a: >1\n   x" + blanks + "\n y",
		"a: 'x" + lines + " y'", `a: "\` + lines + `"`, "a: x" + lines + " y", "a: |+\n x" + lines, "a: >+\n x" + lines + " y", "a: >" + lines + " y",
		"a: '" + strings.Repeat("''", MaxBytes/2-100) + "'", `a: "` + strings.Repeat(`\n`, MaxBytes/2-100) + `"`,
	} {
		f, problems := Parse("x.yaml", []byte(text))
		if len(problems) > 0 {
			t.Fatalf("%.20q: %v", text, problems)
		}
		spotsHold(t, f, f.Documents[0].Content[1])
	}
}

// spotsHold says what is wrong with the places of a scalar, by the text alone.
func spotsHold(t interface {
	Fatalf(format string, args ...any)
}, f *File, n *Node,
) {
	spots := f.Spots(n)
	value := []rune(n.Value)
	if len(spots) != len(value)+1 {
		t.Fatalf("%d places for %q", len(spots), n.Value)
	}
	before := Spot{n.Line, n.Column, 0}
	line := []rune(f.Line(n.Line))
	for i, s := range spots {
		if s.Line != before.Line {
			line = []rune(f.Line(s.Line))
		}
		if s.Line < before.Line || s.Line == before.Line && s.Column < before.Column+before.Width {
			t.Fatalf("%d of %q: %v is not behind %v", i, n.Value, s, before)
		}
		before = s
		switch {
		case i == len(value):
			if s.Width != 0 || s.Column > len(line)+1 {
				t.Fatalf("the end of %q: %v", n.Value, s)
			}
		case s.Width == 0:
			if r := value[i]; s.Column != len(line)+1 || r != ' ' && r != '\n' {
				t.Fatalf("%d of %q is the end of a line: %v", i, n.Value, s)
			}
		case s.Width == 1:
			if s.Column > len(line) || line[s.Column-1] != value[i] {
				t.Fatalf("%d of %q: %v of %q", i, n.Value, s, string(line))
			}
		default:
			if s.Column+s.Width > len(line)+1 || !strings.ContainsRune(`\'`, line[s.Column-1]) {
				t.Fatalf("%d of %q is no escape: %v of %q", i, n.Value, s, string(line))
			}
		}
	}
}
