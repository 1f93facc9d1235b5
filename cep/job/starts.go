package job

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/nfa"
)

// The refusals of OpenStarts.
var (
	// ErrNoRule says that no rule of that id runs.
	ErrNoRule = engine.ErrNoRule
	// ErrCursor says that a cursor is none that was given out.
	ErrCursor = errors.New("not a cursor that was given out")
	// ErrKey says that a key has other parts than those of the rule.
	ErrKey = errors.New("not a key of the rule")
)

// OpenMax is the number of open starts that a page holds at most: what a person can look through, and little enough that the
// engine is not held up by the question.
const OpenMax = 1000

// OpenQuery asks for the open starts of a rule.
type OpenQuery struct {
	Rule string
	// Key has the text of each part of the only key that is asked for; nil: all keys.
	Key []string
	// After is [OpenPage.Next] of the page before; "": from the beginning.
	After string
	// Limit is the number of starts wanted, [OpenMax] where it is 0.
	Limit int
}

// OpenPage is a part of the open starts of a rule, in the order of version, key, and first event.
type OpenPage struct {
	Starts []OpenStart `json:"starts"`
	// Next is where the next page begins; "": this was the last.
	Next string `json:"next,omitempty"`
}

// OpenStart is a first event, and all that may come of it.
type OpenStart struct {
	Rule string `json:"rule"`
	// Fingerprint is that of the version of the rule, Draining that it is an older one.
	Fingerprint string      `json:"fingerprint"`
	Draining    bool        `json:"draining,omitempty"`
	Key         []cep.Named `json:"-"`
	// Since is the time of its first event, Until when it is over if nothing more comes; [cep.AfterAll]: never.
	Since cep.Time `json:"since_ns"`
	Until cep.Time `json:"until_ns"`
	// Parked says that it is not followed while an older start of its key is open: Runs has only its first event then.
	Parked bool `json:"parked,omitempty"`
	// Runs are the ways in which it may go on, at most [RunsMax] of them; More is the number of others.
	Runs []OpenRun `json:"runs"`
	More int       `json:"more,omitempty"`
}

// RunsMax is the number of ways that are told of one open start: the first few say what it waits for.
const RunsMax = 8

// OpenRun is one way in which an open start may go on.
type OpenRun struct {
	// Taken is what it has taken, by step in written order.
	Taken []OpenStep `json:"taken"`
	// Waits names the step that it waits for an event of, or the absences that have to hold.
	Waits []string `json:"waits"`
	// Absence says that it has all its events, and waits for time alone to show that something does not come. Without it, and
	// with nothing to wait for, it is complete, and goes out unless something that is preferred to it completes.
	Absence bool `json:"absence,omitempty"`
	// Until is when the wait is over; [cep.AfterAll]: never.
	Until cep.Time `json:"until_ns"`
}

// OpenStep is what a step has taken.
type OpenStep struct {
	Step  string `json:"step"`
	Count int    `json:"count"`
	// Positions are those of the newest events taken, at most [PositionsMax].
	Positions []cep.Position `json:"-"`
}

// PositionsMax is the number of positions that are told of a step: a loop may have taken thousands.
const PositionsMax = 8

// OpenStarts returns open starts of a rule as they are now, answered between two batches. The error wraps [ErrNoRule],
// [ErrCursor] or [ErrKey] where the question is at fault.
func (j *Job) OpenStarts(ctx context.Context, q OpenQuery) (OpenPage, error) {
	a, err := j.send(ctx, notice{kind: noticeOpen, query: &q})
	if err != nil {
		return OpenPage{}, fmt.Errorf("open starts of rule %s: %w", q.Rule, err)
	}
	return a.page, nil
}

// takenMax is the number of events that the starts of a page have taken at most, beside those of the last: counting them is
// what a page costs, some nanoseconds each.
const takenMax = 1 << 20

