package expression

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cepd/cepd/cep"
)

// each calls visit for the numbers among the arguments and in the lists among them; a missing or null element counts for
// nothing.
func each(function string, args []cep.Value, visit func(cep.Value) error) error {
	for _, a := range args {
		if a.Kind() == cep.KindList {
			if err := each(function, a.AsList(), visit); err != nil {
				return err
			}
			continue
		}
		if a.IsMissing() {
			continue
		}
		if err := visit(a); err != nil {
			return err
		}
	}
	return nil
}

// total is a running sum: an int as long as all numbers are ints, and of durations a duration.
type total struct {
	sum   cep.Value
	count int
}

func (t *total) add(v cep.Value) error {
	switch {
	case !v.IsNumber() && v.Kind() != cep.KindDuration:
		return wrongType("sum", v)
	case t.count == 0:
		t.sum = v
	default:
		s, err := add(t.sum, v)
		if err != nil {
			return err
		}
		t.sum = s
	}
	t.count++
	return nil
}

func (t *total) value() cep.Value {
	if t.count == 0 {
		return cep.Int(0)
	}
	return t.sum
}

// mean is missing where nothing was added.
func (t *total) mean() (cep.Value, error) {
	if t.count == 0 {
		return cep.Value{}, nil
	}
	return divide(t.sum, cep.Int(int64(t.count)))
}

func sum(args []cep.Value) (cep.Value, error) {
	var t total
	err := each("sum", args, t.add)
	return t.value(), err
}

func mean(args []cep.Value) (cep.Value, error) {
	var t total
	if err := each("mean", args, t.add); err != nil {
		return cep.Value{}, err
	}
	return t.mean()
}

// extreme is a running minimum (sign -1) or maximum (sign 1).
type extreme struct {
	sign int
	best cep.Value
}

func (e *extreme) add(v cep.Value) error {
	switch v.Kind() {
	case cep.KindInt, cep.KindFloat, cep.KindTime, cep.KindDuration:
	default:
		return wrongType("min or max", v)
	}
	if math.IsNaN(v.AsFloat()) {
		return errNaN
	}
	if e.best.IsMissing() {
		e.best = v
		return nil
	}
	c, ok := cep.Compare(v, e.best)
	if !ok {
		return fmt.Errorf("min or max: %s and %s have no order", kindOf(v), kindOf(e.best))
	}
	if c*e.sign > 0 {
		e.best = v
	}
	return nil
}

func smallest(args []cep.Value) (cep.Value, error) {
	e := extreme{sign: -1}
	err := each("min", args, e.add)
	return e.best, err
}

func largest(args []cep.Value) (cep.Value, error) {
	e := extreme{sign: 1}
	err := each("max", args, e.add)
	return e.best, err
}

func median(args []cep.Value) (cep.Value, error) {
	var l []float64
	err := each("median", args, func(v cep.Value) error {
		if !v.IsNumber() {
			return wrongType("median", v)
		}
		l = append(l, v.AsFloat())
		return nil
	})
	if err != nil || len(l) == 0 {
		return cep.Value{}, err
	}
	slices.Sort(l)
	if n := len(l); n%2 == 0 {
		return cep.Float((l[n/2-1] + l[n/2]) / 2), nil
	}
	return cep.Float(l[len(l)/2]), nil
}

var (
	errMissingOperand = errors.New("a value is missing")
	errOperands       = errors.New("these values cannot be calculated with")
	errNaN            = errors.New("min or max of NaN, which has no place in an order")
	errZero           = errors.New("remainder of a division by zero")
)

// calculators are the operators. Their operands may be anything.
var calculators = map[string]func(a, b cep.Value) (cep.Value, error){
	"+": add, "-": subtract, "*": multiply, "/": divide, "%": remainder, "**": power,
}

// operandError tells a missing operand from one of a wrong kind.
func operandError(a, b cep.Value) error {
	if a.IsMissing() || b.IsMissing() {
		return errMissingOperand
	}
	return errOperands
}

func add(a, b cep.Value) (cep.Value, error) {
	switch x, y := a.Kind(), b.Kind(); {
	case x == cep.KindInt && y == cep.KindInt:
		i, err := addInts(a.AsInt(), b.AsInt())
		return cep.Int(i), err
	case a.IsNumber() && b.IsNumber():
		return cep.Float(a.AsFloat() + b.AsFloat()), nil
	case x == cep.KindString && y == cep.KindString:
		if len(a.AsString())+len(b.AsString()) > maxString {
			return cep.Value{}, errStringSize
		}
		return cep.String(a.AsString() + b.AsString()), nil
	case x == cep.KindDuration && y == cep.KindDuration:
		i, err := addInts(a.AsInt(), b.AsInt())
		return cep.DurationValue(cep.Duration(i)), err
	case x == cep.KindTime && y == cep.KindDuration, x == cep.KindDuration && y == cep.KindTime:
		i, err := addInts(a.AsInt(), b.AsInt())
		return cep.TimeValue(cep.Time(i)), err
	}
	return cep.Value{}, operandError(a, b)
}

