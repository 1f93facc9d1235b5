package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
)

// envelope is what the comparison reads of a message's body.
type envelope struct {
	ID        string          `json:"id"`
	Rule      string          `json:"rule"`
	Key       json.RawMessage `json:"key"`
	Reason    string          `json:"reason"`
	Stream    string          `json:"stream"`
	Partition string          `json:"partition"`
	Offset    int64           `json:"offset"`
}

// compare holds what has arrived against what should have.
func (w *world) compare(g *golden) error {
	for _, name := range []string{sinkMain, sinkOther} {
		if err := compareAlerts(g, w.servers[name].Messages()); err != nil {
			return fmt.Errorf("sink %s: %w", name, err)
		}
	}
	return compareRefused(g, w.servers[sinkRefuse])
}

func compareAlerts(g *golden, messages []sinks.Message) error {
	got, want := map[lane][]string{}, map[lane][]string{}
	maps.Copy(want, g.alerts)
	seen := map[string]bool{}
	for i := range messages {
		var e envelope
		if err := json.Unmarshal(messages[i].Body, &e); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if e.Rule == "passerby" {
			if seen[e.ID] {
				return fmt.Errorf("alert %s of %s is there twice", e.ID, e.Rule)
			}
			seen[e.ID] = true
			continue
		}
		l := lane{rule: e.Rule, key: string(e.Key)}
		got[l] = append(got[l], string(messages[i].Body))
	}
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("alerts differ (-want +got):\n%s", d)
	}
	return nil
}

func compareRefused(g *golden, server *memsink.Server) error {
	var want, got []string
	for p, fate := range g.refused {
		want = append(want, p+" "+fateReasons[fate])
	}
	for _, m := range server.Messages() {
		var e envelope
		if err := json.Unmarshal(m.Body, &e); err != nil {
			return fmt.Errorf("refused %q: %w", m.Body, err)
		}
		reason := e.Reason
		if reason != "late" && reason != "future" {
			reason = "bad"
		}
		got = append(got, place(e.Stream, e.Partition, e.Offset)+" "+reason)
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("refused events differ (-want +got):\n%s", d)
	}
	return nil
}

var fateReasons = [...]string{Late: "late", Bad: "bad", Future: "future"}
