package alert

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/cepd/cepd/cep"
)

// AppendJSON appends the alert as one line of JSON without the line end. Members stand in the order that
// docs/format/alert.md gives; equal alerts are equal bytes.
func AppendJSON(dst []byte, a *cep.Alert) []byte {
	dst = append(dst, `{"id":"`...)
	dst = hex.AppendEncode(dst, a.ID[:])
	dst = append(dst, `","rule":`...)
	dst = cep.AppendJSONString(dst, a.Rule)
	dst = append(dst, `,"revision":`...)
	dst = strconv.AppendInt(dst, a.Revision, 10)
	dst = append(dst, `,"fingerprint":`...)
	dst = cep.AppendJSONString(dst, a.Fingerprint)
	dst = append(dst, `,"kind":"`...)
	dst = append(dst, a.Kind.String()...)
	dst = append(dst, `","time":`...)
	dst = appendTime(dst, a.Time)
	if a.Ordered && a.Events > 0 {
		dst = append(dst, `,"completed_at":`...)
		dst = appendTime(dst, a.Last)
	}
	if a.Timed {
		dst = append(dst, `,"completed_by":"time"`...)
	} else {
		dst = append(dst, `,"completed_by":"event"`...)
	}
	if a.Events > 0 {
		dst = append(dst, `,"first_at":`...)
		dst = appendTime(dst, a.First)
		dst = append(dst, `,"last_at":`...)
		dst = appendTime(dst, a.Last)
	}
	dst = append(dst, `,"severity":`...)
	dst = cep.AppendJSONString(dst, a.Severity)
	dst = append(dst, `,"title":`...)
	dst = cep.AppendJSONString(dst, a.Title)
	dst = appendNamed(append(dst, `,"key":`...), a.Key)
	dst = appendNamed(append(dst, `,"fields":`...), a.Fields)
	if a.Steps != nil {
		dst = appendSteps(append(dst, `,"events":`...), a.Steps)
	}
	dst = appendTexts(append(dst, `,"tags":`...), a.Tags)
	dst = appendTexts(append(dst, `,"mitre":`...), a.Mitre)
	if a.Suppressed > 0 {
		dst = append(dst, `,"suppressed":`...)
		dst = strconv.AppendUint(dst, a.Suppressed, 10)
	}
	if a.Follows != (cep.AlertID{}) {
		dst = append(dst, `,"follows":"`...)
		dst = hex.AppendEncode(dst, a.Follows[:])
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendTime appends a time with all nine decimals cut to what it needs, as RFC 3339 in UTC.
func appendTime(dst []byte, t cep.Time) []byte {
	dst = append(dst, '"')
	dst = t.Std().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

func appendNamed(dst []byte, list []cep.Named) []byte {
	dst = append(dst, '{')
	for i, n := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = cep.AppendJSONString(dst, n.Name)
		dst = cep.AppendJSON(append(dst, ':'), n.Value)
	}
	return append(dst, '}')
}

func appendTexts(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = cep.AppendJSONString(dst, s)
	}
	return append(dst, ']')
}

func appendSteps(dst []byte, steps []cep.AlertStep) []byte {
	dst = append(dst, '{')
	for i, s := range steps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = cep.AppendJSONString(dst, s.Name)
		dst = append(dst, ":["...)
		for j := range s.Events {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = appendEvent(dst, &s.Events[j])
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendEvent(dst []byte, ev *cep.AlertEvent) []byte {
	dst = append(dst, `{"time":`...)
	dst = appendTime(dst, ev.Time)
	dst = append(dst, `,"stream":`...)
	dst = cep.AppendJSONString(dst, ev.Position.Partition.Stream)
	dst = append(dst, `,"partition":`...)
	dst = cep.AppendJSONString(dst, ev.Position.Partition.Name)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, ev.Position.Offset, 10)
	if raw := compact(ev.Raw); raw != nil {
		dst = append(append(dst, `,"event":`...), raw...)
	}
	return append(dst, '}')
}

// compact returns the text of an event on one line, nil where it is no JSON: a line of alerts must stay one.
func compact(raw []byte) []byte {
	if len(raw) == 0 {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}
