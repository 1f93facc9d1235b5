package expression

import (
	"slices"
	"testing"

	"github.com/cepd/cepd/cep"
)

// world is a little history for tests: what steps took, the event under test, and the one before.
type world struct {
	schema     *cep.Schema
	place      *Place
	aggregates Aggregates
	scope      cep.Scope
	// objects are the members of events, by pointer, so that a field is found whenever its slot is given out.
	current object
	prev    object
	taken   []takenObject
}

type object map[string]cep.Value

type takenObject struct {
	w      *world
	step   int
	time   cep.Time
	fields object
}

// newWorld is a place behind a loop `fail`, a single step `ok` and an optional single step `opt` that took nothing,
// inside the condition of the loop `own`.
func newWorld() *world {
	w := &world{schema: cep.NewSchema()}
	w.place = &Place{
		Schema: w.schema, Condition: false, Event: true, Prev: true, Match: true, Taken: true,
		Steps: []Step{{"fail", 0, true}, {"ok", 1, false}, {"opt", 2, false}}, Own: "own", OwnIndex: 3,
		Later: []string{"later"}, Key: []string{"user", "host"}, Aggregates: &w.aggregates,
		Lists: map[string]*List{
			"scanners": NewList([]cep.Value{cep.String("10.0.0.1"), cep.String("192.168.0.0/16")}),
			"ports":    NewList([]cep.Value{cep.Int(22), cep.Float(3389)}),
		},
		Maps: map[string]*Map{"hosts": NewMap([]cep.Value{cep.String("10.0.0.1")}, []cep.Value{cep.String("gate")})},
		Macros: map[string]string{
			"login": `service == "sshd" and action == "login"`, "loop": "$loop2", "loop2": "a == 1 or $loop",
			"broken": "a ==", "wrong": `a == 1 and lowr(b) == "x"`, "limit": "100", "negated": "not off",
		},
	}
	return w
}

func (w *world) take(step int, at cep.Time, fields object) {
	w.taken = append(w.taken, takenObject{w, step, at, fields})
}

// lookup finds a field as decoders do: flat, else nested.
func lookup(fields object, path []string) cep.Value {
	if len(path) == 0 {
		var m []cep.Member
		names := []string{}
		for n := range fields {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			m = append(m, cep.Member{Name: n, Value: fields[n]})
		}
		return cep.Object(m)
	}
	flat := path[0]
	for _, p := range path[1:] {
		flat += "." + p
	}
	if v, ok := fields[flat]; ok {
		return v
	}
	v := fields[path[0]]
	for _, p := range path[1:] {
		v = v.Member(p)
	}
	return v
}

func (t takenObject) Time() cep.Time         { return t.time }
func (t takenObject) Position() cep.Position { return cep.Position{} }
func (t takenObject) Raw() []byte            { return nil }
func (t takenObject) Step() int              { return t.step }
func (t takenObject) Value(slot int) cep.Value {
	return lookup(t.fields, t.w.schema.Path(slot))
}

// Len, At, Total, Nth, Aggregate and AggregateEvent make a world a history, in the plainest way.
func (w *world) Len(step int) int { return len(w.of(step)) }

func (w *world) of(step int) []takenObject {
	var l []takenObject
	for _, t := range w.taken {
		if t.step == step {
			l = append(l, t)
		}
	}
	return l
}

func (w *world) At(step, i int) cep.Taken { return w.of(step)[i] }
func (w *world) Total() int               { return len(w.taken) }
func (w *world) Nth(i int) cep.Taken      { return w.taken[i] }

func (w *world) AggregateEvent(i int) cep.Taken {
	a := w.aggregates.All()[i]
	l := w.of(a.Step)
	switch {
	case len(l) == 0:
		return nil
	case a.Kind == cep.AggregateFirst:
		return l[0]
	default:
		return l[len(l)-1]
	}
}

func (w *world) Aggregate(i int) (cep.Value, error) {
	a := w.aggregates.All()[i]
	l := w.of(a.Step)
	var values []cep.Value
	for _, t := range l {
		if a.Slot >= 0 {
			values = append(values, t.Value(a.Slot))
		}
	}
	switch a.Kind {
	case cep.AggregateCount:
		return cep.Int(int64(len(l))), nil
	case cep.AggregateSum:
		return sum(values)
	case cep.AggregateMin:
		return smallest(values)
	case cep.AggregateMax:
		return largest(values)
	default:
		u, err := unique([]cep.Value{cep.List(values)})
		return cep.Int(int64(len(u.AsList()))), err
	}
}

// set makes the scope for a compiled expression: slots are known only then.
func (w *world) set() *cep.Scope {
	w.scope.Event = &cep.Event{Time: 100 * cep.Second, Values: make([]cep.Value, w.schema.Len())}
	for i := range w.schema.Len() {
		w.scope.Event.Values[i] = lookup(w.current, w.schema.Path(i))
	}
	w.scope.Prev = nil
	if w.prev != nil {
		w.scope.Prev = takenObject{w, -1, 90 * cep.Second, w.prev}
	}
	w.scope.History = w
	w.scope.Key, _ = cep.KeyOf(cep.String("root"), cep.Int(7))
	return &w.scope
}

func (w *world) compile(t testing.TB, text string) *Expr {
	t.Helper()
	x, problems := Compile(text, w.place)
	for _, p := range problems {
		if !p.Warning {
			t.Fatalf("%s: %+v", text, p)
		}
	}
	return x
}

// populated is the world that most tests look at.
func populated() *world {
	w := newWorld()
	w.take(0, 10*cep.Second, object{"user": cep.String("root"), "amount": cep.Int(5), "ip": cep.String("10.0.0.1")})
	w.take(0, 20*cep.Second, object{"user": cep.String("bob"), "amount": cep.Int(7)})
	w.take(0, 30*cep.Second, object{"user": cep.String("root"), "amount": cep.Float(2.5)})
	w.take(1, 40*cep.Second, object{
		"user": cep.String("root"), "geo": cep.Object([]cep.Member{{Name: "lat", Value: cep.Float(47.37)}, {Name: "lon", Value: cep.Float(8.54)}}),
	})
	w.take(3, 50*cep.Second, object{"user": cep.String("eve"), "n": cep.Int(1)})
	w.prev = object{"price": cep.Int(9), "user": cep.String("eve")}
	w.current = object{
		"type": cep.String("login"), "count": cep.Int(3), "amount": cep.Int(150), "price": cep.Float(9.5),
		"country": cep.String("DE"), "user": cep.String("root"), "flag": cep.Bool(true), "off": cep.Bool(false),
		"ip": cep.String("10.1.2.3"), "path": cep.String(`C:\Windows\System32\CMD.exe`), "null": cep.Null,
		"tags": cep.List([]cep.Value{cep.String("a"), cep.String("b"), cep.Int(3)}), "nan": cep.Float(nan()),
		"proc":       cep.Object([]cep.Member{{Name: "name", Value: cep.String("sh")}, {Name: "args", Value: cep.List([]cep.Value{cep.String("-c")})}}),
		"@timestamp": cep.String("2026-01-02T03:04:05Z"), "flat.name": cep.String("flat"), "max": cep.Int(1<<63 - 1),
		"fail": cep.String("a field"), "empty": cep.String(""), "matches": cep.Int(1),
		"nums": cep.List([]cep.Value{cep.Int(4), cep.Null, cep.Int(1), cep.Float(2.5)}),
		"geo":  cep.String("40.71, -74.01"), "service": cep.String("sshd"), "action": cep.String("login"),
	}
	return w
}

func nan() float64 { z := 0.0; return z / z }
