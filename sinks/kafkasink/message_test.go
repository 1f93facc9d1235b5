package kafkasink

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

func testSink(t *testing.T, f sinks.Format) *Sink {
	t.Helper()
	c := Config{Job: "job", Name: "out", Topic: "alerts", Format: f}
	c.Cluster.Brokers = []string{"127.0.0.1:1"}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestModesSayTheSame: the headers of the binary mode are the members of the structured one.
func TestModesSayTheSame(t *testing.T) {
	alert := sinktest.Messages(sinks.Progress{Lineage: 1, Sequence: 6}, 1, "a")[0]
	bare := alert
	bare.Key, bare.Severity = "", ""
	letter := sinks.Message{Sequence: 9, ID: cep.AlertID{3}, Kind: sinks.KindLate, Time: cep.BeforeAll, Body: []byte(`{"kind":"late"}`)}
	timed := letter
	timed.Time, timed.Kind = 1_500*cep.Millisecond, sinks.KindExcess
	for _, m := range []sinks.Message{alert, bare, letter, timed} {
		binary, structured := testSink(t, sinks.Raw).record(&m, 2), testSink(t, sinks.CloudEvents).record(&m, 2)
		var want map[string]any
		if err := json.Unmarshal(structured.Value, &want); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(want["data"])
		if err != nil {
			t.Fatal(err)
		}
		delete(want, "data")
		got := map[string]any{}
		for _, h := range binary.Headers {
			if name, ok := strings.CutPrefix(h.Key, "ce_"); ok {
				got[name] = string(h.Value)
			}
			if h.Key == "content-type" {
				got["datacontenttype"] = string(h.Value)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("attributes (-structured +binary):\n%s", d)
		}
		var body any
		if err := json.Unmarshal(binary.Value, &body); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(body); err != nil || string(again) != string(data) {
			t.Errorf("value %s, data %s, %v", again, data, err)
		}
		if d := cmp.Diff(binary.Key, structured.Key); d != "" {
			t.Errorf("keys: %s", d)
		}
	}
	headers := map[string]string{}
	for _, h := range testSink(t, sinks.CloudEvents).record(&alert, 2).Headers {
		headers[h.Key] = string(h.Value)
	}
	if d := cmp.Diff(map[string]string{"content-type": "application/cloudevents+json; charset=UTF-8", "cepd-sequence": "2-7"}, headers); d != "" {
		t.Errorf("headers of the structured mode (-want +got):\n%s", d)
	}
}

func TestRecordKey(t *testing.T) {
	key := func(parts ...cep.Value) cep.Key {
		k, ok := cep.KeyOf(parts...)
		if !ok {
			t.Fatalf("%v is no key", parts)
		}
		return k
	}
	for _, c := range []struct {
		key  cep.Key
		want string
	}{
		{"", ""},
		{key(cep.String("root")), `["root"]`},
		{key(cep.String("1"), cep.Int(1), cep.Bool(true)), `["1",1,true]`},
		{key(cep.String(`"é` + "\n")), `["\"é\n"]`},
	} {
		if got := string(recordKey(c.key)); got != c.want {
			t.Errorf("key %q, want %q", got, c.want)
		}
	}
	if recordKey("") != nil {
		t.Error("a rule without `by` has a key")
	}
	for _, long := range []string{strings.Repeat("x", 2000), strings.Repeat("\x01", 500)} {
		if got := recordKey(key(cep.String(long))); len(got) != 32 {
			t.Errorf("a long key is %d bytes", len(got))
		}
	}
}

// TestPartition: Kafka's own examples of its hash.
func TestPartition(t *testing.T) {
	for text, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(text))); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	seen := map[int32]int{}
	for i := range 1000 {
		k, _ := cep.KeyOf(cep.Int(int64(i)))
		p := partition(recordKey(k), 7)
		if p < 0 || p >= 7 {
			t.Fatalf("partition %d of 7", p)
		}
		seen[p]++
	}
	for p := range int32(7) {
		if seen[p] < 100 {
			t.Errorf("partition %d has %d keys of 1,000", p, seen[p])
		}
	}
}
