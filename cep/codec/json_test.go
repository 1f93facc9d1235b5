package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
)

// paths are the fields that tests read: plain, nested, flat, prefixes of each other, and the whole event.
var paths = [][]string{{"a"}, {"b"}, {"a", "b"}, {"a", "b", "c"}, {"a.b"}, {"a.b", "c"}, {"ü"}, {}}

func testSchema() *cep.Schema {
	s := cep.NewSchema()
	for _, p := range paths {
		s.Slot(p...)
	}
	return s
}

// fromStd makes a value of what encoding/json decoded with UseNumber.
func fromStd(x any) cep.Value {
	switch x := x.(type) {
	case nil:
		return cep.Null
	case bool:
		return cep.Bool(x)
	case string:
		return cep.String(x)
	case json.Number:
		if i, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			return cep.Int(i)
		}
		f, _ := strconv.ParseFloat(string(x), 64)
		return cep.Float(f)
	case []any:
		l := make([]cep.Value, len(x))
		for i := range x {
			l[i] = fromStd(x[i])
		}
		return cep.List(l)
	case map[string]any:
		var o []cep.Member
		for k, v := range x {
			o = append(o, cep.Member{Name: k, Value: fromStd(v)})
		}
		return cep.Object(o)
	}
	panic("no JSON")
}

// want looks a path up in what encoding/json decoded: the flat name first.
func want(m map[string]any, path []string) cep.Value {
	if len(path) == 0 {
		return fromStd(m)
	}
	if v, ok := m[strings.Join(path, ".")]; ok {
		return fromStd(v)
	}
	var x any = m
	for _, name := range path {
		o, _ := x.(map[string]any)
		v, ok := o[name]
		if !ok {
			return cep.Value{}
		}
		x = v
	}
	return fromStd(x)
}

// depth is how deep valid JSON is nested.
func depth(data []byte) int {
	n, most, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			n++
			most = max(most, n)
		case !quoted && (c == '}' || c == ']'):
			n--
		}
	}
	return most
}

// checkJSON decodes data and compares with encoding/json; twice, with another event between, so that what was learnt
// about names from one event meets another.
func checkJSON(t *testing.T, schema *cep.Schema, dec Decoder, data []byte) {
	t.Helper()
	ok := json.Valid(data) && utf8.Valid(data) && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) &&
		depth(data) <= MaxDepth
	var m map[string]any
	if ok {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
	}
	var ev cep.Event
	for range 2 {
		err := dec.Decode(data, &ev)
		if (err == nil) != ok {
			t.Fatalf("%q: %v, encoding/json accepts: %v", data, err, ok)
		}
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%q: %T", data, err)
		}
		if ok {
			for i, p := range paths {
				if got, want := ev.Value(i), want(m, p); !cep.Equal(got, want) {
					t.Fatalf("%q: %q is %v, want %v", data, p, got, want)
				}
			}
		}
		if err := dec.Decode([]byte(`{"a":1,"b":{"a":"x\n"},"a.b":[true],"z":null}`), &ev); err != nil {
			t.Fatal(err)
		}
	}
}

