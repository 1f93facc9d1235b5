package sinks

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/cepd/cepd/cep"
)

// Format is what leaves the process for a message.
type Format uint8

// The formats.
const (
	Raw         Format = iota // the body as it is
	CloudEvents               // the body as data of a CloudEvents 1.0 event in structured JSON mode
)

// String returns the word that configurations use.
func (f Format) String() string {
	if f == CloudEvents {
		return "cloudevents"
	}
	return "raw"
}

// MediaType is the type of one message in the format, MediaTypeList that of a JSON array of them.
func (f Format) MediaType() string {
	if f == CloudEvents {
		return "application/cloudevents+json"
	}
	return "application/json"
}

// MediaTypeList is the type of a JSON array of messages in the format.
func (f Format) MediaTypeList() string {
	if f == CloudEvents {
		return "application/cloudevents-batch+json"
	}
	return "application/json"
}

// AlertSchema names the JSON Schema of alerts: the `$id` of docs/format/alert.schema.json.
const AlertSchema = "https://github.com/cepd/cepd/blob/main/docs/format/alert.schema.json"

// Source is the `source` of a job's CloudEvents where none is configured.
func Source(job string) string { return "/cepd/" + job }

// Append appends m in the format, without a line end. source is the attribute of that name in CloudEvents.
//
// Nothing that depends on the run is in it, no sequence and no time of sending: equal messages are equal bytes.
func (f Format) Append(dst []byte, source string, m *Message) []byte {
	if f != CloudEvents {
		return append(dst, m.Body...)
	}
	dst = append(dst, `{"specversion":"1.0","id":"`...)
	dst = hex.AppendEncode(dst, m.ID[:])
	dst = cep.AppendJSONString(append(dst, `","source":`...), source)
	dst = append(dst, `,"type":"dev.cepd.`...)
	if m.Kind == KindAlert {
		dst = append(append(dst, "alert."...), m.What...)
	} else {
		dst = append(append(dst, "letter."...), m.Kind.String()...)
	}
	dst = append(dst, '"')
	if m.Rule != "" {
		dst = cep.AppendJSONString(append(dst, `,"subject":`...), m.Rule)
	}
	if m.Time != cep.BeforeAll && m.Time != cep.AfterAll {
		dst = append(dst, `,"time":"`...)
		dst = m.Time.Std().AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"datacontenttype":"application/json"`...)
	if m.Kind == KindAlert {
		dst = append(dst, `,"dataschema":"`+AlertSchema+`"`...)
	}
	if m.Severity != "" {
		dst = cep.AppendJSONString(append(dst, `,"severity":`...), m.Severity)
	}
	if m.Key != "" {
		// A key may be as long as an event; an attribute should be short.
		sum := sha256.Sum256([]byte(m.Key))
		dst = append(dst, `,"partitionkey":"`...)
		dst = hex.AppendEncode(dst, sum[:16])
		dst = append(dst, '"')
	}
	dst = append(dst, `,"data":`...)
	return append(append(dst, m.Body...), '}')
}
