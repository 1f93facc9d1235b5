package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/sinks"
)

// letter is a message that is no alert of its sink: an event that was refused or late, or an alert that another sink did not
// take. docs/format/letter.md draws its body.
type letter struct {
	sink    string
	message sinks.Message // without its place in the sink's sequence
}

// size is about what the letter takes in memory.
func (l *letter) size() int64 { return int64(len(l.message.Body)) + 256 }

// newReject makes a letter of an event that takes no part. What it is handed is copied.
func newReject(sink string, r *engine.Reject) letter {
	p := r.Position.Partition
	m := sinks.Message{
		ID:   letterID(r.Reason, p.Stream, p.Name, strconv.FormatInt(r.Position.Offset, 10)),
		Kind: sinks.KindReject,
	}
	if r.Reason == engine.ReasonLate || r.Reason == engine.ReasonReturned {
		m.Kind = sinks.KindLate
	}
	b := beginBody(&m, r.Reason, r.Detail)
	b = cep.AppendJSONString(append(b, `,"stream":`...), p.Stream)
	b = cep.AppendJSONString(append(b, `,"partition":`...), p.Name)
	b = strconv.AppendInt(append(b, `,"offset":`...), r.Position.Offset, 10)
	if r.Time != cep.BeforeAll {
		m.Time = r.Time
		b = append(b, `,"time":"`...)
		b = append(r.Time.Std().AppendFormat(b, time.RFC3339Nano), '"')
	}
	b = appendData(b, r)
	m.Body = append(b, '}')
	return letter{sink, m}
}

// appendData appends the record: as JSON where it is an event, else as text, else in base64.
func appendData(b []byte, r *engine.Reject) []byte {
	if len(r.Data) == 0 {
		return b
	}
	if r.Time != cep.BeforeAll {
		line := bytes.NewBuffer(append(bytes.Clone(b), `,"event":`...))
		if json.Compact(line, r.Data) == nil { // a message is one line
			return line.Bytes()
		}
	}
	if utf8.Valid(r.Data) {
		return cep.AppendJSONString(append(b, `,"data":`...), string(r.Data))
	}
	b = append(b, `,"data_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(b, r.Data), '"')
}

// newExcess makes a letter of a message that a sink did not take.
func newExcess(to, sink string, m *sinks.Message, reason string) letter {
	x := *m
	x.Sequence, x.Chain = 0, sinks.Chain{}
	x.ID, x.Kind = letterID("excess", sink, m.ID.String(), ""), sinks.KindExcess
	b := beginBody(&x, "excess", reason)
	b = cep.AppendJSONString(append(b, `,"sink":`...), sink)
	b = append(append(b, `,"message":`...), m.Body...)
	x.Body = append(b, '}')
	return letter{to, x}
}

func beginBody(m *sinks.Message, reason, detail string) []byte {
	b := append([]byte(`{"id":"`), m.ID.String()...)
	b = append(append(b, `","kind":"`...), m.Kind.String()...)
	b = cep.AppendJSONString(append(b, `","reason":`...), reason)
	if detail != "" {
		b = cep.AppendJSONString(append(b, `,"detail":`...), detail)
	}
	return b
}

// letterID is a hash over what became of what: reading an event again gives the same.
func letterID(parts ...string) (id cep.AlertID) {
	b := []byte("cepd letter id 1\n")
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return sha256.Sum256(b)
}
