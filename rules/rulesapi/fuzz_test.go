package rulesapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
)

// dice makes choices of bytes, which a fuzzer changes; where they are used up everything is the first choice.
type dice struct{ bytes []byte }

func (d *dice) n(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := int(d.bytes[0])
	d.bytes = d.bytes[1:]
	if n > 256 && len(d.bytes) > 0 {
		b, d.bytes = b<<8|int(d.bytes[0]), d.bytes[1:]
	}
	return b % n
}

func pick[T any](d *dice, list ...T) T { return list[d.n(len(list))] }

// words are texts that mean something to the API, and such that want to.
var words = []string{
	"burst", "login-failed", "a", "b", "silences", "managed", "41", "1", "0", "-1", "+1", " 1", "true", "false", "shadow", "alert", "low", "41.1", "41.0", "1000",
	"2027-01-01", "2026-01-01T00:00:00Z", "*", "", "..", "../people", "%2e%2e", "a/b", "a\x00", "é", "\xff", "x\r\ny: z", "{{.}}", "null", "[]", "99999999999999999999",
	"9223372036854775808", "1e9", "NaN", "<script>", "'\"", strings.Repeat("a", 129), strings.Repeat("9", 400),
}

// texts are rule files, and such that nearly are.
var texts = []string{
	burst, strings.Replace(burst, "id: burst", "id: a", 1), strings.Replace(burst, "5s", "6s", 1), authRule, "version: 1\nrules:\n- {id: b, from: auth, where: x == 1}\n",
	"version: 1\nrules:\n- {id: a, from: s, where: \"((((\"}\n", "version: 1\nrules: []\n", "version: 2\n", "rules", "[", "\x00", "&a [*a]", "- - - -", "version: 1\nrules:\n- {id: b, from: s, by: [k], sequence: [{step: x, times: 0..}]}\n",
	"version: 1\nrules:\n- {id: a, from: s}\n---\nversion: 1\nrules:\n- {id: b, from: s}\n", "version: 1\nlists: {l: {file: /etc/passwd, column: x}}\nrules:\n- {id: a, from: s, where: x in $l}\n",
	"version: 1\nrules:\n- {id: a, from: s, tests: [{name: t, events: [{file: ../../history/revisions.log}], expect: {count: 0}}]}\n",
}

// asker makes requests of a description.
type asker struct {
	dice
	ops []operation
	// etags are those that were seen.
	etags []string
}

type operation struct {
	method, path string
	op           *openapi3.Operation
	params       openapi3.Parameters
}

func newAsker(doc *openapi3.T, bytes []byte) *asker {
	a := &asker{dice: dice{bytes}}
	for p, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			o := operation{method, p, op, append(item.Parameters, op.Parameters...)}
			a.ops = append(a.ops, o)
			if method != get && op.Extensions["x-role"] == "editor" { // these do more
				a.ops = append(a.ops, o, o)
			}
		}
	}
	slices.SortFunc(a.ops, func(x, y operation) int { return strings.Compare(x.path+x.method, y.path+y.method) })
	return a
}

// value makes something that a schema admits, or, now and then, something that it does not.
func (a *asker) value(s *openapi3.Schema, depth int) any {
	if a.n(12) == 11 || depth > 6 {
		return pick[any](&a.dice, nil, "x", 1.5, -1, true, []any{1, []any{}}, map[string]any{"x": nil}, strings.Repeat("[", 100))
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[a.n(len(s.Enum))]
	case s.Type.Is("boolean"):
		return a.n(2) == 0
	case s.Type.Is("integer"):
		return a.n(1 << 16)
	case s.Type.Is("array"):
		list := []any{}
		for range a.n(3) {
			list = append(list, a.value(s.Items.Value, depth+1))
		}
		return list
	case s.Type.Is("object"):
		m := map[string]any{}
		names := make([]string, 0, len(s.Properties))
		for name := range s.Properties {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if slices.Contains(s.Required, name) || a.n(2) == 0 {
				m[name] = a.value(s.Properties[name].Value, depth+1)
			}
			switch m[name].(type) {
			case string:
				m[name] = a.member(name, m)
			case []any:
				if name == "rules" && s.Properties[name].Value.Items.Value.Type.Is("string") {
					m[name] = []any{pick(&a.dice, "*", "burst", "login-failed", "nobody")}
				}
			}
		}
		if len(names) == 0 || a.n(10) == 9 {
			m[pick(&a.dice, words...)] = pick[any](&a.dice, "x", 7, false, nil)
		}
		return m
	}
	return pick(&a.dice, words...)
}

// member is a text that may be meant by the name of a member.
func (a *asker) member(name string, others map[string]any) string {
	if a.n(8) == 7 {
		return pick(&a.dice, words...)
	}
	switch name {
	case "id":
		return pick(&a.dice, "burst", "a", "b")
	case "text":
		return fmt.Sprintf("version: 1\nrules:\n- {id: %v, from: auth, by: [user], where: x == %d}\n", others["id"], a.n(3))
	case "from", "until":
		return pick(&a.dice, "2027-01-01", "2026-01-01T00:00:00Z", "2027-06-01")
	case "mode":
		return pick(&a.dice, "alert", "shadow")
	case "severity":
		return pick(&a.dice, "low", "critical")
	}
	return pick(&a.dice, words...)
}

