package job

import (
	"encoding/json"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/sinks"
)

func TestLetters(t *testing.T) {
	p := &cep.Partition{Stream: "auth", Name: "0"}
	for _, c := range []struct {
		name   string
		reject engine.Reject
		kind   sinks.Kind
		want   string
	}{
		{
			"late",
			engine.Reject{Reason: engine.ReasonLate, Position: cep.Position{Partition: p, Offset: 7}, Time: 5 * cep.Second, Data: []byte("{\"a\":\n1}")},
			sinks.KindLate, `"kind":"late","reason":"late","stream":"auth","partition":"0","offset":7,"time":"1970-01-01T00:00:05Z","event":{"a":1}}`,
		},
		{
			"returned",
			engine.Reject{Reason: engine.ReasonReturned, Position: cep.Position{Partition: p}, Time: 0},
			sinks.KindLate, `"kind":"late","reason":"returned","stream":"auth","partition":"0","offset":0,"time":"1970-01-01T00:00:00Z"}`,
		},
		{
			"bad",
			engine.Reject{Reason: "bad json", Detail: "at byte 3", Position: cep.Position{Partition: p, Offset: 8}, Time: cep.BeforeAll, Data: []byte("{\"a\"\t")},
			sinks.KindReject, `"kind":"reject","reason":"bad json","detail":"at byte 3","stream":"auth","partition":"0","offset":8,"data":"{\"a\"\t"}`,
		},
		{
			"binary",
			engine.Reject{Reason: "bad utf-8", Position: cep.Position{Partition: p, Offset: 9}, Time: cep.BeforeAll, Data: []byte{0xff, 0}},
			sinks.KindReject, `"kind":"reject","reason":"bad utf-8","stream":"auth","partition":"0","offset":9,"data_base64":"/wA="}`,
		},
		{
			"future without a text",
			engine.Reject{Reason: engine.ReasonFuture, Position: cep.Position{Partition: p, Offset: 9}, Time: cep.Hour, Data: []byte("a,b")},
			sinks.KindReject, `"kind":"reject","reason":"future","stream":"auth","partition":"0","offset":9,"time":"1970-01-01T01:00:00Z","data":"a,b"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newReject("out", &c.reject)
			want := `{"id":"` + l.message.ID.String() + `",` + c.want
			if l.sink != "out" || l.message.Kind != c.kind || string(l.message.Body) != want {
				t.Errorf("%s, kind %s:\n%s\nwant\n%s", l.sink, l.message.Kind, l.message.Body, want)
			}
			if !json.Valid(l.message.Body) {
				t.Error("the body is no JSON")
			}
			if again := newReject("out", &c.reject); again.message.ID != l.message.ID {
				t.Error("another id when read again")
			}
		})
	}
}

func TestExcess(t *testing.T) {
	m := sinks.Message{Sequence: 9, Chain: sinks.Chain{1}, ID: cep.AlertID{2}, Rule: "r", Body: []byte(`{"id":"x"}`)}
	l := newExcess("dead", "hook", &m, "the outbox is full")
	want := `{"id":"` + l.message.ID.String() + `","kind":"excess","reason":"excess","detail":"the outbox is full","sink":"hook","message":{"id":"x"}}`
	if string(l.message.Body) != want {
		t.Errorf("%s, want %s", l.message.Body, want)
	}
	if l.message.Sequence != 0 || l.message.Chain != (sinks.Chain{}) || l.message.ID == m.ID || l.message.Rule != "r" {
		t.Errorf("%+v", l.message)
	}
	if other := newExcess("dead", "other", &m, "the outbox is full"); other.message.ID == l.message.ID {
		t.Error("what two sinks did not take has one id")
	}
}
