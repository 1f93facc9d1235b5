package codec_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
)

// metaFields are read by the tests below, with what they hold for metaOf and a value that claims otherwise.
var metaFields = []struct {
	path []string
	want string
}{
	{[]string{"_kafka", "key"}, `"k1"`},
	{[]string{"_kafka", "topic"}, `"orders"`},
	{[]string{"_kafka", "timestamp"}, `1732881234567`},
	{[]string{"_kafka", "headers", "trace"}, `"t2"`},
	{[]string{"_kafka", "headers", "a", "b"}, `"dotted"`},
	{[]string{"_kafka", "headers", "raw"}, `"/w=="`},
	{[]string{"_kafka", "headers", "void"}, `null`},
	{[]string{"_kafka", "headers", "absent"}, ``},
	{[]string{"_kafka", "headers"}, `{"trace":"t2","a.b":"dotted","raw":"/w==","void":null}`},
	{[]string{"_kafka", "partition"}, ``},
	{[]string{"_kafka", "key", "deeper"}, ``},
	{[]string{"_kafka"}, `{"topic":"orders","key":"k1","timestamp":1732881234567,"headers":{"trace":"t2","a.b":"dotted","raw":"/w==","void":null}}`},
	{[]string{"n"}, `7`},
}

func metaOf() *cep.Meta {
	return &cep.Meta{
		Topic: "orders", Key: []byte("k1"), Time: 1732881234567 * cep.Millisecond,
		Headers: []cep.Header{
			{Name: "trace", Value: []byte("t1")},
			{Name: "a.b", Value: []byte("dotted")},
			{Name: "raw", Value: []byte{0xff}},
			{Name: "void"},
			{Name: "trace", Value: []byte("t2")},
		},
	}
}

const forged = `{"n":7,"_kafka":{"key":"forged","partition":9,"headers":{"absent":"forged"}},"_kafka.key":"forged"}`

func metaSchema() *cep.Schema {
	s := cep.NewSchema()
	for _, f := range metaFields {
		s.Slot(f.path...)
	}
	return s
}

func TestMetaIsTheBrokers(t *testing.T) {
	schema := metaSchema()
	dec := codec.NewJSON(schema, codec.TimeSpec{}, codec.Options{Meta: true})
	var ev cep.Event
	dec.Beside(metaOf())
	if err := dec.Decode([]byte(forged), &ev); err != nil {
		t.Fatal(err)
	}
	dec.Keep(&ev)
	for i, f := range metaFields {
		if d := cmp.Diff(f.want, jsonOf(ev.Value(i))); d != "" {
			t.Errorf("%v (-want +got):\n%s", f.path, d)
		}
	}
	// A record that came with nothing has nothing, whatever its value says.
	if err := dec.Decode([]byte(forged), &ev); err != nil {
		t.Fatal(err)
	}
	for i, f := range metaFields[:len(metaFields)-1] {
		if v := ev.Value(i); v.Kind() != cep.KindMissing {
			t.Errorf("%v without a broker: %s", f.path, jsonOf(v))
		}
	}
}

func TestMetaOfARecording(t *testing.T) {
	schema := metaSchema()
	parts := func(stream, name string) *cep.Partition { return &cep.Partition{Stream: stream, Name: name} }
	at, err := codec.ParseTime("_kafka.timestamp,unix_ms")
	if err != nil {
		t.Fatal(err)
	}
	dec := codec.NewJSON(schema, at, codec.Options{Partition: parts, Raw: true})
	meta := cep.AppendJSON(nil, codec.MetaValue(metaOf()))
	line := `{"_cepd":{"stream":"s","partition":"orders/3","offset":5,"kafka":` + string(meta) + `},` + forged[1:]
	var ev cep.Event
	if err := dec.Decode([]byte(line), &ev); err != nil {
		t.Fatal(err)
	}
	for i, f := range metaFields {
		if d := cmp.Diff(f.want, jsonOf(ev.Value(i))); d != "" {
			t.Errorf("%v (-want +got):\n%s", f.path, d)
		}
	}
	if ev.Time != metaOf().Time || ev.Position.Offset != 5 || string(ev.Raw) != forged {
		t.Errorf("time %v, position %+v, raw %s", ev.Time, ev.Position, ev.Raw)
	}
	// In what was recorded elsewhere _kafka is a member as any other.
	if err := dec.Decode([]byte(`{"_kafka":{"key":"own","timestamp":1000}}`), &ev); err != nil {
		t.Fatal(err)
	}
	if v := ev.Value(0); v.AsString() != "own" || ev.Time != cep.Second {
		t.Errorf("key %s, time %v", jsonOf(v), ev.Time)
	}
}

