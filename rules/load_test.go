package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cepd/cepd/rules"
)

const rule = `version: 1
rules:
- {id: %s, from: s, by: [k], where: x == 1}
`

func Example() {
	set, diagnostics, err := rules.LoadFS(fstest.MapFS{
		"login.yaml": {Data: []byte("version: 1\nrules:\n- {id: login, from: auth, by: [user], where: outcome == \"failure\"}\n")},
	}, ".")
	fmt.Println(err, len(diagnostics), set.Rules[0].ID, set.Sources[0].Name)
	// Output: <nil> 0 login login.yaml
}

// write puts files below a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func ids(set *rules.Set) string {
	var list []string
	for _, r := range set.Rules {
		list = append(list, r.ID)
	}
	return strings.Join(list, " ")
}

func TestLoadFindsRules(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yaml":             fmt.Sprintf(rule, "b"),
		"a.yml":              fmt.Sprintf(rule, "a"),
		"deep/er/c.yaml":     fmt.Sprintf(rule, "c"),
		".hidden/d.yaml":     "no rule",
		"deep/.e.yaml":       "no rule",
		"README.md":          "no rule",
		"deep/er/values.csv": "no rule",
	})
	if err := os.Symlink(filepath.Join(dir, "deep"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "a.yml"), filepath.Join(dir, "deep", "z.yaml")); err != nil {
		t.Fatal(err)
	}
	// The link is a second name of the same rule, which is a mistake that the file names show.
	set, diagnostics, err := rules.Load([]string{dir})
	if err != nil || set != nil || !strings.Contains(diagnostics.Error(), "z.yaml") {
		t.Fatal(err, diagnostics)
	}
	if err := os.Remove(filepath.Join(dir, "deep", "z.yaml")); err != nil {
		t.Fatal(err)
	}
	set, diagnostics, err = rules.Load([]string{dir, filepath.Join(dir, "b.yaml")})
	if err != nil || len(diagnostics) > 0 {
		t.Fatal(err, diagnostics)
	}
	if got := ids(set); got != "a b c" || len(set.Sources) != 3 {
		t.Errorf("rules %s of %d files", got, len(set.Sources))
	}
}

func TestLoadErrors(t *testing.T) {
	dir := write(t, map[string]string{"README.md": "no rule"})
	if err := os.Symlink(dir, filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                               "nested deeper",
		filepath.Join(dir, "nowhere"):     "no such file",
		filepath.Join(dir, "README.md/x"): "not a directory",
	} {
		if _, _, err := rules.Load([]string{path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	var empty *rules.EmptyError
	if _, _, err := rules.Load([]string{dir}); !asEmpty(err, &empty) || empty.Dir != dir {
		t.Errorf("empty directory: %v", err)
	}
}

func asEmpty(err error, target **rules.EmptyError) bool {
	e, ok := err.(*rules.EmptyError) //nolint:errorlint // Load returns it as it is, and its text must stand alone
	*target = e
	return ok
}

// TestFilesStayInside holds every way out of the rule directory shut.
func TestFilesStayInside(t *testing.T) {
	dir := write(t, map[string]string{
		"rules/a.yaml":       fmt.Sprintf(rule, "a"),
		"rules/sub/b.yaml":   fmt.Sprintf(rule, "b"),
		"rules/sub/list.csv": "inside",
		"secret.csv":         "secret",
	})
	root := filepath.Join(dir, "rules")
	set, diagnostics, err := rules.Load([]string{root})
	if err != nil || set == nil {
		t.Fatal(err, diagnostics)
	}
	// The links come after the walk, as an attacker's would.
	for name, target := range map[string]string{
		"link.csv":  "../secret.csv",
		"abs.csv":   filepath.Join(dir, "secret.csv"),
		"linkdir":   "..",
		"fine.csv":  "sub/list.csv",
		"pipe.yamx": "/dev/zero",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	a, b := filepath.Join(root, "a.yaml"), filepath.Join(root, "sub", "b.yaml")
	for _, c := range []struct {
		file, name string
		ok         bool
	}{
		{a, "sub/list.csv", true},
		{a, "./sub/../sub/list.csv", true},
		{b, "list.csv", true},
		{b, "../sub/list.csv", true},
		{a, "fine.csv", true},
		{a, filepath.Join(root, "sub/list.csv"), true},
		{a, "../secret.csv", false},
		{b, "../../secret.csv", false},
		{a, filepath.Join(dir, "secret.csv"), false},
		{a, "link.csv", false},
		{a, "abs.csv", false},
		{a, "linkdir/secret.csv", false},
		{a, "pipe.yamx", false},
		{a, "sub", false},
		{a, "nowhere.csv", false},
		{a, "/etc/passwd", false},
		{a, "", false},
	} {
		data, err := set.ReadFile(c.file, c.name)
		if (err == nil) != c.ok || c.ok && string(data) != "inside" {
			t.Errorf("%s beside %s: %q, %v", c.name, filepath.Base(c.file), data, err)
		}
	}
}

// TestRelativePaths loads as people do: from where they stand.
func TestRelativePaths(t *testing.T) {
	t.Chdir(write(t, map[string]string{
		"a.yaml": "version: 1\nlists: {l: {file: l.csv, column: x}}\nrules:\n- {id: a, from: s, by: [k], where: x in $l}\n",
		"l.csv":  "x\n1\n",
	}))
	for _, path := range []string{".", "./", "a.yaml", "./a.yaml"} {
		set, diagnostics, err := rules.Load([]string{path})
		if err != nil || set == nil {
			t.Errorf("%s: %v %v", path, err, diagnostics)
			continue
		}
		if set.Sources[0].Name != "a.yaml" {
			t.Errorf("%s: the file is called %s", path, set.Sources[0].Name)
		}
	}
}
