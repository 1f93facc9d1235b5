package engine

import (
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// releaseMax is the number of events that are released before their matches are turned into alerts: it bounds the matches
// that wait when a watermark leaps, and is large enough that sorting them costs nothing an event.
const releaseMax = 1024

// clock is the time of all rules that read the same streams: their order buffer and their watermark.
type clock struct {
	streams []*stream
	rules   []*running // in the order of their ids
	index   *rules.Index
	memo    *nfa.Memo
	buffer  orderBuffer
	free    []*entry
	seq     uint64
	// released is the watermark up to which everything has been released.
	released cep.Time
	// deadlines are those of the machines, by rule: next to each other, because all are looked at in each release.
	deadlines []cep.Time
	active    []*running // rules that saw an event in this release
	found     []found
	// places are the places in the total order of the events of this release, from seq firstPlace on; kept only where
	// alerts of several clocks are merged.
	places     []place
	firstPlace uint64
	merged     bool
	// emit is handed the alerts; where they are merged they wait in out instead, from outHead, in order.
	emit    func(*cep.Alert)
	out     []outgoing
	outHead int
}

// found is a match on its way to become an alert.
type found struct {
	rule  *running
	match cep.Match
}

// place is what orders an event among those of its time.
type place struct {
	tie      cep.Value
	position cep.Position
}

// watermark is the least of the streams that can still bring something; where none can, time goes on with now, that of the
// rest of the input.
func (k *clock) watermark(now cep.Time) cep.Time {
	w, ended := cep.AfterAll, true
	for _, s := range k.streams {
		if !s.ended() {
			ended = false
			w = min(w, s.released)
		}
	}
	if ended {
		return now
	}
	return w
}

// route finds out where an event belongs among the clock's rules; nil where no rule has a use for it.
func (k *clock) route(ev *cep.Event) *entry {
	list := k.index.Lookup(ev)
	if len(list) == 0 {
		return nil
	}
	var e *entry
	if n := len(k.free); n > 0 {
		e = k.free[n-1]
		k.free = k.free[:n-1]
	} else {
		e = &entry{}
	}
	for _, i := range list {
		if r := k.rules[i]; r.disabled == "" {
			r.route(ev, e)
		}
	}
	if len(e.routes) == 0 {
		k.free = append(k.free, e)
		return nil
	}
	return e
}

// take puts a routed event into the order buffer.
func (k *clock) take(e *entry, ev *cep.Event, tie cep.Value, arrival uint64, values []cep.Value, shared bool) {
	own := e.ev.Values
	e.ev, e.tie, e.arrival, e.shared = *ev, tie, arrival, shared
	e.ev.Values = values
	if !shared {
		e.ev.Values = append(own[:0], values...)
	}
	k.buffer.push(e)
}

// give returns an entry for reuse. Machines copied what they keep.
func (k *clock) give(e *entry) {
	values := e.ev.Values
	if e.shared {
		values = nil
	}
	clear(values) // strings must not stay for an entry's sake
	*e = entry{ev: cep.Event{Values: values[:0]}, routes: e.routes[:0], keys: e.keys[:0]}
	k.free = append(k.free, e)
}

// release lets out everything at or below w, in order.
func (k *clock) release(w cep.Time) {
	if w <= k.released {
		return
	}
	k.start(w)
	for {
		upTo, n := w, 0
		var last cep.Time
		for e := k.buffer.least(); e != nil && e.ev.Time <= w; e = k.buffer.least() {
			if n >= releaseMax && e.ev.Time > last {
				upTo = e.ev.Time - 1
				break
			}
			k.buffer.pop()
			last = e.ev.Time
			n++
			k.event(e)
			k.give(e)
		}
		k.settle(upTo)
		if upTo == w {
			k.released = w
			return
		}
	}
}

// start tells rules their first time once it is known: that of the first event of each stream, the latest of them. Before
// the last of them is known no event is above it, so nothing is lost by telling late.
func (k *clock) start(w cep.Time) {
	first := cep.BeforeAll
	for _, s := range k.streams {
		if s.first > w {
			return
		}
		first = max(first, s.first)
	}
	for _, r := range k.rules {
		if !r.started {
			r.started = true
			r.machine.SetFirstTime(first)
		}
	}
}

func (k *clock) event(e *entry) {
	k.seq++
	e.ev.Seq = k.seq
	if k.merged {
		if len(k.places) == 0 {
			k.firstPlace = k.seq
		}
		k.places = append(k.places, place{e.tie, e.ev.Position})
	}
	k.memo.Next()
	for i := range e.routes {
		r := e.routes[i].rule
		if r.disabled != "" {
			continue
		}
		r.event(e, &e.routes[i])
		if !r.active {
			r.active = true
			k.active = append(k.active, r)
		}
	}
}

// settle moves the machines to upTo, and makes alerts of what they let out.
func (k *clock) settle(upTo cep.Time) {
	for _, r := range k.active {
		r.active = false
		k.collect(r, upTo)
	}
	k.active = k.active[:0]
	for i, d := range k.deadlines {
		if d <= upTo {
			k.collect(k.rules[i], upTo)
		}
	}
	if len(k.found) > 0 {
		k.alerts()
	}
	k.places = k.places[:0]
}

// collect advances a rule and takes its matches.
func (k *clock) collect(r *running, upTo cep.Time) {
	k.found = r.advance(upTo, k.found)
	k.deadlines[r.place] = r.deadline()
}

// alerts turns the matches of a release into alerts, in the order of S7.1: by moment, rule, key and the machine's order.
// Each machine's matches are in order already, so a stable sort by moment and rule is enough.
func (k *clock) alerts() {
	slices.SortStableFunc(k.found, func(a, b found) int {
		if c := a.match.Moment.Compare(b.match.Moment); c != 0 {
			return c
		}
		return a.rule.place - b.rule.place
	})
	for i := range k.found {
		f := &k.found[i]
		a := f.rule.alert(&f.match)
		if a == nil {
			continue
		}
		if !k.merged {
			k.emit(a)
			continue
		}
		o := outgoing{alert: a, moment: f.match.Moment, rank: f.rule.rank}
		if !o.moment.Timed() {
			o.place = k.places[o.moment.Seq-k.firstPlace]
		}
		k.out = append(k.out, o)
	}
	clear(k.found)
	k.found = k.found[:0]
}
