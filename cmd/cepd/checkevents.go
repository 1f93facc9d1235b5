package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/expression"
	"github.com/cepd/cepd/rules"
)

// The codes of what recorded events say about rules.
const (
	codeNoField   = "CEP0951"
	codeNoFit     = "CEP0952"
	codeNoFitNote = "CEP0953"
)

// eventCodes describes them, for docs/diagnostics.md and for readers of SARIF.
var eventCodes = []patterns.Code{
	{
		Code: codeNoField, Title: "No recorded event has the field.", Warning: true,
		Explanation: "`cepd check --events` looks at recorded events of all streams that the field may be read of. Of an optional field that is no news.",
	},
	{
		Code: codeNoFit, Title: "No recorded event fits the step.", Warning: true,
		Explanation: "`cepd check --events` asks what a condition says of the event alone, and the rule's `where`. The hint says what the events that come nearest lack, and which values they have there.",
	},
	{
		Code: codeNoFitNote, Title: "No recorded event is one that the rule hopes not to see, or ends something by.", Warning: true,
		Explanation: "An absence, an entry of `without`, an `until` or a `resolve` of which `cepd check --events` finds no example may well be right. It is a note: the hint shows whether the values were meant.",
	},
}

// maxChecked bounds the events that rules are held against: what they have not shown by then is rare.
const maxChecked = 1_000_000

// checkEvents holds rules against recorded events: which fields never occur, and what waits for events that never come.
func checkEvents(ctx context.Context, set *rules.Set, flags []string, stdin io.Reader) (patterns.Diagnostics, error) {
	readings := set.Readings()
	inputs, err := eventsOf(readings, flags)
	if err != nil {
		return nil, err
	}
	waits := waitsOf(readings)
	found := recorded{}
	for _, in := range inputs {
		s := &survey{fields: map[string]*surveyed{}, each: fitting(set, waits, in.stream)}
		if err := s.readFiles(ctx, in, filesource.FormAuto, stdin, maxChecked); err != nil {
			return nil, err
		}
		if s.events == 0 {
			return nil, failed(fmt.Errorf("there is no event in %s", strings.Join(in.paths, ", ")))
		}
		found[in.stream] = s
	}
	var list patterns.Diagnostics
	// A macro or a default stands in one place for many rules: what is wrong with it is said once.
	said := map[patterns.Diagnostic]bool{}
	add := func(rule *patterns.Rule, d patterns.Diagnostic) {
		if !said[d] {
			said[d] = true
			d.Rule = rule.ID
			list = append(list, d)
		}
	}
	for _, r := range readings {
		for _, f := range r.Fields {
			if d, ok := found.field(f); ok {
				add(r.Rule, d)
			}
		}
	}
	for _, w := range waits {
		if d, ok := found.wait(w); ok {
			add(w.rule, d)
		}
	}
	return list, nil
}

// eventsOf reads --events: NAME=PATH, or a PATH where there is one stream.
func eventsOf(readings []patterns.Reading, flags []string) ([]input, error) {
	var streams []string
	for _, r := range readings {
		streams = append(streams, r.Rule.Inputs()...)
	}
	slices.Sort(streams)
	streams = slices.DeleteFunc(slices.Compact(streams), func(s string) bool { return s == engine.AlertStream })
	if len(streams) == 0 {
		return nil, usagef("--events: the rules read no stream that could be recorded")
	}
	named := slices.Clone(flags)
	for i, f := range named {
		if _, err := os.Stat(f); (err == nil || !strings.Contains(f, "=")) && len(streams) == 1 {
			named[i] = streams[0] + "=" + f
		} else if name, path, ok := strings.Cut(f, "="); !ok || name == "" || path == "" {
			return nil, usagef("--events %s: write NAME=PATH; the rules read %s", f, strings.Join(streams, ", "))
		}
	}
	inputs, err := (&replayFlags{streams: named}).inputs()
	if err != nil {
		return nil, err
	}
	for _, in := range inputs {
		switch {
		case !slices.Contains(streams, in.stream):
			return nil, usagef("--events %s: no rule reads it%s; the rules read %s", in.stream, didYouMean("%q", in.stream, streams), strings.Join(streams, ", "))
		case len(in.topics) > 0:
			return nil, usagef("--events %s: a topic is no recording; `cepd record` makes one", in.stream)
		}
	}
	return inputs, nil
}

// waiting is something of a rule that waits for an event, and what the recorded ones say to it.
type waiting struct {
	rule *patterns.Rule
	patterns.Wait
	fits bool
	// near are the events that miss the fewest conditions, which are so many, by those that they miss.
	near   map[uint64]*near
	fewest int
}

// near are events that miss the same conditions, and the fields that these read of them.
type near struct {
	missed uint64
	events int
	fields map[int]*surveyed // by slot
}

// maxNear bounds the sets of missed conditions that are told apart: the one to show is there from the first events on.
const maxNear = 100

