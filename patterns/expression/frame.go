package expression

import (
	"sync"

	"github.com/cepd/cepd/cep"
)

// frame is what an evaluation with predicates, variables or lists of taken events works in. Expressions without them
// need none, and get a nil one.
type frame struct {
	elements  [maxPredicates]element
	variables []cep.Value
	// takens and values are stacks that lists are built on, so that no evaluation allocates them.
	takens []cep.Taken
	values []cep.Value
	// work counts the elements visited so far.
	work int
}

// element is where a predicate stands: an event or a value, its position, and what reduce has so far.
type element struct {
	taken       cep.Taken
	value       cep.Value
	accumulator cep.Value
	index       int
}

// maxKept is the number of entries that a frame keeps room for when it is put back.
const maxKept = 1 << 14

var frames = sync.Pool{New: func() any { return newFrame() }}

func newFrame() *frame { return &frame{} }

// release empties the frame, so that it holds on to no event, and puts it back.
func (f *frame) release() {
	clear(f.takens)
	clear(f.values)
	clear(f.variables)
	f.takens, f.values, f.variables = f.takens[:0], f.values[:0], f.variables[:0]
	f.elements = [maxPredicates]element{}
	f.work = 0
	if cap(f.takens) <= maxKept && cap(f.values) <= maxKept {
		frames.Put(f)
	}
}

// spend counts n elements as visited.
func (f *frame) spend(n int) error {
	if f.work += n; f.work > maxWork {
		return errWork
	}
	return nil
}

// pop gives the stack of taken events back down to a mark.
func (f *frame) pop(mark int) {
	clear(f.takens[mark:])
	f.takens = f.takens[:mark]
}

// weigh counts what a list or object holds, all the way down, as work: lists that share their elements take no room
// while they are made, and much where they are compared or written out.
func (f *frame) weigh(v cep.Value) error {
	f.work++
	switch v.Kind() {
	case cep.KindList:
		for _, e := range v.AsList() {
			if err := f.weigh(e); err != nil {
				return err
			}
		}
	case cep.KindObject:
		for _, m := range v.AsObject() {
			if err := f.weigh(m.Value); err != nil {
				return err
			}
		}
	default:
	}
	if f.work > maxWork {
		return errWork
	}
	return nil
}
