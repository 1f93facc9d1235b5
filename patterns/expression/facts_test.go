package expression

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/invariant"
)

// facts prints what an expression reads.
func facts(w *world, x *Expr) string {
	names := func(slots []int) string {
		var l []string
		for _, s := range slots {
			l = append(l, w.schema.Name(s))
		}
		slices.Sort(l)
		return strings.Join(l, ",")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "unary=%v slots=%s", x.Unary, names(x.Slots))
	if x.UsesPrev {
		fmt.Fprintf(&b, " prev=%s", names(x.PrevSlots))
	}
	for _, s := range x.Steps {
		fmt.Fprintf(&b, " %d=%s", s, names(x.StepSlots[s]))
	}
	if x.AllSteps {
		b.WriteString(" all")
		for s := range 4 {
			if len(x.StepSlots[s]) > 0 && !slices.Contains(x.Steps, s) {
				fmt.Fprintf(&b, " (%d=%s)", s, names(x.StepSlots[s]))
			}
		}
	}
	for _, a := range w.aggregates.All() {
		fmt.Fprintf(&b, " agg%d(%d", a.Kind, a.Step)
		if a.Slot >= 0 {
			b.WriteString("," + w.schema.Name(a.Slot))
		}
		b.WriteString(")")
	}
	if x.Path != nil {
		fmt.Fprintf(&b, " path=%s", strings.Join(x.Path, "/"))
	}
	for _, e := range x.Equalities {
		fmt.Fprintf(&b, " %s:%v", w.schema.Name(e.Slot), e.Values)
	}
	return b.String()
}

