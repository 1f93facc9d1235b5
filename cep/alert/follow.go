package alert

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cepd/cepd/cep"
)

// Follow says how alerts of a rule live on after they went out (S7.3).
type Follow struct {
	WhileOpen WhileOpen
	// Quiet ends an open alert when no match of its key came for so long; 0: only an event does.
	Quiet cep.Duration
	// Repeat is the time between reminders; 0: none.
	Repeat cep.Duration
}

// WhileOpen says what a match does while an alert of its key is open.
type WhileOpen uint8

// What a match does.
const (
	OpenCount  WhileOpen = iota // it is counted
	OpenUpdate                  // it goes out as an update
	OpenNew                     // it is an alert of its own; the open one stays the first
)

// Out is an alert with the moment at which it goes out.
type Out struct {
	Moment cep.Moment
	Key    cep.Key
	Alert  *cep.Alert
}

// openAlert is an alert that went out and has not ended.
type openAlert struct {
	key   cep.Key
	alert *cep.Alert // without its events
	since cep.Moment
	// last is the time of the key's last match, remind that of the next reminder.
	last, remind cep.Time
	marks
}

// following are the open alerts of one rule. Quiet and Repeat are constants, so both queues are in the order in which they
// fall due: what is put into one is due that much after now. An entry is stale once its alert has ended or moved on.
type following struct {
	by     *Follow
	open   map[cep.Key]*openAlert
	quiet  dues
	remind dues

	changes changes[cep.Key, *openAlert]
}

// dues is a queue of times at which something happens to an open alert.
type dues struct {
	list []due
	head int
}

type due struct {
	at   cep.Time
	open *openAlert
}

func (q *dues) push(at cep.Time, o *openAlert) {
	if q.head > len(q.list)/2 {
		q.list = slices.Delete(q.list, 0, q.head)
		q.head = 0
	}
	q.list = append(q.list, due{at, o})
}

func (q *dues) pop() {
	q.list[q.head] = due{}
	q.head++
}

// next returns the first entry that is not stale; AfterAll where there is none.
func (q *dues) next(stale func(due) bool) due {
	for q.head < len(q.list) {
		if d := q.list[q.head]; !stale(d) {
			return d
		}
		q.pop()
	}
	return due{at: cep.AfterAll}
}

func newFollowing(by *Follow) *following {
	if by == nil {
		return &following{}
	}
	return &following{by: by, open: map[cep.Key]*openAlert{}}
}

func (f *following) nextQuiet() due {
	return f.quiet.next(func(d due) bool { return f.open[d.open.key] != d.open || d.open.last.Add(f.by.Quiet) != d.at })
}

func (f *following) nextReminder() due {
	return f.remind.next(func(d due) bool { return f.open[d.open.key] != d.open || d.open.remind != d.at })
}

// begin opens an alert that goes out.
func (f *following) begin(key cep.Key, a *cep.Alert, moment cep.Moment) {
	bare := *a
	bare.Steps = nil
	o := &openAlert{key: key, alert: &bare, since: moment, last: a.Time, remind: cep.AfterAll}
	f.open[key] = o
	f.again(o, a.Time)
	if f.by.Repeat > 0 {
		o.remind = a.Time.Add(f.by.Repeat)
		f.remind.push(o.remind, o)
	}
}

// again notes a match of the key of an open alert.
func (f *following) again(o *openAlert, t cep.Time) {
	o.last = t
	f.changes.note(o.key, o)
	if f.by.Quiet > 0 {
		f.quiet.push(t.Add(f.by.Quiet), o)
	}
}

// NextDue is the next time at which time alone ends an alert or reminds of one; it may be early. AfterAll: never.
func (m *Maker) NextDue() cep.Time {
	if m.following.by == nil {
		return cep.AfterAll
	}
	return min(m.following.nextQuiet().at, m.following.nextReminder().at)
}

// Open is the number of open alerts.
func (m *Maker) Open() int { return len(m.following.open) }

// Advance appends what time alone brings before a moment, in the order of time and key: a reminder, or the end of an alert
// that has been quiet. What is due at a time comes after every event and match of that time. At the end of all time nobody is reminded of what never
// ends.
func (m *Maker) Advance(before cep.Moment, dst []Out) []Out {
	f := m.following
	if f.by == nil || before.Time == cep.AfterAll && f.by.Quiet == 0 {
		return dst
	}
	from := len(dst)
	for {
		quiet, remind := f.nextQuiet(), f.nextReminder()
		first := quiet
		if remind.at < quiet.at { // at one time an alert ends, and nobody is reminded of it
			first = remind
		}
		if first.open == nil || first.at >= before.Time {
			break
		}
		o := first.open
		moment := cep.Moment{Time: first.at, Seq: cep.ByTime}
		if first == quiet {
			f.quiet.pop()
			dst = append(dst, Out{moment, o.key, m.end(o, moment)})
			continue
		}
		f.remind.pop()
		o.remind = first.at.Add(f.by.Repeat)
		f.remind.push(o.remind, o)
		f.changes.note(o.key, o)
		if a := m.after(o, cep.AlertReminder, moment); !m.silenced(a) {
			m.counters.Alerts++
			dst = append(dst, Out{moment, o.key, a})
		}
	}
	slices.SortStableFunc(dst[from:], func(a, b Out) int {
		return cmp.Or(cmp.Compare(a.Moment.Time, b.Moment.Time), cmp.Compare(a.Key, b.Key))
	})
	return dst
}

