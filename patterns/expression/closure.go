package expression

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/cep"
)

// A node becomes one of four kinds of closure, by its kind. The frame is nil in expressions that need none.
type (
	valueFunc     func(*cep.Scope, *frame) (cep.Value, error)
	conditionFunc func(*cep.Scope, *frame) (bool, error)
	takenFunc     func(*cep.Scope, *frame) (cep.Taken, error)
	takensFunc    func(*cep.Scope, *frame) ([]cep.Taken, error)
)

// evaluator makes the functions of an Expr.
func (x *Expr) evaluator(n *node) {
	value, condition := compileValue(n), compileCondition(n)
	if !n.framed() {
		x.Test = func(s *cep.Scope) (bool, error) { return condition(s, nil) }
		x.Eval = func(s *cep.Scope) (cep.Value, error) { return value(s, nil) }
		return
	}
	x.Test = func(s *cep.Scope) (bool, error) {
		f := frames.Get().(*frame)
		ok, err := condition(s, f)
		f.release()
		return ok, err
	}
	x.Eval = func(s *cep.Scope) (cep.Value, error) {
		f := frames.Get().(*frame)
		v, err := value(s, f)
		f.release()
		return v, err
	}
}

// framed says that the evaluation needs a frame.
func (n *node) framed() bool {
	framed := false
	n.walk(func(m *node) bool {
		switch m.op {
		case opPredicate, opLet, opTakens, opArray, opObject:
			framed = true
		case opSlice, opAt:
			framed = framed || m.args[0].kind == takensKind
		case opCall:
			framed = framed || m.function.many != nil
		default:
		}
		return !framed
	})
	return framed
}

func compileValue(n *node) valueFunc {
	switch n.op {
	case opConst:
		v := n.value
		return func(*cep.Scope, *frame) (cep.Value, error) { return v, nil }
	case opField:
		slot := n.slot
		return func(s *cep.Scope, _ *frame) (cep.Value, error) { return s.Event.Value(slot), nil }
	case opTakenField:
		return compileTakenField(n)
	case opTakenStep:
		item, names := compileTaken(n.args[0]), map[int]cep.Value{}
		for i, name := range n.stepNames {
			names[i] = cep.String(name)
		}
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			t, err := item(s, f)
			if t == nil || err != nil {
				return cep.Value{}, err
			}
			return names[t.Step()], nil
		}
	case opTakens:
		return compileTakensValue(n)
	case opIndex:
		return compileIndex(n)
	case opSlice:
		return compileSlice(n)
	case opDuration:
		return durationOfMatch
	case opKey:
		return compileKey(n)
	case opAlertField:
		i := n.index
		return func(s *cep.Scope, _ *frame) (cep.Value, error) {
			if i >= len(s.Fields) {
				return cep.Value{}, nil
			}
			return s.Fields[i], nil
		}
	case opNegate:
		v, fail := compileValue(n.args[0]), evaluationErrors(n)
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			a, err := v(s, f)
			if err != nil {
				return cep.Value{}, err
			}
			if a, err = negate(a); err != nil {
				return cep.Value{}, fail(err)
			}
			return a, nil
		}
	case opArithmetic:
		a, b, calculate, fail := compileValue(n.args[0]), compileValue(n.args[1]), calculators[n.name], evaluationErrors(n)
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			x, err := a(s, f)
			if err != nil {
				return cep.Value{}, err
			}
			y, err := b(s, f)
			if err != nil {
				return cep.Value{}, err
			}
			v, err := calculate(x, y)
			if err != nil {
				return cep.Value{}, fail(err)
			}
			return v, nil
		}
	case opRange:
		return compileRange(n)
	case opCoalesce:
		a, b := compileValue(n.args[0]), compileValue(n.args[1])
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			if v, err := a(s, f); err != nil || !v.IsMissing() {
				return v, err
			}
			return b(s, f)
		}
	case opChoice:
		c, a, b := compileCondition(n.args[0]), compileValue(n.args[1]), compileValue(n.args[2])
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			ok, err := c(s, f)
			switch {
			case err != nil:
				return cep.Value{}, err
			case ok:
				return a(s, f)
			}
			return b(s, f)
		}
	case opArray:
		elements := compileValues(n.args)
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			l := make([]cep.Value, len(elements))
			for i, e := range elements {
				v, err := e(s, f)
				if err != nil {
					return cep.Value{}, err
				}
				l[i] = v
			}
			return cep.List(l), f.weigh(cep.List(l))
		}
	case opObject:
		elements, names := compileValues(n.args), n.names
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			m := make([]cep.Member, len(elements))
			for i, e := range elements {
				v, err := e(s, f)
				if err != nil {
					return cep.Value{}, err
				}
				m[i] = cep.Member{Name: names[i], Value: v}
			}
			return cep.Object(m), f.weigh(cep.Object(m))
		}
	case opCall:
		return compileCall(n)
	case opPredicate:
		return compilePredicate(n)
	case opPointer:
		i := n.index
		return func(_ *cep.Scope, f *frame) (cep.Value, error) { return f.elements[i].value, nil }
	case opPosition:
		i := n.index
		return func(_ *cep.Scope, f *frame) (cep.Value, error) { return cep.Int(int64(f.elements[i].index)), nil }
	case opAccumulator:
		i := n.index
		return func(_ *cep.Scope, f *frame) (cep.Value, error) { return f.elements[i].accumulator, nil }
	case opLet:
		v, body, i := compileValue(n.args[0]), compileValue(n.args[1]), n.index
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			a, err := v(s, f)
			if err != nil {
				return cep.Value{}, err
			}
			// A binding inside a predicate is made anew for each element, at its own place.
			for len(f.variables) <= i {
				f.variables = append(f.variables, cep.Value{})
			}
			f.variables[i] = a
			return body(s, f)
		}
	case opVariable:
		i := n.index
		return func(_ *cep.Scope, f *frame) (cep.Value, error) { return f.variables[i], nil }
	case opAggregate:
		i, kind := n.index, n.aggregate
		return func(s *cep.Scope, _ *frame) (cep.Value, error) {
			if s.History == nil {
				return emptyAggregate(kind), nil
			}
			return s.History.Aggregate(i)
		}
	case opNot, opAnd, opOr, opCompare, opIn, opText:
		c := compileCondition(n)
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			ok, err := c(s, f)
			return cep.Bool(ok), err
		}
	default:
		// Events and tables become values or arguments before they come here, and what is wrong is never compiled.
		return func(*cep.Scope, *frame) (cep.Value, error) {
			return cep.Value{}, fmt.Errorf("%s is no value", n)
		}
	}
}

