package main

import (
	"testing"

	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// What became of a rule is told in words.
func TestChangeText(t *testing.T) {
	set := &rules.Set{Set: &patterns.Set{Rules: []*patterns.Rule{{Meta: patterns.Meta{ID: "off"}}, {Meta: patterns.Meta{ID: "on", Enabled: true}}}}}
	for _, c := range []struct {
		change job.RuleChange
		want   string
	}{
		{job.RuleChange{Rule: "on", Kind: "kept", Starts: 1}, "1 open start go on"},
		{job.RuleChange{Rule: "on", Kind: "changed"}, "no start was open"},
		{job.RuleChange{Rule: "on", Kind: "changed", Dropped: 2}, "no start was open; 2 open starts of older versions are dropped"},
		{job.RuleChange{Rule: "on", Kind: "changed", Starts: 3, Reason: "why"}, "3 open starts of the version before are dropped: why"},
		{job.RuleChange{Rule: "off", Kind: "deleted"}, "disabled, with 0 open starts"},
		{job.RuleChange{Rule: "nowhere", Kind: "deleted", Starts: 2}, "gone, with 2 open starts"},
	} {
		if got := changesOf([]job.RuleChange{c.change}, set)[0].Text; got != c.want {
			t.Errorf("%+v: %q, want %q", c.change, got, c.want)
		}
	}
}
