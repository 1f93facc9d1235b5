package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/rules"
)

// element is a word of the language under a load that grows in one direction: what counts is how its cost grows with n.
type element struct {
	name string
	// over is what n counts: see feeds.
	over string
	// rule are the keys of the rule, after id and from, with {n} for n.
	rule string
	// most bounds n where the cost is exponential by definition; 0: all sizes.
	most int
}

// sizes are the values of n.
var sizes = []int{10, 100, 1000, 10_000}

// elements holds a row for each word. Single quotes in YAML keep conditions in one piece.
var elements = []element{
	{name: "relaxed step", over: "starts", rule: `{by: [key], within: 1h, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"'}]}`},
	{name: "relaxed step, every start kept", over: "window", rule: `{within: {n}ms, after_match: none, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"'}, {step: r, where: 'type == "r"'}]}`},
	{name: "strict step", over: "starts", rule: `{by: [key], within: 1h, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"', contiguity: strict}]}`},
	{name: "any step", over: "window", rule: `{within: {n}ms, after_match: past_last, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"', contiguity: any}, {step: r, where: 'type == "r"', contiguity: any}]}`},
	{name: "condition over two events", over: "window", rule: `{within: {n}ms, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b" and amount == a.amount + 5'}, {step: r, where: 'type == "r"'}]}`},
	{name: "prev", over: "starts", rule: `{by: [key], within: 1h, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b" and amount != prev.amount'}]}`},
	{name: "step within", over: "window", rule: `{within: {n}ms, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"', within: 5ms}, {step: r, where: 'type == "r"'}]}`},
	{name: "optional step", over: "window", rule: `{within: {n}ms, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"', optional: true}, {step: r, where: 'type == "r"'}]}`},
	{name: "loop of n", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: {n}}, {step: b, where: 'type == "b"'}]}`},
	{name: "loop of 2 or more", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 2..}, {step: b, where: 'type == "b"'}]}`},
	{name: "loop, strict inside", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 2.., loop: strict}, {step: b, where: 'type == "b"'}]}`},
	{name: "loop, any inside", over: "loop", most: 10, rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 2.., loop: any}, {step: b, where: 'type == "b"'}]}`},
	{name: "loop_within", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 2.., loop_within: 1s}, {step: b, where: 'type == "b"'}]}`},
	{name: "sum over a loop", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 2..}, {step: b, where: 'type == "b" and sum(a, .amount) > 1'}]}`},
	{name: "absence between", over: "window", rule: `{within: {n}ms, sequence: [{step: a, where: 'type == "a"'}, {absent: c, where: 'type == "c"'}, {step: r, where: 'type == "r"'}]}`},
	{name: "absence at the end", over: "starts", rule: `{by: [key], within: 1h, sequence: [{step: a, where: 'type == "a"'}, {absent: b, where: 'type == "b"', for: {n}ms}]}`},
	{name: "absence at the start", over: "window", rule: `{within: 1h, sequence: [{absent: c, where: 'type == "r"', for: {n}ms, from_start: true}, {step: r, where: 'type == "b"'}]}`},
	{name: "absence alone", over: "starts", rule: `{by: [key], sequence: [{absent: b, where: 'type == "b"', for: {n}ms}]}`},
	{name: "after_match: none", over: "loop", rule: `{within: 1h, after_match: none, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"'}]}`},
	{name: "emit: ordered", over: "window", rule: `{within: {n}ms, emit: ordered, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"'}, {step: r, where: 'type == "r"'}]}`},
	{name: "on_timeout: emit", over: "starts", rule: `{by: [key], within: {n}ms, on_timeout: emit, sequence: [{step: a, where: 'type == "a"'}, {step: c, where: 'type == "c"'}]}`},
	{name: "suppress", over: "starts", rule: `{by: [key], within: 1h, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"'}], alert: {suppress: {by: [key], for: 1h}}}`},
	{name: "any_of", over: "window", rule: `{within: {n}ms, sequence: [{step: a, where: 'type == "a"'}, {any_of: [{step: b, where: 'type == "b"'}, {step: c, where: 'type == "c"'}]}, {step: r, where: 'type == "r"'}]}`},
	{name: "all_of", over: "window", rule: `{within: {n}ms, sequence: [{all_of: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"'}, {step: r, where: 'type == "r"'}]}]}`},
	{name: "group that repeats", over: "loop", rule: `{within: 1h, sequence: [{group: [{step: a, where: 'type == "a"'}, {step: d, where: 'type == "a"'}], times: 1..}, {step: b, where: 'type == "b"'}]}`},
	{name: "having", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 1.., having: 'sum(a, .amount) > 100'}, {step: b, where: 'type == "b"'}]}`},
	{name: "distinct", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 5.., distinct: amount}, {step: b, where: 'type == "b"'}]}`},
	{name: "greedy", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 2.., greedy: true}, {step: b, where: 'type == "b"'}]}`},
	{name: "until", over: "loop", rule: `{within: 1h, sequence: [{step: a, where: 'type == "a"', times: 2.., until: 'type == "c"'}, {step: b, where: 'type == "b"'}]}`},
	{name: "first_seen", over: "window", rule: `{sequence: [{step: a, where: 'type == "a"', first_seen: {by: [amount], for: {n}ms, from_start: true}}]}`},
	{name: "hold", over: "starts", rule: `{by: [key], sequence: [{hold: a, where: 'type == "a"', for: {n}ms}]}`},
	{name: "without", over: "window", rule: `{within: {n}ms, without: [{name: c, where: 'type == "c"'}], sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"'}]}`},
	{name: "keep: newest", over: "window", rule: `{within: {n}ms, keep: newest, sequence: [{step: a, where: 'type == "a"'}, {step: b, where: 'type == "b"'}, {step: r, where: 'type == "r"'}]}`},
	{name: "pattern: a+ b", over: "loop", rule: `{within: 1h, pattern: 'a+ b', steps: {a: {where: 'type == "a"'}, b: {where: 'type == "b"'}}}`},
}

