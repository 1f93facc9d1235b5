package codec

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/valyala/fastjson"
)

// benchEvents are events of ten fields and about 185 bytes, more of them than a branch predictor learns by heart.
func benchEvents() [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	events := make([][]byte, 10_000)
	for i := range events {
		events[i] = fmt.Appendf(nil, `{"ts":%d,"type":%q,"user":"user-%08d","src_ip":"10.%d.%d.%d","device":%q,"country":%q,`+
			`"amount":%d.%02d,"status":%d,"session":"%016x","ok":false}`,
			1732881234567+int64(i)*7, pick("login_failed", "login_ok", "transfer", "page_view", "purchase", "logout"), r.IntN(1_000_000),
			r.IntN(256), r.IntN(256), r.IntN(256), pick("ios-17", "android-14", "web-chrome", "cli"), pick("US", "DE", "FR", "IN"),
			r.IntN(1000), r.IntN(100), 200+r.IntN(300), r.Uint64())
	}
	return events
}

var benchFields = []string{"type", "src_ip", "country", "amount"}

func benchDecode(b *testing.B, decode func([]byte)) {
	events := benchEvents()
	n := 0
	for _, e := range events {
		n += len(e)
	}
	b.SetBytes(int64(n / len(events)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		decode(events[i])
		if i++; i == len(events) {
			i = 0
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	schema := cep.NewSchema()
	for _, f := range benchFields {
		schema.Slot(f)
	}
	at, err := ParseTime("ts,unix_ms")
	if err != nil {
		b.Fatal(err)
	}
	var ev cep.Event
	b.Run("cepd", func(b *testing.B) {
		dec := NewJSON(schema, at, Options{})
		benchDecode(b, func(data []byte) {
			if err := dec.Decode(data, &ev); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("cepd-keep", func(b *testing.B) {
		dec := NewJSON(schema, at, Options{})
		benchDecode(b, func(data []byte) {
			if err := dec.Decode(data, &ev); err != nil {
				b.Fatal(err)
			}
			dec.Keep(&ev)
		})
	})
	sum := 0
	take := func(p *fastjson.Parser, data []byte) {
		v, err := p.ParseBytes(data)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range benchFields[:3] {
			sum += len(v.GetStringBytes(f))
		}
		sum += int(v.GetFloat64("amount")) + int(v.GetInt64("ts"))
	}
	b.Run("fastjson", func(b *testing.B) {
		var p fastjson.Parser
		benchDecode(b, func(data []byte) { take(&p, data) })
	})
	b.Run("fastjson-valid", func(b *testing.B) { // its parser lets much pass that is no JSON
		var p fastjson.Parser
		benchDecode(b, func(data []byte) {
			if err := fastjson.ValidateBytes(data); err != nil {
				b.Fatal(err)
			}
			take(&p, data)
		})
	})
	b.Run("std-struct", func(b *testing.B) {
		benchDecode(b, func(data []byte) {
			var e struct {
				TS      int64   `json:"ts"`
				Type    string  `json:"type"`
				SrcIP   string  `json:"src_ip"`
				Country string  `json:"country"`
				Amount  float64 `json:"amount"`
			}
			if err := json.Unmarshal(data, &e); err != nil {
				b.Fatal(err)
			}
			sum += len(e.Type)
		})
	})
	b.Run("std-map", func(b *testing.B) {
		benchDecode(b, func(data []byte) {
			var m map[string]any
			if err := json.Unmarshal(data, &m); err != nil {
				b.Fatal(err)
			}
			sum += len(m)
		})
	})
}
