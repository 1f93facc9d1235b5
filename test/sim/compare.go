package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
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
	if w.scenario.Live {
		return w.compareLive(g)
	}
	for _, name := range []string{sinkMain, sinkOther} {
		if err := compareAlerts(g, w.servers[name].Messages()); err != nil {
			return fmt.Errorf("sink %s: %w", name, err)
		}
	}
	if q := w.options.queue; q != nil {
		if err := compareAlerts(g, q.messages()); err != nil {
			return fmt.Errorf("sink %s: %w", sinkTopic, err)
		}
	}
	if err := w.compareEdited(); err != nil {
		return err
	}
	return compareRefused(g, w.servers[sinkRefuse])
}

// compareLive holds what has arrived against what must hold whatever the moments were: both sinks have the same alerts in the
// same order, each once and behind a chain without a gap; of one rule and key they go on in time. What is no event is refused
// once, what is late or came back too late at most once.
func (w *world) compareLive(g *golden) error {
	sent := w.servers[sinkMain].Messages()
	if d := cmp.Diff(bodies(sent), bodies(w.servers[sinkOther].Messages())); d != "" {
		return fmt.Errorf("the sinks have other alerts (-%s +%s):\n%s", sinkMain, sinkOther, d)
	}
	seen, last, chain := map[string]bool{}, map[lane]cep.Time{}, sinks.Chain{}
	for i := range sent {
		m := &sent[i]
		if chain = chain.Next(m.ID); m.Sequence != uint64(i)+1 || m.Chain != chain {
			return fmt.Errorf("message %d has the number %d, or another chain", i+1, m.Sequence)
		}
		var e envelope
		if err := json.Unmarshal(m.Body, &e); err != nil {
			return fmt.Errorf("message %d: %w", i+1, err)
		}
		if seen[e.ID] {
			return fmt.Errorf("alert %s is there twice", e.ID)
		}
		seen[e.ID] = true
		l := lane{rule: e.Rule, key: string(e.Key)}
		if before, ok := last[l]; ok && m.Time < before {
			return fmt.Errorf("alert %s of %v goes back in time", e.ID, l)
		}
		last[l] = m.Time
	}
	got := map[string]int{}
	for _, m := range w.servers[sinkRefuse].Messages() {
		var e envelope
		if err := json.Unmarshal(m.Body, &e); err != nil {
			return fmt.Errorf("refused %q: %w", m.Body, err)
		}
		at := place(e.Stream, e.Partition, e.Offset)
		if got[at]++; got[at] > 1 {
			return fmt.Errorf("%s is refused twice", at)
		}
		if fate := g.refused[at]; fate != Late && e.Reason == "late" || fate == Taken && e.Reason != "returned" {
			return fmt.Errorf("%s is refused as %s", at, e.Reason)
		}
	}
	for at, fate := range g.refused {
		if got[at] == 0 {
			return fmt.Errorf("%s is not refused, want %s", at, fateReasons[fate])
		}
	}
	return nil
}

func bodies(list []sinks.Message) []string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = string(list[i].Body)
	}
	return texts
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
		if strings.HasPrefix(e.Rule, editedPrefix) {
			continue // compareEdited looks at these
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
