// Package codec makes events from bytes.
//
// [NewJSON] and [NewCSV] return a [Decoder] for a schema, which is the decode plan: fields that no rule reads are checked,
// but nothing is made of them. A [TimeSpec] says which field holds the event's time, an [Error] why an event was refused.
//
//	schema := cep.NewSchema()
//	user := schema.Slot("user", "name")
//	at, err := codec.ParseTime("@timestamp", "ts,unix_ms")
//	dec := codec.NewJSON(schema, at, codec.Options{})
//	var ev cep.Event
//	err = dec.Decode([]byte(`{"ts": 1732881234567, "user.name": "root"}`), &ev)
//	fmt.Println(ev.Time, ev.Value(user))
//
// # Meaning
//
// A number without fraction and exponent inside int64 is an int, every other a float; an integer outside int64 is
// counted as inexact, a number outside float64 is an infinity and counted too. Of two members of one name the last one
// counts, as in encoding/json. A field of several segments is looked for as nested objects and as one flat name at the
// top, which wins. Bytes that are no UTF-8 refuse the event (encoding/json would replace them); an escaped half of a
// surrogate pair becomes U+FFFD as there. NaN and Infinity are no JSON.
//
// A cell of a delimited row is what JSON would make of its text: a number, true, false; an empty one is missing, and
// every other a string, null and 007 too.
//
// # Concurrency
//
// A Decoder belongs to one goroutine.
//
// # Cost
//
// The scanner is our own: for an event of 185 bytes of which 4 in 10 fields are read it takes a third of the time that
// fastjson takes with its validation, and a twentieth of encoding/json's (docs/benchmarks.md). FuzzDecode holds it to
// encoding/json. Decode allocates only for lists and objects that a rule reads whole, and Keep only memory in pieces of
// 4 KiB.
//
// # Caveats
//
// Strings are lent until the next Decode: see [Decoder].
package codec