// feed gives the events of a load. Letters are types, an event comes each millisecond.
type feed struct {
	// warm is the number of events before measuring begins, period that of which measuring takes whole ones.
	warm, period func(n int) int
	next         func(i, n int, r *rand.Rand) (letter byte, key int)
}

// feeds are the directions in which loads grow.
var feeds = map[string]feed{
	// One key: n times a, then b.
	"loop": {
		warm: func(int) int { return 0 }, period: func(n int) int { return n + 1 },
		next: func(i, n int, _ *rand.Rand) (byte, int) {
			if i%(n+1) == n {
				return 'b', 0
			}
			return 'a', 0
		},
	},
	// One key, windows of n events: a tenth of them a, b and c each, one in a thousand r, the rest nothing.
	"window": {
		warm: func(n int) int { return 2 * n }, period: func(int) int { return 1 },
		next: func(_, _ int, r *rand.Rand) (byte, int) {
			switch u := r.IntN(1000); {
			case u < 300:
				return "abc"[u%3], 0
			case u == 300:
				return 'r', 0
			}
			return 'x', 0
		},
	},
	// n keys, each with a start to begin with; then a or b of any of them.
	"starts": {
		warm: func(n int) int { return n }, period: func(int) int { return 1 },
		next: func(i, n int, r *rand.Rand) (byte, int) {
			if i < n {
				return 'a', i
			}
			return "ab"[r.IntN(2)], r.IntN(n)
		},
	},
}

const (
	// elementEvents bounds the events that are measured for one size, elementSeconds their processor time: growth shows
	// long before.
	elementEvents  = 100_000
	elementSeconds = 1.0
	// elementCheck is the number of events between two looks at the clock.
	elementCheck = 64
)

// cost is what an element costs at one size.
type cost struct {
	nanoseconds float64 // an event
	alerts      uint64
	open        int
	state       float64 // bytes on the heap
	cut         bool    // time was up before one period was over
}

