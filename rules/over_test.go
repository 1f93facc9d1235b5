package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func oneRule(id string) []byte {
	return []byte("version: 1\nrules:\n- {id: " + id + ", from: auth, where: kind == \"a\"}\n")
}

// TestLoadOver: a set as it would be after files were written or removed, which nobody has done yet.
func TestLoadOver(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("rules/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"rules/a.yaml": oneRule("a"), "rules/sub/b.yaml": oneRule("b"), "alone.yaml": oneRule("alone")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	withList := []byte("version: 1\nlists: {bad: {file: bad.csv, column: ip}}\nrules:\n- {id: c, from: auth, where: ip in $bad}\n")
	tests := []struct {
		name string
		over map[string][]byte
		want string // ids
		err  string
	}{
		{"nothing", nil, "a alone b", ""},
		{"another content", map[string][]byte{"rules/a.yaml": oneRule("x")}, "alone b x", ""},
		{"another one", map[string][]byte{"rules/managed/c.yaml": oneRule("c")}, "a alone b c", ""},
		{"by a name that is not clean", map[string][]byte{"./rules//managed/c.yaml": oneRule("c")}, "a alone b c", ""},
		{"one that goes", map[string][]byte{"rules/sub/b.yaml": nil}, "a alone", ""},
		{"one that was named goes", map[string][]byte{"alone.yaml": nil}, "", "alone.yaml: file does not exist"},
		{"one that is not there goes", map[string][]byte{"rules/c.yaml": nil}, "a alone b", ""},
		{"elsewhere", map[string][]byte{"others/c.yaml": oneRule("c")}, "a alone b", ""},
		{"hidden", map[string][]byte{"rules/.c.yaml": oneRule("c"), "rules/.git/c.yaml": oneRule("d")}, "a alone b", ""},
		{"no rule file", map[string][]byte{"rules/c.txt": oneRule("c")}, "a alone b", ""},
		{"all go", map[string][]byte{"rules/a.yaml": nil, "rules/sub/b.yaml": nil}, "", "no rule files"},
		{"with a list", map[string][]byte{"rules/c.yaml": withList, "rules/bad.csv": []byte("ip\n1.1.1.1\n")}, "a alone b c", ""},
		{"with a list that goes", map[string][]byte{"rules/c.yaml": withList, "rules/bad.csv": nil}, "", ""},
		{"with a mistake", map[string][]byte{"rules/c.yaml": []byte("version: 1\nrules: [{id: c}]\n")}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, diagnostics, err := LoadOver([]string{"rules", "alone.yaml"}, tt.over)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			case err != nil:
				t.Fatal(err)
			case tt.want == "":
				if set != nil || len(diagnostics) == 0 {
					t.Errorf("a set with %v", diagnostics)
				}
				return
			case set == nil:
				t.Fatal(diagnostics)
			}
			var ids []string
			for _, r := range set.Rules {
				ids = append(ids, r.ID)
			}
			slices.Sort(ids)
			if got := strings.Join(ids, " "); got != tt.want {
				t.Errorf("rules %s, want %s", got, tt.want)
			}
		})
	}
}

// TestOverIsWhatIsWritten: the set is the one that is loaded once the files are written.
func TestOverIsWhatIsWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Join("rules", "managed"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("rules/a.yaml", oneRule("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	over, _, err := LoadOver([]string{"rules"}, map[string][]byte{"rules/managed/b.yaml": oneRule("b")})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("rules/managed/b.yaml", oneRule("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, _, err := Load([]string{"rules"})
	if err != nil {
		t.Fatal(err)
	}
	if over.ID() != set.ID() {
		t.Error("another set than that of the files as they are written")
	}
}