// request makes a request.
func (a *asker) request() (method, target, body string, headers []string) {
	o := a.ops[a.n(len(a.ops))]
	path, query, id := o.path, url.Values{}, ""
	for _, p := range o.params {
		v := fmt.Sprint(a.value(p.Value.Schema.Value, 5))
		if p.Value.Name == "id" && a.n(4) > 0 { // one that may be there
			v = pick(&a.dice, "burst", "burst", "a", "b", "login-failed")
			id = v
		}
		switch p.Value.In {
		case "path":
			if v == "" || v == "." || v == ".." { // other routes
				v = "burst"
			}
			path = strings.Replace(path, "{"+p.Value.Name+"}", url.PathEscape(v), 1)
		case "query":
			if a.n(8) == 0 {
				query.Add(p.Value.Name, v)
			}
		case "header":
			if p.Value.Name == "If-Match" && a.n(3) == 0 {
				v = "*"
			}
			if len(a.etags) > 0 && strings.HasPrefix(p.Value.Name, "If-") {
				v = pick(&a.dice, a.etags[len(a.etags)-1], a.etags[a.n(len(a.etags))], "*", v)
			}
			if a.n(2) == 0 {
				headers = append(headers, p.Value.Name, v)
			}
		}
	}
	if a.n(20) == 19 {
		query.Add(pick(&a.dice, words...), "1")
	}
	if o.op.RequestBody != nil && a.n(20) != 19 {
		content := o.op.RequestBody.Value.Content
		media := make([]string, 0, len(content))
		for m := range content {
			media = append(media, m)
		}
		slices.Sort(media)
		m := media[a.n(len(media))]
		if m == "application/yaml" {
			body = pick(&a.dice, texts...)
			if id != "" && a.n(3) > 0 {
				body = fmt.Sprintf("version: 1\nrules:\n- {id: %s, from: auth, by: [user], where: x == %d}\n", id, a.n(3))
			}
		} else {
			b, _ := json.Marshal(a.value(content[m].Schema.Value, 0)) // invalid UTF-8 is mended, all else can be written
			body = string(b)
		}
		if a.n(8) == 7 && len(body) > 0 {
			body = body[:a.n(len(body))]
		}
		headers = append(headers, "Content-Type", pick(&a.dice, m, m, m, m, m, m, m, m, "text/plain", ""))
	}
	target = "/v1" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	return o.method, target, body, headers
}

// try sends requests, and holds the API to what it says: no failure of its own, answers as described, and what is in force is
// what is on the disk.
func try(t testing.TB, bytes []byte) {
	s := newServer(t)
	s.api.EndStreams() // live streams say what they have, and end
	s.fake.streams = []rulesapi.Stream{{Name: "auth", Watermark: time.Unix(1, 0).UTC()}}
	s.fake.checkpoints = []rulesapi.Checkpoint{{Epoch: 40}, {Epoch: 41}}
	s.feed.Committed(41, alerts("burst", 0, 3))
	a := newAsker(describe(t), bytes)
	a.etags = append(a.etags, s.ask(put, "/v1/rules/burst", burst).want(201).etag(),
		s.ask(put, "/v1/silences/burst", `{"rules": ["*"], "until": "2027-01-01"}`).want(201).etag())
	for range 24 {
		if len(a.bytes) == 0 {
			break
		}
		method, target, body, headers := a.request()
		u, err := url.Parse(target)
		if err != nil {
			continue
		}
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		r.URL = u
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		r = r.WithContext(rulesapi.WithCaller(r.Context(), rulesapi.Caller{Name: "fuzz", Role: rulesapi.Admin}))
		answer := s.serve(r, body)
		if answer.Code >= 500 && answer.Code != 503 || answer.Code == 0 {
			t.Errorf("%s %q %q %q: %d %s", method, target, headers, body, answer.Code, answer.Body)
		}
		if e := answer.etag(); e != "" {
			a.etags = append(a.etags, e)
		}
		set, diagnostics, err := rules.Load([]string{s.dir})
		if err != nil || set == nil || set.ID() != s.fake.Rules().ID() {
			t.Fatalf("%s %q %q %q: the disk has other rules than are in force: %v %v", method, target, headers, body, err, diagnostics)
		}
	}
	if strange, _ := filepath.Glob(filepath.Join(s.dir, "managed", ".*")); len(strange) > 0 {
		t.Errorf("left behind: %q", strange)
	}
}

var (
	fuzzFor  = flag.Duration("api.fuzz", time.Second, "how long the API is asked at random")
	fuzzSeed = flag.Uint64("api.seed", 0, "the one conversation to repeat")
)

// conversation are the choices of a seed.
func conversation(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, 600)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// TestAnythingIsAnswered asks what the description admits, and what it does not, for as long as -api.fuzz says.
func TestAnythingIsAnswered(t *testing.T) {
	if *fuzzSeed != 0 {
		try(t, conversation(*fuzzSeed))
		return
	}
	first := uint64(time.Now().UnixNano())
	n := uint64(0)
	for end := time.Now().Add(*fuzzFor); n == 0 || time.Now().Before(end); n++ {
		if !t.Run("", func(t *testing.T) { try(t, conversation(first+n)) }) {
			t.Fatalf("repeat it with -run TestAnythingIsAnswered -api.seed=%d", first+n)
		}
	}
	t.Logf("%d conversations", n)
}

// FuzzAPI is the same under a fuzzer. One conversation takes some ten milliseconds.
func FuzzAPI(f *testing.F) {
	f.Add([]byte("GET is where everything begins"))
	for seed := range uint64(8) {
		f.Add(conversation(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1000 {
			b = b[:1000]
		}
		try(t, b)
	})
}