func compileValues(nodes []*node) []valueFunc {
	fs := make([]valueFunc, len(nodes))
	for i, n := range nodes {
		fs[i] = compileValue(n)
	}
	return fs
}

// evaluationErrors gives the errors of a calculation, with the text of it. They are made once: a rule that errs on every
// event must not become slow.
func evaluationErrors(n *node) func(error) error {
	texts := map[error]error{}
	for _, e := range []error{errMissingOperand, errOperands, errZero, errOverflow, errStringSize} {
		texts[e] = fmt.Errorf("%s: %w", n, e)
	}
	return func(err error) error {
		if e, ok := texts[err]; ok {
			return e
		}
		return err
	}
}

// emptyAggregate is the value of an aggregate before anything was taken.
func emptyAggregate(k cep.AggregateKind) cep.Value {
	switch k {
	case cep.AggregateCount, cep.AggregateSum, cep.AggregateDistinct:
		return cep.Int(0)
	default:
		return cep.Value{}
	}
}

func compileTakenField(n *node) valueFunc {
	item, slot := compileTaken(n.args[0]), n.slot
	if n.args[0].op == opPointer {
		i := n.args[0].index
		return func(_ *cep.Scope, f *frame) (cep.Value, error) { return f.elements[i].taken.Value(slot), nil }
	}
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		t, err := item(s, f)
		if t == nil || err != nil {
			return cep.Value{}, err
		}
		return t.Value(slot), nil
	}
}

// compileTakensValue makes a list of objects of taken events.
func compileTakensValue(n *node) valueFunc {
	list, slot := compileTakens(n.args[0]), n.slot
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		mark := len(f.takens)
		l, err := list(s, f)
		if err != nil {
			return cep.Value{}, err
		}
		out := make([]cep.Value, len(l))
		for i, t := range l {
			out[i] = t.Value(slot)
		}
		f.pop(mark)
		return cep.List(out), nil
	}
}

func compileIndex(n *node) valueFunc {
	object, property := compileValue(n.args[0]), compileValue(n.args[1])
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		o, err := object(s, f)
		if err != nil || o.IsMissing() {
			return cep.Value{}, err
		}
		p, err := property(s, f)
		if err != nil || p.IsMissing() {
			return cep.Value{}, err
		}
		return memberOf(o, p)
	}
}

