package codec

import (
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
	"github.com/google/go-cmp/cmp"
)

func TestCSV(t *testing.T) {
	schema := cep.NewSchema()
	schema.Slot()
	schema.Slot("user", "name")
	spec, err := ParseTime("ts,2006-01-02 15:04:05,UTC")
	if err != nil {
		t.Fatal(err)
	}
	dec := NewCSV([]string{"ts", "user.name", "value", "note"}, ',', schema, spec, Options{Raw: true})
	for _, test := range []struct{ row, want, name string }{
		{`2015-09-01 13:45:00,root,3.06,`, `{"ts":"2015-09-01 13:45:00","user.name":"root","value":3.06}`, `"root"`},
		{`2015-09-01 13:45:00,"a ""b"", c",-7,007`, `{"ts":"2015-09-01 13:45:00","user.name":"a \"b\", c","value":-7,"note":"007"}`, `"a \"b\", c"`},
		{`2015-09-01 13:45:00,"12",1e3,true`, `{"ts":"2015-09-01 13:45:00","user.name":12,"value":1e3,"note":true}`, `12`},
		{`2015-09-01 13:45:00,"",null,NaN`, `{"ts":"2015-09-01 13:45:00","value":"null","note":"NaN"}`, `null`},
		{"2015-09-01 13:45:00,\"two\nlines\",+1,1.", `{"ts":"2015-09-01 13:45:00","user.name":"two\nlines","value":"+1","note":"1."}`, `"two\nlines"`},
	} {
		var ev cep.Event
		if err := dec.Decode([]byte(test.row), &ev); err != nil {
			t.Errorf("%s: %v", test.row, err)
			continue
		}
		if d := cmp.Diff(test.want, string(ev.Raw)); d != "" {
			t.Error(d)
		}
		if got := string(cep.AppendJSON(nil, ev.Value(1))); got != test.name {
			t.Errorf("%s: user.name is %s, want %s", test.row, got, test.name)
		}
		if n := len(ev.Value(0).AsObject()); n != strings.Count(test.want, `":`) {
			t.Errorf("%s: %d members", test.row, n)
		}
		if ev.Time.String() != "2015-09-01T13:45:00Z" {
			t.Errorf("%s: %v", test.row, ev.Time)
		}
	}
	for _, test := range []struct {
		row  string
		kind ErrorKind
	}{
		{"2015-09-01 13:45:00,root,1", BadCSV},
		{"2015-09-01 13:45:00,root,1,2,3", BadCSV},
		{`2015-09-01 13:45:00,"root,1,2`, BadCSV},
		{`2015-09-01 13:45:00,"root"x,1,2`, BadCSV},
		{"2015-09-01 13:45:00,\xff,1,2", BadUTF8},
		{",root,1,2", NoTime},
		{"x,root,1,2", BadTime},
		{strings.Repeat("x", MaxSize+1), TooLarge},
	} {
		var ev cep.Event
		err := dec.Decode([]byte(test.row), &ev)
		var e *Error
		if !errors.As(err, &e) || e.Kind != test.kind {
			t.Errorf("%.40s: %v, want %v", test.row, err, test.kind)
		}
	}
}

// Rows are cut as encoding/csv cuts them. It lets quotes stand inside a bare field with LazyQuotes only; so do we always,
// as the other readers of such files do.
func FuzzCSV(f *testing.F) {
	for _, row := range []string{`a,b,c`, `,,`, `"a","b""c","d,e"`, `"a"b,c,d`, `"a,b,c`, `a"b,c,d`, `1,2`, `1,2,3,4`, "\"a\nb\",c,d", `"",,""`} {
		f.Add(row)
	}
	schema := cep.NewSchema()
	names := []string{"x", "y", "z"}
	for _, n := range names {
		schema.Slot(n)
	}
	dec := NewCSV(names, ',', schema, TimeSpec{}, Options{})
	f.Fuzz(func(t *testing.T, row string) {
		if strings.Contains(row, "\r") || row == "" || row == "\n" || !utf8.ValidString(row) || len(row) > MaxSize {
			return
		}
		r := csv.NewReader(strings.NewReader(row))
		want, err := r.Read()
		if err == nil && int(r.InputOffset()) < len(row) || errors.Is(err, csv.ErrBareQuote) || strings.HasPrefix(row, "\n") {
			return // several rows, or what we allow
		}
		ok := err == nil && len(want) == len(names) && !strings.HasSuffix(row, "\n")
		var ev cep.Event
		err = dec.Decode([]byte(row), &ev)
		if strings.HasSuffix(row, "\n") {
			return
		}
		if (err == nil) != ok {
			t.Fatalf("%q: %v, encoding/csv: %q", row, err, want)
		}
		for i := range want {
			if ok && ev.Value(i).Kind() == cep.KindString && ev.Value(i).AsString() != want[i] {
				t.Fatalf("%q: field %d is %q, want %q", row, i, ev.Value(i).AsString(), want[i])
			}
			if ok && (want[i] == "") != (ev.Value(i).Kind() == cep.KindMissing) {
				t.Fatalf("%q: field %d is %v, want %q", row, i, ev.Value(i), want[i])
			}
		}
	})
}
