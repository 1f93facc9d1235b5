package cep

// Meta is what a broker keeps with a record beside its value. Rules see it as the object _kafka of the event.
type Meta struct {
	// Topic is the one that the record was read from.
	Topic string
	// Key is nil where the record has none.
	Key []byte
	// Headers stand as the producer wrote them; of two with one name the last one counts.
	Headers []Header
	// Time is the record's own, [BeforeAll] where it has none. Appended says that the broker noted it when the record was
	// appended; else it is what the producer said.
	Time     Time
	Appended bool
}

// Header is a header of a record.
type Header struct {
	Name  string
	Value []byte
}
