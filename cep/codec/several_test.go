package codec

import (
	"fmt"
	"testing"

	"github.com/cepd/cepd/cep"
)

// What is lent to one event stays what it is while others are decoded, if several are to be at hand.
func TestSeveral(t *testing.T) {
	schema := testSchema()
	partition := &cep.Partition{Stream: "s", Name: "0"}
	o := Options{Raw: true, Several: true, Partition: func(string, string) *cep.Partition { return partition }}
	jsonText := func(i int) string {
		return fmt.Sprintf(`{"a": "tab\t%d", "b": ["\u00fc%d", {"n\n%d": 1}], "_cepd": {"stream": "s", "partition": "0", "offset": %d}}`, i, i, i, i)
	}
	csvText := func(i int) string { return fmt.Sprintf(`"say ""%d""",plain %d`, i, i) }
	for _, c := range []struct {
		name    string
		decoder func(Options) Decoder
		text    func(int) string
	}{
		{"JSON", func(o Options) Decoder { return NewJSON(schema, TimeSpec{}, o) }, jsonText},
		{"CSV", func(o Options) Decoder { return NewCSV([]string{"a", "b"}, ',', schema, TimeSpec{}, o) }, csvText},
	} {
		t.Run(c.name, func(t *testing.T) {
			several := c.decoder(o)
			events := make([]cep.Event, 20)
			for i := range events {
				if err := several.Decode([]byte(c.text(i)), &events[i]); err != nil {
					t.Fatal(err)
				}
			}
			var keeper Keeper
			for i := range events {
				one := o
				one.Several = false
				var want cep.Event
				if err := c.decoder(one).Decode([]byte(c.text(i)), &want); err != nil {
					t.Fatal(err)
				}
				keeper.Keep(&events[i])
				for slot := range schema.Len() {
					if got := events[i].Value(slot); !cep.Equal(got, want.Value(slot)) {
						t.Errorf("event %d: %q is %v, want %v", i, schema.Name(slot), got, want.Value(slot))
					}
				}
				if string(events[i].Raw) != string(want.Raw) {
					t.Errorf("event %d: raw is %s, want %s", i, events[i].Raw, want.Raw)
				}
			}
		})
	}
}
