package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/rules"
)

// rulePool has a rule for each thing that a job has to keep: open starts of every kind of element, what keys remember, held
// matches, spans of suppression, open alerts with their deadlines, alerts that rules over alerts have not seen.
var rulePool = []string{
	`{id: brute, from: auth, by: [user], within: 30s, sequence: [{step: fail, where: kind == "a", times: 2..}, {step: ok, where: kind == "b"}], alert: {fields: {n: len(fail)}}}`,
	`{id: pairs, from: auth, by: [user], within: 20s, after_match: none, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b", contiguity: any}]}`,
	`{id: strict, from: [auth, web], by: [user], within: 1m, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind != "a", contiguity: strict}]}`,
	`{id: silent, from: web, by: [user], sequence: [{step: a, where: kind == "a"}, {absent: b, where: kind == "b", for: 8s}]}`,
	`{id: unseen, from: web, by: [user], within: 1m, sequence: [{absent: x, where: kind == "x", for: 6s}, {step: a, where: kind == "a"}]}`,
	`{id: ordered, from: auth, by: [user], within: 15s, emit: ordered, after_match: to_next, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b", times: 1..}, {step: c, where: kind == "c", optional: true}]}`,
	`{id: storm, from: auth, by: [user], where: kind == "c", alert: {suppress: {by: [user], for: 25s}}}`,
	`{id: outage, from: web, by: [user], where: kind == "x", alert: {resolve: {where: kind == "b", quiet: 20s}, while_open: update, repeat: 7s}}`,
	`{id: row, from: auth, by: [user], within: 40s, pattern: "a b+? c", steps: {a: {where: kind == "a"}, b: {}, c: {where: kind == "c"}}}`,
	`{id: timeout, from: auth, by: [user], within: 5s, on_timeout: emit, sequence: [{step: b, where: kind == "b"}, {step: c, where: kind == "c"}]}`,
	`{id: fresh, from: [auth, web], by: [user], sequence: [{step: kind, first_seen: {by: [kind], for: 1m}}]}`,
	`{id: anybody, from: web, within: 10s, sequence: [{step: a, where: kind == "a"}, {step: b, where: 'kind == "b" and user != a.user'}]}`,
	`{id: over, from: alerts, by: [key.user], within: 1m, sequence: [{step: one, where: rule == "brute"}, {step: two, where: rule == "silent"}]}`,
	`{id: above, from: alerts, where: rule == "over"}`,
}

// passerby is a rule that comes and goes between two lives of a job: it must not change what the others do.
const passerby = `{id: passerby, from: auth, by: [user], within: 20s, sequence: [{step: b, where: kind == "b"}, {step: c, where: kind == "c"}]}`

// streams in the order of the configuration.
var streams = []string{"auth", "web"}

// Scenario is what a seed draws before anything breaks.
type Scenario struct {
	Seed uint64
	// Rules is the text of the rule file.
	Rules string
	// Lateness is that of each stream.
	Lateness []time.Duration
	// Partitions are in the order of their streams and names.
	Partitions []Partition
	Advance    cep.Duration
	// OneClock says that all rules stand on one clock and all events in one partition: then what is sent comes in one order,
	// wherever epochs fall, and a destination that is ahead of an older epoch can be followed.
	OneClock bool
	// Live says that partitions may be silent for longer than their stream waits, and time follows the clock while all are:
	// then what comes out depends on moments, and only what holds in any case can be compared.
	Live bool
	// Small says that there are so few events that the oracle can enumerate all candidates.
	Small bool
	// Edits are the files of rules that follow each other while the job runs; nil: nobody edits them.
	Edits edits
}

// Partition is what a partition holds.
type Partition struct {
	Stream, Name string
	Records      []Record
}

// Record is a record with what has to become of it.
type Record struct {
	Data []byte
	Time cep.Time
	Fate Fate
}

// Fate is what has to become of a record.
type Fate uint8

// The fates.
const (
	Taken  Fate = iota // it is an event
	Late               // it comes too late for its partition
	Bad                // it is no event
	Future             // it is from a time that cannot be
)

// begin is the time around which events happen: long before the simulated clock, which begins in the year 2000.
const begin = 900_000_000 * cep.Second

