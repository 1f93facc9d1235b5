package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
	"github.com/cepd/cepd/rules"
)

// The codes of what recorded events say about rules: docs/cli.md explains them.
const (
	codeNoField = "CEP0951"
	codeNoFit   = "CEP0952"
)

// maxChecked bounds the events that rules are held against: what they have not shown by then is rare.
const maxChecked = 1_000_000

// checkEvents holds rules against recorded events: which fields never occur, and which steps no event fits.
func checkEvents(ctx context.Context, set *rules.Set, flags []string, stdin io.Reader) (patterns.Diagnostics, error) {
	inputs, err := eventsOf(set, flags)
	if err != nil {
		return nil, err
	}
	var list patterns.Diagnostics
	for _, in := range inputs {
		steps := stepsOn(set, in.stream)
		s := &survey{fields: map[string]*surveyed{}, each: fitting(set, steps)}
		if err := s.readFiles(ctx, in, filesource.FormAuto, stdin, maxChecked); err != nil {
			return nil, err
		}
		if s.events == 0 {
			return nil, failed(fmt.Errorf("there is no event in %s", strings.Join(in.paths, ", ")))
		}
		list = append(list, unknownFields(set, s, in.stream)...)
		list = append(list, unfitSteps(set, s, steps, in.stream)...)
	}
	return list, nil
}

// eventsOf reads --events: NAME=PATH, or a PATH where there is one stream.
func eventsOf(set *rules.Set, flags []string) ([]input, error) {
	var streams []string
	for _, r := range set.Rules {
		streams = append(streams, r.Streams...)
	}
	slices.Sort(streams)
	streams = slices.DeleteFunc(slices.Compact(streams), func(s string) bool { return s == engine.AlertStream })
	named := slices.Clone(flags)
	for i, f := range named {
		if _, err := os.Stat(f); (err == nil || !strings.Contains(f, "=")) && len(streams) == 1 {
			named[i] = streams[0] + "=" + f
		} else if !strings.Contains(f, "=") {
			return nil, usagef("--events %s: write NAME=PATH; the rules read %s", f, strings.Join(streams, ", "))
		}
	}
	inputs, err := (&replayFlags{streams: named}).inputs()
	if err != nil {
		return nil, err
	}
	return inputs, checkStreams(set, inputs)
}

// step is an element of a rule, and how many events of a stream fit it.
type step struct {
	rule *patterns.Rule
	name string
	// conditions are those that an event must meet by itself.
	conditions []*expression.Expr
	fit        int
}

// stepsOn are the steps that take events of a stream, and whose conditions see nothing but the event.
func stepsOn(set *rules.Set, stream string) []*step {
	var list []*step
	for _, r := range set.Rules {
		for _, e := range r.Leaves() {
			s := &step{rule: r, name: r.Names[e.Name]}
			if e.Absent || !slices.Contains(e.From, stream) || e.Where == nil || !e.Where.Unary {
				continue
			}
			s.conditions = append(s.conditions, e.Where)
			if r.Where != nil && r.Where.Unary {
				s.conditions = append(s.conditions, r.Where)
			}
			list = append(list, s)
		}
	}
	return list
}

// fitting returns what counts for each event the steps that it fits.
func fitting(set *rules.Set, steps []*step) func(source.Format) func([]byte) {
	return func(f source.Format) func([]byte) {
		var decoder codec.Decoder
		if f.Delimited() {
			decoder = codec.NewCSV(f.Columns, f.Comma, set.Schema, codec.TimeSpec{}, codec.Options{})
		} else {
			decoder = codec.NewJSON(set.Schema, codec.TimeSpec{}, codec.Options{})
		}
		var ev cep.Event
		return func(data []byte) {
			if decoder.Decode(data, &ev) != nil {
				return // counted as bad by whoever calls
			}
			for _, s := range steps {
				fits := true
				for _, c := range s.conditions {
					ok, err := c.Test(&cep.Scope{Event: &ev})
					fits = fits && ok && err == nil
				}
				if fits {
					s.fit++
				}
			}
		}
	}
}

// unknownFields reports fields that rules read of a stream, and that none of its events has.
func unknownFields(set *rules.Set, s *survey, stream string) patterns.Diagnostics {
	names := make([]string, 0, len(s.fields))
	for _, f := range s.sorted() {
		names = append(names, strings.Join(f.path, "."))
	}
	var list patterns.Diagnostics
	for _, r := range set.Rules {
		var slots []int
		read := func(e *expression.Expr) {
			if e != nil {
				slots = append(slots, e.Slots...)
			}
		}
		for _, e := range r.Leaves() {
			if !slices.Contains(e.From, stream) {
				continue
			}
			read(e.Where)
			read(r.Where)
			for _, part := range e.By {
				read(part)
			}
		}
		slices.Sort(slots)
		for _, slot := range slices.Compact(slots) {
			path := set.Schema.Path(slot)
			if s.fields[strings.Join(path, "\x00")] != nil || s.more {
				continue
			}
			name := strings.Join(path, ".")
			hint := ""
			if near := expression.Nearest(name, names); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			list = append(list, aboutRule(set, r, codeNoField, hint, "no event of %s has the field %q, of %s", stream, name, plural(s.events, "event")))
		}
	}
	return list
}

// unfitSteps reports steps that none of the events fits, with the values that their fields really have.
func unfitSteps(set *rules.Set, s *survey, steps []*step, stream string) patterns.Diagnostics {
	var list patterns.Diagnostics
	for _, st := range steps {
		if st.fit > 0 {
			continue
		}
		var slots []int
		for _, c := range st.conditions {
			slots = append(slots, c.Slots...)
		}
		slices.Sort(slots)
		var values []string
		for _, slot := range slices.Compact(slots) {
			f := s.fields[strings.Join(set.Schema.Path(slot), "\x00")]
			if f == nil || len(f.values) == 0 {
				continue
			}
			var most []string
			for _, v := range f.frequent()[:min(shownValues, len(f.values))] {
				most = append(most, fmt.Sprintf("%s (%s)", shortText(v), share(f.values[v], s.events)))
			}
			values = append(values, f.text()+" is "+strings.Join(most, ", "))
		}
		list = append(list, aboutRule(set, st.rule, codeNoFit, strings.Join(values, "; "), "the step %q fits none of %s of %s", st.name, plural(s.events, "event"), stream))
	}
	return list
}

// aboutRule is a warning at the id of a rule.
func aboutRule(set *rules.Set, r *patterns.Rule, code, hint, format string, args ...any) patterns.Diagnostic {
	d := patterns.Diagnostic{
		Pos: r.Pos, Length: utf8.RuneCountInString(r.ID), Code: code, Hint: hint, Warning: true, Rule: r.ID, Message: fmt.Sprintf(format, args...),
	}
	for _, source := range set.Sources {
		if lines := strings.Split(string(source.Data), "\n"); source.Name == r.Pos.File && r.Pos.Line <= len(lines) {
			d.Excerpt = strings.TrimSuffix(lines[r.Pos.Line-1], "\r")
		}
	}
	return d
}
