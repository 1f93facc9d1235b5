package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/sinks"
)

// While a job runs somebody edits its rules: they are added, changed, renamed, deleted and made again, by a swap where the job
// lives and by a start where it has just died. Rules that nobody touches must find what they find without that. Of each other
// one it is recorded at which watermark it came and went, by the epochs that became durable, and its meaning over just that
// stretch is enumerated.

// anchor finds nothing. It is in every set, and its version says at which watermark the last swap stood.
const anchor = `{id: anchor, from: auth, where: kind == "nothing"}`

// anchorClock is the name of the clock that it runs on, and all rules that are edited.
const anchorClock = `"auth" layer 0 []`

// editedPrefix begins the ids of rules that are edited.
const editedPrefix = "edited-"

// meanings are what an edited rule may say: each start goes its own way, so that a stretch of time tells what comes of it.
var meanings = []string{
	`within: 20s, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]`,
	`within: 15s, on_change: drop, sequence: [{step: a, where: kind == "a"}, {step: c, where: kind == "c"}]`,
	`within: 12s, on_change: drop, sequence: [{step: b, where: kind == "b"}, {step: a, where: kind == "a", contiguity: strict}]`,
	`within: 30s, sequence: [{step: a, where: kind == "a"}, {absent: b, where: kind == "b", for: 4s}]`,
}

// changesMax is how often the meaning of a rule is changed: no older version has to make room for a fifth then.
const changesMax = 4

// edits are the files of rules that follow each other.
type edits []string

// drawEdits draws edits of a scenario, the rules of the scenario among each.
func drawEdits(r *rand.Rand, own string) edits {
	type edited struct{ meaning, revision, changes int }
	state := map[string]*edited{}
	next := 0
	text := func() string {
		var b strings.Builder
		b.WriteString(own + "- " + anchor + "\n")
		for _, id := range slices.Sorted(maps.Keys(state)) {
			e := state[id]
			fmt.Fprintf(&b, "- {id: %s, revision: %d, from: auth, by: [user], after_match: none, %s}\n", id, e.revision, meanings[e.meaning])
		}
		return b.String()
	}
	add := func() {
		state[fmt.Sprint(editedPrefix, next)] = &edited{meaning: r.IntN(len(meanings)), revision: 1}
		next++
	}
	var gone []string
	for range 2 {
		add()
	}
	list := edits{text()}
	for range 3 + r.IntN(6) {
		ids := slices.Sorted(maps.Keys(state))
		if len(ids) == 0 {
			add()
			list = append(list, text())
			continue
		}
		id := ids[r.IntN(len(ids))]
		e := state[id]
		switch n := r.IntN(9); {
		case n == 0:
			add()
		case n == 1:
			delete(state, id)
			gone = append(gone, id)
		case n == 2 && len(gone) > 0: // made again
			state[gone[0]] = &edited{meaning: r.IntN(len(meanings)), revision: 7}
			gone = gone[1:]
		case n == 3: // renamed
			delete(state, id)
			state[fmt.Sprint(editedPrefix, next)] = e
			next++
		case n == 4:
			e.revision++ // its meaning stays
		case e.changes < changesMax:
			e.changes++
			e.meaning = (e.meaning + 1 + r.IntN(len(meanings)-1)) % len(meanings)
		}
		list = append(list, text())
	}
	return list
}

// ruleHistory is what durable epochs say of the rules: which set ran, and where the last swap stood.
type ruleHistory struct {
	mu     sync.Mutex
	epochs map[cep.Epoch]ruleRecord
}

func newRuleHistory() *ruleHistory { return &ruleHistory{epochs: map[cep.Epoch]ruleRecord{}} }

type ruleRecord struct {
	set string
	at  cep.Time
}

// take notes an epoch that may become durable.
func (h *ruleHistory) take(m *checkpoint.Manifest) error {
	var state struct {
		Engine struct {
			Rules []struct {
				Rule  string   `json:"rule"`
				Set   string   `json:"set"`
				After cep.Time `json:"after"`
				Clock string   `json:"clock"`
			} `json:"rules"`
		} `json:"engine"`
	}
	if err := json.Unmarshal(m.Engine, &state); err != nil {
		return err
	}
	for _, v := range state.Engine.Rules {
		if v.Rule == "anchor" && v.Set == "" && v.Clock == anchorClock {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.epochs[m.Epoch] = ruleRecord{m.Rules[0].ID, v.After}
			return nil
		}
	}
	return errors.New("the anchor is gone")
}

// recorder is a store that keeps the history of a life.
type recorder struct {
	checkpoint.Store
	history *ruleHistory
}

// Commit implements [checkpoint.Store].
func (r *recorder) Commit(ctx context.Context, c *checkpoint.Commit) error {
	if err := r.history.take(&c.Manifest); err != nil {
		return err
	}
	return r.Store.Commit(ctx, c)
}

// clone is the history of a copy of the disk.
func (h *ruleHistory) clone() *ruleHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &ruleHistory{epochs: maps.Clone(h.epochs)}
}

// forgetAbove drops what did not become durable.
func (h *ruleHistory) forgetAbove(e cep.Epoch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.epochs, func(k cep.Epoch, _ ruleRecord) bool { return k > e })
}

