package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/engine"
)

// maxCompared bounds the alerts of a replay that is compared with another: at 1 kB each, 200 MB. Nobody judges an edit by more.
const maxCompared = 200_000

// maxShown bounds the differences of a rule that are printed as text; --json has all.
const maxShown = 50

// compareReplays replays by two sets of rules and prints how their alerts differ.
func compareReplays(cmd *cobra.Command, f replayFlags) error {
	if slices.ContainsFunc(f.streams, func(s string) bool {
		_, p, _ := strings.Cut(s, "=")
		return slices.Contains(strings.Split(p, ","), "-")
	}) {
		return usagef("--against reads the events twice, and standard input can be read once: write them to a file")
	}
	if err := f.checkCompared(cmd); err != nil {
		return err
	}
	f.compared = true
	before := f
	before.rules = []string{f.against}
	was, err := before.collect(cmd)
	if err != nil {
		return err
	}
	is, err := f.collect(cmd)
	if err != nil {
		return err
	}
	c := compareAlerts(was, is)
	if f.asJSON {
		err = writeJSON(cmd.OutOrStdout(), c)
	} else {
		p := newPrinter(cmd.OutOrStdout())
		c.print(p)
		err = p.done()
	}
	if err == nil && len(c.Differences) > 0 {
		err = silent(exitFailed)
	}
	return err
}

// checkCompared holds the streams against those that the rules of either side read.
func (f *replayFlags) checkCompared(cmd *cobra.Command) error {
	if f.file != "" {
		return nil // the configuration says which streams there are
	}
	both, err := runnableRules(cmd.ErrOrStderr(), f.rules, " behind --rules")
	if err != nil {
		return err
	}
	old, err := runnableRules(cmd.ErrOrStderr(), []string{f.against}, " behind --against")
	if err != nil {
		return err
	}
	inputs, err := f.inputs()
	if err != nil {
		return err
	}
	unread := slices.DeleteFunc(inputs, func(in input) bool { return readByRules(old, in.stream) })
	if len(unread) == 0 && len(f.streams) > 0 {
		return nil
	}
	return checkStreams(both, unread)
}

// compared is an alert that is held against those of another replay.
type compared struct {
	rule string
	json []byte
	// names are what it can be recognised by, the surest first: its id; what it was found in; when it was found.
	names [3]string
}