func TestTimeOfTheRecord(t *testing.T) {
	schema := cep.NewSchema()
	at, err := codec.ParseTime("ts", "_kafka.headers.at", "_kafka.timestamp,unix_ms")
	if err != nil {
		t.Fatal(err)
	}
	dec := codec.NewJSON(schema, at, codec.Options{Meta: true})
	for _, c := range []struct {
		name, value string
		change      func(*cep.Meta)
		want        string
		kind        codec.ErrorKind
	}{
		{name: "the value's", value: `{"ts":"2024-01-01T00:00:00Z"}`, want: "2024-01-01T00:00:00Z"},
		{name: "a header's", value: `{}`, change: func(m *cep.Meta) {
			m.Headers = []cep.Header{{Name: "at", Value: []byte("2024-02-02T00:00:00Z")}}
		}, want: "2024-02-02T00:00:00Z"},
		{name: "the record's", value: `{}`, want: "2024-11-29T11:53:54.567Z"},
		{name: "none", value: `{"_kafka":{"timestamp":5}}`, change: func(m *cep.Meta) { m.Time = cep.BeforeAll }, kind: codec.NoTime},
	} {
		m := metaOf()
		if c.change != nil {
			c.change(m)
		}
		dec.Beside(m)
		var ev cep.Event
		err := dec.Decode([]byte(c.value), &ev)
		if c.want == "" {
			if e, ok := errors.AsType[*codec.Error](err); !ok || e.Kind != c.kind {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if err != nil || ev.Time.String() != c.want {
			t.Errorf("%s: %v, %v", c.name, ev.Time, err)
		}
	}
}

func TestTombstone(t *testing.T) {
	var ev cep.Event
	dec := codec.NewJSON(cep.NewSchema(), codec.TimeSpec{}, codec.Options{Meta: true})
	for _, c := range []struct {
		data []byte
		want codec.ErrorKind
	}{{nil, codec.NoValue}, {[]byte{}, codec.BadJSON}} {
		dec.Beside(metaOf())
		if e, ok := errors.AsType[*codec.Error](dec.Decode(c.data, &ev)); !ok || e.Kind != c.want {
			t.Errorf("%#v: %v, want %v", c.data, e, c.want)
		}
	}
}

func jsonOf(v cep.Value) string {
	if v.Kind() == cep.KindMissing {
		return ""
	}
	return string(cep.AppendJSON(nil, v))
}

// BenchmarkMeta shows what it costs that a broker keeps something with each record, where rules read none of it, and where
// they do.
func BenchmarkMeta(b *testing.B) {
	value := []byte(`{"ts":1732881234567,"type":"login_failed","user":"user-00001234","src_ip":"10.1.2.3","device":"ios-17","country":"US"}`)
	for _, c := range []struct {
		name   string
		fields [][]string
		o      codec.Options
	}{
		{name: "without", fields: [][]string{{"type"}, {"country"}}},
		{name: "unread", fields: [][]string{{"type"}, {"country"}}, o: codec.Options{Meta: true}},
		{name: "read", fields: [][]string{{"type"}, {"country"}, {"_kafka", "key"}, {"_kafka", "headers", "trace"}}, o: codec.Options{Meta: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			schema := cep.NewSchema()
			for _, f := range c.fields {
				schema.Slot(f...)
			}
			dec := codec.NewJSON(schema, codec.TimeSpec{}, c.o)
			m := metaOf()
			var ev cep.Event
			b.ReportAllocs()
			for b.Loop() {
				if c.o.Meta {
					dec.Beside(m)
				}
				if err := dec.Decode(value, &ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
