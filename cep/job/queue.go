package job

import "github.com/cepd/cepd/cep"

// queue holds the inputs of a stream that have something to take, those with the lowest clock first: reading these lets time
// move on, and reading others only fills the order buffer. It is a heap over clocks that do not change while an input stands
// in it.
type queue struct{ list []queued }

type queued struct {
	clock cep.Time
	input *input
}

func (q *queue) least() *queued {
	if len(q.list) == 0 {
		return nil
	}
	return &q.list[0]
}

func (q *queue) before(i, j int) bool {
	a, b := &q.list[i], &q.list[j]
	if a.clock != b.clock {
		return a.clock < b.clock
	}
	return a.input.id.Name < b.input.id.Name
}

func (q *queue) push(clock cep.Time, in *input) {
	q.list = append(q.list, queued{clock, in})
	for i := len(q.list) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.before(i, up) {
			break
		}
		q.list[i], q.list[up] = q.list[up], q.list[i]
		i = up
	}
}

// remove takes out the least.
func (q *queue) remove() *input {
	in := q.list[0].input
	n := len(q.list) - 1
	q.list[0] = q.list[n]
	q.list[n] = queued{}
	q.list = q.list[:n]
	for i := 0; ; {
		low := 2*i + 1
		if low >= n {
			return in
		}
		if low+1 < n && q.before(low+1, low) {
			low++
		}
		if !q.before(low, i) {
			return in
		}
		q.list[i], q.list[low] = q.list[low], q.list[i]
		i = low
	}
}