// memberOf gives a member of an object by its name or an element of a list by its position, from the end where it is
// negative; missing where there is none.
func memberOf(o, p cep.Value) (cep.Value, error) {
	switch {
	case o.Kind() == cep.KindObject && p.Kind() == cep.KindString:
		return o.Member(p.AsString()), nil
	case o.Kind() == cep.KindList && p.IsNumber():
		i, err := wholeNumber("a position", p)
		if err != nil {
			return cep.Value{}, err
		}
		l := o.AsList()
		if i < 0 {
			i += len(l)
		}
		if i < 0 || i >= len(l) {
			return cep.Value{}, nil
		}
		return l[i], nil
	case p.Kind() == cep.KindString:
		// A field that is an object in some events and a text in others has no members in the others.
		return cep.Value{}, nil
	}
	return cep.Value{}, fmt.Errorf("%s has no element %s", kindOf(o), p)
}

// cut brings positions inside of a list's length, as expr does.
func cut(from, to, length int) (int, int) {
	if from < 0 {
		from = max(from+length, 0)
	}
	if to < 0 {
		to = max(to+length, 0)
	}
	to = min(to, length)
	return min(from, to), to
}

// compileBounds evaluates the positions of a slice; ok is false where one of them is missing.
func compileBounds(n *node) func(s *cep.Scope, f *frame) (from, to int, ok bool, err error) {
	var ends [2]valueFunc
	for i := range ends {
		if b := n.args[i+1]; b != nil {
			ends[i] = compileValue(b)
		}
	}
	return func(s *cep.Scope, f *frame) (int, int, bool, error) {
		at := [2]int{0, math.MaxInt32}
		for i, e := range ends {
			if e == nil {
				continue
			}
			v, err := e(s, f)
			if err != nil || v.IsMissing() {
				return 0, 0, false, err
			}
			if at[i], err = wholeNumber("a position", v); err != nil {
				return 0, 0, false, err
			}
		}
		return at[0], at[1], true, nil
	}
}

func compileSlice(n *node) valueFunc {
	list, ends := compileValue(n.args[0]), compileBounds(n)
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		v, err := list(s, f)
		if err != nil || v.IsMissing() {
			return cep.Value{}, err
		}
		from, to, ok, err := ends(s, f)
		if !ok || err != nil {
			return cep.Value{}, err
		}
		switch v.Kind() {
		case cep.KindList:
			l := v.AsList()
			from, to = cut(from, to, len(l))
			return cep.List(l[from:to]), nil
		case cep.KindString:
			r := []rune(v.AsString())
			from, to = cut(from, to, len(r))
			return cep.String(string(r[from:to])), nil
		default:
			return cep.Value{}, wrongType("a part", v)
		}
	}
}

// durationOfMatch is the time from the first to the last event taken; missing before there are any.
func durationOfMatch(s *cep.Scope, _ *frame) (cep.Value, error) {
	if s.History == nil || s.History.Total() == 0 {
		return cep.Value{}, nil
	}
	last := s.History.Nth(s.History.Total() - 1).Time()
	return cep.DurationValue(last.Sub(s.History.Nth(0).Time())), nil
}

func compileKey(n *node) valueFunc {
	i := n.index
	return func(s *cep.Scope, _ *frame) (cep.Value, error) {
		parts, err := s.Key.Parts()
		if err != nil || i >= len(parts) {
			return cep.Value{}, err
		}
		return parts[i], nil
	}
}

func compileRange(n *node) valueFunc {
	a, b, fail := compileValue(n.args[0]), compileValue(n.args[1]), evaluationErrors(n)
	return func(s *cep.Scope, f *frame) (cep.Value, error) {
		from, err := a(s, f)
		if err != nil {
			return cep.Value{}, err
		}
		to, err := b(s, f)
		if err != nil {
			return cep.Value{}, err
		}
		if from.IsMissing() || to.IsMissing() {
			return cep.Value{}, fail(errMissingOperand)
		}
		if from.Kind() != cep.KindInt || to.Kind() != cep.KindInt {
			return cep.Value{}, fail(errOperands)
		}
		x, y := from.AsInt(), to.AsInt()
		if y < x {
			return cep.List(nil), nil
		}
		if size := uint64(y) - uint64(x); size >= maxRange {
			return cep.Value{}, errRange
		}
		l := make([]cep.Value, 0, y-x+1)
		for i := range y - x + 1 {
			l = append(l, cep.Int(x+i))
		}
		return cep.List(l), nil
	}
}

