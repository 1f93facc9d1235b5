package expression

import (
	"maps"
	"slices"

	"github.com/cepd/cepd/cep"
)

// planner gives the fields of a checked expression their slots, notes what the expression reads, and puts aggregates in
// the place of what can be kept up to date event by event. It runs once nothing is wrong any more, so that an expression
// with a mistake leaves no field in the schema.
type planner struct {
	place *Place
	out   *Expr
}

func (p *planner) node(n *node) {
	if n == nil {
		return
	}
	if p.aggregate(n) {
		return
	}
	for _, a := range n.args {
		p.node(a)
	}
	switch n.op {
	case opField:
		n.slot = p.place.Schema.Slot(n.names...)
		insert(&p.out.Slots, n.slot)
	case opTakenField:
		n.slot = p.place.Schema.Slot(n.names...)
		p.keep(n.args[0].origin, n.slot)
	case opTakens:
		n.slot = p.place.Schema.Slot()
		p.keep(n.args[0].origin, n.slot)
	case opPredicate:
		if list := n.args[0]; list.kind == takensKind && (n.name == "groupBy" || n.name == "reduce") {
			n.slot = p.place.Schema.Slot()
			p.keep(list.origin, n.slot)
		}
	case opStep:
		p.out.Unary = false
		insert(&p.out.Steps, n.index)
		// To find the event of a single step costs a walk over what was taken since, which is long behind a loop.
		if p.incremental() && slices.ContainsFunc(p.place.Steps, func(s Step) bool { return s.List }) {
			p.aggregateTaken(n, cep.AggregateLast, n.index)
		}
	case opSteps:
		p.out.Unary = false
		insert(&p.out.Steps, n.index)
	case opMatch, opDuration:
		p.out.Unary = false
		p.out.AllSteps = true
	case opPrev:
		p.out.Unary = false
		p.out.UsesPrev = true
	case opKey, opAlertField:
		p.out.Unary = false
	case opTakenStep:
		n.stepNames = p.place.stepNames()
	default:
	}
}

// keep notes that a field of the taken events of an origin is read.
func (p *planner) keep(o origin, slot int) {
	if o.prev {
		insert(&p.out.PrevSlots, slot)
	}
	steps := o.steps
	if o.all {
		steps = slices.Sorted(maps.Keys(p.place.stepNames()))
	}
	for _, s := range steps {
		if p.out.StepSlots == nil {
			p.out.StepSlots = map[int][]int{}
		}
		l := p.out.StepSlots[s]
		insert(&l, slot)
		p.out.StepSlots[s] = l
	}
}

// insert adds to a sorted set.
func insert(set *[]int, i int) {
	if at, found := slices.BinarySearch(*set, i); !found {
		*set = slices.Insert(*set, at, i)
	}
}

// incremental says that aggregates are kept up to date event by event. An alert is made once, so it walks over what was
// taken instead of making every candidate carry a sum.
func (p *planner) incremental() bool {
	return (p.place.Event || p.place.Having) && p.place.Aggregates != nil
}

// aggregate replaces a node that a rule's aggregates can answer:
//
//	len(fail)                    sum(fail, .x)  sum(map(fail, .x))     fail[0]
//	len(uniq(map(fail, .x)))     min(fail, .x)  max(map(fail, .x)) …   fail[-1]
func (p *planner) aggregate(n *node) bool {
	if !p.incremental() {
		return false
	}
	switch n.op {
	case opAt:
		if n.args[0].op != opSteps || n.args[1].op != opConst {
			return false
		}
		kind := cep.AggregateFirst
		switch n.args[1].value {
		case cep.Int(0):
		case cep.Int(-1):
			kind = cep.AggregateLast
		default:
			return false
		}
		p.aggregateTaken(n, kind, n.args[0].index)
		return true
	case opPredicate:
		kind, ok := foldKinds[n.name]
		return ok && p.overSteps(n, kind, n.args[0], n.args[1])
	case opCall:
		arg := n.args[0]
		if n.name == "len" {
			if arg.op == opSteps {
				p.replace(n, cep.Aggregate{Kind: cep.AggregateCount, Step: arg.index, Slot: -1})
				return true
			}
			if arg.op == opCall && arg.name == "uniq" && isMap(arg.args[0]) {
				return p.overSteps(n, cep.AggregateDistinct, arg.args[0].args[0], arg.args[0].args[1])
			}
			return false
		}
		kind, ok := foldKinds[n.name]
		return ok && len(n.args) == 1 && isMap(arg) && p.overSteps(n, kind, arg.args[0], arg.args[1])
	default:
		return false
	}
}

func isMap(n *node) bool { return n.op == opPredicate && n.name == "map" }

var foldKinds = map[string]cep.AggregateKind{
	"sum": cep.AggregateSum, "min": cep.AggregateMin, "max": cep.AggregateMax,
}

// overSteps makes the aggregate of one field of what a step took; anything more than a field is computed at each event.
func (p *planner) overSteps(n *node, kind cep.AggregateKind, list, body *node) bool {
	if list.op != opSteps || body.op != opTakenField || body.args[0].op != opPointer || len(body.names) == 0 {
		return false
	}
	slot := p.place.Schema.Slot(body.names...)
	p.keep(list.origin, slot)
	p.replace(n, cep.Aggregate{Kind: kind, Step: list.index, Slot: slot})
	return true
}

func (p *planner) replace(n *node, a cep.Aggregate) {
	written := *n
	p.out.Unary = false
	insert(&p.out.Steps, a.Step)
	*n = node{
		op: opAggregate, kind: n.kind, at: n.at, args: []*node{&written}, index: p.place.Aggregates.Add(a), aggregate: a.Kind,
	}
}

func (p *planner) aggregateTaken(n *node, kind cep.AggregateKind, step int) {
	written := *n
	p.out.Unary = false
	insert(&p.out.Steps, step)
	*n = node{
		op: opAggregateTaken, kind: takenKind, at: n.at, args: []*node{&written}, origin: n.origin,
		index: p.place.Aggregates.Add(cep.Aggregate{Kind: kind, Step: step, Slot: -1}),
	}
}
