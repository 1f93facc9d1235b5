package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
)

const (
	// maxSurveyed bounds the fields that a survey counts: real events have some hundred, and an object whose names are ids
	// would have millions.
	maxSurveyed = 2_000
	// maxValues bounds the different values that are counted of a field: enough to tell a word from an id.
	maxValues = 1_000
	// maxSamples are the events that are kept whole, to try times on and to make tests of.
	maxSamples = 200
	// maxNesting is how deep names are followed: deeper ones are in no rule that was seen.
	maxNesting = 8
)

// survey is what stands in recorded events: which fields, how often, with which values.
type survey struct {
	events, bad int
	fields      map[string]*surveyed
	more        bool // there are fields beyond those that are counted
	samples     []sample
	// each makes what is told of every event, for the records of a format; nil: nobody is.
	each func(source.Format) func(data []byte)
}

// sample is an event as it was read, and its fields.
type sample struct {
	data   []byte
	format source.Format
	fields map[string]any
}

// surveyed is a field: a path through objects, and its values as JSON.
type surveyed struct {
	path   []string
	events int
	values map[string]int
	more   bool // there are values beyond those that are counted
	texts  int  // how many of them are texts
	nested bool // it holds objects
	// count is how many values there are, numbers how many of them are such, from least to most.
	count, numbers int
	least, most    number
}

// number is a number and how it was written.
type number struct {
	value float64
	text  string
}

// text is the field as a rule names it.
func (f *surveyed) text() string { return pathText(f.path) }

// frequent returns the values, the most frequent first.
func (f *surveyed) frequent() []string {
	values := make([]string, 0, len(f.values))
	for v := range f.values {
		values = append(values, v)
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(f.values[b], f.values[a]), cmp.Compare(a, b)) })
	return values
}

// surveyFiles reads the events of a stream, at most limit of them.
func surveyFiles(ctx context.Context, in input, form filesource.Form, stdin io.Reader, limit int) (*survey, error) {
	s := &survey{fields: map[string]*surveyed{}}
	return s, s.readFiles(ctx, in, form, stdin, limit)
}

func (s *survey) readFiles(ctx context.Context, in input, form filesource.Form, stdin io.Reader, limit int) error {
	readers, err := filesource.Open(filesource.Config{
		Stream: in.stream, Paths: in.paths, Partitions: source.NewPartitions(in.stream), Form: form, Stdin: stdin,
	})
	if err != nil {
		return usagef("events of %s: %w", in.stream, plainPath(err))
	}
	defer func() {
		for _, r := range readers {
			_ = r.Close() // only read from
		}
	}()
	for _, r := range readers {
		if err := s.read(ctx, r, limit); err != nil {
			return err
		}
	}
	return nil
}

func decoderOf(f source.Format, t codec.TimeSpec) codec.Decoder {
	o := codec.Options{Raw: true}
	if f.Delimited() {
		return codec.NewCSV(f.Columns, f.Comma, cep.NewSchema(), t, o)
	}
	return codec.NewJSON(cep.NewSchema(), t, o)
}

func (s *survey) read(ctx context.Context, r source.Reader, limit int) error {
	decoder := decoderOf(r.Format(), codec.TimeSpec{})
	var each func([]byte)
	if s.each != nil {
		each = s.each(r.Format())
	}
	var ev cep.Event
	for s.events < limit {
		rec, err := r.Next(ctx)
		var one *source.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &one):
			s.bad++
			continue
		case errors.Is(err, context.Canceled):
			return &codedError{exitInterrupted, errors.New("interrupted")}
		case err != nil:
			return failed(fmt.Errorf("read %s: %w", r.Name(), err))
		}
		if err := decoder.Decode(rec.Data, &ev); err != nil {
			s.bad++
			continue
		}
		s.take(rec.Data, r.Format(), ev.Raw)
		if each != nil {
			each(rec.Data)
		}
	}
	return nil
}

// take counts the fields of an event. raw is its JSON.
func (s *survey) take(data []byte, format source.Format, raw []byte) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var fields map[string]any
	if err := d.Decode(&fields); err != nil {
		s.bad++
		return
	}
	s.events++
	if len(s.samples) < maxSamples {
		s.samples = append(s.samples, sample{bytes.Clone(data), format, fields})
	}
	s.object(nil, fields)
}

