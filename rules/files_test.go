package rules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const filesRules = `version: 1
lists:
  known: {file: known.csv, column: name}
rules:
- id: probe
  from: web
  by: [client.ip]
  within: 1m
  sequence:
  - {step: a, where: 'path == "/admin" and not (client.name in $known)'}
  - {step: b, where: 'status == 200'}
`

// TestFilesMakeTheSameSet holds a set that was made of the files of another against it: in another directory, with another
// schema, as a process does that finds them in a checkpoint.
func TestFilesMakeTheSameSet(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "rules.yaml", filesRules)
	write(t, dir, "known.csv", "name\nalice\nbob\n")
	set, diagnostics, err := Load([]string{dir})
	if err != nil || set == nil {
		t.Fatal(err, diagnostics)
	}
	files := set.Files()
	if len(files) != 2 || !files[0].Rules || files[1].Rules || string(files[1].Data) != "name\nalice\nbob\n" {
		t.Fatalf("files %v", files)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}

	schema := cep.NewSchema()
	schema.Slot("status")
	schema.Slot("of", "another", "set")
	again, err := FromFiles(files, schema)
	if err != nil {
		t.Fatal(err)
	}
	if again.ID() != set.ID() || again.Rules[0].Fingerprint != set.Rules[0].Fingerprint {
		t.Error("another set")
	}
	if again.Schema.Slot("status") != 0 || again.Schema.Slot("of", "another", "set") != 1 {
		t.Error("slots have moved")
	}
	if d := cmp.Diff(files, again.Files()); d != "" {
		t.Errorf("other files (-want +got):\n%s", d)
	}
	third, err := set.After(again)
	if err != nil {
		t.Fatal(err)
	}
	for slot := range again.Schema.Len() {
		if third.Schema.Name(slot) != again.Schema.Name(slot) {
			t.Errorf("slot %d: %s, want %s", slot, third.Schema.Name(slot), again.Schema.Name(slot))
		}
	}
	if _, err := FromFiles(files[:1], nil); err == nil {
		t.Error("a list that is not there was not missed")
	}
}

func TestExtend(t *testing.T) {
	load := func() *Set {
		set, err := FromFiles([]File{
			{Name: "rules.yaml", Data: []byte(filesRules), Rules: true},
			{Name: "known.csv", Data: []byte("name\nalice\n")},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	more := load().Schema
	more.Slot("of", "another", "set")
	set := load()
	if !set.Extend(more) || set.Schema.Len() != more.Len() || set.Schema.Slot("of", "another", "set") != more.Len()-1 {
		t.Errorf("a schema that goes on: %d fields, want %d", set.Schema.Len(), more.Len())
	}
	other := cep.NewSchema()
	other.Slot("of", "another", "set")
	for slot := range more.Len() - 1 {
		other.Slot(more.Path(slot)...)
	}
	if set = load(); set.Extend(other) || set.Schema.Len() != more.Len()-1 {
		t.Error("a schema in which fields have moved was taken")
	}
	if set.Extend(cep.NewSchema()) {
		t.Error("a schema that lacks fields was taken")
	}
}

func TestIDIsOfNamesAndContents(t *testing.T) {
	ids := map[string]string{}
	for name, text := range map[string]string{"a.yaml": filesRules, "b.yaml": filesRules, "c.yaml": filesRules + "\n# a note\n"} {
		dir := t.TempDir()
		write(t, dir, name, text)
		write(t, dir, "known.csv", "name\nalice\n")
		t.Chdir(dir) // so that the directory is no part of the name
		set, _, err := Load([]string{"."})
		if err != nil || set == nil {
			t.Fatal(err)
		}
		if other, twice := ids[set.ID()]; twice {
			t.Errorf("%s and %s have one id", name, other)
		}
		ids[set.ID()] = name
	}
}
