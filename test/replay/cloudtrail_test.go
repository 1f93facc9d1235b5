package replay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
)

func TestCloudTrail(t *testing.T) {
	var figures struct {
		Events int            `json:"events"`
		Late   int            `json:"late_events_in_delivery_order"`
		Behind float64        `json:"max_lateness_s"`
		Rules  map[string]any `json:"rules"`
	}
	expected(t, "aws-stratus", &figures)
	f := cloudtrail.run(t, 0)
	if s := f.summary.Streams[0]; int(s.Events) != figures.Events || s.Late != 0 || s.Behind.Seconds() != figures.Behind {
		t.Errorf("events %d, late %d, behind %v", s.Events, s.Late, s.Behind)
	}

	// Without lateness nearly everything is late: delivery has little to do with time.
	inOrder := cloudtrail
	inOrder.lateness = 0
	if s := inOrder.run(t, 0).summary.Streams[0]; int(s.Late) != figures.Late {
		t.Errorf("%d late in the order of delivery, want %d", s.Late, figures.Late)
	}

	rules := map[string]struct {
		rule string
		got  func(*cep.Alert) []any
	}{
		"CreateUser -> CreateAccessKey, key: requestParameters.userName both, within 5m": {"user-gets-key", row("user", "key")},
		"CreateUser -> AttachUserPolicy -> CreateAccessKey same target user within 5m (two events share 12:24:49 - second resolution tie)": {
			"user-gets-policy-and-key", row("user", "policy", "key"),
		},
		"CreateUser -> CreateLoginProfile same target within 5m":                                                 {"user-gets-login", row()},
		"PER-STEP KEY: CreateUser(requestParameters.userName) -> ConsoleLogin(userIdentity.userName) within 5m":  {"user-logs-in", row("user", "login")},
		"CreateUser -> DeleteUser same target within 10m (short-lived account)":                                  {"user-short-lived", nil},
		"GetPasswordData{10} by userIdentity.arn within 5m skip_past_last":                                       {"windows-passwords-read", nil},
		"ABSENCE: CreateUser not followed by DeleteUser of same target within 4m (fires at T0+4m in event time)": {"user-stays", fires},
	}
	if len(figures.Rules) != len(rules) {
		t.Errorf("%d figures, %d rules for them", len(figures.Rules), len(rules))
	}
	for name, want := range figures.Rules {
		our, known := rules[name]
		if !known {
			t.Errorf("no rule for %q", name)
			continue
		}
		alerts := f.of(our.rule)
		if our.got == nil {
			if want != float64(len(alerts)) {
				t.Errorf("%s: %d alerts, want %v: %s", our.rule, len(alerts), want, describe(alerts))
			}
			continue
		}
		var got []any
		for _, a := range alerts {
			got = append(got, our.got(a))
		}
		if our.rule == "user-stays" {
			want = withoutRemarks(want)
		}
		if diff := cmp.Diff(want, any(got)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", our.rule, diff)
		}
	}
}

// row gives an alert as the figures do: the user, then the time of each step.
func row(steps ...string) func(*cep.Alert) []any {
	return func(a *cep.Alert) []any {
		out := []any{a.Key[0].Value.AsString()}
		for _, s := range steps {
			for _, e := range taken(a, s) {
				out = append(out, clock(e.Time))
			}
		}
		return out
	}
}

func fires(a *cep.Alert) []any {
	if !a.Timed {
		return []any{"completed by an event"}
	}
	return []any{a.Key[0].Value.AsString(), "fires " + clock(a.Time) + "Z"}
}

// withoutRemarks drops what the figures say about later events.
func withoutRemarks(want any) any {
	var out []any
	rows, _ := want.([]any)
	for _, r := range rows {
		var kept []any
		cells, _ := r.([]any)
		for _, c := range cells {
			if s, _ := c.(string); !strings.HasPrefix(s, "deleted after") {
				kept = append(kept, c)
			}
		}
		out = append(out, kept)
	}
	return out
}
