package rulesapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/rules/rulesapi"
)

// fill puts names into the path of a route.
func fill(path string) string {
	return strings.NewReplacer(":id", "login-failed", ":number", "1", ":name", "auth").Replace(path)
}

// TestRoles asks everything as nobody, with too low a role, and with the least that will do.
func TestRoles(t *testing.T) {
	s := newServer(t)
	s.api.EndStreams() // the live stream ends at once
	for _, r := range rulesapi.Routes() {
		body := ""
		if r.BodyMax > 0 {
			body = "{}"
		}
		s.askAs(rulesapi.Caller{}, r.Method, fill(r.Path), body).problem(401, "unauthenticated")
		if s.askAs(rulesapi.Caller{}, r.Method, fill(r.Path), body).Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: 401 does not say how", r.Method, r.Path)
		}
		s.askAs(rulesapi.Caller{Name: "low", Role: r.Role - 1}, r.Method, fill(r.Path), body).problem(403, "forbidden")
		if a := s.askAs(rulesapi.Caller{Name: "high", Role: r.Role}, r.Method, fill(r.Path), body); a.Code == 401 || a.Code == 403 {
			t.Errorf("%s %s: %d for the role %s", r.Method, r.Path, a.Code, r.Role)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
			if got := s.askAs(rulesapi.Caller{}, r.Method, fill(r.Path), body).Header().Get(name); got != want {
				t.Errorf("%s %s: %s is %q", r.Method, r.Path, name, got)
			}
		}
	}
	if len(s.changes) == 0 || s.fake.swaps != 0 {
		t.Errorf("%d changes told, %d made", len(s.changes), s.fake.swaps)
	}
}

func TestRoleNames(t *testing.T) {
	for _, name := range rulesapi.RoleNames() {
		r, ok := rulesapi.ParseRole(name)
		if !ok || r.String() != name || r == rulesapi.NoRole {
			t.Errorf("%s is %v", name, r)
		}
	}
	for _, name := range []string{"", "nobody", "root", "Admin"} {
		if r, ok := rulesapi.ParseRole(name); ok {
			t.Errorf("%q is %v", name, r)
		}
	}
	if s := rulesapi.Role(9).String(); s != "nobody" {
		t.Errorf("a role that is none: %s", s)
	}
}

// TestHostileIDs asks for every route with ids that want to be something else: each is refused, and nothing outside of the
// directory is touched, or found.
func TestHostileIDs(t *testing.T) {
	s := newServer(t)
	secret := filepath.Join(filepath.Dir(s.dir), "secret.yaml")
	if err := os.WriteFile(secret, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, filepath.Dir(s.dir))
	ids := map[string]string{
		"parent":         "..",
		"through parent": "../secret",
		"twice escaped":  "..%2fsecret",
		"absolute":       "/etc/passwd",
		"slash":          "a/b",
		"backslash":      `a\b`,
		"NUL":            "a\x00b",
		"line end":       "a\nb",
		"dots inside":    "a..b",
		"dot first":      ".hidden",
		"hyphen first":   "-rf",
		"capitals":       "Rule",
		"unicode":        "naïve",
		"look-alike":     "ｒule",
		"right to left":  "a\u202eb",
		"no UTF-8":       "a\xffb",
		"space":          "a b",
		"percent":        "%",
		"template":       "{{.}}",
		"too long":       strings.Repeat("a", 129),
		"1 MiB":          strings.Repeat("a", 1<<20),
	}
	for what, id := range ids {
		for _, r := range rulesapi.Routes() {
			if !strings.Contains(r.Path, ":id") || strings.HasPrefix(r.Path, "/v1/alerts") {
				continue
			}
			path := strings.NewReplacer(":id", url.PathEscape(id), ":number", "1").Replace(r.Path)
			req := httptest.NewRequest(r.Method, "/", strings.NewReader(strings.Replace(burst, "burst", `"`+id+`"`, 1)))
			req.URL = &url.URL{Path: strings.NewReplacer(":id", id, ":number", "1").Replace(r.Path), RawPath: path}
			req.Header.Set("Content-Type", "application/yaml")
			req.Header.Set("If-Match", "*")
			req = req.WithContext(rulesapi.WithCaller(req.Context(), rulesapi.Caller{Name: "root", Role: rulesapi.Admin}))
			w := httptest.NewRecorder()
			s.echo.ServeHTTP(w, req)
			if w.Code != 400 && w.Code != 404 && w.Code != 405 && w.Code != 415 {
				t.Errorf("%s: %s %.80s: %d: %.300s", what, r.Method, path, w.Code, w.Body)
			}
			if w.Body.Len() > 4096 {
				t.Errorf("%s: an answer of %d bytes", what, w.Body.Len())
			}
		}
		// In the body it is a rule whose id is another one than that of the path.
		if a := s.ask(put, "/v1/rules/burst", strings.Replace(burst, "id: burst", "id: "+`"`+id+`"`, 1)); a.Code != 422 && a.Code != 400 && a.Code != 413 {
			t.Errorf("%s in the body: %d", what, a.Code)
		}
		if a := s.ask(get, "/v1/alerts?"+url.Values{"rule": {id}}.Encode(), ""); a.Code != 400 {
			t.Errorf("%s as a parameter: %d", what, a.Code)
		}
	}
	if after := tree(t, filepath.Dir(s.dir)); after != before {
		t.Errorf("files before:\n%s\nand behind:\n%s", before, after)
	}
}

