package spectest

import (
	"fmt"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/patterns/oracle"
)

// Format writes what a rule lets out, a match a line:
//
//	WHEN: RULE KEY... step=[ID ID] step=[ID] (completed WHEN)
//	WHEN: timeout RULE KEY... step=[ID]
//
// WHEN is the id of the event that let it out, or @TIME where time alone did. Steps that took nothing are left out, and
// so is the moment of completion where it is that of letting out.
func Format(r *patterns.Rule, rec *Recording, matches []cep.Match) string {
	var sb strings.Builder
	for _, m := range matches {
		sb.WriteString(rec.when(m.Moment) + ":")
		if m.Kind == cep.MatchTimeout {
			sb.WriteString(" timeout")
		}
		sb.WriteString(" " + r.ID)
		parts, err := m.Key.Parts()
		if err != nil {
			sb.WriteString(" " + err.Error())
		}
		for _, p := range parts {
			sb.WriteString(" " + p.String())
		}
		for name := range r.Names {
			if n := m.History.Len(name); n > 0 {
				ids := make([]string, n)
				for i := range ids {
					ids[i] = rec.IDs[m.History.At(name, i).Position().Offset]
				}
				fmt.Fprintf(&sb, " %s=%v", r.Names[name], ids)
			}
		}
		if m.Completed != m.Moment {
			sb.WriteString(" (completed " + rec.when(m.Completed) + ")")
		}
		sb.WriteString("\n")
	}
	return sb.String()
}

// when names a moment.
func (rec *Recording) when(m cep.Moment) string {
	if m.Timed() || m.Seq == 0 || m.Seq > uint64(len(rec.IDs)) {
		return "@" + time.Duration(m.Time.Sub(rec.Zero)).String()
	}
	return rec.IDs[m.Seq-1]
}

// Digest writes an output in full, so that equal texts mean equal outputs: kind, key, moments, each event taken by
// which name, and the open starts after each entry.
func Digest(out oracle.Output) string {
	var sb strings.Builder
	for _, m := range out.Matches {
		fmt.Fprintf(&sb, "%s%x at %s completed %s:", [...]string{"match ", "timeout "}[m.Kind], string(m.Key), moment(m.Moment), moment(m.Completed))
		for i := range m.History.Total() {
			t := m.History.Nth(i)
			fmt.Fprintf(&sb, " %d:%d", t.Step(), t.Position().Offset)
		}
		sb.WriteString("\n")
	}
	fmt.Fprintf(&sb, "open %v\nrefused %d\n", out.Open, out.Refused)
	return sb.String()
}

func moment(m cep.Moment) string {
	if m.Timed() {
		return fmt.Sprintf("%d*", m.Time)
	}
	return fmt.Sprintf("%d#%d", m.Time, m.Seq)
}
