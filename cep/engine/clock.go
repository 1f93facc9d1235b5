package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/rules"
)

// clock is the time of all rules that read the same streams, and the alerts of the same rules. What is said here belongs to the
// front, but for what never changes: streams, layer, versions.
type clock struct {
	index int
	// name identifies it in any process: what its rules read.
	name    string
	streams []*stream
	// layer is 0 for rules that read events only. Below are the clocks of the rules whose alerts the others read, named by
	// reads.
	layer int
	reads []string
	below []*clock
	// partition is the only one whose events the rules see here; nil: they see those of all.
	partition *partition
	// versions are in the order of the rules' ids, older ones behind.
	versions []*version
	readers  *readers
	// released is the watermark up to which all is released that is handed on, first the first time of the rules; AfterAll
	// before it is known.
	released, first cep.Time
}

// readers find out which rules of a clock an event is for. They belong to one goroutine: rules over alerts have one for what is
// read, in the front, and one for alerts, in the back.
type readers struct {
	index   *rules.Index
	routers *rules.Routers // by place
	// again are the routers for events that have been counted, nil until there is one.
	again []*rules.Router
	// touched says which routers have counted something since the last barrier.
	touched []bool
}

func newReaders(versions []*version) *readers {
	list := make([]*rules.Rule, len(versions))
	r := &readers{touched: make([]bool, len(versions))}
	for i, v := range versions {
		list[i] = v.rule
	}
	r.routers, r.index = rules.NewRouters(list), rules.NewIndex(list)
	return r
}

// narrow asks the router of a version. What is read again by a version that has seen it must not be counted again.
func (r *readers) narrow(v *version, ev *cep.Event, may, sure uint64, again bool) []rules.Delivery {
	if !again || !v.counted {
		r.touched[v.place] = true
		return r.routers.Narrow(v.place, ev, may, sure)
	}
	if r.again == nil {
		r.again = make([]*rules.Router, len(r.touched))
	}
	if r.again[v.place] == nil {
		r.again[v.place] = rules.NewRouter(v.rule)
	}
	return r.again[v.place].Narrow(ev, may, sure)
}

// deliver adds the keys of a version that an event belongs to. Where the rule panics when it is asked for them, that goes the
// way of the event, and stops the rule when its turn comes.
//
// May has the bits of the names whose conditions may hold, sure of those whose conditions do.
func (r *readers) deliver(v *version, ev *cep.Event, may, sure uint64, again bool, to *spread) {
	defer func() {
		if cause := recover(); cause != nil {
			to.addBroken(v, fmt.Sprint(cause))
		}
	}()
	for _, d := range r.narrow(v, ev, may, sure, again) {
		e := to.add(v, d.Key)
		e.mask, e.holds, e.resolves = d.Mask, d.Holds, d.Resolves
	}
}

// wire gives the versions their places, and finds out what they read.
func (k *clock) wire() {
	for i, v := range k.versions {
		v.place = i
	}
	k.readers = newReaders(k.versions)
}

// routed is what a router has counted.
type routed struct {
	visible, keyed, noKey, tooManyKeys, errors uint64
	hidden                                     []uint64 // by exception
	lastError                                  string
	errorAt                                    cep.Time
}

func (r *readers) routed(v *version) routed {
	c := r.routers.Counters(v.place)
	return routed{c.Visible, c.Keyed, c.NoKey, c.TooManyKeys, c.Errors, slices.Clone(c.Hidden), c.LastError, c.ErrorAt}
}

// count makes a router go on from what another one had counted.
func (r *readers) count(v *version, n *routed) {
	c := r.routers.Counters(v.place)
	c.Visible, c.Keyed, c.NoKey, c.TooManyKeys, c.Errors, c.LastError = n.visible, n.keyed, n.noKey, n.tooManyKeys, n.errors, n.lastError
	c.ErrorAt = n.errorAt
	copy(c.Hidden, n.hidden)
}

func (n *routed) add(m routed) {
	n.visible += m.visible
	n.keyed += m.keyed
	n.noKey += m.noKey
	n.tooManyKeys += m.tooManyKeys
	n.errors += m.errors
	for i, h := range m.hidden {
		n.hidden[i] += h
	}
	if m.lastError != "" && (n.lastError == "" || m.errorAt >= n.errorAt) {
		n.lastError, n.errorAt = m.lastError, m.errorAt
	}
}

// route finds out where an event belongs among the versions of a clock that the index has found.
func (k *clock) route(r *readers, list []int, ev *cep.Event, again bool, to *spread) {
	for _, i := range list {
		if v := k.versions[i]; ev.Time > v.after && !v.over.Load() {
			may, sure := r.index.May(i)
			r.deliver(v, ev, may, sure, again, to)
		}
	}
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
		w = now
	}
	if k.partition != nil {
		// What its stream has released is refused of the partition too: an idle one does not stand still.
		w = max(w, k.partition.watermark)
	}
	return w
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

// started says that the rules have been told their first time.
func (k *clock) started() bool { return k.first <= k.released && k.first != cep.AfterAll }

// nameOf makes the name of a clock.
func nameOf(k *clock) string {
	var b strings.Builder
	for _, s := range k.streams {
		fmt.Fprintf(&b, "%q ", s.Name)
	}
	if k.partition != nil {
		fmt.Fprintf(&b, "partition %q", k.partition.id.Name)
		return b.String()
	}
	fmt.Fprintf(&b, "layer %d %q", k.layer, k.reads)
	return b.String()
}

// streamAt is the place of a stream among those of the clock.
func (k *clock) streamAt(s *stream) int { return slices.Index(k.streams, s) }
