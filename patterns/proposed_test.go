package patterns

import (
	"strings"
	"testing"
)

// unquoted are values that YAML does not read as they are meant, and what must come of them when the proposed line is
// taken: no code at all, or that of a mistake which has nothing to do with quotes.
var unquoted = []struct{ rest, code string }{
	{`where: path == "C:\path": x`, "CEP0201"},
	{`where: "path" == "C:\path"`, ""},
	{`where: @timestamp > 5`, ""},
	{`where: @timestamp > 5 and @version == "1"`, ""},
	{`where: !(path == "C:\path")`, ""},
	{`where: "user-agent" == "x: y"`, ""},
	{`where: name == "a: b"`, ""},
	{`where: name == 'it''s: b'`, ""},
	{`where: name matches "^\d+: x"`, ""},
	{`where: name matches "^\\d+: x"`, ""},
	{`where: "path == \"C:\path\""`, ""},
	{`where: "name matches \"^\d+$\""`, ""},
	{`where: "@timestamp" > 5`, "CEP0209"}, // whose hint has the field
	{`where: [1, 2] == tags`, ""},
	{`where: *x > 5`, "CEP0201"},
	{`where: &x > 5`, "CEP0201"},
	{`where: %x > 5`, "CEP0201"},
	{`where: a > 5 ? b == 1 : c == 2`, ""},
	{`sequence: [{step: a, where: max(x, y) > 9}]`, ""},
	{`sequence: [{step: a, where: kind in [1, 2]}]`, ""},
	{`sequence: [{step: a, where: @timestamp > 5}]`, ""},
	{`sequence: [{step: a, where: path matches "^\d+[a-z], x"}]`, ""},
	{`sequence: [{step: a, where: like(path, "C:\path\*")}]`, ""},
	{`sequence: [{step: a, where: "path contains \"\path\"", times: 1}]`, ""},
	{`alert: {title: Alert: {{user}}, fields: {user: event.user}}`, ""},
	{`alert: {title: {{user}} came, fields: {user: event.user}}`, ""},
	{`alert: {title: "{{user}}: came", fields: {user: event.user ?? "a, b"}}`, ""},
	{`description: see C:\path: it is @admin`, ""},
	{`description: @admin: look`, ""},
	{`description: "see C:\path"`, ""},
	{`name: Alert: logins`, ""},
}

// The line that CEP0108 proposes can be taken as it stands.
func TestProposedLines(t *testing.T) {
	for _, c := range unquoted {
		head := "version: 1\nrules:\n- id: r\n  from: s\n"
		text := head + "  " + c.rest + "\n"
		_, before := Load([]Source{{Name: "r.yaml", Data: []byte(text)}}, Options{})
		proposed := ""
		for _, d := range before {
			for _, words := range []string{putInQuotes, putAllInQuotes} {
				if line, ok := strings.CutPrefix(d.Hint, words); ok && proposed == "" {
					proposed = line
				}
			}
		}
		if proposed == "" {
			if len(before.Errors()) > 0 || c.code != "" {
				t.Errorf("%s\n  earns no line\n%s", c.rest, before.Error())
			}
			continue
		}
		_, after := Load([]Source{{Name: "r.yaml", Data: []byte(head + "  " + proposed + "\n")}}, Options{})
		code := ""
		for _, d := range after.Errors() {
			code = d.Code
		}
		if code != c.code {
			t.Errorf("%s\n  becomes %s\n%s", c.rest, proposed, after.Error())
		}
	}
}