// Draw draws a scenario.
func Draw(seed uint64) *Scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &Scenario{Seed: seed, OneClock: r.IntN(4) == 0, Small: r.IntN(4) == 0, Advance: cep.Duration(r.IntN(3)) * 20 * time.Second}
	s.Live = !s.OneClock && r.IntN(5) == 0
	if s.Rules = drawRules(r); s.OneClock {
		s.Rules = fileOf(slices.DeleteFunc(slices.Clone(rulePool), func(rule string) bool { return !strings.Contains(rule, "from: auth,") })...)
	}
	if !s.Small { // the oracle knows of none
		s.Rules = strings.Replace(s.Rules, "rules:\n", drawSilences(rand.New(rand.NewPCG(seed, 3)))+"rules:\n", 1)
	}
	if !s.OneClock && !s.Live && r.IntN(3) == 0 {
		s.Edits = drawEdits(rand.New(rand.NewPCG(seed, 2)), s.Rules)
	}
	for _, stream := range streams {
		s.Lateness = append(s.Lateness, time.Duration(r.IntN(4))*time.Second)
		partitions := 1 + r.IntN(2)
		if s.OneClock {
			partitions = 1 - len(s.Partitions)
		}
		for i := range partitions {
			s.Partitions = append(s.Partitions, drawPartition(r, stream, fmt.Sprint(i), s.Lateness[len(s.Lateness)-1], s.Small))
		}
	}
	return s
}

func drawRules(r *rand.Rand) string {
	picked := slices.Clone(rulePool)
	if r.IntN(3) > 0 { // some of them; rules over alerts want those that they read
		picked = slices.DeleteFunc(picked, func(string) bool { return r.IntN(3) == 0 })
		text := strings.Join(picked, "\n")
		for _, need := range [][2]string{{"id: above,", "{id: over,"}, {"{id: over,", "{id: brute,"}, {"{id: over,", "{id: silent,"}} {
			if strings.Contains(text, need[0]) && !strings.Contains(text, need[1]) {
				i := slices.IndexFunc(rulePool, func(p string) bool { return strings.HasPrefix(p, need[1]) })
				picked = append(picked, rulePool[i])
				text = strings.Join(picked, "\n")
			}
		}
	}
	if len(picked) == 0 {
		picked = rulePool[:1]
	}
	return fileOf(picked...)
}

// drawSilences draws silences of rules of the pool, mostly none: some of a user, some without a beginning, some of them over
// before the first event.
func drawSilences(r *rand.Rand) string {
	if r.IntN(3) > 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("silences:\n")
	at := func() string {
		return time.Unix(int64(begin/cep.Second)+int64(r.IntN(120))-20, 0).UTC().Format(time.RFC3339)
	}
	for i := range 1 + r.IntN(4) {
		fmt.Fprintf(&b, "- {id: s%d, rule: [%s", i, []string{"brute", "s*", "storm, outage", "pairs, row, fresh", "o?*"}[r.IntN(5)])
		b.WriteString("]")
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, ", key: {user: %c}", "uvw"[r.IntN(3)])
		}
		if from, until := at(), at(); from < until && r.IntN(4) > 0 {
			fmt.Fprintf(&b, ", from: %s, until: %s}\n", from, until)
		} else {
			fmt.Fprintf(&b, ", until: %s}\n", until)
		}
	}
	return b.String()
}

// fileOf makes a rule file of rules in flow style.
func fileOf(list ...string) string {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for _, r := range list {
		b.WriteString("- " + r + "\n")
	}
	return b.String()
}

// WithPasserby returns the rules with one more.
func (s *Scenario) WithPasserby() string { return s.Rules + "- " + passerby + "\n" }

func drawPartition(r *rand.Rand, stream, name string, lateness time.Duration, small bool) Partition {
	p := Partition{Stream: stream, Name: name}
	now, highest := begin+cep.Time(r.IntN(5))*cep.Second, cep.BeforeAll
	n := 10 + r.IntN(60)
	if small {
		n = 4 + r.IntN(6)
	}
	for range n {
		if r.IntN(3) > 0 {
			now += cep.Time(r.IntN(3)) * cep.Second
		}
		if r.IntN(12) == 0 {
			now += cep.Time(r.IntN(15)) * cep.Second
		}
		switch r.IntN(30) {
		case 0:
			p.Records = append(p.Records, Record{Data: []byte(`{"t": `), Fate: Bad})
			continue
		case 1:
			p.Records = append(p.Records, Record{Data: []byte(`{"kind":"a","user":"nobody"}`), Fate: Bad})
			continue
		case 2:
			p.Records = append(p.Records, record(r, 4_000_000_000*cep.Second, Future))
			continue
		}
		t := now
		if r.IntN(5) == 0 {
			t -= cep.Time(r.IntN(6)) * cep.Second
		}
		fate := Taken
		if highest != cep.BeforeAll && t <= highest.Add(-lateness).Add(-1) {
			fate = Late
		}
		highest = max(highest, t)
		p.Records = append(p.Records, record(r, t, fate))
	}
	return p
}

func record(r *rand.Rand, t cep.Time, fate Fate) Record {
	kind := "aaabbbccx"[r.IntN(9)]
	user := "uvw"[r.IntN(3)]
	return Record{Data: fmt.Appendf(nil, `{"t":%d,"kind":"%c","user":"%c"}`, int64(t/cep.Second), kind, user), Time: t, Fate: fate}
}

// compile makes the set of a rule file.
func compile(text string) (*rules.Set, error) {
	return rules.FromFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text), Rules: true}}, nil)
}
