package cep_test

import (
	"fmt"

	"github.com/cepd/cepd/cep"
)

func Example() {
	s := cep.NewSchema()
	user := s.Slot("user", "name")
	ev := cep.Event{Time: cep.Second, Values: make([]cep.Value, s.Len())}
	ev.Values[user] = cep.String("root")
	key, _ := cep.KeyOf(ev.Value(user))
	parts, _ := key.Parts()
	fmt.Println(s.Name(user), parts[0].AsString(), ev.Time)
	// Output: user.name root 1970-01-01T00:00:01Z
}
