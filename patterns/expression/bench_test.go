package expression

import (
	"fmt"
	"testing"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/cepd/cepd/cep"
)

// BenchmarkCondition compares closures with expr's own machine on the condition that PERFORMANCE speaks of, over 512
// events of which 56 % pass the first test.
func BenchmarkCondition(b *testing.B) {
	const text = `type == 'login_failed' && amount > 100 && country in ['US', 'DE']`
	types := []string{"login_failed", "login_ok", "transfer", "login_failed"}
	countries := []string{"US", "DE", "FR", "GB", "IN", "BR", "CN", "JP"}
	schema := cep.NewSchema()
	x, problems := Compile(text, &Place{Schema: schema, Event: true, Condition: true})
	if x == nil {
		b.Fatal(problems)
	}
	const n = 512
	events, maps := make([]*cep.Event, n), make([]map[string]any, n)
	for i := range n {
		h := uint32(i) * 2654435761
		kind, country, amount := types[h>>8%4], countries[h>>16%8], float64(h%1000)
		maps[i] = map[string]any{"type": kind, "country": country, "amount": amount}
		ev := &cep.Event{Values: make([]cep.Value, schema.Len())}
		ev.Values[schema.Slot("type")] = cep.String(kind)
		ev.Values[schema.Slot("country")] = cep.String(country)
		ev.Values[schema.Slot("amount")] = cep.Float(amount)
		events[i] = ev
	}
	b.Run("closures", func(b *testing.B) {
		b.ReportAllocs()
		var scope cep.Scope
		hits, i := 0, 0
		for b.Loop() {
			scope.Event = events[i&(n-1)]
			if ok, _ := x.Test(&scope); ok {
				hits++
			}
			i++
		}
	})
	b.Run("expr/typed", func(b *testing.B) {
		p, err := expr.Compile(text, expr.Env(map[string]any{"type": "", "country": "", "amount": 0.0}), expr.AsBool())
		if err != nil {
			b.Fatal(err)
		}
		benchmarkMachine(b, p, maps)
	})
	b.Run("expr/untyped", func(b *testing.B) {
		p, err := expr.Compile(text, expr.AllowUndefinedVariables(), expr.DisableBuiltin("type"))
		if err != nil {
			b.Fatal(err)
		}
		benchmarkMachine(b, p, maps)
	})
}

func benchmarkMachine(b *testing.B, p *vm.Program, envs []map[string]any) {
	b.ReportAllocs()
	var m vm.VM
	hits, i := 0, 0
	for b.Loop() {
		if v, _ := m.Run(p, envs[i&(len(envs)-1)]); v == true {
			hits++
		}
		i++
	}
}

// BenchmarkKinds is the cost of single conditions.
func BenchmarkKinds(b *testing.B) {
	for _, text := range []string{
		`type == "login"`, `amount > 100`, `country in ["US", "DE"]`, `ip in $scanners`, `cidr(ip, "10.0.0.0/8")`,
		`like(path, "*\\cmd.exe")`, `path matches "cmd\\.exe$"`, `ok.user == user`, `amount > 50 * max(fail, .amount)`,
		`any(fail, .user == user)`, `hours(ts(e) - ts(ok)) > 1`, `lower(user) == "root"`, `price > prev.price`,
	} {
		b.Run(text, func(b *testing.B) {
			w := populated()
			x := w.compile(b, text)
			s := w.set()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.Test(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCompile is the cost of a rule's condition when rules are loaded.
func BenchmarkCompile(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		text := fmt.Sprintf(`type == "t%d" and amount > %d and country in ["US", "DE"]`, i%1000, i)
		if x, problems := Compile(text, &Place{Schema: cep.NewSchema(), Event: true}); x == nil {
			b.Fatal(problems)
		}
	}
}
