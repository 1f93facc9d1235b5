package yamlnode

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

func ExampleParse() {
	f, problems := Parse("rules/ssh.yaml", []byte("version: 1\nrules:\n- {id: ssh}\n"))
	for key, value := range Pairs(f.Documents[0]) {
		fmt.Println(key.Value, value.Line, value.Column, value.Kind == Scalar)
	}
	fmt.Println(len(problems))
	// Output:
	// version 1 10 true
	// rules 3 1 false
	// 0
}

func TestProblems(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"clean", "a: 1\nb: [1, 2]\n", nil},
		{"empty", "", nil},
		{"empty documents", "---\n---\n", nil},
		{"windows", "a: 1\r\nb: 2\r\n", nil},
		{"byte order mark", "\ufeffa: 1\n", nil},
		{"tag", "a: 1\nb: !x y\n", []string{"2:4 tag !x"}},
		{"tag without a name", "a: ! x == 1\n! b: [! 'y', ! [z]]\n", []string{"1:4 tag not", "2:1 tag not", "2:7 tag not", "2:14 tag not"}},
		{"tag of YAML", "a: !!str 1\n", []string{"1:4 tag !!str"}},
		{"anchor and alias", "a: &x 1\nb: *x\n", []string{"1:4 alias &x", "2:4 alias *x"}},
		{"alias of nothing", "a: [*x]\n", []string{"1:5 alias aliases!"}},
		{"star", "{a: *}\n", []string{"1:5 alias aliases!"}},
		{"merge", "a: 1\n<<: {b: 1}\n", []string{"2:1 alias merge"}},
		{"two equal keys", "a: 1\nb: 2\na: 3\na: 4\n", []string{"3:1 duplicate \"a\"", "4:1 duplicate \"a\""}},
		{"equal keys in a list", "- {é: 1, é: 2}\n", []string{"1:10 duplicate \"é\""}},
		{"flow", "a: {b: 1\nc: 2\n", []string{"2:2 syntax line 1!"}},
		{"tab", "a:\n\tb: 1\n", []string{"2:1 syntax tab!"}},
		{"latin", "a: \xe9\n", []string{"1:4 encoding 0xE9"}},
		{"control", "é: a\x07\n", []string{"1:5 encoding U+0007"}},
		{"hidden line end", "a: 1\u2028b: 2\n", []string{"1:5 encoding U+2028"}},
		{"second document", "a: 1\n---\na: {\n", []string{"4:1 syntax node!"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, problems := Parse("x.yaml", []byte(test.text))
			var got []string
			for i, p := range problems {
				kind := [...]string{"syntax", "encoding", "large", "tag", "alias", "duplicate"}[p.Kind]
				if p.Fatal {
					kind += "!"
				}
				got = append(got, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, kind, p.Message))
				if p.Length < 1 {
					t.Errorf("problem %d has the length %d", i, p.Length)
				}
			}
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				place, rest, _ := strings.Cut(want, " ")
				kind, word, _ := strings.Cut(rest, " ")
				fatal := strings.HasSuffix(word, "!") && word != "!x" && word != "!!str"
				word = strings.TrimSuffix(word, map[bool]string{true: "!", false: ""}[fatal])
				if fatal {
					kind += "!"
				}
				if !strings.HasPrefix(got[i], place+" "+kind+" ") || !strings.Contains(got[i], word) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
			if f == nil {
				t.Error("no file")
			}
		})
	}
}

// A mistake of syntax leaves the documents before it.
func TestDocumentsBeforeMistake(t *testing.T) {
	f, problems := Parse("x.yaml", []byte("a: 1\n---\nb: 2\n---\nc: {\n"))
	if len(f.Documents) != 2 || len(problems) != 1 || f.Line(5) != "c: {" || f.Line(0) != "" || f.Line(9) != "" {
		t.Errorf("%d documents, %v, line 5 %q", len(f.Documents), problems, f.Line(5))
	}
}

func TestPlaces(t *testing.T) {
	text := strings.Join([]string{
		"plain: ab\u00e9 cd",           // 1
		"single: 'it''s'  # a comment", // 2
		`double: "a\"b\\c\td" `,        // 3
		"literal: |",                   // 4
		"",                             // 5
		"    one",                      // 6
		"      two",                    // 7
		"",                             // 8
		"    three",                    // 9
		"folded: >-",                   // 10
		"  fold",                       // 11
		"  ed",                         // 12
		"multi: first",                 // 13
		"  second",                     // 14
		`escape: "\x41b"`,              // 15
		"stripped: |-",                 // 16
		"  x",                          // 17
		"z: 'q'",                       // 18
		"tagged: !t x",                 // 19
		"empty: |-",                    // 20
	}, "\n")
	f, problems := Parse("x.yaml", []byte(text))
	if len(problems) != 1 { // the tag
		t.Fatal(problems)
	}
	nodes := map[string]*Node{}
	for k, v := range Pairs(f.Documents[0]) {
		nodes[k.Value] = v
	}
	for _, test := range []struct {
		key    string
		offset int
		want   string
	}{
		{"plain", 0, "1:8"},
		{"plain", 3, "1:11"},
		{"plain", 4, "1:12"},
		{"single", 0, "2:10"},
		{"single", 2, "2:12"},
		{"single", 3, "2:14"},
		{"double", 0, "3:10"},
		{"double", 2, "3:13"},
		{"double", 4, "3:16"},
		{"double", 6, "3:19"},
		{"literal", 1, "6:5"},
		{"literal", 3, "6:7"},
		{"literal", 7, "7:7"},
		{"literal", 12, "9:5"},
		{"literal", 13, "9:6"},
		{"literal", 17, "9:10"},
		{"folded", 3, "11:6"},
		{"folded", 4, "11:7"}, // the end of the line
		{"folded", 5, "12:3"},
		{"folded", 7, "12:5"}, // the end of the text
		{"multi", 2, "13:10"},
		{"multi", 8, "14:5"},
		{"escape", 0, "15:10"},
		{"escape", 1, "15:14"},
		{"stripped", 0, "17:3"},
		{"z", 1, "18:6"},
		{"tagged", 1, "19:9"},
		{"empty", 0, "20:8"},
	} {
		spot := f.Spots(nodes[test.key])[test.offset]
		if got := fmt.Sprintf("%d:%d", spot.Line, spot.Column); got != test.want {
			t.Errorf("%s at %d: %s, want %s", test.key, test.offset, got, test.want)
		}
	}
	widths := map[string]int{"plain": 6, "single": 7, "double": 12, "literal": 1, "folded": 1, "multi": 5, "escape": 7, "z": 3}
	for key, want := range widths {
		if got := f.Width(nodes[key]); got != want {
			t.Errorf("%s is %d wide, want %d", key, got, want)
		}
	}
}