// tree lists the files below a directory, but for the history.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if d.Name() == "history" {
			return filepath.SkipDir
		}
		b.WriteString(p + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRequestsThatCannotBeRead are refused before anything is done.
func TestRequestsThatCannotBeRead(t *testing.T) {
	s := newServer(t)
	for _, c := range []struct {
		method, path, body, media string
		status                    int
		kind                      string
	}{
		{get, "/v1/rules?limt=3", "", "", 400, "bad-request"},
		{get, "/v1/rules?limit=0", "", "", 400, "bad-request"},
		{get, "/v1/rules?limit=1001", "", "", 400, "bad-request"},
		{get, "/v1/rules?limit=1e2", "", "", 400, "bad-request"},
		{get, "/v1/rules?limit=1&limit=2", "", "", 400, "bad-request"},
		{get, "/v1/rules?enabled=yes", "", "", 400, "bad-request"},
		{get, "/v1/rules?mode=loud", "", "", 400, "bad-request"},
		{get, "/v1/rules?q=%zz", "", "", 400, "bad-request"},
		{get, "/v1/rules?q=a;b", "", "", 400, "bad-request"},
		{get, "/v1/rules?q=" + strings.Repeat("a", 9000), "", "", 400, "bad-request"},
		{get, "/v1/rules/login-failed/revisions?after=x", "", "", 400, "bad-request"},
		{get, "/v1/rules/login-failed/revisions/x", "", "", 400, "bad-request"},
		{get, "/v1/rules/login-failed/revisions/0", "", "", 400, "bad-request"},
		{get, "/v1/rules/login-failed/diff?from=-1", "", "", 400, "bad-request"},
		{get, "/v1/rules/login-failed/starts?key=a&key=b", "", "", 400, "bad-request"},
		{get, "/v1/rules/login-failed/starts?key=" + strings.Repeat("a&key=", 70), "", "", 400, "bad-request"},
		{get, "/v1/rules/login-failed/starts?after=elsewhere", "", "", 400, "bad-request"},
		{get, "/v1/alerts?since=yesterday", "", "", 400, "bad-request"},
		{get, "/v1/alerts?since=3000-01-01", "", "", 400, "bad-request"},
		{get, "/v1/alerts?after=1", "", "", 400, "bad-request"},
		{get, "/v1/alerts/live?after=99999999999999999999.1", "", "", 400, "bad-request"},
		{get, "/v1/alerts/nothing", "", "", 404, "not-found"},
		{get, "/v1/checkpoints?after=-1", "", "", 400, "bad-request"},
		{post, "/v1/savepoints?epoch=0", "", "", 400, "bad-request"},
		{post, "/v1/savepoints?epoch=4000", "", "", 404, "not-found"},
		{get, "/v1/nothing", "", "", 404, "not-found"},
		{get, "/v1/streams/nothing", "", "", 404, "not-found"},
		{get, "/v1/sinks/no%2Fthing", "", "", 404, "not-found"},
		{get, "/v1/silences/nothing", "", "", 404, "not-found"},
		{get, "/v1/rules/nothing/starts", "", "", 404, "not-found"},
		{get, "/v1/rules/nothing/revisions", "", "", 404, "not-found"},
		{get, "/v1/rules/nothing/diff", "", "", 404, "not-found"},
		{get, "/v1/rules/login-failed/revisions/7", "", "", 404, "not-found"},
		{post, "/v1/validate?file=nothing.yaml", burst, "application/yaml", 404, "not-found"},
		{post, "/v1/validate?tests=1", burst, "application/yaml", 400, "bad-request"},
		{put, "/v1/rules/burst?dry_run=1", burst, "application/yaml", 400, "bad-request"},
		{put, "/v1/rules/burst", burst, "text/plain", 415, "media-type"},
		{put, "/v1/rules/burst", burst, "", 415, "media-type"},
		{put, "/v1/rules/burst", burst, "application/yaml; q", 415, "media-type"},
		{put, "/v1/rules/burst", strings.Repeat("#", 1<<20+1), "application/yaml", 413, "too-large"},
		{patch, "/v1/rules/burst", strings.Repeat(" ", 64<<10+1), "application/json", 413, "too-large"},
		{patch, "/v1/rules/burst", `{"where": "a == 1"}`, "application/merge-patch+json", 400, "bad-request"},
		{patch, "/v1/rules/burst", `{"enabled": "yes"}`, "application/json", 400, "bad-request"},
		{patch, "/v1/rules/burst", `{"revision": 1.5}`, "application/json", 400, "bad-request"},
		{patch, "/v1/rules/burst", `null`, "application/json", 400, "bad-request"},
		{patch, "/v1/rules/burst", `[]`, "application/json", 400, "bad-request"},
		{put, "/v1/managed", `{}`, "application/json", 400, "bad-request"},
		{put, "/v1/managed", `{"rules": [], "more": 1}`, "application/json", 400, "bad-request"},
		{put, "/v1/managed", `{"rules": [{"id": "../x", "text": ""}]}`, "application/json", 400, "bad-request"},
		{put, "/v1/silences/x", `{"rules": []}`, "application/json", 400, "bad-request"},
		{put, "/v1/silences/x", `{"rules": ["*"], "until": "soon"}`, "application/json", 400, "bad-request"},
		{put, "/v1/silences/x", `{"rules": ["*"], "until": "2030-01-01", "from": "soon"}`, "application/json", 400, "bad-request"},
		{put, "/v1/silences/x", `{"rules": ["*"], "until": "2030-01-01", "key": {"user": []}}`, "application/json", 400, "bad-request"},
		{put, "/v1/silences/x?force=1", `{"rules": ["*"], "until": "2030-01-01"}`, "application/json", 400, "bad-request"},
	} {
		a := s.ask(c.method, c.path, c.body, "Content-Type", c.media)
		if a.Code != c.status || !strings.Contains(a.Body.String(), "/v1/docs#"+c.kind) {
			t.Errorf("%s %.60s %.40s: %d %s", c.method, c.path, c.body, a.Code, a.Body)
		}
	}
	s.ask(http.MethodTrace, "/v1/rules", "").problem(405, "method")
}
