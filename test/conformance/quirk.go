package conformance

import (
	"maps"
	"slices"
	"strings"
)

// quirk is an odd corner of FlinkCEP, named by peer_quirk, and what a vector must look like for it to explain a
// difference. So a name alone excuses nothing.
type quirk struct {
	// refused: the definition may have no meaning here, and fail to load.
	refused bool
	// needs is what the pattern must have.
	needs func(*Vector) bool
}

// quirks are all names that FlinkCEP's vectors use.
var quirks = map[string]quirk{
	"all_optional":  {refused: true, needs: (*Vector).mayTakeNothing},
	"tail_optional": {refused: true, needs: (*Vector).negationBeforeOptionalTail},
	"for_between":   {refused: true, needs: (*Vector).gapOnNegationBetween},
	"processing_time": {refused: true, needs: func(v *Vector) bool {
		return v.some(func(s *Step) bool { return strings.Contains(s.Where, "processing_time()") })
	}},
	"gap_states":           {needs: func(v *Vector) bool { return v.some(func(s *Step) bool { return s.GapMS > 0 || s.LoopGapMS != nil }) }},
	"absence_after_loop":   {needs: (*Vector).endsWithNegation},
	"absence_window":       {needs: (*Vector).endsWithNegation},
	"end_from_first":       {needs: (*Vector).endsWithNegation},
	"next_needs_event":     {needs: (*Vector).endsWithNegation},
	"choice":               {needs: func(v *Vector) bool { return v.Pattern.After.Strategy != "no_skip" }},
	"greedy_exact":         {needs: (*Vector).hasGreedy},
	"greedy_guard":         {needs: (*Vector).hasGreedy},
	"greedy_then_optional": {needs: (*Vector).hasGreedy},
	"forbidden_and_next":   {needs: (*Vector).hasNegation},
	"neg_in_loop":          {needs: (*Vector).hasNegation},
	"neg_lost":             {needs: (*Vector).hasNegation},
	"neg_in_range":         {needs: (*Vector).hasNegation},
	"neg_before_group":     {needs: func(v *Vector) bool { return v.hasNegation() && v.hasGroup() }},
	"group_head_inner":     {needs: (*Vector).hasGroup},
	"nested_head_strict":   {needs: (*Vector).hasGroup},
	"after_group_loop":     {needs: (*Vector).hasGroup},
	"until_before_group":   {needs: (*Vector).hasGroup},
	"until_nested":         {needs: (*Vector).hasGroup},
	"timer":                {needs: func(v *Vector) bool { return v.some(func(s *Step) bool { return s.GapMS > 0 }) }},
	"same match twice":     {needs: func(v *Vector) bool { return len(v.Expected.Matches) > 1 }},
	"unexplained":          {needs: func(*Vector) bool { return true }},
}

// raises is the reason of vectors whose run fails in the peer: a skip to a step that took nothing, where the peer was
// told to fail by it. We have no such word.
const raises = "raises"

// accepted names the reason why a definition that the peer refuses has a meaning here, "" where it has none.
func (v *Vector) accepted() string {
	switch v.Expected.Rule {
	case "a negated step may not directly follow an optional one":
		return "absence_after_optional"
	case "a between-step gap may not be longer than the whole window":
		// Only that of an absence may: it begins where the window no longer counts.
		if w := v.Pattern.WithinMS; w != nil && !v.some(func(s *Step) bool { return s.GapMS > *w && !s.negated() }) {
			return "absence_window"
		}
	case "greedy is not allowed when the loop allows combinations":
		return "greedy_any"
	case "an optional step may not directly follow a greedy one":
		return "optional_after_greedy"
	case "greedy is not allowed on a singleton step":
		if v.some(func(s *Step) bool { return len(s.Quantifiers) > 1 }) {
			return "order_of_words"
		}
		if v.some(func(s *Step) bool { return s.Greedy && s.Optional }) {
			return "greedy_optional"
		}
	case "inner contiguity applies only to loops":
		if v.some(func(s *Step) bool { return len(s.Quantifiers) > 1 }) {
			return "order_of_words"
		}
	}
	return ""
}

