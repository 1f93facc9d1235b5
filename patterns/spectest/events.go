package spectest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns/oracle"
)

// Recording is the input of an `events` directive.
type Recording struct {
	oracle.Input
	// Zero is the time from which the script counts.
	Zero cep.Time
	// IDs names the events: the one at position offset n is IDs[n].
	IDs []string
}

// ReadEvents reads the lines of an `events` directive:
//
//	ID TIME name=value ...           an event of the stream "s"
//	ID TIME stream: name=value ...   an event of another stream
//	advance TIME                     a watermark: nothing at or below TIME will come
//
// in total order. A value is JSON where it can be read as such, else text; it may hold blanks only inside quotes or
// brackets. Flat names with dots are paths. Arguments: first=TIME is the rule's first time, zero=RFC3339 the time from
// which the others count (default 1970).
func ReadEvents(text string, args []string, schema *cep.Schema) (*Recording, error) {
	r := &Recording{Input: oracle.Input{FirstTime: cep.BeforeAll}}
	first := ""
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "first":
			first = value
		case "zero":
			t, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return nil, err
			}
			r.Zero, _ = cep.TimeOf(t)
		}
	}
	if first != "" {
		t, err := r.time(first)
		if err != nil {
			return nil, err
		}
		r.FirstTime = t
	}
	partitions := map[string]*cep.Partition{}
	for line := range strings.Lines(text) {
		words := fields(strings.TrimSpace(line))
		if len(words) == 0 {
			continue
		}
		if len(words) < 2 {
			return nil, fmt.Errorf("event %q has no time", words[0])
		}
		t, err := r.time(words[1])
		if err != nil {
			return nil, err
		}
		if words[0] == "advance" {
			r.Entries = append(r.Entries, oracle.Entry{Watermark: t})
			continue
		}
		stream := "s"
		words = append(words[:1], words[2:]...)
		if len(words) > 1 && strings.HasSuffix(words[1], ":") {
			stream = strings.TrimSuffix(words[1], ":")
			words = append(words[:1], words[2:]...)
		}
		if partitions[stream] == nil {
			partitions[stream] = &cep.Partition{Stream: stream, Name: "0", Order: len(partitions)}
		}
		ev := &cep.Event{
			Time:     t,
			Seq:      uint64(len(r.IDs) + 1),
			Position: cep.Position{Partition: partitions[stream], Offset: int64(len(r.IDs))},
		}
		if ev.Values, err = values(words[1:], schema); err != nil {
			return nil, fmt.Errorf("event %s: %w", words[0], err)
		}
		r.IDs = append(r.IDs, words[0])
		r.Entries = append(r.Entries, oracle.Entry{Event: ev})
	}
	return r, nil
}

func (r *Recording) time(text string) (cep.Time, error) {
	d, err := time.ParseDuration(text)
	return r.Zero.Add(d), err
}

// fields splits at blanks outside of quotes and brackets.
func fields(line string) []string {
	var words []string
	depth, quoted, start := 0, false, -1
	for i := 0; i <= len(line); i++ {
		blank := i == len(line) || line[i] == ' ' && depth == 0 && !quoted
		switch {
		case blank && start >= 0:
			words = append(words, line[start:i])
			start = -1
			continue
		case blank:
			continue
		case start < 0:
			start = i
		}
		switch line[i] {
		case '"':
			quoted = !quoted
		case '\\':
			if quoted {
				i++
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
	}
	return words
}

// values reads name=value words into the slots of the schema.
func values(words []string, schema *cep.Schema) ([]cep.Value, error) {
	all := make([]cep.Value, schema.Len())
	var members []cep.Member
	for _, w := range words {
		name, text, ok := strings.Cut(w, "=")
		if !ok {
			return nil, fmt.Errorf("%q is no name=value", w)
		}
		v, err := value(text)
		if err != nil {
			return nil, err
		}
		members = append(members, cep.Member{Name: name, Value: v})
	}
	whole := cep.Object(members)
	for slot := range all {
		switch path := schema.Path(slot); {
		case len(path) == 0:
			all[slot] = whole
		default:
			all[slot] = whole.Member(strings.Join(path, "."))
			for i := 1; i < len(path) && all[slot].Kind() == cep.KindMissing; i++ { // a nested object under a flat head
				v := whole.Member(strings.Join(path[:i], "."))
				for _, name := range path[i:] {
					v = v.Member(name)
				}
				all[slot] = v
			}
		}
	}
	return all, nil
}

// value reads JSON, or text that is no JSON as a string.
func value(text string) (cep.Value, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil || d.More() {
		return cep.String(text), nil
	}
	return convert(x)
}

var errNumber = errors.New("number outside float64")

// convert turns what encoding/json read into a Value: integers inside int64 are ints.
func convert(x any) (cep.Value, error) {
	switch x := x.(type) {
	case nil:
		return cep.Null, nil
	case bool:
		return cep.Bool(x), nil
	case string:
		return cep.String(x), nil
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return cep.Int(i), nil
		}
		f, err := x.Float64()
		if err != nil || math.IsInf(f, 0) {
			return cep.Value{}, errNumber
		}
		return cep.Float(f), nil
	case []any:
		list := make([]cep.Value, len(x))
		for i, y := range x {
			v, err := convert(y)
			if err != nil {
				return v, err
			}
			list[i] = v
		}
		return cep.List(list), nil
	case map[string]any:
		var members []cep.Member
		for name, y := range x {
			v, err := convert(y)
			if err != nil {
				return v, err
			}
			members = append(members, cep.Member{Name: name, Value: v})
		}
		return cep.Object(members), nil
	}
	return cep.Value{}, fmt.Errorf("%T is no JSON", x)
}
