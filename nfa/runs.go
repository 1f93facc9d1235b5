package nfa

import "github.com/cepd/cepd/cep"

// run is one way in which a start may go on. It rests on a take, waiting for an event, or on done, waiting for absences.
// Two runs of a start are never equal.
type run struct {
	node *node // the last event taken
	// absent are the absences that are pending. Inside a loop (n > 1), where none is pending yet, it is the absences behind
	// the loop that an event has broken since the loop's first event: they close the ways out that lead past them (S4.1).
	absent uint64
	pc     int16
	link   Link
	can    bool  // inside a loop: after the last event the loop could have been left
	n      int32 // which event of a loop is waited for, from 1; without an upper bound it stops where nothing depends on it
	frame  *frame
}

// start is everything that begins with one first event. It is open while it has runs. 80 bytes, a size class: its one run
// is inside it in the common case.
type start struct {
	owner *Runs  // nil: ended
	first *node  // the first event
	next  *start // in order of first events
	many  *[]run // the runs, unless there is one at most
	lone  [1]run // the one there is, if alone
	alone bool
	state startState
}

type startState uint8

const (
	startFull      startState = 1 << iota // a candidate had all its steps: no timeout (S5.7)
	startCompleted                        // a candidate completed
	startPruned                           // after_match took it, or a limit, or a newer candidate
	startAwaited                          // it began without an event (S4.4)
	startParked                           // it is not followed, see lead.go
)

func (s *start) open() bool { return s.owner != nil }

func (s *start) runs() []run {
	switch {
	case s.many != nil:
		return *s.many
	case s.alone:
		return s.lone[:]
	}
	return nil
}

func (s *start) waits() bool { return s.alone || s.many != nil || s.state&startParked != 0 }

// setRuns makes the first n of its runs and the fresh ones the runs of s.
func (s *start) setRuns(n int, fresh []run) {
	old := s.runs()
	if n+len(fresh) <= 1 {
		one := run{}
		switch {
		case n > 0:
			one = old[0]
		case len(fresh) > 0:
			one = fresh[0]
		}
		s.many, s.lone[0], s.alone = nil, one, n+len(fresh) == 1
		return
	}
	var runs []run
	if s.many != nil {
		runs = append(old[:n], fresh...)
		clear(old[min(len(runs), len(old)):]) // no node is held by what is gone
	} else {
		runs = append(append(make([]run, 0, n+len(fresh)), old[:n]...), fresh...)
		s.lone[0], s.alone = run{}, false
	}
	if s.many == nil {
		s.many = &runs
	} else {
		*s.many = runs
	}
}

// Runs is the state of one key: its open starts, the matches that wait, and what it remembers. A key without any of these
// is not kept (S9). 64 bytes with a key, a size class.
type Runs struct {
	key          string
	hash         uint32 // with two marks, see record.go
	count        int32  // open starts
	last         uint64 // Seq of the newest event of the key's stream; only while something is open or remembered
	oldest, tail *start
	// hears has the bits of all elements for which some run listens: an event that none of them hears passes the key by.
	// It may have bits too many.
	hears uint64
	rare  *rare
}

// rare is what few keys have.
type rare struct {
	held     []completion // emit: ordered; in the order in which they go out
	memories []*memory    // by Program.memories; nil: nothing is remembered
	log      []logged     // what parked starts may need, in order
}

func (r *Runs) empty() bool { return r.oldest == nil && r.rare == nil }

func (r *Runs) extra() *rare {
	if r.rare == nil {
		r.rare = &rare{}
	}
	return r.rare
}

// settleRare forgets rare where nothing is in it.
func (r *Runs) settleRare() {
	if r.rare == nil || len(r.rare.held) > 0 || len(r.rare.log) > 0 {
		return
	}
	for _, m := range r.rare.memories {
		if m != nil {
			return
		}
	}
	r.rare = nil
}

func (r *Runs) push(s *start) {
	r.count++
	if s.state&startAwaited != 0 { // it lies before all events
		s.next = r.oldest
		r.oldest = s
		if r.tail == nil {
			r.tail = s
		}
		return
	}
	if r.tail == nil {
		r.oldest = s
	} else {
		r.tail.next = s
	}
	r.tail = s
}

// completion is a candidate that is complete.
type completion struct {
	start *start // nil once it is held
	first uint64 // Seq of its first event
	at    cep.Moment
	node  *node
}

// memory is what a key remembers of its stream for one purpose. Memories of one kind are linked in the order of their newest
// event, over all keys, so that they age out by time alone.
type memory struct {
	owner        *Runs
	kind         int
	older, newer *memory
	time         cep.Time // of the newest event
	event        *node    // prev
	held         bool     // edge: the condition held for the newest event
	// past are the events that an absence at the start, or an edge, must look at again, because its condition reads more
	// than the event.
	past []pastEvent
	met  *met // first_seen
}

// pastEvent is an event with the one before it, as far as conditions read it.
type pastEvent struct{ event, prev *node }

// memoryKind is a purpose of memories.
type memoryKind struct {
	reach   cep.Duration // how long an event counts; Forever: always
	element *element     // the absence at the start, the step with first_seen, the edge; nil: prev
}

// memories is the list of all memories of one kind.
type memories struct{ oldest, newest *memory }

func (l *memories) remove(m *memory) {
	if m.older == nil {
		l.oldest = m.newer
	} else {
		m.older.newer = m.newer
	}
	if m.newer == nil {
		l.newest = m.older
	} else {
		m.newer.older = m.older
	}
	m.older, m.newer = nil, nil
}

func (l *memories) push(m *memory) {
	m.older = l.newest
	if l.newest == nil {
		l.oldest = m
	} else {
		l.newest.newer = m
	}
	l.newest = m
}

// spareMax and spareMin bound what is kept to be used again: in the steady state one start ends where one begins, so no
// more is kept than is in use, and after a burst the memory goes back.
const (
	spareMax = 1024
	spareMin = 8
)

// spared keeps x to be used again, while inUse are in use.
func spared[T any](list []*T, x *T, inUse int) []*T {
	most := max(spareMin, min(inUse, spareMax))
	if len(list) < most {
		return append(list, x)
	}
	clear(list[most:])
	return list[:most]
}

func (m *Machine) newRuns(key string, hash uint32) *Runs {
	n := len(m.spareRuns) - 1
	if n < 0 {
		return &Runs{key: key, hash: hash}
	}
	r := m.spareRuns[n]
	m.spareRuns = m.spareRuns[:n]
	r.key, r.hash = key, hash|r.hash
	return r
}

func (m *Machine) freeRuns(r *Runs) {
	*r = Runs{hash: r.hash & listed} // it stands in the list, whatever it is used for next
	m.spareRuns = spared(m.spareRuns, r, m.keys.count)
}

// newStart makes a start of the present key. A start that is used again may still have deadlines queued from its former
// life: firing one does nothing, because a deadline is judged by the runs that are there.
func (m *Machine) newStart() *start {
	s := &start{}
	if n := len(m.spare) - 1; n >= 0 {
		s = m.spare[n]
		m.spare = m.spare[:n]
	}
	s.owner = m.runs
	return s
}

func (m *Machine) freeStart(s *start) {
	*s = start{}
	m.spare = spared(m.spare, s, int(m.open))
}
