package engine

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// releaseMax is the number of events that are released before their matches are turned into alerts: it bounds the matches
// that wait when a watermark leaps, and is large enough that sorting them costs nothing an event.
const releaseMax = 1024

// clock is the time of all rules that read the same streams, and the alerts of the same rules: their order buffer and their
// watermark.
type clock struct {
	streams []*stream
	// layer is 0 for rules that read events only. Below are the clocks of the rules whose alerts the others read, named by
	// reads; above are the clocks that read alerts from here.
	layer int
	reads []string
	below []*clock
	rules []*running // in the order of their ids, older versions behind
	index *rules.Index

	memo   *nfa.Memo
	buffer orderBuffer
	free   []*entry
	seq    uint64
	// alerts is the number of alerts that came to be read.
	alerts uint64
	// released is the watermark up to which everything has been released, first the first time of the rules; AfterAll
	// before it is known. started says that the rules have been told.
	released, first cep.Time
	started         bool
	// deadlines are those of the rules, by place: next to each other, because all are looked at in each release.
	deadlines []cep.Time
	active    []*running // rules that saw an event in this release
	made, fed []made
	// places are the places in the total order of the events of this release, from seq firstPlace on; kept only where
	// alerts of several clocks are merged.
	places     []place
	firstPlace uint64
	merged     bool
	// emit is handed the alerts; where they are merged they wait in out instead.
	emit func(*cep.Alert)
	out  outQueue
}

// made is an alert of a release, before it has found its place among those of other rules.
type made struct {
	rule *running
	alert.Out
}

// watermark is the least of the streams that can still bring something, and of the clocks whose alerts are read; where
// nothing can, time goes on with now, that of the rest of the input.
func (k *clock) watermark(now cep.Time) cep.Time {
	w, ended := cep.AfterAll, true
	for _, s := range k.streams {
		if !s.ended() {
			ended = false
			w = min(w, s.released)
		}
	}
	for _, b := range k.below {
		ended = false
		w = min(w, b.released)
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
func (k *clock) take(e *entry, ev *cep.Event, at place, arrival uint64, values []cep.Value, shared bool) {
	own := e.ev.Values
	e.ev, e.place, e.arrival, e.shared = *ev, at, arrival, shared
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
	k.findFirst(w)
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
			if !k.started && last >= k.first {
				k.start()
			}
			n++
			k.event(e)
			k.give(e)
		}
		if !k.started && upTo >= k.first && k.first != cep.AfterAll {
			k.start()
		}
		k.settle(upTo)
		if upTo == w {
			k.released = w
			return
		}
	}
}

// findFirst finds the first time of the rules, once it is known: that of the first event of each stream, the latest of them;
// alerts are there from the first time of the rules that they come from.
func (k *clock) findFirst(w cep.Time) {
	if k.first != cep.AfterAll {
		return
	}
	first := cep.BeforeAll
	for _, s := range k.streams {
		first = max(first, s.first)
	}
	for _, b := range k.below {
		first = max(first, b.first)
	}
	if first <= w {
		k.first = first
	}
}

// start begins the rules at their first time, before any event of it. What came before lies below it in any case.
func (k *clock) start() {
	k.started = true
	for _, r := range k.rules {
		if !r.started {
			r.start(k.first)
			k.activate(r)
		}
	}
}

// activate notes that the rule has to be looked at in this release.
func (k *clock) activate(r *running) {
	if !r.active {
		r.active = true
		k.active = append(k.active, r)
	}
}

func (k *clock) event(e *entry) {
	k.seq++
	e.ev.Seq = k.seq
	if k.merged {
		if len(k.places) == 0 {
			k.firstPlace = k.seq
		}
		k.places = append(k.places, e.place)
	}
	k.memo.Next()
	for i := range e.routes {
		r := e.routes[i].rule
		if r.disabled != "" || e.ev.Time > r.until {
			continue
		}
		r.event(e, &e.routes[i])
		k.activate(r)
	}
}

// settle moves the rules to upTo, and lets their alerts out.
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
	if len(k.fed) > 0 {
		k.feed()
	}
	if len(k.made) > 0 {
		k.send()
	}
	k.places = k.places[:0]
}

// collect advances a rule and takes its alerts.
func (k *clock) collect(r *running, upTo cep.Time) {
	if r.heir != nil {
		r = r.heir
	}
	k.made = r.advance(upTo, k.made)
	k.deadlines[r.place] = r.deadline()
}

// sortMade puts alerts in the order of S7.1. What a rule makes at one moment for one key is in order already.
func sortMade(list []made) {
	slices.SortStableFunc(list, func(a, b made) int {
		return cmp.Or(a.Moment.Compare(b.Moment), cmp.Compare(a.rule.rank, b.rule.rank), cmp.Compare(a.Key, b.Key))
	})
}

// send hands out the alerts of a release, or puts them where they wait for those of other clocks.
func (k *clock) send() {
	sortMade(k.made)
	for i := range k.made {
		m := &k.made[i]
		if k.merged {
			k.out.push(outgoing{m.Alert, k.orderOf(m)})
			continue
		}
		k.emit(m.Alert)
	}
	clear(k.made)
	k.made = k.made[:0]
}

// orderOf is where an alert of this release stands among those of all clocks.
func (k *clock) orderOf(m *made) order {
	o := order{time: m.Moment.Time, layer: k.layer, timed: m.Moment.Timed(), rank: m.rule.rank, key: m.Key}
	if !o.timed {
		o.place = k.places[m.Moment.Seq-k.firstPlace]
	}
	return o
}

// feed makes events of the matches of a release, for the rules over alerts (S8).
func (k *clock) feed() {
	sortMade(k.fed)
	for i := range k.fed {
		m := &k.fed[i]
		at := k.orderOf(m)
		k.deliver(m.rule.feed, m.Alert, &at)
	}
	clear(k.fed)
	k.fed = k.fed[:0]
}

// deliver gives an alert to the rules that read it.
func (k *clock) deliver(f *feed, a *cep.Alert, at *order) {
	ev := f.event(a)
	for _, up := range f.readers {
		if a.Time <= up.released {
			continue
		}
		up.alerts++
		if e := up.route(&ev); e != nil {
			e.alert = a
			up.take(e, &ev, place{origin: at}, up.alerts, ev.Values, true)
		}
	}
}
