package engine

import (
	"github.com/cepd/cepd/cep"
)

// AlertStream is the name of the stream that alerts are, for the rules that read them.
const AlertStream = "alerts"

// feed makes the events that rules over alerts see of the alerts of one rule (S8): its fields, and rule, kind, severity, key
// and tags.
type feed struct {
	readers []*junction
	slots   []alertSlot
	raw     bool // some reader shows events
}

// alertSlot says where a slot's value comes from.
type alertSlot struct {
	slot int
	path []string
}

// newFeed returns the feed of a rule whose alerts have the fields.
func newFeed(schema *cep.Schema, fields []string) *feed {
	f := &feed{}
	names := map[string]bool{"rule": true, "kind": true, "severity": true, "key": true, "tags": true}
	for _, n := range fields {
		names[n] = true
	}
	for slot := range schema.Len() {
		if path := schema.Path(slot); len(path) == 0 || names[path[0]] {
			f.slots = append(f.slots, alertSlot{slot, path})
		}
	}
	return f
}

// event makes the event that an alert is. Its position is its id, so that ids of alerts over alerts are made of the ids of
// those below.
func (f *feed) event(a *cep.Alert) cep.Event {
	whole := cep.Object(alertMembers(a))
	ev := cep.Event{
		Time:     a.Time,
		Position: cep.Position{Partition: &cep.Partition{Stream: AlertStream, Name: a.ID.String(), Order: alertOrder}},
	}
	if n := len(f.slots); n > 0 {
		ev.Values = make([]cep.Value, f.slots[n-1].slot+1)
	}
	for _, s := range f.slots {
		v := whole
		for _, name := range s.path {
			v = v.Member(name)
		}
		ev.Values[s.slot] = v
	}
	if f.raw {
		ev.Raw = cep.AppendJSON(nil, whole)
	}
	return ev
}

func alertMembers(a *cep.Alert) []cep.Member {
	tags := make([]cep.Value, len(a.Tags))
	for i, t := range a.Tags {
		tags[i] = cep.String(t)
	}
	key := make([]cep.Member, len(a.Key))
	for i, n := range a.Key {
		key[i] = cep.Member(n)
	}
	list := make([]cep.Member, 0, 5+len(a.Fields))
	list = append(list,
		cep.Member{Name: "rule", Value: cep.String(a.Rule)}, cep.Member{Name: "kind", Value: cep.String(a.Kind.String())},
		cep.Member{Name: "severity", Value: cep.String(a.Severity)}, cep.Member{Name: "key", Value: cep.Object(key)},
		cep.Member{Name: "tags", Value: cep.List(tags)})
	for _, n := range a.Fields {
		list = append(list, cep.Member(n))
	}
	return list
}
