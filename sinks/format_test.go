package sinks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/library"
	"github.com/cepd/cepd/rules/ruletest"
	"github.com/cepd/cepd/sinks"
)

// schema compiles a schema of docs/format by its own name, with its neighbours beside it.
func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	folder := filepath.Join("..", "docs", "format")
	files, err := filepath.Glob(filepath.Join(folder, "*.schema.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(f)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(doc.(map[string]any)["$id"].(string), doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	s, err := c.Compile(strings.TrimSuffix(sinks.AlertSchema, "alert.schema.json") + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(s *jsonschema.Schema, text []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// alertMessage makes the message of an alert as a job does.
func alertMessage(a *cep.Alert) sinks.Message {
	var parts []cep.Value
	for _, k := range a.Key {
		parts = append(parts, k.Value)
	}
	key, _ := cep.KeyOf(parts...)
	return sinks.Message{
		ID: a.ID, Rule: a.Rule, What: a.Kind.String(), Severity: a.Severity, Key: key, Time: a.Time,
		Body: alert.AppendJSON(nil, a),
	}
}

// realAlerts are those that the tests of the shipped rules make, and of rules whose alerts show everything.
func realAlerts(t *testing.T) []*cep.Alert {
	t.Helper()
	var list []*cep.Alert
	for _, fsys := range []fs.FS{library.FS, os.DirFS("testdata")} {
		set, diagnostics, err := rules.LoadFS(fsys, ".")
		if err != nil || set == nil {
			t.Fatal(diagnostics, err)
		}
		for _, r := range ruletest.Run(set, nil) {
			list = append(list, r.Alerts...)
		}
	}
	return list
}

// TestSchemas: real alerts are valid by both schemas.
func TestSchemas(t *testing.T) {
	raw, envelope := schema(t, "alert.schema.json"), schema(t, "cloudevents.schema.json")
	kinds := map[string]int{}
	members := map[string]bool{}
	for _, a := range realAlerts(t) {
		m := alertMessage(a)
		kinds[m.What]++
		if err := validate(raw, sinks.Raw.Append(nil, "", &m)); err != nil {
			t.Errorf("%s: %v", m.Body, err)
		}
		event := sinks.CloudEvents.Append(nil, sinks.Source("demo"), &m)
		if err := validate(envelope, event); err != nil {
			t.Errorf("%s: %v", event, err)
		}
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(m.Body, &doc); err != nil {
			t.Fatal(err)
		}
		for name := range doc {
			members[name] = true
		}
		var outer struct{ Data json.RawMessage }
		if err := json.Unmarshal(event, &outer); err != nil || !bytes.Equal(outer.Data, m.Body) {
			t.Errorf("data %s, want %s", outer.Data, m.Body)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("alerts by kind %v: all five have to be seen", kinds)
	}
	for name := range raw.Properties {
		if !members[name] {
			t.Errorf("no alert has %q: the schema is not held against it", name)
		}
		delete(members, name)
	}
	for name := range members {
		t.Errorf("the schema does not know %q", name)
	}
}

// TestSchemaRefuses: what is no alert is not valid, or the schema says nothing.
func TestSchemaRefuses(t *testing.T) {
	raw, envelope := schema(t, "alert.schema.json"), schema(t, "cloudevents.schema.json")
	m := alertMessage(realAlerts(t)[0])
	for _, c := range []struct{ from, to string }{
		{`"id":"`, `"id":"x`},
		{`"rule":`, `"rules":`},
		{`"kind":"match"`, `"kind":"matches"`},
		{`"kind":"match"`, `"kind":"update"`}, // of what?
		{`"severity":"`, `"severity":"very `},
		{`"time":"`, `"time":"at `},
		{`"tags":[`, `"tags":[1,`},
	} {
		bad := strings.Replace(string(m.Body), c.from, c.to, 1)
		if bad == string(m.Body) {
			t.Fatalf("%s has no %s", m.Body, c.from)
		}
		if err := validate(raw, []byte(bad)); err == nil {
			t.Errorf("valid: %s", bad)
		}
	}
	event := string(sinks.CloudEvents.Append(nil, "/cepd/demo", &m))
	for _, c := range []struct{ from, to string }{
		{`"specversion":"1.0"`, `"specversion":"0.3"`},
		{`"type":"dev.cepd.alert.match"`, `"type":"dev.cepd.alert.other"`},
		{`"source":"/cepd/demo"`, `"source":""`},
		{`"data":{"id"`, `"data":{"ids"`},
		{`"subject"`, `"Subject"`},
	} {
		bad := strings.Replace(event, c.from, c.to, 1)
		if bad == event {
			t.Fatalf("%s has no %s", event, c.from)
		}
		if err := validate(envelope, []byte(bad)); err == nil {
			t.Errorf("valid: %s", bad)
		}
	}
}

// TestCloudEvents: all members, and none that depends on the run.
func TestCloudEvents(t *testing.T) {
	envelope := schema(t, "cloudevents.schema.json")
	key, _ := cep.KeyOf(cep.String("root"))
	m := sinks.Message{
		Sequence: 7, Chain: sinks.Chain{1}, ID: cep.AlertID{0xab}, Rule: `brute "force"`, What: "match", Severity: "high", Key: key,
		Time: 1500 * cep.Millisecond, Body: []byte(`{"id":"ab"}`),
	}
	const want = `{"specversion":"1.0","id":"ab00000000000000000000000000000000000000000000000000000000000000","source":"/cepd/job",` +
		`"type":"dev.cepd.alert.match","subject":"brute \"force\"","time":"1970-01-01T00:00:01.5Z","datacontenttype":"application/json",` +
		`"dataschema":"https://github.com/cepd/cepd/blob/main/docs/format/alert.schema.json","severity":"high",` +
		`"partitionkey":"PARTITION","data":{"id":"ab"}}`
	got := string(sinks.CloudEvents.Append([]byte("before"), "/cepd/job", &m))
	var doc struct{ Partitionkey string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(got, "before")), &doc); err != nil || len(doc.Partitionkey) != 32 {
		t.Fatal(got, err)
	}
	if d := cmp.Diff("before"+strings.Replace(want, "PARTITION", doc.Partitionkey, 1), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	other := m
	other.Sequence, other.Chain = 8, sinks.Chain{2}
	if again := string(sinks.CloudEvents.Append([]byte("before"), "/cepd/job", &other)); again != got {
		t.Errorf("it depends on its place: %s", again)
	}
	for kind, name := range map[sinks.Kind]string{sinks.KindReject: "reject", sinks.KindLate: "late", sinks.KindExcess: "excess"} {
		letter := sinks.Message{ID: cep.AlertID{1}, Kind: kind, Time: cep.BeforeAll, Body: []byte(`{"kind":"` + name + `"}`)}
		event := sinks.CloudEvents.Append(nil, "/cepd/job", &letter)
		if err := validate(envelope, event); err != nil || !bytes.Contains(event, fmt.Appendf(nil, `"type":"dev.cepd.letter.%s"`, name)) {
			t.Errorf("%s: %v", event, err)
		}
	}
}