func subtract(a, b cep.Value) (cep.Value, error) {
	switch x, y := a.Kind(), b.Kind(); {
	case x == cep.KindInt && y == cep.KindInt:
		i, err := subtractInts(a.AsInt(), b.AsInt())
		return cep.Int(i), err
	case a.IsNumber() && b.IsNumber():
		return cep.Float(a.AsFloat() - b.AsFloat()), nil
	case x == cep.KindTime && y == cep.KindTime, x == cep.KindDuration && y == cep.KindDuration:
		i, err := subtractInts(a.AsInt(), b.AsInt())
		return cep.DurationValue(cep.Duration(i)), err
	case x == cep.KindTime && y == cep.KindDuration:
		i, err := subtractInts(a.AsInt(), b.AsInt())
		return cep.TimeValue(cep.Time(i)), err
	}
	return cep.Value{}, operandError(a, b)
}

func multiply(a, b cep.Value) (cep.Value, error) {
	switch x, y := a.Kind(), b.Kind(); {
	case x == cep.KindInt && y == cep.KindInt:
		i, err := multiplyInts(a.AsInt(), b.AsInt())
		return cep.Int(i), err
	case a.IsNumber() && b.IsNumber():
		return cep.Float(a.AsFloat() * b.AsFloat()), nil
	case x == cep.KindDuration && b.IsNumber():
		return scale(a, b)
	case a.IsNumber() && y == cep.KindDuration:
		return scale(b, a)
	}
	return cep.Value{}, operandError(a, b)
}

// scale multiplies a duration.
func scale(d, by cep.Value) (cep.Value, error) {
	if by.Kind() == cep.KindInt {
		i, err := multiplyInts(d.AsInt(), by.AsInt())
		return cep.DurationValue(cep.Duration(i)), err
	}
	return durationOfFloat(float64(d.AsInt()) * by.AsFloat())
}

func durationOfFloat(ns float64) (cep.Value, error) {
	ns = math.Round(ns)
	if !(ns >= -1<<63 && ns < 1<<63) {
		return cep.Value{}, errOverflow
	}
	return cep.DurationValue(cep.Duration(ns)), nil
}

// divide gives a float for numbers, also for two ints, as expr does.
func divide(a, b cep.Value) (cep.Value, error) {
	switch x, y := a.Kind(), b.Kind(); {
	case a.IsNumber() && b.IsNumber():
		return cep.Float(a.AsFloat() / b.AsFloat()), nil
	case x == cep.KindDuration && b.IsNumber():
		return durationOfFloat(float64(a.AsInt()) / b.AsFloat())
	case x == cep.KindDuration && y == cep.KindDuration:
		return cep.Float(float64(a.AsInt()) / float64(b.AsInt())), nil
	}
	return cep.Value{}, operandError(a, b)
}

func remainder(a, b cep.Value) (cep.Value, error) {
	if a.Kind() != cep.KindInt || b.Kind() != cep.KindInt {
		return cep.Value{}, operandError(a, b)
	}
	switch b.AsInt() {
	case 0:
		return cep.Value{}, errZero
	case -1:
		return cep.Int(0), nil
	}
	return cep.Int(a.AsInt() % b.AsInt()), nil
}

func power(a, b cep.Value) (cep.Value, error) {
	if !a.IsNumber() || !b.IsNumber() {
		return cep.Value{}, operandError(a, b)
	}
	return cep.Float(math.Pow(a.AsFloat(), b.AsFloat())), nil
}

func negate(v cep.Value) (cep.Value, error) {
	switch v.Kind() {
	case cep.KindInt:
		i, err := subtractInts(0, v.AsInt())
		return cep.Int(i), err
	case cep.KindFloat:
		return cep.Float(-v.AsFloat()), nil
	case cep.KindDuration:
		i, err := subtractInts(0, v.AsInt())
		return cep.DurationValue(cep.Duration(i)), err
	default:
		return cep.Value{}, operandError(v, v)
	}
}

func addInts(a, b int64) (int64, error) {
	s := a + b
	if (a^s)&(b^s) < 0 { // both operands have the other sign
		return 0, errOverflow
	}
	return s, nil
}

func subtractInts(a, b int64) (int64, error) {
	d := a - b
	if (a^b)&(a^d) < 0 { // the operands differ in sign, and the result has that of b
		return 0, errOverflow
	}
	return d, nil
}

func multiplyInts(a, b int64) (int64, error) {
	if a == 0 || b == 0 {
		return 0, nil
	}
	p := a * b
	if p/b != a || a == -1 && b == math.MinInt64 || b == -1 && a == math.MinInt64 {
		return 0, errOverflow
	}
	return p, nil
}