// reasons are what may explain that the vector differs: its quirks that fit its pattern.
func (v *Vector) reasons() []string {
	var out []string
	if v.Kind == "tree_pattern" {
		if s, err := v.Siddhi(); err == nil {
			return s.reasons()
		}
	}
	if name := v.accepted(); name != "" {
		out = append(out, name)
	}
	for _, name := range v.Quirks() {
		if q, known := quirks[name]; known && q.needs(v) {
			out = append(out, name)
		}
	}
	if v.Raises != "" && v.Pattern.After.ErrorIfMissing {
		out = append(out, raises)
	}
	return out
}

// mayRefuse reports whether the definition may have no meaning here. The peer's generator labels every one of these, but for
// runs that fail.
func (v *Vector) mayRefuse() bool {
	names := v.Quirks()
	if v.Raises != "" {
		names = slices.Collect(maps.Keys(quirks))
	}
	return slices.ContainsFunc(names, func(name string) bool { return quirks[name].refused && quirks[name].needs(v) })
}

// some reports whether a step fits, groups included.
func (v *Vector) some(fits func(*Step) bool) bool { return some(v.Pattern.Steps, fits) }

func some(steps []Step, fits func(*Step) bool) bool {
	for i := range steps {
		if fits(&steps[i]) || some(steps[i].Group, fits) {
			return true
		}
	}
	return false
}

func (s *Step) negated() bool { return strings.HasPrefix(s.Contiguity, "not_") }

func (v *Vector) hasNegation() bool { return v.some((*Step).negated) }
func (v *Vector) hasGreedy() bool   { return v.some(func(s *Step) bool { return s.Greedy }) }
func (v *Vector) hasGroup() bool    { return v.some(func(s *Step) bool { return s.Group != nil }) }

func (v *Vector) endsWithNegation() bool {
	n := len(v.Pattern.Steps)
	return n > 0 && v.Pattern.Steps[n-1].negated()
}

// empty reports whether a step may take nothing.
func (s *Step) empty() bool {
	if s.negated() || s.Optional || s.Min != nil && *s.Min == 0 {
		return true
	}
	return s.Group != nil && !slices.ContainsFunc(s.Group, func(g Step) bool { return !g.empty() })
}

func (v *Vector) mayTakeNothing() bool {
	return !slices.ContainsFunc(v.Pattern.Steps, func(s Step) bool { return !s.empty() })
}

// gapOnNegationBetween reports whether a negation has a gap although a step stands behind it, if only in the next
// repetition of its group.
func (v *Vector) gapOnNegationBetween() bool { return gapBetween(v.Pattern.Steps, false) }

func gapBetween(steps []Step, more bool) bool {
	for i := range steps {
		s := &steps[i]
		more := more || i < len(steps)-1
		if s.negated() && s.GapMS > 0 && more || gapBetween(s.Group, more || s.loops()) {
			return true
		}
	}
	return false
}

// negationBeforeOptionalTail reports whether a negation stands before steps that may all be left out, at the end of the
// pattern or of a group.
func (v *Vector) negationBeforeOptionalTail() bool {
	return optionalTail(flatten(v.Pattern.Steps)) || v.some(func(s *Step) bool { return optionalTail(s.Group) })
}

func optionalTail(steps []Step) bool {
	for i := range steps {
		rest := steps[i+1:]
		if steps[i].negated() && len(rest) > 0 && !slices.ContainsFunc(rest, func(s Step) bool { return !s.empty() }) {
			return !rest[len(rest)-1].negated()
		}
	}
	return false
}

// timeoutReasons are why the starts that time out may differ from the peer's. Only first events are compared, so what is
// left are patterns in which the peer and we disagree about when a start is over.
func (v *Vector) timeoutReasons() []string {
	var out []string
	if quirks["gap_states"].needs(v) {
		out = append(out, "timeout_gap")
	}
	if v.endsWithNegation() || v.negationBeforeOptionalTail() {
		out = append(out, "timeout_absence")
	}
	if v.hasGroup() {
		out = append(out, "timeout_group")
	}
	if v.hasGreedy() {
		out = append(out, "timeout_greedy")
	}
	return out
}
