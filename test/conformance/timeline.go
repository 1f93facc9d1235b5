package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cepd/cepd/cep"
)

// Move is one thing a rule sees: an event, or time that moves to To without one.
type Move struct {
	// At is the index of the input entry that makes it happen, which is what the peer counts by.
	At    int
	Event *cep.Event
	To    cep.Time
}

// endOfInput is where the watermark "max" moves time to: beyond every window of every vector (none is longer than 3 s),
// in a range that windows can be added to.
const endOfInput = 1_000_000_000 * cep.Millisecond

// double is the translation of time: an event at t ms stands at 2t, so that the odd numbers between are free for "just
// before t", which is where a peer's window that excludes its end is over.
func double(ms int64) cep.Time { return cep.Time(2*ms) * cep.Millisecond }

// Timeline is the input as a rule sees it. Where the peer takes events in the order of arrival, so do we. In its
// event-time mode it keeps them until a watermark and drops those at or below the last one.
func (v *Vector) Timeline(schema *cep.Schema) ([]Move, error) {
	partition := &cep.Partition{Stream: "events", Name: "0"}
	var moves, waiting []Move
	var seq uint64
	now, watermark := cep.BeforeAll, cep.BeforeAll
	release := func(m Move) {
		seq++
		m.Event.Seq = seq
		moves = append(moves, m)
	}
	for at, entry := range v.Input {
		switch {
		case entry.Event != "":
			ev, err := v.event(entry, schema)
			if err != nil {
				return nil, fmt.Errorf("entry %d: %w", at, err)
			}
			ev.Position = cep.Position{Partition: partition, Offset: int64(at)}
			switch {
			case v.Mode == "":
				// Two tests of the peer go back in time, which the peer's machine does not mind where no window is set. A
				// rule's order is that of time, so such an event stands at the time reached.
				now = max(now, ev.Time)
				ev.Time = now
				release(Move{At: at, Event: ev})
			case ev.Time > watermark:
				waiting = append(waiting, Move{At: at, Event: ev})
			}
		case entry.AdvanceTo != nil:
			moves = append(moves, Move{At: at, To: double(*entry.AdvanceTo) - cep.Millisecond})
		default:
			w, err := entry.watermark()
			if err != nil {
				return nil, fmt.Errorf("entry %d: %w", at, err)
			}
			if w <= watermark {
				continue
			}
			watermark = w
			slices.SortStableFunc(waiting, func(a, b Move) int {
				if c := cmp.Compare(a.Event.Time, b.Event.Time); c != 0 || v.TieBreak == "" {
					return c
				}
				return cmp.Compare(v.price(a), v.price(b))
			})
			n := 0
			for ; n < len(waiting) && waiting[n].Event.Time <= w; n++ {
				waiting[n].At = at
				release(waiting[n])
			}
			waiting = waiting[n:]
			moves = append(moves, Move{At: at, To: w})
		}
	}
	return moves, nil
}

func (e Entry) watermark() (cep.Time, error) {
	if string(e.Watermark) == `"max"` {
		return endOfInput, nil
	}
	var ms int64
	if err := json.Unmarshal(e.Watermark, &ms); err != nil {
		return 0, fmt.Errorf("watermark %s: %w", e.Watermark, err)
	}
	return double(ms), nil
}

// fields returns an event's fields. The peer's events are objects whose unset numbers are 0, and whose class is Event
// where the vector does not say.
func (v *Vector) fields(entry Entry) (map[string]any, error) {
	for _, e := range v.Events {
		if e["id"] != entry.Event {
			continue
		}
		fields := map[string]any{"type": "Event", "price": 0.0, "num": 0.0, "volume": 0.0, "ts": float64(entry.TS)}
		maps.Copy(fields, e)
		return fields, nil
	}
	return nil, fmt.Errorf("no event %q", entry.Event)
}

func (v *Vector) event(entry Entry, schema *cep.Schema) (*cep.Event, error) {
	fields, err := v.fields(entry)
	if err != nil {
		return nil, err
	}
	ev := &cep.Event{Time: double(entry.TS), Values: make([]cep.Value, schema.Len())}
	for slot := range schema.Len() {
		path := schema.Path(slot)
		if len(path) != 1 {
			return nil, fmt.Errorf("the rule reads %s, which no vector has", schema.Name(slot))
		}
		switch x := fields[path[0]].(type) {
		case string:
			ev.Values[slot] = cep.String(x)
		case float64:
			ev.Values[slot] = cep.Float(x)
		case nil:
		default:
			return nil, fmt.Errorf("field %s has the type %T", path[0], x)
		}
	}
	return ev, nil
}

// price is the tie-break of the vectors that have one ("price ascending").
func (v *Vector) price(m Move) float64 {
	fields, err := v.fields(v.Input[m.Event.Position.Offset])
	if err != nil {
		panic(err) // the event was built from this entry
	}
	price, _ := fields["price"].(float64)
	return price
}
