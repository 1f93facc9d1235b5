package nfa

import "github.com/cepd/cepd/cep"

// scratch is the space in which machines work on one event, or one moment of one key. Those that share a [Memo] share it: it
// stays in the nearest cache however many rules there are. Between two calls nothing of it counts, but what is known about
// the present event.
type scratch struct {
	owner *Machine // the machine that has worked here last
	busy  bool     // it has not left: it panicked, and what stands here is broken

	event     *cep.Event
	runs      *Runs
	isNext    uint64 // Seq of the event before in the key's stream
	holds     uint64 // names whose unary condition is known to hold
	heard     uint64 // elements that may take the event, or be broken by it
	seq       uint64 // known and truth are the owner's, about the event with this Seq
	known     uint64 // elements whose unary condition was asked
	truth     uint64 // those for which it holds
	admits    uint64 // elements with an edge for which the event exists
	met       uint64 // elements with first_seen that could take the event but for this word,
	kept      uint64 // which of keeps are made
	closing   int    // how many starts of the key are no longer open: at least all, some may be counted twice
	replaying bool   // a start is brought up to date: its deadlines are queued at the end
	narrowed  bool   // some runs of the present start may have become equal
	scope     cep.Scope
	fresh     []run
	done      []completion
	expired   []expiry
	ended     []*start
	dues      []due
	values    []cep.Value // by name: what distinct counts
	keeps     []*kept     // by name: what is kept of the event
	tuples    []string    // by element: the values that met is about
	tally     []int32     // by name
	view      history
	looked    cep.Event // the event that a condition looks back at
	// For programs in which the same assignment may be reached in two ways: the nodes made for the event, the runs of the
	// present start, the nodes that have completed in the moment.
	cons  map[consKey]*node
	same  map[runKey]struct{}
	ready map[*node]struct{}
}

// consKey is an assignment made by the present event.
type consKey struct {
	up      *node
	element int
}

// expiry is where a run was when its window ended.
type expiry struct {
	start *start
	node  *node
}

// fit makes room for a program.
func (s *scratch) fit(p *form) {
	s.values, s.keeps, s.tally = atLeast(s.values, len(p.layouts)), atLeast(s.keeps, len(p.layouts)), atLeast(s.tally, len(p.layouts))
	s.tuples = atLeast(s.tuples, len(p.elements))
	if p.repeats && s.cons == nil {
		s.cons, s.same, s.ready = map[consKey]*node{}, map[runKey]struct{}{}, map[*node]struct{}{}
	}
}

func atLeast[T any](list []T, n int) []T {
	if len(list) >= n {
		return list
	}
	return make([]T, n)
}

// empty forgets what is known about the present event.
func (s *scratch) empty() {
	s.cons, s.same, s.ready = cleared(s.cons), cleared(s.same), cleared(s.ready)
}

// cleared returns the map without its entries. One that became large is left to the collector: clearing it would take as long
// each time, for whatever event, as the most that ever stood in it.
func cleared[K comparable, V any](m map[K]V) map[K]V {
	const large = 4096
	if len(m) > large {
		return map[K]V{}
	}
	clear(m)
	return m
}

// enter makes the space that of a machine. What another one left behind when it panicked goes.
func (s *scratch) enter(m *Machine) {
	if s.busy {
		left := *s
		*s = scratch{values: left.values, keeps: left.keeps, tally: left.tally, tuples: left.tuples, cons: left.cons, same: left.same, ready: left.ready}
		s.empty()
	}
	if s.owner != m {
		s.owner, s.seq, s.view.form = m, 0, m.form
	}
	s.busy = true
}

// exit says that the machine has done its work.
func (s *scratch) exit() { s.busy = false }