// edit has the sets of the scenario take over from each other, from where the life before left off, until all have or the life
// ends. A file is written before its set takes over, as a start reads it, and taken back where the job refuses it.
func (l *life) edit(ctx context.Context, j *job.Job) {
	w := l.world
	if _, err := j.Checkpoint(ctx); err != nil { // a start may have changed the rules: that is in an epoch of its own then
		return
	}
	for {
		pause := time.Duration(w.draw("edit pause", 1500)) * time.Millisecond
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		at, ok := w.nextEdit(l)
		if !ok {
			return
		}
		set, err := compile(w.scenario.Edits[at])
		if err == nil {
			_, err = j.Swap(ctx, set)
		}
		switch {
		case err == nil:
			w.note("life %d: edit %d took over", l.number, at)
			w.swapped()
		case l.dead() || ctx.Err() != nil:
			return
		default:
			w.note("life %d: edit %d: %v", l.number, at, err)
			w.takeBack(l, at)
			return
		}
	}
}

// nextEdit moves to the next file of rules, unless somebody has taken over from this life.
func (w *world) nextEdit(l *life) (at int, ok bool) {
	l.mu.Lock()
	hung := l.hung || l.over
	l.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if hung || w.at+1 >= len(w.scenario.Edits) {
		return 0, false
	}
	w.at++
	return w.at, true
}

func (w *world) takeBack(l *life, at int) {
	l.mu.Lock()
	gone := l.hung || l.over
	l.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !gone && w.at == at {
		w.at--
	}
}

func (w *world) swapped() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swaps++
}

// stretch is the time of one version of a rule.
type stretch struct {
	rule *rules.Rule
	set  *rules.Set
	// from is the watermark at which it came, to that at which it went, or became an older version that drains; dropped is
	// that at which also its open starts went.
	from, to, dropped cep.Time
}

// stretches are those of the edited rules, by id.
func (w *world) stretches() (map[string][]*stretch, error) {
	sets := map[string]*rules.Set{}
	for _, text := range w.scenario.Edits {
		set, err := compile(text)
		if err != nil {
			return nil, err
		}
		sets[set.ID()] = set
	}
	all, live := map[string][]*stretch{}, map[string]*stretch{}
	before := ""
	for _, e := range slices.Sorted(maps.Keys(w.history.epochs)) {
		rec := w.history.epochs[e]
		if rec.set == before {
			continue
		}
		before = rec.set
		set := sets[rec.set]
		if set == nil {
			return nil, fmt.Errorf("epoch %d has a set that nobody wrote", e)
		}
		now := map[string]*rules.Rule{}
		for _, r := range set.Rules {
			if strings.HasPrefix(r.ID, editedPrefix) {
				now[r.ID] = r
			}
		}
		for id, s := range live {
			r := now[id]
			switch {
			case r == nil: // deleted, with all older versions
				for _, old := range all[id] {
					old.to, old.dropped = min(old.to, rec.at), min(old.dropped, rec.at)
				}
				delete(live, id)
			case r.Fingerprint != s.rule.Fingerprint:
				if s.to = rec.at; r.DropOnChange {
					s.dropped = rec.at
				}
				delete(live, id)
			}
		}
		for id, r := range now {
			if live[id] == nil {
				live[id] = &stretch{rule: r, set: set, from: rec.at, to: cep.AfterAll, dropped: cep.AfterAll}
				all[id] = append(all[id], live[id])
			}
		}
	}
	return all, nil
}

// compareEdited holds what the edited rules found against their meaning.
func (w *world) compareEdited() error {
	if w.scenario.Edits == nil {
		return nil
	}
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		return err
	}
	all, err := w.stretches()
	if err != nil {
		return err
	}
	want := map[string][]string{}
	for id, list := range all {
		for _, s := range list {
			found, err := w.scenario.found(s, spec)
			if err != nil {
				return err
			}
			want[id] = append(want[id], found...)
		}
	}
	for _, name := range []string{sinkMain, sinkOther} {
		got := map[string][]string{}
		for _, m := range w.servers[name].Messages() {
			if m.Kind != sinks.KindAlert || !strings.HasPrefix(m.Rule, editedPrefix) {
				continue
			}
			line, err := takenOf(string(m.Body))
			if err != nil {
				return err
			}
			got[m.Rule] = append(got[m.Rule], line)
		}
		for _, id := range slices.Sorted(maps.Keys(all)) {
			slices.Sort(want[id])
			slices.Sort(got[id])
			if d := diff.Diff(want[id], got[id]); d != "" {
				return fmt.Errorf("sink %s, rule %s, which was there %s (-oracle +arrived):\n%s", name, id, describe(all[id]), d)
			}
			delete(got, id)
		}
		if len(got) > 0 {
			return fmt.Errorf("sink %s: alerts of rules that never were: %v", name, got)
		}
	}
	return nil
}

func describe(list []*stretch) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "(%s from %s to %s, dropped %s)", s.rule.Fingerprint[:6], s.from, s.to, s.dropped)
	}
	return b.String()
}

// found is what a version of a rule finds in its stretch.
func (s *Scenario) found(x *stretch, spec codec.TimeSpec) ([]string, error) {
	events, end, err := s.events(x.set, spec)
	if err != nil {
		return nil, err
	}
	events = slices.DeleteFunc(events, func(ev *cep.Event) bool {
		return ev.Time <= x.from || !slices.Contains(x.rule.Streams, ev.Position.Partition.Stream)
	})
	var list []string
	for _, m := range matchesOf((*patterns.Rule)(x.rule), events, end) {
		if m.first <= x.to && m.moment <= x.dropped {
			list = append(list, m.line)
		}
	}
	return list, nil
}
