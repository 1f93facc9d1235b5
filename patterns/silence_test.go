package patterns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
)

const silencedRules = `version: 1
rules:
- {id: login-failed, from: auth, by: [user, host], where: outcome == "failure"}
- {id: login-odd, from: auth, by: [user], where: hour > 22}
- {id: beat, from: sensors, by: {device: id}, where: kind == "beat"}
- {id: any, from: sensors, where: kind == "broken"}
`

// A silence concerns the rules that it names whose key it can ask for; what stands in several files is one list.
func TestSilences(t *testing.T) {
	set, diagnostics := Load([]Source{
		{Name: "b.yaml", Data: []byte("version: 1\nsilences:\n- {id: all, rule: \"*\", until: 2027-01-01}\n- {id: by-host, rule: \"log*\", key: {host: db7}, until: 2027-01-01T12:00:00+02:00, comment: new disk}\n")},
		{Name: "a.yaml", Data: []byte(silencedRules + "silences:\n- {id: two, rule: [beat, \"log??-odd\"], from: 2026-12-24, until: 2027-01-01}\n- {id: seven, rule: [beat, \"be*\"], key: {device: 7}, until: 2027-01-01}\n")},
	}, Options{})
	if set == nil || len(diagnostics) > 0 {
		t.Fatal(diagnostics)
	}
	var got []string
	for _, r := range set.Rules {
		var ids []string
		for _, s := range r.Silences {
			ids = append(ids, s.ID)
		}
		got = append(got, r.ID+": "+strings.Join(ids, " "))
	}
	if d := cmp.Diff([]string{"any: all", "beat: all seven two", "login-failed: all by-host", "login-odd: all two"}, got); d != "" {
		t.Errorf("silences of rules (-want +got):\n%s", d)
	}
	got = nil
	for _, s := range set.Silences {
		got = append(got, fmt.Sprintf("%s %v %v %s", s.ID, s.Rules, s.Key, s.Comment))
	}
	if d := cmp.Diff([]string{"all [*] [] ", "by-host [log*] [{host \"db7\"}] new disk", "seven [beat be*] [{device 7}] ", "two [beat log??-odd] [] "}, got); d != "" {
		t.Errorf("silences (-want +got):\n%s", d)
	}
	by, two := set.Silences[1], set.Silences[3]
	end, _ := parseMoment("2027-01-01T10:00:00Z")
	begin, _ := parseMoment("2026-12-24")
	if by.From != cep.BeforeAll || by.Until != end || two.From != begin || by.Over(end-1) || !by.Over(end) {
		t.Errorf("%v to %v, %v to %v", by.From, by.Until, two.From, two.Until)
	}
}

// A silence is no part of what a rule means.
func TestSilencesAreNoMeaning(t *testing.T) {
	fingerprints := func(text string) (list []string) {
		set, diagnostics := Load([]Source{{Name: "rules.yaml", Data: []byte(text)}}, Options{})
		if set == nil {
			t.Fatal(diagnostics)
		}
		for _, r := range set.Rules {
			list = append(list, r.Fingerprint)
		}
		return list
	}
	if d := cmp.Diff(fingerprints(silencedRules), fingerprints(silencedRules+"silences:\n- {id: all, rule: \"*\", until: 2027-01-01}\n")); d != "" {
		t.Error(d)
	}
}

// One silence too many is refused, and a rule with mistakes is not said to be missing.
func TestSilencesWithMistakes(t *testing.T) {
	var b strings.Builder
	b.WriteString(silencedRules + "silences:\n")
	for i := range maxSilences {
		fmt.Fprintf(&b, "- {id: s%d, rule: beat, until: 2027-01-01}\n", i)
	}
	if got := codes(t, b.String()); len(got) > 0 {
		t.Errorf("%v", got)
	}
	b.WriteString("- {id: more, rule: beat, until: 2027-01-01}\n")
	if d := cmp.Diff([]string{codeTooMany}, codes(t, b.String())); d != "" {
		t.Error(d)
	}
	broken := strings.Replace(silencedRules, `kind == "beat"`, `kind = "beat"`, 1) + "silences:\n- {id: s, rule: beat, until: 2027-01-01}\n"
	for _, code := range codes(t, broken) {
		if code == codeSilenceless {
			t.Error("the rule is there, it has mistakes")
		}
	}
}
