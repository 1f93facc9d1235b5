package nfa

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/cepd/cepd/cep"
)

// queue holds the deadlines that one constant makes, over all keys. Each is the time of an event plus that constant, and
// is queued while that event is looked at, so they come in order and a heap is not needed.
//
// A deadline outlives its start where the start ends early; so that such entries do not add up, the queue is swept each
// time it has doubled.
type queue struct {
	gap         cep.Duration
	first, last *block
	count       int
	sweepAt     int // count at which the queue is swept
}

// due says that a deadline of the start is at hand.
type due struct {
	at    cep.Time
	start *start
}

// block is a piece of a queue. The first one is small, since most of many rules have few deadlines at a time; each next
// one has twice the entries, up to 4 KiB, so that a long queue has little slack.
type block struct {
	entries    []due
	head, tail int // entries[head:tail] are queued
	next       *block
}

const (
	blockMin = 8
	blockMax = 256
)

const sweepMin = 1024 // short queues are not worth sweeping

func (q *queue) push(d due) {
	if q.last == nil || q.last.tail == len(q.last.entries) {
		b := &block{}
		if q.last == nil {
			b.entries = make([]due, blockMin)
			q.first = b
		} else {
			b.entries = make([]due, min(2*len(q.last.entries), blockMax))
			q.last.next = b
		}
		q.last = b
	}
	b := q.last
	b.entries[b.tail] = d
	b.tail++
	q.count++
	if q.count > max(q.sweepAt, sweepMin) {
		q.sweep()
	}
}

// peek returns the earliest deadline of a start that is still open.
func (q *queue) peek() (due, bool) {
	for q.first != nil && q.first.head < q.first.tail {
		if d := q.first.entries[q.first.head]; d.start.open() {
			return d, true
		}
		q.pop()
	}
	return due{}, false
}

func (q *queue) pop() {
	b := q.first
	b.entries[b.head] = due{}
	b.head++
	q.count--
	if b.head < b.tail {
		return
	}
	if b.next != nil {
		q.first = b.next
	} else {
		b.head, b.tail = 0, 0
	}
}

// reset empties the queue. A small block stays, so that a rule with one start at a time need not make one each time.
func (q *queue) reset() {
	b := q.first
	q.first, q.last, q.count, q.sweepAt = nil, nil, 0, 0
	if b != nil && len(b.entries) == blockMin {
		clear(b.entries)
		*b = block{entries: b.entries}
		q.first, q.last = b, b
	}
}

// newest reports whether d is the deadline that was pushed last.
func (q *queue) newest(d due) bool {
	return q.last != nil && q.last.tail > q.last.head && q.last.entries[q.last.tail-1] == d
}

// sweep drops the deadlines of starts that have ended.
func (q *queue) sweep() {
	old := q.first
	q.first, q.last, q.count = nil, nil, 0
	q.sweepAt = int(^uint(0) >> 1) // not while it fills
	for b := old; b != nil; b = b.next {
		for _, d := range b.entries[b.head:b.tail] {
			if d.start.open() {
				q.push(d)
			}
		}
	}
	q.sweepAt = 2 * q.count
}

// sortDues sorts by time. Long lists are sorted digit by digit (Knuth, TAOCP 5.2.5, algorithm R): a million deadlines of a
// machine that is restored take a third of the time of a sort by comparisons.
func sortDues(list []due) {
	const bits, short = 11, 4096 // 2,048 counters stay in the first cache
	if len(list) < short {
		slices.SortFunc(list, func(a, b due) int { return cmp.Compare(a.at, b.at) })
		return
	}
	first, last := list[0].at, list[0].at
	for _, d := range list {
		first, last = min(first, d.at), max(last, d.at)
	}
	from, to := list, make([]due, len(list))
	for shift := 0; shift < 64 && uint64(last-first)>>shift > 0; shift += bits {
		digit := func(d *due) uint64 { return uint64(d.at-first) >> shift & (1<<bits - 1) }
		var begin [1<<bits + 1]int
		for i := range from {
			begin[digit(&from[i])+1]++
		}
		for i := 1; i < len(begin); i++ {
			begin[i] += begin[i-1]
		}
		for i := range from {
			at := &begin[digit(&from[i])]
			to[*at] = from[i]
			*at++
		}
		from, to = to, from
	}
	copy(list, from)
}

// dueHeap holds deadlines that are not queued while the event that they count from is looked at.
type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }

func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = due{}
	*h = (*h)[:len(*h)-1]
	return last
}

// peek returns the earliest deadline of a start that is still open.
func (h *dueHeap) peek() (due, bool) {
	for len(*h) > 0 {
		if d := (*h)[0]; d.start.open() {
			return d, true
		}
		heap.Pop(h)
	}
	return due{}, false
}