func TestFacts(t *testing.T) {
	for text, want := range map[string]string{
		`user`:                         `unary=true slots=user path=user user:[true]`,
		`user.name`:                    `unary=true slots=user.name path=user/name user.name:[true]`,
		`e["@timestamp"]`:              `unary=true slots=@timestamp path=@timestamp @timestamp:[true]`,
		`type == "x" and amount > 5`:   `unary=true slots=amount,type type:["x"]`,
		`own.user.name == "x"`:         `unary=true slots=user.name user.name:["x"]`,
		`"x" == type and flag`:         `unary=true slots=flag,type type:["x"] flag:[true]`,
		`type == "x" or type in ["y"]`: `unary=true slots=type type:["x" "y"]`,
		`type == "x" or flag`:          `unary=true slots=flag,type`,
		`not (type == "x")`:            `unary=true slots=type`,
		`type in ["x", nil]`:           `unary=true slots=type`,
		`type == ""`:                   `unary=true slots=type`,
		`type == other`:                `unary=true slots=other,type`,
		`type in []`:                   `unary=true slots=type type:[]`,
		`ports in $ports`:              `unary=true slots=ports ports:[22 3389.0]`,
		`(type == "x" and a == 1) or (a == 2 and type == "y")`: `unary=true slots=a,type type:["x" "y"] a:[1 2]`,
		`any(tags, # == user)`:                                 `unary=true slots=tags,user`,
		`ok.user == user`:                                      `unary=false slots=user 1=user agg6(1)`,
		`ok != nil`:                                            `unary=false slots= 1= agg6(1)`,
		`fail[2].user == user`:                                 `unary=false slots=user 0=user`,
		`fail[0].user == fail[-1].ip`:                          `unary=false slots= 0=ip,user agg5(0) agg6(0)`,
		`first(fail).a.b == 1`:                                 `unary=false slots= 0=a.b agg5(0)`,
		`len(fail) > 3`:                                        `unary=false slots= 0= agg0(0)`,
		`sum(fail, .amount) > 3`:                               `unary=false slots= 0=amount agg1(0,amount)`,
		`max(map(fail, .amount)) > 3`:                          `unary=false slots= 0=amount agg3(0,amount)`,
		`len(uniq(map(fail, .u.n))) > 3`:                       `unary=false slots= 0=u.n agg4(0,u.n)`,
		`sum(taken, .n) + n > 3`:                               `unary=false slots=n 3=n agg1(3,n)`,
		`sum(fail, .a * 2) > 3`:                                `unary=false slots= 0=a`,
		`any(fail, .user == user)`:                             `unary=false slots=user 0=user`,
		`any(match, .x == 1 and .step == "ok")`:                `unary=false slots= all (0=x) (1=x) (2=x) (3=x)`,
		`duration > duration("1m")`:                            `unary=false slots= all`,
		`prev.price < price`:                                   `unary=false slots=price prev=price`,
		`prev == nil`:                                          `unary=false slots= prev=`,
		`$key.user == "x"`:                                     `unary=false slots=`,
		`$login`:                                               `unary=true slots=action,service service:["sshd"] action:["login"]`,
		`lower(user)`:                                          `unary=true slots=user`,
		`ts(e)`:                                                `unary=true slots=`,
	} {
		w := newWorld()
		if got := facts(w, w.compile(t, text)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestBounds holds the bounds of conditions, and that no event outside of them makes a condition true.
func TestBounds(t *testing.T) {
	for text, want := range map[string]string{
		`a > 5`:                              `a:[5.000000000000001 +Inf]`,
		`5 > a`:                              `a:[-Inf 4.999999999999999]`,
		`a >= 5 and type == "x" and a < 9.5`: `a:[5 9.499999999999998]`,
		`1 < a <= 3 and b == 2`:              `a:[1.0000000000000002 3] b:[2 2]`,
		`a < 1 or a > 7`:                     `a:[-Inf +Inf]`,
		`(a < 1 and b > 2) or (b < 1 and a == 3)`: `a:[-Inf 3] b:[-Inf +Inf]`,
		`a > 1 or b > 1`:           ``,
		`a > 1 and flag`:           `a:[1.0000000000000002 +Inf]`,
		`a in [3, 1.5, 2]`:         `a:[1.5 3]`,
		`a in 1..3`:                `a:[1 3]`,
		`a in ["x", 2]`:            ``,
		`a in [1, nil]`:            ``,
		`a in []`:                  ``,
		`not (a > 5)`:              ``,
		`a != 5`:                   ``,
		`a == nil`:                 ``,
		`a < "x"`:                  ``,
		`a > b`:                    ``,
		`a > 9 and a < 3`:          `a:[9.000000000000002 2.9999999999999996]`,
		`a <= 9007199254740993`:    `a:[-Inf 9.007199254740992e+15]`,
		`a > -9223372036854775807`: `a:[-9.223372036854776e+18 +Inf]`,
		`ok.a > 5`:                 ``,
	} {
		w := newWorld()
		x := w.compile(t, text)
		var got []string
		for _, b := range x.Bounds {
			got = append(got, fmt.Sprintf("%s:[%v %v]", w.schema.Name(b.Slot), b.Min, b.Max))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", text, s, want)
		}
		for _, v := range []cep.Value{
			{},
			cep.Null, cep.String("5"), cep.Bool(true), cep.Int(0), cep.Int(1), cep.Int(2), cep.Int(3), cep.Int(5), cep.Int(6), cep.Int(10), cep.Float(1.5), cep.Float(9.5), cep.Float(-1e300), cep.Float(1e300),
			cep.Int(9007199254740991), cep.Int(9007199254740992), cep.Int(9007199254740993), cep.Int(9007199254740994), cep.Int(-9223372036854775807), cep.Int(-9223372036854775808), cep.Int(9223372036854775807), cep.Float(nan()),
		} {
			for _, b := range []cep.Value{{}, cep.Int(0), cep.Int(2), cep.Int(3)} {
				w.current = object{"a": v, "b": b, "type": cep.String("x"), "flag": cep.Bool(true)}
				s := w.set()
				if ok, _ := x.Test(s); !ok {
					continue
				}
				for _, bound := range x.Bounds {
					if f := s.Event.Value(bound.Slot); !f.IsNumber() || !(f.AsFloat() >= bound.Min && f.AsFloat() <= bound.Max) {
						t.Errorf("%s is true for a %v, b %v, outside of %v", text, v, b, bound)
					}
				}
			}
		}
	}
}

// TestWhole: where a condition asks nothing else, whatever its index admits makes it true.
func TestWhole(t *testing.T) {
	for text, want := range map[string]bool{
		`type == "x"`:                           true,
		`"x" == type`:                           true,
		`type in ["x", "y"]`:                    true,
		`type == "x" and a > 5`:                 true,
		`type == "x" and a < 5.5`:               true,
		`1 < a and a <= 3 and type == "x"`:      true,
		`type == "x" and a == 3`:                false,
		`a > 5`:                                 false,
		`a == 3`:                                false,
		`flag`:                                  false,
		`type == "x" and flag`:                  false,
		`type == "x" and a != 3`:                false,
		`type == "x" and a > 5 and b > 5`:       false,
		`type == "x" and other == "y"`:          false,
		`type == "x" or type == "y"`:            false,
		`type in ["x", 2]`:                      false,
		`type == "x" and a in [2, 4]`:           false,
		`type == "x" and lower(other) == "y"`:   false,
		`type == "x" and not (a > 5)`:           false,
		`type == "x" and a >= 9007199254740993`: false,
		`type == "x" and a > b`:                 false,
		`ok.user == "x"`:                        false,
		`type == "x" and type > 5`:              true, // its bound is about the field of its equality: no index knows both
	} {
		w := newWorld()
		x := w.compile(t, text)
		if x.Whole != want {
			t.Errorf("%s: whole %v", text, x.Whole)
		}
		if !x.Whole {
			continue
		}
		eq := x.Equalities[0]
		if len(x.Equalities) != 1 || len(x.Bounds) > 1 {
			t.Errorf("%s: equalities %v, bounds %v", text, x.Equalities, x.Bounds)
		}
		for _, a := range []cep.Value{
			{},
			cep.Null, cep.String("5"), cep.Int(1), cep.Int(3), cep.Int(5), cep.Int(6), cep.Float(1), cep.Float(3), cep.Float(5), cep.Float(math.Nextafter(5, 9)),
			cep.Float(5.5), cep.Float(math.Nextafter(5.5, 0)), cep.Int(math.MaxInt64), cep.Int(math.MinInt64), cep.Int(1<<53 + 1), cep.Float(nan()), cep.Float(math.Inf(1)),
		} {
			for _, v := range []cep.Value{{}, cep.Null, cep.String("x"), cep.String("y"), cep.String("z"), cep.Int(6), cep.List([]cep.Value{cep.String("x")})} {
				w.current = object{"a": a, "type": v, "b": cep.Int(6), "flag": cep.Bool(true)}
				s := w.set()
				admitted := slices.ContainsFunc(eq.Values, func(c cep.Value) bool {
					f := s.Event.Value(eq.Slot)
					return f.Kind() == cep.KindString && f.AsString() == c.AsString()
				})
				for _, b := range x.Bounds {
					f := s.Event.Value(b.Slot)
					admitted = admitted && f.IsNumber() && f.AsFloat() >= b.Min && f.AsFloat() <= b.Max
				}
				if ok, err := x.Test(s); ok != admitted || err != nil {
					t.Errorf("%s for type %v, a %v: %v, %v; by equality and bound %v", text, v, a, ok, err, admitted)
				}
			}
		}
	}
}

// TestHaving: what a loop may be left by is asked at each event, so it is kept up to date.
func TestHaving(t *testing.T) {
	w := populated()
	w.place = &Place{
		Schema: w.schema, Condition: true, Having: true, Steps: append(w.place.Steps, Step{"own", 3, true}), Aggregates: &w.aggregates,
	}
	x := w.compile(t, `sum(own, .n) >= 1 and len(own) == 1 and ok.user == "root"`)
	if ok, err := x.Test(w.set()); !ok || err != nil {
		t.Error(ok, err)
	}
	if got, want := facts(w, x), `unary=false slots= 1=user 3=n agg1(3,n) agg0(3) agg6(1)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestAlertsWalk: alerts ask for no aggregates, and give the same values.
func TestAlertsWalk(t *testing.T) {
	for _, text := range []string{
		`len(fail)`, `sum(fail, .amount)`, `min(fail, .amount)`, `max(map(fail, .amount))`, `len(uniq(map(fail, .user)))`, `fail[0].user`, `fail[-1].amount`, `ok.user`,
		`opt.user`, `sum(fail, .missing)`, `max(fail, .missing)`, `ts(fail[-1])`, `opt`,
	} {
		w := populated()
		inCondition, err := w.compile(t, text).Eval(w.set())
		if err != nil {
			t.Fatal(text, err)
		}
		if text != "opt" && len(w.aggregates.All()) == 0 {
			t.Errorf("%s: no aggregate", text)
		}
		v := populated()
		v.place = &Place{Schema: v.schema, Match: true, Steps: v.place.Steps, Aggregates: &v.aggregates}
		inAlert, err := v.compile(t, text).Eval(v.set())
		if err != nil || len(v.aggregates.All()) > 0 || inAlert.Kind() != inCondition.Kind() || inAlert.String() != inCondition.String() {
			t.Errorf("%s: %v in a condition, %v, %v in an alert with aggregates %v", text, inCondition, inAlert, err, v.aggregates.All())
		}
	}
}

// TestNoHistory: the first step of a rule is tested before anything was taken.
func TestNoHistory(t *testing.T) {
	w := populated()
	for text, want := range map[string]string{
		`len(taken)`: "0", `sum(taken, .n)`: "0", `max(taken, .n)`: "missing", `taken[-1].n`: "missing", `taken[0].n`: "missing", `taken[3].n`: "missing", `any(taken, .n == 1)`: "false",
		`ok.user`: "missing", `len(match)`: "0", `match[0].step`: "missing", `duration`: "missing", `len(uniq(map(taken, .n)))`: "0", `map(match, .step)`: "[]", `ok == nil`: "true",
		`prev.price`: "missing", `prev`: "missing", `fail`: "[]",
	} {
		x := w.compile(t, text)
		s := *w.set()
		s.History, s.Prev = nil, nil
		if v, err := x.Eval(&s); err != nil || v.String() != want {
			t.Errorf("%s: %v, %v, want %s", text, v, err, want)
		}
	}
}

// TestCanonical: what means the same is printed the same, as far as that is cheap to see.
func TestCanonical(t *testing.T) {
	for text, want := range map[string]string{
		`type=='x'&&(a>1||!b)`:            `type == "x" and (a > 1 or not b)`,
		`own.type == "x"`:                 `type == "x"`,
		`e.type == "x"`:                   `type == "x"`,
		`e["type"] == "x"`:                `type == "x"`,
		`e["a b"] == "x"`:                 `e["a b"] == "x"`,
		`e.fail == 1`:                     `e.fail == 1`,
		`first(fail).x`:                   `fail[0].x`,
		`a > 60 * 60`:                     `a > 3600`,
		`a in 1..3`:                       `a in [1, 2, 3]`,
		`$login or $limit < a`:            `service == "sshd" and action == "login" or 100 < a`,
		`ip in $scanners`:                 `ip in $scanners`,
		`ts(e) - ts(ok) < duration("1h")`: `ts(e) - ts(ok) < duration("1h0m0s")`,
		`hour(e) == 3`:                    `hour(ts(e)) == 3`,
		`a - (b - c) + 2 ^ 3 ^ d`:         `a - (b - c) + 2 ** 3 ** d`,
		`(a + b) * c == -(-a)`:            `(a + b) * c == -(-a)`,
		`a and (b and c) and d`:           `a and b and c and d`,
		`any(fail, {.x == 1})`:            `any(fail, .x == 1)`,
		`tags | map(# + 1)`:               `map(tags, # + 1)`,
		`a < b < c`:                       `a < b and b < c`,
		`user?.name`:                      `user.name`,
		`$key["user"]`:                    `$key.user`,
	} {
		w := newWorld()
		if got := w.compile(t, text).Canonical; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestNoAllocation: conditions of fields, constants and taken events allocate nothing, with predicates or without. The
// race detector's sync.Pool drops frames at random, so under it nothing is counted.
func TestNoAllocation(t *testing.T) {
	w := populated()
	// A history of pointers, so that the test's own does not allocate.
	h := &still{}
	for _, o := range w.taken {
		h.events = append(h.events, &o)
	}
	for _, text := range []string{
		`type == "login" and amount > 100 and country in ["US", "DE"]`, `ip in $scanners or cidr(ip, "10.0.0.0/8")`, `like(path, "*\\cmd.exe")`, `path matches "cmd\\.exe$"`, `"a" in tags`,
		`amount * 2 + 1 > 300 and missing == nil`, `missing + 1 > 2`, `hours(ts(e) - ts(ok)) > 1`, `len(fail) > 2 and fail[1].missing != 3`, `any(fail, .missing == user) or all(fail, .missing != 1)`,
		`count(fail, .missing == 1) < 2 and mean(fail, .missing) == nil`, `hour(e, "Europe/Zurich") == 2`, `any(tags, # == "b")`, `(missing ?? user) == "root"`, `len(type) > 3`, `$login`,
		`find(fail, .missing == 1) == nil`, `len(filter(fail, .missing != 1)) > 1`, `lookup($hosts, ip) == nil`, `geo_km(1.0, 2.0, price, 3) > 5`,
	} {
		w.place.Aggregates = nil
		x := w.compile(t, text)
		s := *w.set()
		s.History = h
		if n := testing.AllocsPerRun(100, func() { _, _ = x.Test(&s) }); n != 0 && !invariant.Enabled {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

// still is a history that does not allocate; all events are of step 0 and have no fields.
type still struct{ events []*takenObject }

type bare struct{ *takenObject }

func (h *still) Len(int) int                      { return len(h.events) }
func (h *still) At(_, i int) cep.Taken            { return h.Nth(i) }
func (h *still) Total() int                       { return len(h.events) }
func (h *still) Nth(i int) cep.Taken              { return bare{h.events[i]} }
func (h *still) Aggregate(int) (cep.Value, error) { return cep.Value{}, nil }
func (h *still) AggregateEvent(int) cep.Taken     { return h.Nth(0) }
func (b bare) Value(int) cep.Value                { return cep.Value{} }

// TestStack: an evaluation gives back the room of each list as soon as it has been looked at.
func TestStack(t *testing.T) {
	w := populated()
	w.place.Aggregates = nil
	h := &still{}
	for range 1000 {
		h.events = append(h.events, &takenObject{})
	}
	x := w.compile(t, `all(1..200, len(filter(fail, .x == nil)) == 1000 and fail[0:][5] != nil and len(fail[1:]) == 999)`)
	s := *w.set()
	s.History = h
	f := newFrame()
	r := &resolver{place: w.place}
	tree, _ := parse(x.Canonical, "")
	n := r.resolve(tree)
	(&planner{w.place, &Expr{}}).node(n)
	ok, err := compileCondition(n)(&s, f)
	if !ok || err != nil || len(f.takens) != 0 || cap(f.takens) > 8000 {
		t.Errorf("%v, %v, %d of %d left on the stack", ok, err, len(f.takens), cap(f.takens))
	}
	x = w.compile(t, `all(fail, any(fail, .x != nil))`)
	h.events = append(h.events, h.events...)
	if ok, err := x.Test(&s); ok || err != nil {
		t.Error(ok, err)
	}
	x = w.compile(t, `any(fail, any(fail, .x != nil))`)
	if _, err := x.Test(&s); !errors.Is(err, errWork) {
		t.Error("4,000,000 elements:", err)
	}
}

func TestTemplate(t *testing.T) {
	for text, want := range map[string]string{
		``:                           ``,
		`plain`:                      `0 plain`,
		`{{a}}`:                      `2 <a>`,
		`x {{ a + "}}" }} y`:         `0 x |4 < a + "}}" >|16  y`,
		`{{ {a: {b: 1}}.a.b }}{{c}}`: `2 < {a: {b: 1}}.a.b >|23 <c>`,
		`ä{{ö}}ü`:                    `0 ä|3 <ö>|6 ü`,
		`{{"{{"}}`:                   `2 <"{{">`,
		`{{a`:                        `! 0+2`,
		`a {{b}} {{c`:                `0 a |4 <b>|7  |! 8+2`,
		`a }} b`:                     `0 a }} b|! 2+2`,
		`{{ }}`:                      `2 < >|! 0+5`,
		`{ {a} }`:                    `0 { {a} }`,
		`{{ "a\"}}" }}`:              `2 < "a\"}}" >`,
	} {
		var got []string
		pieces, problems := Template(text)
		for _, p := range pieces {
			if p.Expr {
				got = append(got, fmt.Sprintf("%d <%s>", p.Offset, p.Text))
			} else {
				got = append(got, fmt.Sprintf("%d %s", p.Offset, p.Text))
			}
		}
		for _, p := range problems {
			got = append(got, fmt.Sprintf("! %d+%d", p.Offset, p.Length))
		}
		if d := cmp.Diff(want, strings.Join(got, "|")); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

func TestLike(t *testing.T) {
	for _, c := range []struct {
		s, pattern string
		want       bool
	}{
		{"", "", true},
		{"", "*", true},
		{"", "?", false},
		{"a", "?", true},
		{"abc", "A*C", true},
		{"abc", "a*b", false},
		{"abcbc", "*bc", true},
		{"abc", "abc*", true},
		{`C:\Windows\x.exe`, `c:\windows\*.EXE`, true},
		{`a*b`, `a*b`, true},
		{"Ärger", "ä*R", true},
		{"ſ", "S", true},
		{"\xff", "?", true},
		{"a\nb", "a*b", true},
		{"aaa", "a?", false},
		{"äb", "?b", true},
		{"aXbXc", "*x?x*", true},
		{"a", "**", true},
		{"ab", "*a", false},
	} {
		if got := like(c.s, c.pattern); got != c.want {
			t.Errorf("like(%q, %q) = %v", c.s, c.pattern, got)
		}
	}
}

func TestList(t *testing.T) {
	l := NewList([]cep.Value{cep.Int(1), cep.Float(1), cep.String("1"), cep.String(""), cep.Null, cep.String("10.0.0.0/8"), cep.Bool(true)})
	if l.Len() != 4 || len(l.Values()) != 4 {
		t.Errorf("%v", l.Values())
	}
	for v, want := range map[cep.Value]bool{
		cep.Int(1): true, cep.Float(1): true, cep.Float(1.5): false, cep.Bool(true): true, cep.Bool(false): false, {}: false, cep.Null: false,
	} {
		if l.Contains(v) != want {
			t.Errorf("%v", v)
		}
	}
	for address, want := range map[string]bool{
		"10.255.0.1": true, "11.0.0.1": false, "::ffff:10.0.0.1": true, "2001:db8::1": false, "1": false,
	} {
		if a, ok := parseAddress(address); ok != (address != "1") || ok && l.networks.contain(a) != want {
			t.Errorf("%s", address)
		}
	}
	long := NewList([]cep.Value{cep.String(strings.Repeat("x", 200))})
	if !long.Contains(cep.String(strings.Repeat("x", 200))) || long.Contains(cep.String(strings.Repeat("x", 199))) {
		t.Error("a long text")
	}
	m := NewMap([]cep.Value{cep.String("a"), cep.Int(2), cep.String("a")}, []cep.Value{cep.Int(1), cep.Int(2), cep.Int(3)})
	if m.Get(cep.String("a")) != cep.Int(3) || m.Get(cep.Float(2)) != cep.Int(2) || !m.Get(cep.String("b")).IsMissing() || !m.Get(cep.Value{}).IsMissing() {
		t.Error("a map")
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{"lowr": "lower", "uper": "upper", "LOWER": "lower", "xyz": "", "wekday": "weekday", "olwer": "lower", "": ""} {
		if got := Nearest(name, []string{"lower", "upper", "weekday", "min", "max"}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
