package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/rules"
)

// keepsApart says why a rule that reads one stream cannot run on the clocks of its partitions; "": it can.
//
// Nothing that it does may bring together what lies in two partitions, or count from a time that is not that of a key: its
// keys hold the local fields, and so does what its alerts are suppressed by; no other rule reads its alerts, whose order is
// that of one clock; no key of it waits without an event; and no absence begins at the rule's first time.
func (c *Core) keepsApart(r *rules.Rule, s *stream) string {
	if len(s.KeyLocal) == 0 {
		return "no field is local to a partition"
	}
	for _, path := range s.KeyLocal {
		name, part := strings.Join(path, "."), localPart(r, path)
		if part < 0 {
			return fmt.Sprintf("%s is not in all its keys", name)
		}
		if by := r.Alert.Suppress; by != nil {
			apart := false
			for _, x := range by.By {
				apart = apart || x.Field < 0 && x.Key == part
			}
			if !apart {
				return fmt.Sprintf("it suppresses across %s", name)
			}
		}
	}
	switch {
	case len(r.Reads) > 0:
		return "it reads alerts"
	case len(r.Keys) > 0:
		return "it has keys that wait without an event"
	case slices.ContainsFunc(c.set.Rules, func(x *rules.Rule) bool { return x.Enabled && slices.Contains(x.Reads, r.ID) }):
		return "another rule reads its alerts"
	case countsFromFirst(r):
		return "it counts from its first time"
	}
	return ""
}

// localPart is the part of a rule's key that is the field at a path, for all that yields keys; -1 where there is none.
func localPart(r *rules.Rule, path []string) int {
	for part := range r.Key {
		all := true
		for _, e := range r.Leaves() {
			all = all && slices.Equal(e.By[part].Path, path)
		}
		for i := range r.Without {
			all = all && slices.Equal(r.Without[i].By[part].Path, path)
		}
		if over := r.Alert.Resolve; over != nil && over.Where != nil {
			all = all && slices.Equal(over.By[part].Path, path)
		}
		if all {
			return part
		}
	}
	return -1
}

// countsFromFirst says whether what a rule finds may depend on its first time (S4.3, S3.7).
func countsFromFirst(r *rules.Rule) bool {
	ends := len(r.Elements) // absences behind this one stand at the end
	for ends > 0 && r.Elements[ends-1].Absent {
		ends--
	}
	trailing := len(r.Elements) - ends
	list := r.Leaves()
	for i, e := range list {
		atEnd := i >= len(list)-trailing
		if e.Absent && e.For != 0 && !e.FromStart && !atEnd || e.FirstSeen != nil && !e.FirstSeen.FromStart {
			return true
		}
	}
	return false
}

// addLocal gives a partition its clock, if its stream has rules for it.
func (c *Core) addLocal(p *partition) {
	if len(p.stream.locals) == 0 {
		return
	}
	// The rules do not ask when their first time was: everything is known from the beginning.
	k := &clock{streams: []*stream{p.stream}, partition: p, released: cep.BeforeAll, first: cep.BeforeAll}
	for _, e := range p.stream.locals {
		c.addVersion(e, k)
	}
	p.local = k
	c.addClock(k)
	if c.back != nil {
		k.wire()
	}
}

// ClockOf says in words on which clock a rule runs, for people: that of its streams, or of each partition of its stream, and
// if [Stream.KeyLocal] does not help it, why. "" where there is no such rule, or it is not run.
func (c *Core) ClockOf(rule string) string {
	e := c.enlisted(rule)
	if e == nil {
		return ""
	}
	if e.local != nil {
		return fmt.Sprintf("each partition of %s", e.local.Name)
	}
	k := e.versions[0].clock
	names := make([]string, len(k.streams))
	local := false
	for i, s := range k.streams {
		names[i] = s.Name
		local = local || len(s.KeyLocal) > 0
	}
	text := strings.Join(names, ", ")
	if len(k.reads) > 0 {
		text = strings.Join(append(names, "alerts of "+strings.Join(k.reads, ", ")), ", ")
	}
	switch {
	case !local:
		return text
	case len(k.streams) > 1 || len(k.reads) > 0:
		return text + " (not each partition: it reads more than one stream)"
	default:
		return fmt.Sprintf("%s (not each partition: %s)", text, c.keepsApart(e.rule, k.streams[0]))
	}
}