func (s *survey) object(path []string, fields map[string]any) {
	for name, v := range fields {
		at := append(slices.Clone(path), name)
		key := strings.Join(at, "\x00")
		f := s.fields[key]
		if f == nil {
			if len(s.fields) == maxSurveyed {
				s.more = true
				continue
			}
			f = &surveyed{path: at, values: map[string]int{}}
			s.fields[key] = f
		}
		f.events++
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, v := range list {
			if inner, ok := v.(map[string]any); ok {
				f.nested = true
				if !isList && len(at) < maxNesting {
					s.object(at, inner)
				}
				continue
			}
			f.value(v)
		}
	}
}

func (f *surveyed) value(v any) {
	if _, ok := v.([]any); ok || v == nil {
		return
	}
	f.count++
	text := literalText(v)
	switch v := v.(type) {
	case string:
		f.texts++
	case json.Number:
		if x, err := v.Float64(); err == nil {
			if f.numbers == 0 || x < f.least.value {
				f.least = number{x, text}
			}
			if f.numbers == 0 || x > f.most.value {
				f.most = number{x, text}
			}
			f.numbers++
		}
	}
	if _, known := f.values[text]; !known && len(f.values) == maxValues {
		f.more = true
		return
	}
	f.values[text]++
}

// sorted returns the fields, those that most events have first.
func (s *survey) sorted() []*surveyed {
	list := make([]*surveyed, 0, len(s.fields))
	for _, f := range s.fields {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *surveyed) int {
		return cmp.Or(cmp.Compare(b.events, a.events), slices.Compare(a.path, b.path))
	})
	return list
}

// at returns the field that a rule reads by a path, nil where no event has it: the flat member of the event that is named with
// dots, which wins, or the nested one.
func (s *survey) at(path []string) *surveyed {
	if f := s.fields[strings.Join(path, ".")]; f != nil {
		return f
	}
	return s.fields[strings.Join(path, "\x00")]
}

// has reports whether events have a field, as far as that is known.
func (s *survey) has(path []string) bool {
	return s.more || len(path) > maxNesting || s.at(path) != nil
}

// at returns what stands at a path of an event.
func (s *sample) at(path []string) any {
	var v any = s.fields
	for _, name := range path {
		fields, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = fields[name]
	}
	return v
}

// timeLayouts are how logs write times, beside RFC 3339 and numbers. What names no zone is read as UTC, which whoever uses it
// has to look at.
var timeLayouts = []string{
	"", "unix", "unix_ms", "unix_us", "unix_ns", "windows", "2006-01-02 15:04:05,UTC", "2006-01-02T15:04:05,UTC", "2006/01/02 15:04:05,UTC",
	"02/Jan/2006:15:04:05 -0700", "Mon Jan _2 15:04:05 2006,UTC", "02.01.2006 15:04:05,UTC", "01/02/2006 15:04:05,UTC",
}

// time finds how a field can be read as a time: FIELD[,LAYOUT[,ZONE]], or "".
func (s *survey) time(f *surveyed) string {
	if slices.ContainsFunc(f.path, func(name string) bool { return strings.ContainsAny(name, ".,") }) {
		return "" // a time is named by a dotted path
	}
	name := strings.Join(f.path, ".")
	for _, layout := range timeLayouts {
		text := name
		if layout != "" {
			text += "," + layout
		}
		spec, err := codec.ParseTime(text)
		if err == nil && s.fits(spec) {
			return text
		}
	}
	return ""
}

// Times that mean something lie in these years: a number that is a time by another unit lies elsewhere.
const firstYear, lastYear = 1995, 2100

// fits reports whether all samples have a time by a spec.
func (s *survey) fits(spec codec.TimeSpec) bool {
	var ev cep.Event
	for i := range s.samples {
		decoder := decoderOf(s.samples[i].format, spec)
		if err := decoder.Decode(s.samples[i].data, &ev); err != nil {
			return false
		}
		if year := ev.Time.Std().Year(); year < firstYear || year > lastYear {
			return false
		}
	}
	return len(s.samples) > 0
}