// compileCall makes the call of a function. A missing argument makes the result missing; a test of one is false.
func compileCall(n *node) valueFunc {
	f := n.function
	switch f.name {
	case "ts":
		return compileTime(n)
	case "minute", "hour", "day", "weekday":
		t, zone, name := compileValue(n.args[0]), n.text.(*time.Location), f.name
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			v, err := t(s, f)
			if err != nil || v.IsMissing() {
				return cep.Value{}, err
			}
			return cep.Int(calendarPart(name, v.AsTime(), zone)), nil
		}
	case "len":
		if n.args[0].kind == takensKind {
			return compileLen(n.args[0])
		}
	case "lookup":
		m, key := n.args[0].mapping, compileValue(n.args[1])
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			v, err := key(s, f)
			if err != nil {
				return cep.Value{}, err
			}
			return m.Get(v), nil
		}
	case "cidr", "like":
		c := compileCondition(n)
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			ok, err := c(s, f)
			return cep.Bool(ok), err
		}
	}
	missing := cep.Value{}
	if f.result == boolKind {
		missing = cep.Bool(false)
	}
	switch {
	case f.one != nil:
		a, call := compileValue(n.args[0]), f.one
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			x, err := a(s, f)
			if err != nil || x.IsMissing() {
				return missing, err
			}
			return call(x)
		}
	case f.two != nil:
		a, b, call := compileValue(n.args[0]), compileValue(n.args[1]), f.two
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			x, err := a(s, f)
			if err != nil || x.IsMissing() {
				return missing, err
			}
			y, err := b(s, f)
			if err != nil || y.IsMissing() {
				return missing, err
			}
			return call(x, y)
		}
	default:
		args, call := compileValues(n.args), f.many
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			at := len(f.values)
			for _, a := range args {
				v, err := a(s, f)
				if err != nil || v.IsMissing() {
					f.values = f.values[:at]
					return missing, err
				}
				f.values = append(f.values, v)
			}
			v, err := call(f.values[at:])
			f.values = f.values[:at]
			if err == nil {
				err = f.weigh(v)
			}
			return v, err
		}
	}
}

func compileTime(n *node) valueFunc {
	switch a := n.args[0]; a.kind {
	case eventKind:
		return func(s *cep.Scope, _ *frame) (cep.Value, error) { return cep.TimeValue(s.Event.Time), nil }
	case takenKind:
		item := compileTaken(a)
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			t, err := item(s, f)
			if t == nil || err != nil {
				return cep.Value{}, err
			}
			return cep.TimeValue(t.Time()), nil
		}
	default:
		value := compileValue(a)
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			v, err := value(s, f)
			if err != nil || v.IsMissing() {
				return cep.Value{}, err
			}
			return timeOfValue(v)
		}
	}
}

// compileLen counts taken events without looking at them where it can.
func compileLen(list *node) valueFunc {
	switch list.op {
	case opSteps:
		step := list.index
		return func(s *cep.Scope, _ *frame) (cep.Value, error) {
			if s.History == nil {
				return cep.Int(0), nil
			}
			return cep.Int(int64(s.History.Len(step))), nil
		}
	case opMatch:
		return func(s *cep.Scope, _ *frame) (cep.Value, error) {
			if s.History == nil {
				return cep.Int(0), nil
			}
			return cep.Int(int64(s.History.Total())), nil
		}
	default:
		takens := compileTakens(list)
		return func(s *cep.Scope, f *frame) (cep.Value, error) {
			mark := len(f.takens)
			l, err := takens(s, f)
			f.pop(mark)
			return cep.Int(int64(len(l))), err
		}
	}
}

// compileMatches tests a regular expression that is not constant. The last one is kept compiled; an expression belongs
// to no goroutine, so it is kept in an atomic pointer.
func compileMatches(n *node) conditionFunc {
	a, b := compileValue(n.args[0]), compileValue(n.args[1])
	var last atomic.Pointer[regexp.Regexp]
	return func(s *cep.Scope, f *frame) (bool, error) {
		x, err := a(s, f)
		if err != nil {
			return false, err
		}
		y, err := b(s, f)
		if err != nil || x.Kind() != cep.KindString || y.Kind() != cep.KindString {
			return false, err
		}
		re := last.Load()
		if re == nil || re.String() != y.AsString() {
			if len(y.AsString()) > maxPattern {
				return false, fmt.Errorf("a regular expression of more than %d bytes", maxPattern)
			}
			// The text of an event is valid only as long as the event.
			if re, err = regexp.Compile(strings.Clone(y.AsString())); err != nil {
				return false, err
			}
			last.Store(re)
		}
		return re.MatchString(x.AsString()), nil
	}
}

// maxPattern bounds a regular expression that comes from an event: compiling one costs about 1 us a byte.
const maxPattern = 1_000
