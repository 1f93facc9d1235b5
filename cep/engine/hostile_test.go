package engine_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
)

// FuzzReplay reads whatever bytes as JSON lines: no rule may stop, and every record is accounted for.
func FuzzReplay(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"t":1,"kind":"a","user":"u"}` + "\n" + `{"t":2,"kind":"b","user":"u"}`,
		`{"t":1e300,"kind":"a","user":["u",["u"],{},null,"",1,1.0,"1"]}` + "\n[1]\nnull\n\xff\n" + `{"t":"2"}`,
		`{"t":9223372036854775807,"kind":9223372036854775808,"user":-0.0}` + "\n" + `{"t":-9223372036854775808}` + "\n" + `{"t":0,"kind":"a","kind":"b"}`,
		`{"t":4102444800,"kind":"a","user":"u","hosts":[1,2,3],"host":true}` + "\n" + `{"t":5,"kind":"x","user":"u","hosts":["u"],"host":{}}`,
	} {
		f.Add([]byte(seed))
	}
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		f.Fatal(err)
	}
	set := load(f, meaningRules)
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &lines{partition: &cep.Partition{Stream: "auth", Name: "0"}}
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if s := string(line); s != "ERROR" && s != "BROKEN" {
				l.text = append(l.text, s)
			}
		}
		alerts := uint64(0)
		s, err := engine.Replay(t.Context(), engine.ReplayConfig{
			Rules: set, Streams: []engine.Stream{{Name: "auth", MaxAhead: cep.Duration(cep.Hour)}, {Name: "web"}},
			Readers: []source.Reader{l}, Time: spec, Advance: engine.ToEnd,
			Alert: func(*cep.Alert) error {
				alerts++
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		st := s.Streams[0]
		n := st.Events
		for _, bad := range st.Bad {
			n += bad
		}
		if n != uint64(len(l.text)) || st.Events != st.Taken+st.Late+st.Returned+st.Future {
			t.Errorf("%d records, %+v", len(l.text), st)
		}
		for _, r := range s.Rules {
			if r.Disabled != "" {
				t.Errorf("rule %s: %s", r.ID, r.Disabled)
			}
			alerts -= r.Alerts
		}
		if alerts != 0 {
			t.Errorf("%d alerts more than were counted", int64(alerts))
		}
	})
}

// S9: keys that never come back leave nothing behind, by time alone.
func TestStateReturnsToNothing(t *testing.T) {
	low := rule("low", 100, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"})
	one := resolved(rule("one", 0, element{from: "auth", kind: "a"}), "auth", "never", 50, 0, 0)
	silent := rule("silent", 0, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b", absent: true, lasts: 60})
	b := newBench(t, setOf(low, one, silent), 0, engine.Stream{Name: "auth", Lateness: 5})
	for i := range 20_000 {
		b.push(input{partition: auth0, time: cep.Time(i / 10), offset: int64(i), values: ev(auth0, 0, "a", fmt.Sprint("user", i)).values})
	}
	b.Advance(2000 + 200)
	for _, s := range b.Summary().Rules {
		if s.Opened != 20_000 || s.Open != 0 || s.Keys != 0 || s.OpenAlerts != 0 {
			t.Errorf("rule %+v", s)
		}
	}
}