// load compiles the rule for a size; nil where this version does not know the word yet.
func (e *element) load(n int) (*rules.Set, error) {
	dir, err := os.MkdirTemp("", "cepd-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left of it harms nobody
	text := "version: 1\ndefaults: {from: events}\nrules:\n- " + strings.Replace(e.rule, "{", "{id: rule, limits: {starts_per_key: 1000000, events_per_match: 1000000}, ", 1) + "\n"
	file := filepath.Join(dir, "rule.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "{n}", strconv.Itoa(n))), 0o600); err != nil {
		return nil, err
	}
	set, problems, err := rules.Load([]string{file})
	if err != nil {
		return nil, err
	}
	if set == nil {
		if strings.Contains(problems.Error(), "not supported by this version") {
			return nil, nil
		}
		return nil, fmt.Errorf("%s: %w", e.name, problems)
	}
	return set, nil
}

// run measures the element at one size, up to so many events and seconds.
func (e *element) run(n, events int, seconds float64) (c cost, ok bool, err error) {
	set, err := e.load(n)
	if set == nil || err != nil {
		return c, false, err
	}
	f := feeds[e.over]
	kind, key, amount := set.Schema.Slot("type"), set.Schema.Slot("key"), set.Schema.Slot("amount")
	before := heapMB()
	core, err := engine.New(set, []engine.Stream{{Name: "events"}}, engine.Options{Alert: func(*cep.Alert) { c.alerts++ }})
	if err != nil {
		return c, false, err
	}
	partition := &cep.Partition{Stream: "events", Name: "0"}
	core.Open(partition)
	r := rand.New(rand.NewPCG(7, 7))
	values := make([]cep.Value, set.Schema.Len())
	i := 0
	push := func() {
		letter, k := f.next(i, n, r)
		values[kind] = cep.String("abcdefghijklmnopqrstuvwxyz"[letter-'a' : letter-'a'+1])
		values[key] = cep.Int(int64(k))
		values[amount] = cep.Int(int64(i % 997))
		ev := cep.Event{Time: cep.Time(i) * cep.Millisecond, Position: cep.Position{Partition: partition, Offset: int64(i)}, Values: values}
		core.Push(partition, &ev, nil)
		i++
	}
	for i < f.warm(n) {
		push()
	}
	core.Release()
	start, began := i, cpuSeconds()
	for spent := 0.0; ; {
		push()
		done := i - start
		whole := done%f.period(n) == 0
		if done%elementCheck == 0 {
			spent = cpuSeconds() - began
		}
		if c.cut = spent > 4*seconds && !whole && done < f.period(n); c.cut || whole && (spent > seconds || done >= events) {
			break
		}
	}
	core.Release()
	c.nanoseconds = (cpuSeconds() - began) * 1e9 / float64(i-start)
	c.state = max(0, (heapMB()-before)*1e6)
	for _, s := range core.Summary().Rules {
		c.open += s.Open
		if s.Disabled != "" {
			return c, false, fmt.Errorf("%s: the rule was stopped: %s", e.name, s.Disabled)
		}
	}
	return c, true, nil
}

// growth is the power of n with which costs grow, between the first and the last size: 0 is flat, 1 in proportion.
func growth(ns []int, costs []cost) float64 {
	last := len(costs) - 1
	return math.Log(costs[last].nanoseconds/costs[0].nanoseconds) / math.Log(float64(ns[last])/float64(ns[0]))
}

// runElements prints the table of all elements whose names contain part.
func runElements(w io.Writer, part string, repeat int) error {
	var b bytes.Buffer
	b.WriteString("| element | over |")
	for _, n := range sizes {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString(" growth | open starts | state |\n|---|---|" + strings.Repeat("---|", len(sizes)) + "---|---|---|\n")
	for i := range elements {
		e := &elements[i]
		if !strings.Contains(e.name, part) {
			continue
		}
		if err := e.row(&b, repeat); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (e *element) row(b *bytes.Buffer, repeat int) error {
	var ns []int
	var costs []cost
	for _, n := range sizes {
		if e.most > 0 && n > e.most {
			break
		}
		var best cost
		for k := range max(1, repeat) {
			c, ok, err := e.run(n, elementEvents, elementSeconds)
			if err != nil {
				return err
			}
			if !ok {
				fmt.Fprintf(os.Stderr, "%s: this version does not know it yet\n", e.name)
				return nil
			}
			if k == 0 || c.nanoseconds < best.nanoseconds {
				best = c
			}
		}
		fmt.Fprintf(os.Stderr, "%s, %s %d: %.0f ns, %d alerts\n", e.name, e.over, n, best.nanoseconds, best.alerts)
		ns, costs = append(ns, n), append(costs, best)
		if best.cut {
			break
		}
	}
	fmt.Fprintf(b, "| %s | %s |", e.name, e.over)
	for i := range sizes {
		switch {
		case i >= len(costs):
			b.WriteString(" - |")
		case costs[i].cut:
			fmt.Fprintf(b, " over %.0f ns |", costs[i].nanoseconds)
		default:
			fmt.Fprintf(b, " %.0f ns |", costs[i].nanoseconds)
		}
	}
	last := costs[len(costs)-1]
	power := "-"
	if len(costs) > 1 {
		power = fmt.Sprintf("n^%.2f", growth(ns, costs))
	}
	fmt.Fprintf(b, " %s | %d | %.0f kB |\n", power, last.open, last.state/1000)
	return nil
}