func TestCore(t *testing.T) {
	got := map[string]CoreKind{}
	for _, s := range []string{
		"1", "-7", "+7", "007", "0o17", "0x1F", "1.5", ".5", "1e3", ".inf", "-.Inf", ".nan", "true", "False", "yes", "null", "~",
		"2024-01-01", "1.2.3", "10m", "-", "'1'", "\"true\"", "word",
	} {
		f, problems := Parse("x.yaml", []byte("a: "+s+"\n"))
		if s == "-" {
			continue // a list
		}
		if len(problems) > 0 {
			t.Fatal(s, problems)
		}
		got[s] = Core(f.Documents[0].Content[1])
	}
	want := map[string]CoreKind{
		"1": CoreInt, "-7": CoreInt, "+7": CoreInt, "007": CoreInt, "0o17": CoreOctal, "0x1F": CoreHex, "1.5": CoreFloat,
		".5": CoreFloat, "1e3": CoreFloat, ".inf": CoreSpecial, "-.Inf": CoreSpecial, ".nan": CoreSpecial, "true": CoreTrue,
		"False": CoreFalse, "yes": CoreString, "null": CoreNull, "~": CoreNull, "2024-01-01": CoreString, "1.2.3": CoreString,
		"10m": CoreString, "'1'": CoreString, "\"true\"": CoreString, "word": CoreString,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// bombs are texts that cost far more than they say, or try to.
var bombs = map[string]string{
	"open brackets":  strings.Repeat("[", MaxBytes),
	"braces":         strings.Repeat("{a: ", MaxBytes/4),
	"dashes":         strings.Repeat("- ", MaxBytes/2),
	"question marks": strings.Repeat("? ", MaxBytes/2),
	"commas":         "[" + strings.Repeat("a,", MaxBytes/2-1) + "]",
	"empty lists":    "[" + strings.Repeat("[],", MaxBytes/3-1) + "]",
	"lines":          strings.Repeat("-\n", MaxBytes/2),
	"keys":           strings.Repeat("a:\n", MaxBytes/3),
	"documents":      strings.Repeat("---\n", MaxBytes/4),
	"aliases":        "a: &a x\nb: [" + strings.Repeat("*a,", MaxBytes/3-10) + "]",
	"too long":       strings.Repeat("a", MaxBytes+1),
	"laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n" + func() string {
		var b strings.Builder
		for c := 'b'; c < 'm'; c++ {
			fmt.Fprintf(&b, "%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
		}
		return b.String()
	}(),
}

// 100 ms is the promise, and the times are logged. What fails here is a bomb that goes off: it would take hours.
func TestBombs(t *testing.T) {
	const limit = time.Minute
	for name, bomb := range bombs {
		start := time.Now()
		_, problems := Parse("bomb.yaml", []byte(bomb))
		took := time.Since(start)
		if len(problems) == 0 {
			t.Errorf("%s: accepted", name)
		}
		if took > limit {
			t.Errorf("%s: %v", name, took)
		}
		t.Logf("%-15s %8v %v", name, took.Round(10*time.Microsecond), problems[0].Message)
	}
}

// What Parse accepts can be walked, and every place that it names lies in the text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a: 1\nb: [x, 'y', \"z\"]\n", "a: |\n  x\n  y\n", "a: >-\n  x\n\n  y\n", "{a: b, c: {d: [e]}}\n", "---\na: 1\n---\n- b\n",
		"a: !t b\n", "a: &x b\nc: *x\n", "\ufeffé: 'ü''x'\r\n", "? a\n: b\n", "a: \"\\u00e9\\\n  b\"\n", "%YAML 1.2\n---\na: 1\n", "a:\n\tb\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, problems := Parse("fuzz.yaml", data)
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Length < 1 || p.Message == "" {
				t.Fatalf("%+v", p)
			}
		}
		var walk func(n *Node)
		walk = func(n *Node) {
			if n.Line < 1 || n.Column < 1 || file.Width(n) < 1 {
				t.Fatalf("%+v", n)
			}
			if spots := file.Spots(n); n.Kind == Scalar && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0 && n.Tag != "!" {
				spotsHold(t, file, n)
			} else if len(spots) != utf8.RuneCountInString(n.Value)+1 {
				t.Fatalf("%d places for %q", len(spots), n.Value)
			}
			Core(n)
			for _, c := range n.Content {
				walk(c)
			}
		}
		for _, d := range file.Documents {
			walk(d)
		}
	})
}
