package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/rules"
)

// BenchmarkSwap changes rules under a million open starts of a thousand rules. pause-ms is how long the engine stands still,
// compile-ms what happens before, beside its work, plan-ms how long the question what a swap would do holds it up, and cut-ms
// the barrier behind the swap, with the records that it has to write.
func BenchmarkSwap(b *testing.B) {
	const many, starts = 1000, 1_000_000
	text := func(change func(rule int) string) []rules.File {
		var t strings.Builder
		t.WriteString("version: 1\nrules:\n")
		for i := range many {
			fmt.Fprintf(&t, "- {id: r%d, from: auth, where: type == \"t%d\", by: [user], within: 30d, sequence: [{step: a, where: kind == \"a\"}, {step: b, where: kind == \"b\"}]%s}\n",
				i, i, change(i))
		}
		return []rules.File{{Name: "rules.yaml", Data: []byte(t.String()), Rules: true}}
	}
	set, err := rules.FromFiles(text(func(int) string { return "" }), nil)
	if err != nil {
		b.Fatal(err)
	}
	core, err := engine.New(set, []engine.Stream{{Name: "auth"}}, engine.Options{Shards: 2, Parallel: true, PerClock: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { core.Close() }()
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		b.Fatal(err)
	}
	decoder := codec.NewJSON(set.Schema, spec, codec.Options{})
	id := source.NewPartitions("auth").Get("auth", "0")
	var line []byte
	for i := range starts {
		line = fmt.Appendf(line[:0], `{"t":%d,"type":"t%d","kind":"a","user":"user-%d"}`, i/1000, i%many, i)
		ev := cep.Event{Position: cep.Position{Partition: id, Offset: int64(i)}}
		if err := decoder.Decode(line, &ev); err != nil {
			b.Fatal(err)
		}
		core.Push(id, &ev, decoder)
	}
	core.Advance(cep.Time(starts/1000) * cep.Second)
	epoch := cep.Epoch(0)
	barrier := func() (took time.Duration, records int) {
		epoch++
		cuts := make(chan *engine.Cut, 1)
		begun := time.Now()
		if err := core.Barrier(epoch, func(c *engine.Cut) { cuts <- c }); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun), len((<-cuts).Records)
	}
	barrier()
	turn := 0
	for _, c := range []struct {
		name   string
		change func(rule int) string
	}{
		{"a rule added", func(i int) string {
			if i < many-1 {
				return ""
			}
			return fmt.Sprintf("}\n- {id: new%d, from: auth, where: type == \"new\"", turn)
		}},
		{"all revised", func(int) string { return fmt.Sprintf(", revision: %d", turn) }},
		{"one changed", func(i int) string {
			if i > 0 {
				return ""
			}
			return fmt.Sprintf(", without: [{name: x, where: kind == \"x%d\"}]", turn)
		}},
		{"all changed", func(int) string { return fmt.Sprintf(", without: [{name: x, where: kind == \"x%d\"}]", turn) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var compile, plan, pause, cut time.Duration
			records, n := 0, 0
			for b.Loop() {
				turn++
				n++
				begun := time.Now()
				next, err := rules.FromFiles(text(c.change), set.Schema)
				if err != nil {
					b.Fatal(err)
				}
				compile += time.Since(begun)
				begun = time.Now()
				if _, err = core.Plan(next); err != nil {
					b.Fatal(err)
				}
				plan += time.Since(begun)
				begun = time.Now()
				if core, _, err = core.Swap(next); err != nil {
					b.Fatal(err)
				}
				pause += time.Since(begun)
				set = next
				begun = time.Now()
				_, r := barrier()
				cut += time.Since(begun)
				records += r
			}
			ms := func(d time.Duration, unit string) { b.ReportMetric(float64(d)/1e6/float64(n), unit) }
			ms(compile, "compile-ms")
			ms(plan, "plan-ms")
			ms(pause, "pause-ms")
			ms(cut, "cut-ms")
			b.ReportMetric(float64(records)/float64(n), "records")
		})
	}
	open := 0
	for _, r := range core.Summary().Rules {
		open += r.Open + r.Draining
	}
	b.Logf("%d starts are open at the end", open)
}
