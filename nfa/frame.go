package nfa

// frame is what a run of a program that is not flat carries besides. It is immutable, and nil where all of it is zero.
type frame struct {
	bars   uint64 // greedy loops left behind that still claim events
	groups []groupState
	// Inside a loop with distinct or having: how many events this pass has taken, and the values that distinct has met.
	count  int32
	values *set
}

// newFrame makes the frame that the registers say.
func newFrame(p *form, r *registers) *frame {
	groups := r.groups[:len(p.wholes)]
	if r.bars == 0 && !busy(groups) {
		return nil
	}
	return &frame{bars: r.bars, groups: append([]groupState(nil), groups...)}
}

func busy(groups []groupState) bool {
	for _, g := range groups {
		if g != (groupState{}) {
			return true
		}
	}
	return false
}

// registers are those with which a walk begins behind element e, which has taken an event: no bars, and a repetition of
// each composite around it that is not empty.
func (f *frame) registers(e *element) registers {
	var r registers
	if f != nil {
		copy(r.groups[:], f.groups)
	}
	for _, w := range e.inside {
		r.groups[w.index].took = true
	}
	return r
}

// group is where a run is in a composite.
func (f *frame) group(e *element) groupState {
	if f == nil {
		return groupState{}
	}
	return f.groups[e.index]
}

func (f *frame) barred() uint64 {
	if f == nil {
		return 0
	}
	return f.bars
}

// unbarred is the frame without some bars.
func (f *frame) unbarred(bars uint64) *frame {
	g := *f
	g.bars &^= bars
	if g.bars == 0 && g.count == 0 && !busy(g.groups) {
		return nil
	}
	return &g
}

// inLoop is the frame of a run inside a loop with distinct or having.
func (f *frame) inLoop(p *form, count int32, values *set) *frame {
	g := frame{}
	if f != nil {
		g = *f
	} else {
		g.groups = make([]groupState, len(p.wholes))
	}
	g.count, g.values = count, values
	return &g
}

// runKey is a run as a value: equal keys are the same way on. The values of distinct follow from node and count.
type runKey struct {
	node   *node
	absent uint64
	bars   uint64
	pc     int16
	link   Link
	can    bool
	n      int32
	count  int32
	groups [maxWholes]groupState
}

func (t *run) key() runKey {
	k := runKey{node: t.node, absent: t.absent, pc: t.pc, link: t.link, can: t.can, n: t.n}
	if t.frame != nil {
		k.bars, k.count = t.frame.bars, t.frame.count
		copy(k.groups[:], t.frame.groups)
	}
	return k
}
