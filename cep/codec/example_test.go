package codec_test

import (
	"fmt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
)

func Example() {
	schema := cep.NewSchema()
	user := schema.Slot("user", "name")
	at, err := codec.ParseTime("@timestamp", "ts,unix_ms")
	if err != nil {
		fmt.Println(err)
		return
	}
	dec := codec.NewJSON(schema, at, codec.Options{})
	var ev cep.Event
	err = dec.Decode([]byte(`{"ts": 1732881234567, "user.name": "root"}`), &ev)
	fmt.Println(ev.Time, ev.Value(user).AsString(), err)
	err = dec.Decode([]byte(`{"ts": "noon"}`), &ev)
	fmt.Println(err)
	// Output:
	// 2024-11-29T11:53:54.567Z root <nil>
	// bad time: field ts: not a number
}
