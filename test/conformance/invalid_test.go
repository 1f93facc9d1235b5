package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cepd/cepd/patterns"
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
	"inner contiguity applies only to loops":                     {"CEP0134", "CEP0132"},
}

func TestInvalidVectors(t *testing.T) {
	for _, file := range []string{"flink_invalid.jsonl", "flink_random_invalid.jsonl"} {
		t.Run(file, func(t *testing.T) { invalidFile(t, file) })
	}
}

func invalidFile(t *testing.T, file string) {
	vectors, sum, err := Load(folder(t), file)
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := ReadDecisions(decisionsFile)
	if err != nil {
		t.Fatal(err)
	}
	var n tally
	lack := map[string]int{}
	var lists []string
	for _, v := range vectors {
		tr := v.Translate()
		if tr.Missing != "" {
			lack[tr.Missing]++
			n[NotExpressible]++
			continue
		}
		set, diagnostics := patterns.Load([]patterns.Source{{Name: "vector.yaml", Data: []byte(tr.Text)}}, patterns.Options{})
		diff := ""
		if set != nil {
			diff = "has a meaning here"
			if len(v.reasons()) > 0 {
				lists = append(lists, fmt.Sprintf("vector %s %s %s %s", file, v.ID, v.Sum, strings.Join(v.reasons(), "; ")))
			}
		} else if !slices.ContainsFunc(diagnostics, func(d patterns.Diagnostic) bool {
			return slices.Contains(refusals[v.Expected.Rule], d.Code)
		}) {
			n[Wrong]++
			t.Errorf("%s: refused, but not for %q:\n%s", v.ID, v.Expected.Rule, diagnostics.Error())
			continue
		}
		verdict, because := decisions.Judge(file, sum, v, diff, set == nil)
		if verdict == Wrong {
			t.Errorf("%s: %q: %s\n%s\n%s", v.ID, v.Expected.Rule, because, diff, tr.Text)
		}
		n[verdict]++
	}
	finish(t, decisions, file, sum, lists)
	t.Logf("not expressible: %v", lack)
	summary = append(summary, n.line("vectors", file))
}
