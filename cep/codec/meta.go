package codec

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
)

// metaName is the object under which rules see what a broker keeps with a record. It is none of the value's members: a
// producer cannot set it by writing such a member.
const metaName = "_kafka"

// The members of the object. `cepd record` writes it as the member kafka of _cepd.
const (
	metaKey     = "key"
	metaHeaders = "headers"
	metaTime    = "timestamp"
	metaTopic   = "topic"
	originMeta  = "kafka"
)

// metaField is a field of that object which is wanted.
type metaField struct {
	target target
	// path is the field's, behind the object's name; below headers it is one name, dots and all.
	path []string
}

func newMetaField(path []string, t target) metaField {
	path = path[1:]
	if len(path) > 2 && path[0] == metaHeaders {
		path = []string{metaHeaders, strings.Join(path[1:], ".")}
	}
	return metaField{t, path}
}

// setMeta fills the fields from what came with the record.
func (b *builder) setMeta(m *cep.Meta) {
	for i := range b.plan.meta {
		f := &b.plan.meta[i]
		b.put(f.target, f.of(m))
	}
}

// setRecordedMeta fills the fields from what a recording says of them.
func (b *builder) setRecordedMeta(v cep.Value) {
	for i := range b.plan.meta {
		f := &b.plan.meta[i]
		x := v
		for _, name := range f.path {
			x = x.Member(name)
		}
		b.put(f.target, x)
	}
}

// put gives a value to a target, whatever was there.
func (b *builder) put(t target, v cep.Value) {
	var text []byte
	if t.text && v.Kind() == cep.KindInt {
		text = strconv.AppendInt(nil, v.AsInt(), 10)
	}
	t.flat = true
	b.set([]target{t}, v, text)
}

// of returns the field as it is in m.
func (f *metaField) of(m *cep.Meta) cep.Value {
	if len(f.path) == 0 {
		return MetaValue(m)
	}
	switch f.path[0] {
	case metaKey:
		if len(f.path) == 1 {
			return keyValue(m)
		}
	case metaTopic:
		if len(f.path) == 1 {
			return cep.String(m.Topic)
		}
	case metaTime:
		if len(f.path) == 1 {
			return timeValue(m)
		}
	case metaHeaders:
		if len(f.path) == 1 {
			return headersValue(m)
		}
		for _, h := range slices.Backward(m.Headers) {
			if h.Name == f.path[1] {
				return bytesValue(h.Value)
			}
		}
	}
	return cep.Value{}
}

// MetaValue returns what rules see as _kafka: key and headers as text, as base64 where they are no UTF-8, the time in
// milliseconds, and the topic. It borrows from m.
func MetaValue(m *cep.Meta) cep.Value {
	var o []cep.Member
	add := func(name string, v cep.Value) {
		if v.Kind() != cep.KindMissing {
			o = append(o, cep.Member{Name: name, Value: v})
		}
	}
	add(metaTopic, cep.String(m.Topic))
	add(metaKey, keyValue(m))
	add(metaTime, timeValue(m))
	add(metaHeaders, headersValue(m))
	return cep.Object(o)
}

func keyValue(m *cep.Meta) cep.Value {
	if m.Key == nil {
		return cep.Value{}
	}
	return bytesValue(m.Key)
}

func timeValue(m *cep.Meta) cep.Value {
	if m.Time == cep.BeforeAll {
		return cep.Value{}
	}
	return cep.Int(int64(m.Time) / int64(time.Millisecond))
}

func headersValue(m *cep.Meta) cep.Value {
	if len(m.Headers) == 0 {
		return cep.Value{}
	}
	var o []cep.Member
	var places map[string]int
	for i := range m.Headers {
		o, places = addMember(o, places, cep.Member{Name: m.Headers[i].Name, Value: bytesValue(m.Headers[i].Value)})
	}
	return cep.Object(o)
}

func bytesValue(b []byte) cep.Value {
	switch {
	case b == nil:
		return cep.Null
	case utf8.Valid(b):
		return cep.String(lend(b))
	}
	return cep.String(base64.StdEncoding.EncodeToString(b))
}