// openStarts answers for the engine.
func (s *sequencer) openStarts(q *OpenQuery) (page OpenPage, err error) {
	after, err := readPlace(q.After)
	if err != nil {
		return page, err
	}
	only, err := s.keysOf(q)
	if err != nil {
		return page, err
	}
	limit := q.Limit
	if limit <= 0 || limit > OpenMax {
		limit = OpenMax
	}
	taken := 0
	var last engine.OpenPlace
	err = s.core.OpenStarts(q.Rule, after, only, nfa.OpenLimits{Runs: RunsMax, Positions: PositionsMax}, func(o engine.OpenStart) bool {
		if len(page.Starts) == limit || taken >= takenMax {
			page.Next = appendPlace(last)
			return false
		}
		last = o.Place
		x := openStart(q.Rule, &o)
		for i := range x.Runs {
			for _, t := range x.Runs[i].Taken {
				taken += t.Count
			}
		}
		page.Starts = append(page.Starts, x)
		return true
	})
	return page, err
}

func openStart(rule string, o *engine.OpenStart) OpenStart {
	x := OpenStart{
		Rule: rule, Fingerprint: o.Fingerprint, Draining: o.Draining, Since: o.Time, Until: o.Until, Parked: o.Parked, More: o.More,
		Runs: make([]OpenRun, len(o.Runs)),
	}
	if parts, err := o.Place.Key.Parts(); err == nil && len(parts) == len(o.KeyNames) { // the machine knows no others
		for i, v := range parts {
			x.Key = append(x.Key, cep.Named{Name: o.KeyNames[i], Value: v})
		}
	}
	for i, r := range o.Runs {
		y := &x.Runs[i]
		y.Absence, y.Until, y.Waits = r.Absence, r.Until, make([]string, len(r.Waits))
		for k, name := range r.Waits {
			y.Waits[k] = o.Names[name]
		}
		y.Taken = make([]OpenStep, len(r.Taken))
		for k, t := range r.Taken {
			y.Taken[k] = OpenStep{Step: o.Names[t.Name], Count: t.Count, Positions: t.Newest}
		}
	}
	return x
}

// keysOf returns the keys whose parts have the texts of a question: a text may stand for a string, a number, and more. Nil:
// all keys are asked for.
func (s *sequencer) keysOf(q *OpenQuery) ([]cep.Key, error) {
	if q.Key == nil {
		return nil, nil
	}
	for _, r := range s.set.Rules {
		if r.ID == q.Rule && len(r.Key) != len(q.Key) {
			return nil, fmt.Errorf("%w: it has %d parts, its keys have %d", ErrKey, len(q.Key), len(r.Key))
		}
	}
	keys := []cep.Key{""}
	for _, text := range q.Key {
		var longer []cep.Key
		for _, key := range keys {
			for _, v := range valuesOf(text) {
				if b, ok := cep.AppendKeyPart([]byte(key), v); ok && len(longer) < keysMax {
					longer = append(longer, cep.Key(b))
				}
			}
		}
		keys = longer
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: an empty part", ErrKey)
	}
	slices.Sort(keys)
	return keys, nil
}

// keysMax is the number of keys that texts may stand for: four parts that could each be a number or a string, twice over.
const keysMax = 32

// valuesOf are the values that people write so.
func valuesOf(text string) []cep.Value {
	list := []cep.Value{cep.String(text)}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		list = append(list, cep.Int(i))
	} else if f, err := strconv.ParseFloat(text, 64); err == nil {
		list = append(list, cep.Float(f))
	}
	switch text {
	case "true":
		list = append(list, cep.Bool(true))
	case "false":
		list = append(list, cep.Bool(false))
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		if at, ok := cep.TimeOf(t); ok {
			list = append(list, cep.TimeValue(at))
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		list = append(list, cep.DurationValue(d))
	}
	return list
}

// A cursor is the place of the last start of a page, in base64: version byte, uint version, text key, uint seq.
const placeVersion = 1

func appendPlace(p engine.OpenPlace) string {
	b := binary.AppendUvarint([]byte{placeVersion}, p.Version)
	b = binary.AppendUvarint(cep.AppendText(b, p.Key), p.Seq)
	return base64.RawURLEncoding.EncodeToString(b)
}

func readPlace(cursor string) (p engine.OpenPlace, err error) {
	if cursor == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return p, ErrCursor
	}
	in := cep.NewReader(b)
	version := in.Byte()
	p = engine.OpenPlace{Version: in.Uint(), Key: cep.Key(in.Text()), Seq: in.Uint()}
	if in.End() != nil || version != placeVersion {
		return engine.OpenPlace{}, ErrCursor
	}
	return p, nil
}
