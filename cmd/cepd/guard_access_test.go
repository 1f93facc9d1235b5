package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/rules/rulesapi"
)

const (
	adaToken  = "cepd_ada-0123456789abcdefghijklmnopqrstuv"
	bobToken  = "cepd_bob-0123456789abcdefghijklmnopqrstuv"
	eveToken  = "cepd_eve-0123456789abcdefghijklmnopqrstuv"
	shipToken = "cepd_ship-0123456789abcdefghijklmnopqrstu"
	allToken  = "cepd_all-0123456789abcdefghijklmnopqrstuv"
)

// accessText is a file with a name of each kind.
func accessText() string {
	return fmt.Sprintf(`version: 1
access:
- {name: ada, role: admin, tokens: [%q]}
- {name: bob, role: editor, tokens: [%q]}
- {name: eve, role: viewer, tokens: [%q]}
- {name: ship, push: [auth], tokens: [%q], certificates: [ship.example]}
- {name: shipall, push: all, role: viewer, tokens: [%q]}
`, hashOfToken(adaToken), hashOfToken(bobToken), hashOfToken(eveToken), hashOfToken(shipToken), hashOfToken(allToken))
}

func TestAccess(t *testing.T) {
	a, err := parseAccess("tokens.yaml", []byte(accessText()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token, name string
		role        rulesapi.Role
		auth, shop  bool
	}{
		{adaToken, "ada", rulesapi.Admin, false, false},
		{bobToken, "bob", rulesapi.Editor, false, false},
		{eveToken, "eve", rulesapi.Viewer, false, false},
		{shipToken, "ship", rulesapi.NoRole, true, false},
		{allToken, "shipall", rulesapi.Viewer, true, true},
	} {
		g := a.byToken(c.token)
		if g == nil || g.name != c.name || g.role != c.role || g.maySend("auth") != c.auth || g.maySend("shop") != c.shop {
			t.Errorf("%s: %+v", c.name, g)
		}
	}
	for _, wrong := range []string{"", adaToken[:len(adaToken)-1], adaToken + "x", hashOfToken(adaToken), strings.ToUpper(adaToken)} {
		if g := a.byToken(wrong); g != nil {
			t.Errorf("%q is taken for %s", wrong, g.name)
		}
	}
	if g := a.byCertificate([]string{"other.example", "ship.example"}); g == nil || g.name != "ship" {
		t.Errorf("%+v", g)
	}
	if g := a.byCertificate([]string{"", "SHIP.example", "ship.example.evil"}); g != nil {
		t.Errorf("a certificate is taken for %s", g.name)
	}
}

// Each mistake of a file has its place and says what to write; no message shows a token.
func TestAccessMistakes(t *testing.T) {
	hash := hashOfToken(adaToken)
	for _, c := range []struct{ text, want string }{
		{"", "begin with version: 1"},
		{"version: 2\naccess: []\n", "a:1:1: this program knows version 1"},
		{"version: 1\n", "a:1:1: write access:"},
		{"version: 1\naccess: {}\n", "a:1:1: write access:"},
		{"version: 1\naccess: []\n", "a:1:1: write access:"},
		{"version: 1\nacces: []\n", `a:2:1: the file has no key "acces" (did you mean access?)`},
		{"version: 1\naccess:\n- ada\n", "a:3:3: an entry must be a map"},
		{"version: 1\naccess:\n- {role: admin, tokens: [%]}\n", "a:3:3: an entry needs a name"},
		{"version: 1\naccess:\n- {name: ada, tokens: [%]}\n", "ada may do nothing"},
		{"version: 1\naccess:\n- {name: ada, role: admin}\n", "nothing proves who ada is"},
		{"version: 1\naccess:\n- {name: ada, role: root, tokens: [%]}\n", `there is no role "root"`},
		{"version: 1\naccess:\n- {name: ada, role: admins, tokens: [%]}\n", `(did you mean admin?)`},
		{"version: 1\naccess:\n- {name: ada, push: auth, tokens: [%]}\n", "a:3:21: push: write all, or a list of streams"},
		{"version: 1\naccess:\n- {name: ada, push: [], tokens: [%]}\n", "push: write all, or a list of streams"},
		{"version: 1\naccess:\n- {name: ada, role: admin, tokens: [" + adaToken + "]}\n", "a token is written as sha256:"},
		{"version: 1\naccess:\n- {name: ada, role: admin, tokens: [sha256:abcd]}\n", "a token is written as sha256:"},
		{"version: 1\naccess:\n- {name: ada, role: admin, tokens: [%, %]}\n", "a second time"},
		{"version: 1\naccess:\n- {name: ada, role: admin, tokens: [%]}\n- {name: bob, role: viewer, tokens: [%]}\n", "a:4:38: the token stands here a second time"},
		{"version: 1\naccess:\n- {name: ada, role: admin, tokens: [%]}\n- {name: ada, role: viewer, certificates: [a]}\n", `"ada" is there already`},
		{"version: 1\naccess:\n- {name: 'a\nb', role: admin, tokens: [%]}\n", "a name has up to 64 letters"},
		{"version: 1\naccess:\n- {name: \"a\\u001b[2J\", role: admin, tokens: [%]}\n", "a name has up to 64 letters"},
		{"version: 1\naccess:\n- {name: ada, role: admin, certificates: [" + strings.Repeat("a", 300) + "]}\n", "at most 253 bytes"},
		{"version: 1\naccess: [&x {name: ada}]\n", "a:2:10: "},
		{"version: 1\n---\nversion: 1\n", "one document"},
	} {
		text := strings.ReplaceAll(c.text, "%", hash)
		_, err := parseAccess("a", []byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n%v\nwant %s", text, err, c.want)
		} else if strings.Contains(err.Error(), adaToken) {
			t.Errorf("%q: the message shows the token: %v", text, err)
		}
	}
	var many strings.Builder
	many.WriteString("version: 1\naccess:\n")
	for i := range grantsMax + 1 {
		fmt.Fprintf(&many, "- {name: n%d, role: viewer, certificates: [c%d]}\n", i, i)
	}
	if _, err := parseAccess("a", []byte(many.String())); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("%v", err)
	}
}

func TestReadAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if _, err := readAccess(file); err == nil || !strings.HasPrefix(err.Error(), "http.tokens: "+file) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, make([]byte, accessBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readAccess(file); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
}

// FuzzParseAccess holds hostile files to it: no panic, no name that logs cannot show, nobody who proves nothing.
func FuzzParseAccess(f *testing.F) {
	f.Add([]byte(accessText()))
	f.Add([]byte("version: 1\naccess:\n- {name: a, push: all, certificates: [b]}\n"))
	f.Add([]byte("version: 1\naccess: [[[[{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseAccess("a", data)
		if (a == nil) != (err != nil) {
			t.Fatal(a, err)
		}
		if a == nil {
			return
		}
		if a.byToken("") != nil || a.byCertificate(nil) != nil {
			t.Fatal("nothing proves something")
		}
		for _, g := range a.grants {
			if !isAccessName.MatchString(g.name) || len(g.hashes)+len(g.certificates) == 0 || g.role == rulesapi.NoRole && !g.pushAll && len(g.push) == 0 {
				t.Fatalf("%+v", g)
			}
		}
	})
}

// What docs/security.md shows is a file of tokens, and a configuration, that are taken.
func TestDocumentedAccess(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	files, settings := 0, 0
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		switch text := m[1]; {
		case strings.Contains(text, "access:"):
			files++
			if _, err := parseAccess("docs/security.md", []byte(text)); err != nil {
				t.Error(err)
			}
		default:
			settings++
			text = "version: 1\nstreams: {auth: {source: {http: {}}}}\nsinks: {out: {file: {path: alerts.jsonl}}}\n" + text
			if c, diagnostics := config.Parse("cepd.yaml", []byte(text), config.Layers{}); c == nil || c.HTTP.Tokens == "" || !c.HTTP.TLS.Enabled() {
				t.Errorf("%v\n%s", diagnostics, text)
			}
		}
	}
	if files == 0 || settings == 0 {
		t.Errorf("%d files of tokens and %d configurations: the search is blind", files, settings)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, `{"v":1`) && !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}
