package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
)

// Found is a match or a timeout in a form that compares: which events which step took, under the peer's names, and the
// entry that made it go out.
type Found struct {
	At    int
	First string // the id of the first event
	Steps string
	taken map[string][]string
}

// String formats the match as the vectors' shorthand does.
func (f Found) String() string { return fmt.Sprintf("(%s)@%d", f.Steps, f.At) }

// Outcome is all that went out.
type Outcome struct {
	Matches  []Found
	Timeouts []Found
}

// add records what one move let out.
func (o *Outcome) add(v *Vector, rule *Translation, names []string, at int, m *cep.Match) {
	f := Found{At: at}
	taken := map[string][]string{}
	for step, name := range names {
		for i := range m.History.Len(step) {
			peer := rule.Names[name]
			taken[peer] = append(taken[peer], v.id(m.History.At(step, i)))
		}
	}
	f.Steps, f.taken = steps(taken), taken
	if m.History.Total() > 0 {
		f.First = v.id(m.History.Nth(0))
	}
	if m.Kind == cep.MatchTimeout {
		o.Timeouts = append(o.Timeouts, f)
	} else {
		o.Matches = append(o.Matches, f)
	}
}

func (v *Vector) id(t cep.Taken) string { return v.Input[t.Position().Offset].Event }

// steps writes an assignment with its steps in the order of their names.
func steps(taken map[string][]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", name, strings.Join(taken[name], ","))
	}
	return b.String()
}

// found converts what the peer let out. dated is false where the peer's test does not say at which entry.
func (v *Vector) found(list []Assignment) (_ []Found, dated bool) {
	order := map[string]int{}
	for i, e := range v.Input {
		if _, again := order[e.Event]; !again {
			order[e.Event] = i
		}
	}
	dated = true
	var out []Found
	for _, a := range list {
		f := Found{Steps: steps(a.Steps)}
		if a.At == nil {
			dated = false
		} else {
			f.At = *a.At
		}
		// By time, then arrival: in event-time mode an earlier event may arrive later.
		for _, ids := range a.Steps {
			for _, id := range ids {
				if f.First == "" || v.before(order[id], order[f.First]) {
					f.First = id
				}
			}
		}
		out = append(out, f)
	}
	return out, dated
}

func (v *Vector) before(i, j int) bool {
	if v.Mode == "" || v.Input[i].TS == v.Input[j].TS {
		return i < j
	}
	return v.Input[i].TS < v.Input[j].TS
}

// DiffMatches says what differs between the matches found and those of the peer, "" where nothing does. Each match counts,
// so the same one twice is not the same as once.
func (v *Vector) DiffMatches(got []Found) string {
	want, dated := v.found(v.Expected.Matches)
	count := map[string]int{}
	for _, f := range got {
		count[key(f, dated)]++
	}
	for _, f := range want {
		count[key(f, dated)]--
	}
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(count)) {
		switch n := count[k]; {
		case n > 0:
			lines = append(lines, fmt.Sprintf("only here: %s x%d", k, n))
		case n < 0:
			lines = append(lines, fmt.Sprintf("only in the peer: %s x%d", k, -n))
		}
	}
	return strings.Join(lines, "\n")
}

// DiffOrder says where matches go out in another order than the peer's, in a vector that is equal. Order counts between
// entries and, within one, between first events; what the peer does among matches of one first event is an accident.
func (v *Vector) DiffOrder(got []Found) string {
	want, dated := v.found(v.Expected.Matches)
	// An absence with a time of its own ends at moments that one entry of the peer may bring all at once, and keys have no
	// order in the peer.
	last := v.Pattern.Steps[len(v.Pattern.Steps)-1]
	if !dated || v.Unordered || v.PartitionBy != "" || last.negated() && last.GapMS > 0 {
		return ""
	}
	for i := range want {
		if got[i].At != want[i].At || got[i].First != want[i].First {
			return fmt.Sprintf("match %d: %s goes out, the peer has %s", i, got[i], want[i])
		}
	}
	return ""
}

func key(f Found, dated bool) string {
	if !dated {
		f.At = -1
	}
	return f.String()
}

// DiffRaised holds a run that fails in the peer: nothing may go out before the entry that fails, and then a match must from
// which the peer cannot skip as it was told to: it took nothing for the step, or that is where it began. With gaps and
// absences at the end the peer may come to its matches, and so fail, at another entry than we.
func (v *Vector) DiffRaised(got []Found) string {
	if quirks["gap_states"].needs(v) || quirks["absence_window"].needs(v) {
		return ""
	}
	step := v.Pattern.After.Step
	for _, f := range got {
		if f.At < len(v.Input)-1 {
			return "before the peer fails: " + f.String()
		}
		if ids := f.taken[step]; len(ids) == 0 || ids[0] == f.First || ids[len(ids)-1] == f.First {
			return ""
		}
	}
	return "no match that the peer could fail at"
}

// DiffTimeouts compares timeouts by first event only: the peer reports each waiting length, and starts that have already
// matched, where we report a start once and only if nothing came of it (S5.7). So from the peer's list those go that
// share their first event with a match.
func (v *Vector) DiffTimeouts(got Outcome) string {
	matched := map[string]bool{}
	for _, f := range got.Matches {
		matched[f.First] = true
	}
	peer := map[string]bool{}
	want, _ := v.found(v.Expected.Timeouts)
	for _, f := range want {
		if !matched[f.First] {
			peer[f.First] = true
		}
	}
	ours := map[string]bool{}
	for _, f := range got.Timeouts {
		ours[f.First] = true
	}
	var lines []string
	for _, first := range slices.Sorted(maps.Keys(ours)) {
		if !peer[first] {
			lines = append(lines, "only here: timeout of "+first)
		}
	}
	for _, first := range slices.Sorted(maps.Keys(peer)) {
		if !ours[first] {
			lines = append(lines, "only in the peer: timeout of "+first)
		}
	}
	return strings.Join(lines, "\n")
}
