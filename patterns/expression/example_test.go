package expression_test

import (
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns/expression"
)

func Example() {
	schema := cep.NewSchema()
	place := &expression.Place{Schema: schema, Event: true, Condition: true}
	x, _ := expression.Compile(`type == "login" && amount > 100`, place)

	ev := &cep.Event{Values: make([]cep.Value, schema.Len())}
	ev.Values[schema.Slot("type")] = cep.String("login")
	ev.Values[schema.Slot("amount")] = cep.Int(150)
	ok, err := x.Test(&cep.Scope{Event: ev})
	fmt.Println(x.Canonical)
	fmt.Println(ok, err)

	_, problems := expression.Compile(`typ == "login" and lowr(user) == "root"`, place)
	for _, p := range problems {
		fmt.Printf("%d+%d %s: %s (%s)\n", p.Offset, p.Length, p.Code, p.Message, p.Hint)
	}
	// Output:
	// type == "login" and amount > 100
	// true <nil>
	// 19+4 CEP0202: unknown function "lowr" (did you mean "lower"?)
}

func ExampleTemplate() {
	pieces, _ := expression.Template("{{user}} in from {{src_ip}}")
	for _, p := range pieces {
		fmt.Printf("%d %q %v\n", p.Offset, p.Text, p.Expr)
	}
	// Output:
	// 2 "user" true
	// 8 " in from " false
	// 19 "src_ip" true
}