// collect replays and keeps the alerts.
func (f *replayFlags) collect(cmd *cobra.Command) ([]compared, error) {
	cfg, done, err := f.open(cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	var list []compared
	cfg.Alert = func(a *cep.Alert) error {
		if len(list) == maxCompared {
			return fmt.Errorf("there are more than %s alerts; compare rules on fewer events", thousands(maxCompared))
		}
		list = append(list, comparedOf(a))
		return nil
	}
	bar := newProgress(cmd.ErrOrStderr(), progressOfFiles(cfg.Readers))
	cfg.Progress = func(uint64) { bar.show() }
	_, err = engine.Replay(cmd.Context(), cfg)
	bar.hide()
	switch {
	case errors.Is(err, context.Canceled):
		return nil, &codedError{exitInterrupted, errors.New("interrupted")}
	case err != nil:
		return nil, failed(err)
	}
	return list, nil
}

func comparedOf(a *cep.Alert) compared {
	c := compared{rule: a.Rule, json: alert.AppendJSON(nil, a)}
	var key strings.Builder
	fmt.Fprintf(&key, "%s %s", a.Rule, a.Kind)
	for _, part := range a.Key {
		fmt.Fprintf(&key, " %s=%s", part.Name, cep.AppendJSON(nil, part.Value))
	}
	var places []string
	for _, s := range a.Steps {
		for _, e := range s.Events {
			places = append(places, fmt.Sprintf("%s/%s/%d", e.Position.Partition.Stream, e.Position.Partition.Name, e.Position.Offset))
		}
	}
	slices.Sort(places) // whatever the steps are called that took them
	c.names = [3]string{
		a.ID.String(),
		fmt.Sprintf("%s in %d %d %d %q", key.String(), a.Events, a.First, a.Last, places),
		fmt.Sprintf("%s at %d", key.String(), a.Time),
	}
	return c
}

// comparison is how the alerts of two replays differ.
type comparison struct {
	Rules       []ruleComparison `json:"rules"`
	Differences []difference     `json:"differences"`
}

// ruleComparison counts the alerts of a rule.
type ruleComparison struct {
	Rule    string `json:"rule"`
	Before  int    `json:"before"`
	After   int    `json:"after"`
	Same    int    `json:"same"`
	Changed int    `json:"changed"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// difference is an alert that only one of the replays has, or one that says something else.
type difference struct {
	Rule   string `json:"rule"`
	Change string `json:"change"` // added, removed or changed
	// Alert is the alert as it is, or as it was where it is no more. Was is the id that it had.
	Alert  json.RawMessage        `json:"alert"`
	Was    string                 `json:"was,omitempty"`
	Fields map[string]valueChange `json:"fields,omitempty"`
}

// valueChange is what a field was and is; null where it is not there.
type valueChange struct {
	Was json.RawMessage `json:"was"`
	Is  json.RawMessage `json:"is"`
}

// compareAlerts finds for each alert the one that it was before: by its id, by what it was found in, by when it was found.
// An edit changes the ids of all alerts of its rule, so that ids alone would say little.
func compareAlerts(was, is []compared) *comparison {
	partner := make([]int, len(is))
	for i := range partner {
		partner[i] = -1
	}
	taken := make([]bool, len(was))
	for by := range len(compared{}.names) {
		waiting := map[string][]int{}
		for i, a := range was {
			if !taken[i] {
				waiting[a.names[by]] = append(waiting[a.names[by]], i)
			}
		}
		for i, a := range is {
			if list := waiting[a.names[by]]; partner[i] < 0 && len(list) > 0 {
				partner[i], taken[list[0]] = list[0], true
				waiting[a.names[by]] = list[1:]
			}
		}
	}
	c := &comparison{Rules: []ruleComparison{}, Differences: []difference{}}
	counts := map[string]*ruleComparison{}
	of := func(rule string) *ruleComparison {
		if counts[rule] == nil {
			counts[rule] = &ruleComparison{Rule: rule}
		}
		return counts[rule]
	}
	for i, a := range was {
		n := of(a.rule)
		n.Before++
		if !taken[i] {
			n.Removed++
			c.Differences = append(c.Differences, difference{Rule: a.rule, Change: "removed", Alert: a.json})
		}
	}
	for i, a := range is {
		n := of(a.rule)
		n.After++
		if partner[i] < 0 {
			n.Added++
			c.Differences = append(c.Differences, difference{Rule: a.rule, Change: "added", Alert: a.json})
			continue
		}
		old := was[partner[i]]
		if fields := changedFields(old.json, a.json); len(fields) > 0 {
			n.Changed++
			c.Differences = append(c.Differences, difference{Rule: a.rule, Change: "changed", Alert: a.json, Was: old.names[0], Fields: fields})
		} else {
			n.Same++
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(counts)) {
		c.Rules = append(c.Rules, *counts[rule])
	}
	slices.SortStableFunc(c.Differences, func(a, b difference) int { return cmp.Compare(a.Rule, b.Rule) })
	return c
}

// unlike are the members of alerts that an edit changes whatever it is about.
var unlike = []string{"id", "fingerprint", "revision", "follows"}

// changedFields compares two alerts, and what stands in their maps name by name.
func changedFields(was, is []byte) map[string]valueChange {
	a, b := members(was), members(is)
	changed := map[string]valueChange{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b))) {
		if !slices.Contains(unlike, name) && !bytes.Equal(a[name], b[name]) {
			changed[name] = valueChange{orNull(a[name]), orNull(b[name])}
		}
	}
	return changed
}

func orNull(v json.RawMessage) json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	return v
}

// members are the members of an alert, with those of its fields and its key beside them.
func members(text []byte) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(text, &all) // made by AppendJSON
	for _, name := range []string{"fields", "key"} {
		var inner map[string]json.RawMessage
		if json.Unmarshal(all[name], &inner) == nil {
			delete(all, name)
			for k, v := range inner {
				all[name+"."+k] = v
			}
		}
	}
	return all
}

// print prints the comparison: the counts of all rules, then the differences.
func (c *comparison) print(p *printer) {
	if len(c.Rules) == 0 {
		p.printf("no alerts, before or after\n")
		return
	}
	t := table{head: []string{"rule", "before", "after", "same", "changed", "added", "removed"}}
	for _, r := range c.Rules {
		row := []string{r.Rule}
		for _, n := range []int{r.Before, r.After, r.Same, r.Changed, r.Added, r.Removed} {
			row = append(row, thousands(int64(n)))
		}
		t.add(row...)
	}
	t.write(p, "")
	shown, rule := 0, ""
	for i := range c.Differences {
		d := &c.Differences[i]
		if d.Rule != rule {
			p.printf("\n%s\n", p.paint(bold, d.Rule))
			rule, shown = d.Rule, 0
		}
		if shown++; shown > maxShown {
			if shown == maxShown+1 {
				p.printf("  and others: --json prints all\n")
			}
			continue
		}
		d.print(p)
	}
}

func (d *difference) print(p *printer) {
	var a struct {
		ID, Kind, Time, Title string
		Key                   json.RawMessage
	}
	_ = json.Unmarshal(d.Alert, &a) // made by AppendJSON
	sign := map[string]string{"added": p.paint(green, "+"), "removed": p.paint(red, "-"), "changed": p.paint(yellow, "~")}[d.Change]
	p.printf("  %s %s %s %s  %s  %s\n", sign, a.Time, a.Kind, a.Key, a.Title, p.paint(faint, a.ID[:min(12, len(a.ID))]))
	for _, name := range slices.Sorted(maps.Keys(d.Fields)) {
		p.printf("      %s: %s -> %s\n", name, shortText(string(d.Fields[name].Was)), shortText(string(d.Fields[name].Is)))
	}
}
