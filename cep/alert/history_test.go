package alert_test

import "github.com/cepd/cepd/cep"

// taken is an event in a history of tests.
type taken struct {
	time   cep.Time
	pos    cep.Position
	values []cep.Value
	raw    string
	step   int
}

func (t *taken) Time() cep.Time         { return t.time }
func (t *taken) Position() cep.Position { return t.pos }
func (t *taken) Step() int              { return t.step }

func (t *taken) Value(slot int) cep.Value {
	if slot >= len(t.values) {
		return cep.Value{}
	}
	return t.values[slot]
}

func (t *taken) Raw() []byte {
	if t.raw == "" {
		return nil
	}
	return []byte(t.raw)
}

// history is a history of tests, in time order.
type history []*taken

func (h history) Len(step int) (n int) {
	for _, t := range h {
		if t.step == step {
			n++
		}
	}
	return n
}

func (h history) At(step, i int) cep.Taken {
	for _, t := range h {
		if t.step == step {
			if i == 0 {
				return t
			}
			i--
		}
	}
	return nil
}

func (h history) Total() int                       { return len(h) }
func (h history) Nth(i int) cep.Taken              { return h[i] }
func (h history) Aggregate(int) (cep.Value, error) { return cep.Value{}, nil }
func (h history) AggregateEvent(int) cep.Taken     { return nil }
