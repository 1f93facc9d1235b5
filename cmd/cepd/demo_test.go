package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/library"
)

// TestDemo runs the whole day and others: what is planted is found, and nothing else; the closing table says so.
func TestDemo(t *testing.T) {
	for _, c := range []struct {
		events int
		seed   uint64
	}{{200_000, 1}, {townEventsMin, 2}, {townEventsMin, 3}, {45_678, 4}} {
		t.Run(fmt.Sprintf("%d events of seed %d", c.events, c.seed), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := demo(t.Context(), &out, &out, c.events, c.seed, false); err != nil {
				t.Errorf("%v\n%s", err, out.Bytes())
			}
		})
	}
}

// TestTown holds the generator to its promises: exactly n events, the same for equal seeds, every shipped rule has a part.
func TestTown(t *testing.T) {
	const n = 30_000
	day, again, other := newTown(n, 5), newTown(n, 5), newTown(n, 6)
	same := func(a, b *town) bool {
		for i := range a.events {
			if !bytes.Equal(a.events[i].line, b.events[i].line) {
				return false
			}
		}
		return true
	}
	if len(day.events) != n || len(other.events) != n {
		t.Errorf("%d and %d events", len(day.events), len(other.events))
	}
	if !same(day, again) || same(day, other) {
		t.Error("events do not depend on the seed alone")
	}
	disorder := 0
	highest := map[string]cep.Time{}
	for i := range day.events {
		e := &day.events[i]
		if e.at < highest[e.stream] {
			disorder++
		}
		highest[e.stream] = max(highest[e.stream], e.at)
	}
	if disorder < n/100 {
		t.Errorf("%d events out of order: no stream is that tidy", disorder)
	}
	set, _, err := rules.LoadFS(library.FS, ".")
	if err != nil || set == nil {
		t.Fatal(err)
	}
	if len(day.planted) < 20 {
		t.Errorf("%d of %d rules have something to find", len(day.planted), len(set.Rules))
	}
	known := map[string]bool{}
	for _, r := range set.Rules {
		known[r.ID] = true
		if library.Worked(r.Pos.File) && day.planted[r.ID] == 0 {
			t.Errorf("nothing is planted for %s", r.ID)
		}
	}
	for id := range day.planted {
		if !known[id] {
			t.Errorf("something is planted for %s, which is no shipped rule", id)
		}
	}
}

// TestClosingTableAccuses plants what is not there: the demo must not say that all is well.
func TestClosingTableAccuses(t *testing.T) {
	set, _, err := rules.LoadFS(library.FS, ".")
	if err != nil || set == nil {
		t.Fatal(err)
	}
	day := newTown(townEventsMin, 1)
	summary, err := runDemo(t.Context(), day, set, func(*cep.Alert) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	day.planted["sensor-silent"]++
	var out bytes.Buffer
	if err := closeDemo(newPrinter(&out), day, &summary, time.Second); err == nil || !bytes.Contains([]byte(err.Error()), []byte("sensor-silent")) {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
}