func waitsOf(readings []patterns.Reading) []*waiting {
	var list []*waiting
	for _, r := range readings {
		for _, w := range r.Waits {
			list = append(list, &waiting{rule: r.Rule, Wait: w})
		}
	}
	return list
}

// fitting returns what holds each event of a stream against what waits for it.
func fitting(set *rules.Set, waits []*waiting, stream string) func(source.Format) func([]byte) {
	waits = slices.DeleteFunc(slices.Clone(waits), func(w *waiting) bool { return !slices.Contains(w.From, stream) })
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
			for _, w := range waits {
				if !w.fits {
					w.take(set, &ev)
				}
			}
		}
	}
}

// missing reports whether a condition is among some.
func missing(missed uint64, condition int) bool { return missed>>min(condition, 63)&1 != 0 }

// take looks at an event. That one fits is all there is to know.
func (w *waiting) take(set *rules.Set, ev *cep.Event) {
	var missed uint64
	for i, c := range w.Where {
		if ok, err := c.Test(&cep.Scope{Event: ev}); !ok || err != nil {
			missed |= 1 << min(i, 63)
		}
	}
	if missed == 0 {
		w.fits, w.near = true, nil
		return
	}
	if count := bits.OnesCount64(missed); w.near == nil || count < w.fewest {
		w.near, w.fewest = map[uint64]*near{}, count
	} else if count > w.fewest {
		return
	}
	n := w.near[missed]
	if n == nil {
		if len(w.near) == maxNear {
			return
		}
		n = &near{missed: missed, fields: map[int]*surveyed{}}
		w.near[missed] = n
	}
	n.events++
	for i, c := range w.Where {
		if !missing(missed, i) {
			continue
		}
		for _, slot := range c.Slots {
			if n.fields[slot] == nil {
				n.fields[slot] = &surveyed{path: set.Schema.Path(slot), values: map[string]int{}}
			}
		}
	}
	for slot, f := range n.fields {
		f.valueOf(ev.Value(slot))
	}
}

// valueOf counts a value of an event.
func (f *surveyed) valueOf(v cep.Value) {
	switch v.Kind() {
	case cep.KindString:
		f.value(v.AsString())
	case cep.KindBool:
		f.value(v.AsBool())
	case cep.KindInt:
		f.value(json.Number(strconv.FormatInt(v.AsInt(), 10)))
	case cep.KindFloat:
		f.value(json.Number(strconv.FormatFloat(v.AsFloat(), 'g', -1, 64)))
	case cep.KindList:
		for _, e := range v.AsList() {
			if e.Kind() != cep.KindList {
				f.valueOf(e)
			}
		}
	default:
	}
}

// nearest are the events that miss the fewest conditions; of several sets of these the one that most events miss.
func (w *waiting) nearest() *near {
	var best *near
	for _, n := range w.near {
		if best == nil || n.events > best.events || n.events == best.events && n.missed < best.missed {
			best = n
		}
	}
	return best
}

// recorded is what stands in the events of each stream that was recorded.
type recorded map[string]*survey

// knows reports whether all of some streams were recorded. Of what may be in another one nothing can be said.
func (r recorded) knows(streams []string) bool {
	return len(streams) > 0 && !slices.ContainsFunc(streams, func(s string) bool { return r[s] == nil })
}

// of says "3 events of auth" and "7 events of auth and web".
func (r recorded) of(streams []string) string {
	n := 0
	for _, s := range streams {
		n += r[s].events
	}
	return plural(n, "event") + " of " + joined(streams, " and ")
}

// joined writes names in a row, with a word before the last one.
func joined(names []string, last string) string {
	n := len(names) - 1
	if n < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:n], ", ") + last + names[n]
}

// field says that a field which a rule reads is in no event.
func (r recorded) field(f patterns.FieldRead) (_ patterns.Diagnostic, ok bool) {
	var known, lacking []string
	for _, stream := range f.From {
		if s := r[stream]; s != nil {
			known = append(known, stream)
			if !s.has(f.Path) {
				lacking = append(lacking, stream)
			}
		}
	}
	// A key is wanted of each stream, any other field of one of them.
	if len(lacking) == 0 || !f.Key && (len(lacking) < len(known) || !r.knows(f.From)) {
		return patterns.Diagnostic{}, false
	}
	d := diagnosticAt(f.At, codeNoField, "none of %s has the field %q", r.of(lacking), strings.Join(f.Path, "."))
	if f.Key {
		d.Message += ": without it an event has no key"
	}
	d.Hint = r.meant(f.Path, lacking)
	return d, true
}