// Resolve ends the open alert of a key by an event; nil where none is open that began before the event.
func (m *Maker) Resolve(key cep.Key, moment cep.Moment) *cep.Alert {
	o := m.following.open[key]
	if o == nil || moment.Compare(o.since) <= 0 {
		return nil
	}
	return m.end(o, moment)
}

// EndAll ends every open alert, in the order of the keys: the rule is no more.
func (m *Maker) EndAll(moment cep.Moment, dst []Out) []Out {
	keys := make([]cep.Key, 0, len(m.following.open))
	for k := range m.following.open {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		dst = append(dst, Out{moment, k, m.end(m.following.open[k], moment)})
	}
	return dst
}

func (m *Maker) end(o *openAlert, moment cep.Moment) *cep.Alert {
	delete(m.following.open, o.key)
	m.following.changes.drop(o.key, o)
	m.counters.Alerts++ // also in a silence: what it ends went out
	return m.after(o, cep.AlertResolved, moment)
}

// after makes an alert that follows an open one and says what that said.
func (m *Maker) after(o *openAlert, kind cep.AlertKind, moment cep.Moment) *cep.Alert {
	a := *o.alert
	a.Kind, a.Time, a.Timed = kind, moment.Time, moment.Timed()
	a.Follows = o.alert.ID
	a.ID = followID(m.plan, o.key, kind, o.alert.ID, moment.Time)
	a.Suppressed = 0
	return &a
}

// Join lets a Maker of an older version of the rule, that still has matches to come, share what this one remembers: open
// alerts and counters, and spans of suppression if both suppress in the same way.
func (m *Maker) Join(older *Maker) {
	older.following, older.counters, older.joined = m.following, m.counters, true
	if m.plan.Suppress != nil && older.plan.Suppress != nil && m.plan.Suppress.equal(older.plan.Suppress) {
		older.spans, older.joinedSpans = m.spans, true
	}
}

// Continue is Adopt where the rule suppresses and follows its alerts as it did: then nothing has to be copied, and what
// [Maker.Changes] knows stays as it is. false: it does not, and nothing has happened. The Maker must not have made anything
// yet, and the other one must not be used any more.
func (m *Maker) Continue(old *Maker) bool {
	p, q := m.plan, old.plan
	same := (p.Suppress == nil) == (q.Suppress == nil) && (p.Suppress == nil || p.Suppress.equal(q.Suppress)) &&
		(p.Follow == nil) == (q.Follow == nil) && (p.Follow == nil || *p.Follow == *q.Follow)
	if !same || old.joined || old.joinedSpans {
		return false
	}
	m.spans, m.following, m.counters = old.spans, old.following, old.counters
	return true
}

// Adopt takes over what another Maker of the rule remembers: its counters, its spans of suppression if the rule suppresses
// as it did, and its open alerts. Those end, and are returned, if the rule no longer says when they do.
func (m *Maker) Adopt(old *Maker, now cep.Moment) []Out {
	m.counters = old.counters
	if m.plan.Suppress != nil && old.plan.Suppress != nil && m.plan.Suppress.equal(old.plan.Suppress) {
		m.spans = old.spans.copied()
	}
	f := m.following
	if f.by == nil {
		return old.EndAll(now, nil)
	}
	for key, before := range old.following.open {
		o := &openAlert{key: before.key, alert: before.alert, since: before.since, last: before.last, remind: before.remind}
		f.open[key] = o
		if old.plan.Follow.Repeat != f.by.Repeat { // the first one behind now
			o.remind = cep.AfterAll
			if d := f.by.Repeat; d > 0 {
				n := max(now.Time.Sub(o.since.Time), 0)/d + 1
				o.remind = o.since.Time.Add(n * d)
			}
		}
	}
	for _, o := range f.open {
		if f.by.Quiet > 0 {
			o.last = max(o.last, now.Time.Add(-f.by.Quiet)) // nothing ends before now
		}
	}
	f.queue()
	return nil
}

// queue puts what open alerts wait for into the queues, in order.
func (f *following) queue() {
	list := slices.Collect(maps.Values(f.open))
	slices.SortFunc(list, func(a, b *openAlert) int { return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.key, b.key)) })
	for _, o := range list {
		if f.by.Quiet > 0 {
			f.quiet.push(o.last.Add(f.by.Quiet), o)
		}
	}
	slices.SortFunc(list, func(a, b *openAlert) int { return cmp.Or(cmp.Compare(a.remind, b.remind), cmp.Compare(a.key, b.key)) })
	for _, o := range list {
		if o.remind != cep.AfterAll {
			f.remind.push(o.remind, o)
		}
	}
}
