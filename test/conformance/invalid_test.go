package conformance

import (
	"fmt"
	"slices"
)

// refusals are the codes that a definition may be refused with, by the peer's rule that it breaks. So a translation that
// fails for a reason of its own does not count as a refusal.
var refusals = map[string][]string{
	"a step may have one quantifier":                             {"CEP0104"},
	"inner contiguity may be given once":                         {"CEP0104"},
	"optional may be given once":                                 {"CEP0104"},
	"a negated step cannot loop":                                 {"CEP0132"},
	"a negated step cannot have times":                           {"CEP0132"},
	"a negated step cannot be optional":                          {"CEP0132"},
	"a negated step takes no quantifier":                         {"CEP0132"},
	"a negated step may not directly follow an optional one":     {"CEP0138", "CEP0140"},
	"times needs a positive number":                              {"CEP0133"},
	"times(n) needs n > 0":                                       {"CEP0133"},
	"times(from,to) needs from >= 0":                             {"CEP0133"},
	"times(from,to) needs to >= from":                            {"CEP0133"},
	"step names must be unique":                                  {"CEP0123"},
	"skip target must name an existing step":                     {"CEP0145"},
	"skip target must name a step of the top level":              {"CEP0145"},
	"a trailing not_followed_by needs a window":                  {"CEP0137"},
	"a trailing not_followed_by with a zero window is refused":   {"CEP0137"},
	"a between-step gap may not be longer than the whole window": {"CEP0142", "CEP0137"},
	"a loop is consecutive or allows combinations, not both":     {"CEP0104"},
	"until applies only to unbounded loops":                      {"CEP0150"},
	"inner contiguity applies only to loops":                     {"CEP0134", "CEP0132"},
}

func (r *fileRun) invalid(v *Vector) {
	tr := v.Translate()
	if tr.Missing != "" {
		r.lacks(v, tr.Missing)
		return
	}
	set, diagnostics := tr.load()
	if what := lacking(diagnostics); what != "" {
		r.lacks(v, what)
		return
	}
	if set != nil {
		r.judge(v, "the peer refuses it: "+v.Expected.Rule, false, tr.Text)
		return
	}
	codes, known := refusals[v.Expected.Rule]
	if !known {
		// Another test of the peer, that says its rule in other words: then any mistake about elements will do.
		for _, list := range refusals {
			codes = append(codes, list...)
		}
	}
	for _, d := range diagnostics {
		if slices.Contains(codes, d.Code) {
			r.judge(v, "", true, tr.Text)
			return
		}
	}
	r.wrong(v, fmt.Sprintf("refused, but not for %q:\n%s", v.Expected.Rule, diagnostics.Error()), tr.Text)
}
