package expression

import (
	"slices"
	"testing"
	"unicode/utf8"
)

// FuzzExpression compiles any text in a populated place. Whatever it is: no panic; an Expr or an error, never both or
// neither; problems that lie inside their text and have known codes; Test and Eval that agree; and a normal form that
// reads back as the same condition.
func FuzzExpression(f *testing.F) {
	for _, c := range Codes() {
		f.Add(c.Example)
	}
	for _, s := range []string{
		`type == "login" and amount > 100 and country in ["US", "DE"]`, `any(fail, .user == user) or len(uniq(map(fail, .user))) >= 3`, `geo_km(ok.geo, geo) / hours(ts(e) - ts(ok)) > 900`,
		`sum(taken, .n) + max(fail, .amount) > 10`, `$login and not ($key.user in $scanners)`, `let x = fail[-1].user; x == user ? true : x matches "^r"`, `match[-1].step == "ok" and duration > duration("1m")`,
		`like(path, "*\\cmd.exe") and cidr(ip, "10.0.0.0/8") and hour(e, "Europe/Zurich") in 8..17`, `reduce(1..9, #acc + #, 0) > 3 and groupBy(fail, .user)["root"][0].amount ** 2 > -1`,
		`fail[1:][0].user ?? "x"`, "`raw` + 'x' == e[\"a b\"]", `if flag { 1 in tags } else { sort(nums, "desc")[0] > prev.price }`, `tags | map(# + "x") | len() > 0x1F`, `/* c */ a == 1 // d`,
	} {
		f.Add(s)
	}
	codes := map[string]bool{}
	for _, c := range Codes() {
		codes[c.Code] = c.Warning
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := populated()
		x, problems := Compile(text, w.place)
		failed := slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
		if (x == nil) != failed {
			t.Fatalf("Expr %v with %+v", x, problems)
		}
		for _, p := range problems {
			length := utf8.RuneCountInString(text)
			if p.Macro != "" {
				length = utf8.RuneCountInString(w.place.Macros[p.Macro])
			}
			if warning, known := codes[p.Code]; !known || warning != p.Warning || p.Message == "" || p.Offset < 0 || p.Length < 1 || p.Offset > length {
				t.Fatalf("problem %+v in a text of %d", p, length)
			}
		}
		pieces, _ := Template(text)
		for _, p := range pieces {
			if p.Offset < 0 || p.Offset > utf8.RuneCountInString(text) {
				t.Fatalf("piece %+v", p)
			}
		}
		if x == nil {
			return
		}
		s := w.set()
		ok, err := x.Test(s)
		if ok && err != nil {
			t.Fatalf("true with %v", err)
		}
		v, evalErr := x.Eval(s)
		if err == nil && evalErr == nil && v.AsBool() != ok {
			t.Fatalf("Test %v, Eval %v", ok, v)
		}
		y, problems := Compile(x.Canonical, w.place)
		if y == nil {
			if len(x.Canonical) > maxText || slices.ContainsFunc(problems, func(p Problem) bool { return p.Code == codeSize }) {
				return // the macros in it, or the brackets
			}
			t.Fatalf("printed as %s: %+v", x.Canonical, problems)
		}
		s = w.set()
		if again, err2 := y.Test(s); again != ok || (err2 == nil) != (err == nil) || y.Canonical != x.Canonical {
			t.Fatalf("printed as %s: %v %v, was %v %v; and that as %s", x.Canonical, again, err2, ok, err, y.Canonical)
		}
		if x.Unary != y.Unary || !slices.Equal(x.Slots, y.Slots) {
			t.Fatalf("printed as %s, which reads other things", x.Canonical)
		}
	})
}