// meant says what the writer of a field that does not occur may have meant.
func (r recorded) meant(path, streams []string) string {
	name := strings.Join(path, ".")
	var names, inside, longer []string
	for _, stream := range streams {
		for _, f := range r[stream].sorted() {
			names = append(names, strings.Join(f.path, "."))
			switch last := len(f.path) - 1; {
			case len(f.path) > len(path) && slices.Equal(f.path[len(f.path)-len(path):], path):
				longer = append(longer, f.text())
			case len(path) > 1 && last == len(path)-1 && slices.Equal(f.path[:last], path[:last]):
				inside = append(inside, f.text())
			}
		}
	}
	if near := expression.Nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(longer) > 0 {
		return fmt.Sprintf("did you mean %q?", longer[0])
	}
	parent := path[:len(path)-1]
	if len(inside) > 0 {
		return pathText(parent) + " has " + joined(some(inside), " and ")
	}
	for _, stream := range streams {
		f := r[stream].at(parent)
		switch {
		case f == nil:
		case f.nested:
			return pathText(parent) + " is a list: any(" + pathText(parent) + ", ." + path[len(path)-1] + " == ...) asks its elements"
		default:
			return pathText(parent) + " has no members: it is " + f.shown(r[stream].events)
		}
	}
	var fields []string
	for _, stream := range streams {
		for _, f := range r[stream].sorted() {
			if len(f.values) > 0 {
				fields = append(fields, f.text())
			}
		}
	}
	return "there are " + joined(some(fields), " and ")
}

// some are the first of some names, with a mark that there are more.
func some(names []string) []string {
	names = slices.Compact(names)
	if len(names) > shownValues {
		return append(slices.Clone(names[:shownValues]), "others")
	}
	return names
}

// wait says that something which a rule waits for never comes.
func (r recorded) wait(w *waiting) (_ patterns.Diagnostic, ok bool) {
	if w.fits || w.near == nil || !r.knows(w.From) {
		return patterns.Diagnostic{}, false
	}
	events := r.of(w.From)
	var d patterns.Diagnostic
	note := func(format string, args ...any) {
		d = diagnosticAt(w.At, codeNoFitNote, format, args...)
		d.Note = true
	}
	switch w.Kind {
	case patterns.WaitMembers:
		d = diagnosticAt(w.At, codeNoFit, "the \"where\" of the all_of fits none of %s", events)
	case patterns.WaitAlone:
		d = diagnosticAt(w.At, codeNoFit, "the absence %q fits none of %s, and begins with an event that does", w.Name, events)
	case patterns.WaitAbsence:
		note("the absence %q fits none of %s: it always holds", w.Name, events)
	case patterns.WaitUntil:
		note("the \"until\" fits none of %s: it never ends anything", events)
	case patterns.WaitResolve:
		note("the \"resolve\" fits none of %s: it never ends an alert", events)
	default:
		d = diagnosticAt(w.At, codeNoFit, "the step %q fits none of %s", w.Name, events)
		if w.Name == "" {
			d = diagnosticAt(w.At, codeNoFit, "the rule %q fits none of %s", w.rule.ID, events)
		}
	}
	d.Hint = r.values(w)
	return d, true
}

// values says what the events that come nearest lack, and what stands in the fields of that.
func (r recorded) values(w *waiting) string {
	n := w.nearest()
	var lacking, parts []string
	for i, c := range w.Where {
		if missing(n.missed, i) {
			lacking = append(lacking, shortText(c.Text))
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(n.fields)) {
		switch f := n.fields[slot]; {
		case len(f.path) == 0: // the whole event
		case len(f.values) > 0:
			parts = append(parts, f.text()+" is "+f.shown(n.events))
		case slices.ContainsFunc(w.From, func(stream string) bool { return r[stream].has(f.path) }):
			parts = append(parts, f.text()+" is missing there")
		default:
			parts = append(parts, f.text()+" is in no event")
		}
	}
	text := strings.Join(parts, "; ")
	if len(lacking) == len(w.Where) {
		return text
	}
	verb := " meet"
	if n.events == 1 {
		verb = " meets"
	}
	all := plural(n.events, "event") + verb + " all but " + joined(lacking, " and ")
	if text == "" {
		return all
	}
	return all + ": " + text
}

// shown lists the most frequent values, or the ends of numbers of which there are many.
func (f *surveyed) shown(events int) string {
	if len(f.values) > shownValues && f.numbers == f.count {
		return fmt.Sprintf("from %s to %s", f.least.text, f.most.text)
	}
	values := f.frequent()
	var list []string
	for _, v := range values[:min(shownValues, len(values))] {
		list = append(list, fmt.Sprintf("%s (%s)", shortText(v), share(f.values[v], events)))
	}
	if len(values) > shownValues {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// diagnosticAt is a warning at a place of a rule.
func diagnosticAt(at patterns.Diagnostic, code, format string, args ...any) patterns.Diagnostic {
	at.Code, at.Warning, at.Message = code, true, fmt.Sprintf(format, args...)
	return at
}

// byPlace sorts diagnostics as rules are read.
func byPlace(list patterns.Diagnostics) {
	slices.SortStableFunc(list, func(a, b patterns.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