var corpus = []string{
	`{}`, ` { "a" : 1 , "b" : "x" } `, `{"a":{"b":{"c":5}}}`, `{"a.b.c":1,"a":{"b":{"c":2}}}`, `{"a":{"b":{"c":2}},"a.b.c":null}`,
	`{"a":{"b":1},"a":{"c":2}}`, `{"a":{"b":1},"a":7}`, `{"a":7,"a":{"b":1}}`, `{"a.b":1,"a.b":2}`, `{"a":[{"b":1}]}`,
	`{"a":"\u00fc\ud83d\ude00\ud800x\udc00\ud800\u0041\"\\\/\b\f\n\r\t"}`, `{"\u0061":1,"\u00fc":2}`, `{"ü":"ß"}`,
	`{"a":9223372036854775807,"b":-9223372036854775808}`, `{"a":9223372036854775808,"b":-9223372036854775809}`,
	`{"a":1e400,"b":-0}`, `{"a":0.1,"b":1E+2}`, `{"a":1.0,"b":123456789012345678901234567890}`,
	`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":-}`, `{"a":1e}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":-Infinity}`, `{"a":0x10}`,
	`{"z":01}`, `{"z":1.}`, `{"z":-}`, `{"z":tru}`, `{"z":nulll}`, `{"z":[1,]}`, `{"z":{"a":1,}}`, `{"z":[1 2]}`, `{"z":{"a"}}`,
	`{"z":"\x"}`, `{"z":"\u12g4"}`, "{\"z\":\"\x01\"}", "{\"a\":\"\x1f\"}", "{\"a\":\"\x7f\"}", `{"a":"`, `{"a":"\`, `{"a":"\u1`,
	`{"a":1`, `{"a":`, `{"a"`, `{`, ``, ` `, `null`, `[]`, `"a"`, `5`, `{"a":1}{"b":2}`, `{"a":1},`, `{,}`, `{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{'a':1}`,
	"{\"a\":\"\xff\"}", "{\"\xff\":1}", "{\"z\":\"\xed\xa0\x80\"}", "\xef\xbb\xbf{}", "{\"a\":1}\x00", "{\"a\"\t:\r\n1}",
	`{"a":[],"b":[[],{},[{"x":[1,2,{"y":null}]}]]}`, `{"aaaaaaaaaaaaaaaa":1,"bbbbbbb":"cccccccccccccccccccccccc","a":"12345678"}`,
	`{"a":1,"b":{"a":"x\n"},"a.b":[true],"z":null,"c":2}`, `{"b":1,"a":{"a":"x\n"},"z":[true],"a.b":null}`,
	`{"a":{"x0":0,"x1":1,"x2":2,"x3":3,"x4":4,"x5":5,"x6":6,"x7":7,"x8":8,"x9":9,"xa":1,"xb":2,"xc":3,"xd":4,"xe":5,"xf":6,"xg":7,"x0":8,"xg":9}}`,
	`{"a":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`,
	`{"a":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`,
	`{"z":` + strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth) + `}`,
	`{"a":` + strings.Repeat(`{"b":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth) + `}`,
}

func TestJSONIsEncodingJSON(t *testing.T) {
	schema := testSchema()
	dec := NewJSON(schema, TimeSpec{}, Options{})
	for _, text := range corpus {
		checkJSON(t, schema, dec, []byte(text))
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range corpus {
		f.Add([]byte(text))
	}
	schema := testSchema()
	dec := NewJSON(schema, TimeSpec{}, Options{})
	f.Fuzz(func(t *testing.T, data []byte) { checkJSON(t, schema, dec, data) })
}

func TestJSONRefuses(t *testing.T) {
	at, err := ParseTime("ts", "t.s,unix")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		text string
		kind ErrorKind
		want string
	}{
		{`{"ts": 1`, BadJSON, "bad json at byte 8: the text ends where a comma or the end was expected"},
		{`[1]`, BadJSON, "bad json at byte 0: '[' where an object was expected"},
		{`{"a": NaN}`, BadJSON, "bad json at byte 6: 'N' where a value was expected"},
		{"{\"a\": \"\xff\"}", BadUTF8, "bad utf-8 at byte 7: byte 0xff"},
		{`{"a": ` + strings.Repeat("[", 5_000_000), TooDeep, "too deep at byte 69: nested deeper than 64"},
		{`{"a": "` + strings.Repeat("x", 1<<20) + `"}`, TooLarge, "too large: 1048585 bytes, the limit is 1048576"},
		{`{"a": 1}`, NoTime, "no time: the event has no field ts, t.s"},
		{`{"ts": null, "t": {"s": ""}}`, NoTime, "no time: the event has no field ts, t.s"},
		{`{"ts": true}`, BadTime, "bad time: field ts is neither a string nor a number"},
		{`{"ts": "yesterday"}`, BadTime, `bad time: field ts: not of the layout "2006-01-02T15:04:05Z07:00"`},
		{`{"ts": 5}`, BadTime, `bad time: field ts: a number, not RFC 3339: say its unit, as in "ts,unix_ms"`},
		{`{"t.s": 1e99}`, BadTime, "bad time: field t.s: outside the years 1678 to 2261"},
	}
	for _, test := range tests {
		dec := NewJSON(testSchema(), at, Options{MaxSize: 1 << 20})
		if test.kind == TooDeep {
			dec = NewJSON(testSchema(), at, Options{MaxSize: 1 << 30})
		}
		var ev cep.Event
		err := dec.Decode([]byte(test.text), &ev)
		var e *Error
		if !errors.As(err, &e) || e.Kind != test.kind || err.Error() != test.want {
			t.Errorf("%.40s: %v, want %v", test.text, err, test.want)
		}
		// The next event is none the worse for it.
		if err := dec.Decode([]byte(`{"a": "x", "ts": "2024-11-29T12:00:00Z"}`), &ev); err != nil || ev.Value(0).AsString() != "x" {
			t.Errorf("after %.40s: %v", test.text, err)
		}
	}
}

func TestInexact(t *testing.T) {
	var ev cep.Event
	s := cep.NewSchema()
	s.Slot("a")
	dec := NewJSON(s, TimeSpec{}, Options{})
	for i, text := range []string{`{"a": 9223372036854775807}`, `{"a": 9223372036854775808}`, `{"a": 1e400}`, `{"z": 1e400}`, `{"a": 1.5}`} {
		if err := dec.Decode([]byte(text), &ev); err != nil {
			t.Fatal(err)
		}
		if want := []uint64{0, 1, 2, 2, 2}[i]; dec.Inexact() != want {
			t.Errorf("after %s: %d inexact, want %d", text, dec.Inexact(), want)
		}
		if got := ev.Value(0).AsFloat(); i == 2 && !math.IsInf(got, 1) {
			t.Errorf("1e400 is %v", got)
		}
	}
}

func TestKeep(t *testing.T) {
	schema := testSchema()
	dec := NewJSON(schema, TimeSpec{}, Options{Raw: true})
	text := `{"a": "plain", "b": ["list", {"name": "in\tside"}], "a.b": "` + strings.Repeat("long", 1000) + `", "ü": "\u00fc"}`
	var want cep.Event
	if err := NewJSON(schema, TimeSpec{}, Options{}).Decode([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	var kept []cep.Event
	for range 100 { // so that pieces of memory fill up and remembered strings meet again
		data := []byte(text)
		var ev cep.Event
		if err := dec.Decode(data, &ev); err != nil {
			t.Fatal(err)
		}
		dec.Keep(&ev)
		for i := range data {
			data[i] = '!'
		}
		var other cep.Event
		if err := dec.Decode([]byte(`{"a": "other", "b": "\n\n\n\n\n\n\n\n"}`), &other); err != nil {
			t.Fatal(err)
		}
		dec.Keep(&other)
		kept = append(kept, ev)
	}
	for _, ev := range kept {
		for i := range schema.Len() {
			if !cep.Equal(ev.Value(i), want.Value(i)) {
				t.Fatalf("%q is %v, want %v", schema.Name(i), ev.Value(i), want.Value(i))
			}
		}
		if string(ev.Raw) != text {
			t.Fatalf("raw is %q", ev.Raw)
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	schema := cep.NewSchema()
	for _, name := range []string{"type", "user", "country", "amount"} {
		schema.Slot(name)
	}
	at, err := ParseTime("ts,unix_ms")
	if err != nil {
		t.Fatal(err)
	}
	dec := NewJSON(schema, at, Options{})
	data := []byte(`{"ts":1732881234567,"type":"login_failed","user":"user-1\n","country":"US","amount":12.5,"x":{"y":[1,2]}}`)
	var ev cep.Event
	if n := testing.AllocsPerRun(100, func() {
		if err := dec.Decode(data, &ev); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func TestOrigin(t *testing.T) {
	parts := map[string]*cep.Partition{}
	find := func(stream, name string) *cep.Partition {
		if stream != "auth" {
			return nil
		}
		if parts[name] == nil {
			parts[strings.Clone(name)] = &cep.Partition{Stream: "auth", Name: strings.Clone(name)}
		}
		return parts[name]
	}
	schema := testSchema()
	whole := schema.Slot()
	dec := NewJSON(schema, TimeSpec{}, Options{Raw: true, Partition: find})
	for _, test := range []struct{ text, raw string }{
		{`{"_cepd":{"stream":"auth","partition":"7","offset":12},"a":1}`, `{"a":1}`},
		{`{"a":1, "_cepd":{"stream":"auth","partition":"7","offset":12}}`, `{"a":1}`},
		{` {"a":1, "_cepd":{"stream":"auth","partition":"7","offset":12} , "b":2} `, `{"a":1, "b":2}`},
		{`{"_cepd":{"stream":"auth","partition":"7","offset":12}}`, `{}`},
	} {
		ev := cep.Event{}
		if err := dec.Decode([]byte(test.text), &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Position.Partition != parts["7"] || ev.Position.Offset != 12 {
			t.Errorf("%s: position %+v", test.text, ev.Position)
		}
		if string(ev.Raw) != test.raw {
			t.Errorf("%s: raw %s", test.text, ev.Raw)
		}
		if v := ev.Value(whole).Member(originName); v.Kind() != cep.KindMissing {
			t.Errorf("%s: the event holds %v", test.text, v)
		}
	}
	mine := cep.Position{Partition: &cep.Partition{}, Offset: 3}
	ev := cep.Event{Position: mine}
	if err := dec.Decode([]byte(`{"a":{"_cepd":1}}`), &ev); err != nil || ev.Position != mine {
		t.Errorf("an event without an origin: %v, %+v", err, ev.Position)
	}
	for _, bad := range []string{`5`, `{}`, `{"stream":"web","partition":"7","offset":1}`, `{"stream":"auth","partition":7,"offset":1}`, `{"stream":"auth","partition":"7","offset":-1}`} {
		err := dec.Decode([]byte(`{"_cepd":`+bad+`}`), &ev)
		var e *Error
		if !errors.As(err, &e) || e.Kind != BadPosition {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// Nobody asks: a field like any other.
	s := cep.NewSchema()
	i := s.Slot("_cepd")
	if err := NewJSON(s, TimeSpec{}, Options{}).Decode([]byte(`{"_cepd":5}`), &ev); err != nil || ev.Value(i).AsInt() != 5 {
		t.Errorf("_cepd as a field: %v %v", err, ev.Value(i))
	}
}
