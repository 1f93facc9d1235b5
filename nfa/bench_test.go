package nfa

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/cepd/cepd/cep"
)

// twoSteps is the rule of workload W2: A then B by key within ten minutes.
func twoSteps(b *testing.B) *Program {
	s := sequence(b, "a >>b")
	s.Within, s.After = seconds(600), SkipPastLast
	return s.compile(b)
}

// key13 is a key as long as those of W2, an IPv4 address as a string.
func key13(dst []byte, i int) []byte {
	v := cep.String(fmt.Sprintf("10.%03d.%03d.%d", i>>16&255, i>>8&255, i&255))
	dst, _ = cep.AppendKeyPart(dst[:0], v)
	return dst
}

// BenchmarkLiveStart opens a million starts, mostly one a key, and prints what one costs: its key, map entry, deadline and
// all. The heap is measured after a full collection.
func BenchmarkLiveStart(b *testing.B) {
	const starts = 1_000_000
	p := twoSteps(b)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := NewMachine(p, nil)
		ev := &cep.Event{Values: []cep.Value{cep.String("a")}, Position: cep.Position{Partition: &cep.Partition{}}}
		var key []byte
		for i := range starts {
			ev.Seq, ev.Time = uint64(i+1), cep.Time(i)
			key = key13(key, i)
			m.Event(key, ev, all)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(m.OpenStarts()), "B/start")
		runtime.KeepAlive(m)
	}
}

// BenchmarkTwoSteps is the steady state of W2 without decoding: 80 in 100 events start, 17 complete, 3 miss, and most starts
// expire, with a million open.
func BenchmarkTwoSteps(b *testing.B) {
	p := twoSteps(b)
	m := NewMachine(p, nil)
	r := rand.New(rand.NewPCG(1, 1))
	a, c, miss := []cep.Value{cep.String("a")}, []cep.Value{cep.String("b")}, []cep.Value{cep.String("x")}
	ev := &cep.Event{Position: cep.Position{Partition: &cep.Partition{}}}
	keys := make([][]byte, 4_000_000)
	for i := range keys {
		keys[i] = key13(nil, i)
	}
	i := 0
	step := func() {
		i++
		ev.Seq, ev.Time = uint64(i), cep.Time(i)*cep.Time(seconds(600)/1_250_000)
		switch x := r.IntN(100); {
		case x < 80:
			ev.Values = a
			m.Event(keys[i%len(keys)], ev, all)
		case x < 97:
			ev.Values = c
			m.Event(keys[max(0, i-r.IntN(1_000_000))%len(keys)], ev, all)
		default:
			ev.Values = miss
			m.Event(keys[r.IntN(len(keys))], ev, all)
		}
	}
	for range 1_600_000 {
		step()
	}
	m.Matches()
	for b.Loop() {
		step()
		if i&1023 == 0 {
			m.Matches()
		}
	}
	b.ReportMetric(float64(m.OpenStarts()), "open")
}

// BenchmarkPassBy is an event that changes nothing, on a key with many starts: it must cost no allocation and not depend on
// the number of starts.
func BenchmarkPassBy(b *testing.B) {
	for _, starts := range []int{1, 10_000} {
		b.Run(fmt.Sprint(starts), func(b *testing.B) {
			s := sequence(b, "a >>b")
			s.Within = seconds(1_000_000)
			m := NewMachine(s.compile(b), nil)
			ev := &cep.Event{Values: []cep.Value{cep.String("a")}, Position: cep.Position{Partition: &cep.Partition{}}}
			i := uint64(0)
			for range starts {
				i++
				ev.Seq, ev.Time = i, cep.Time(i)
				m.Event([]byte("k"), ev, all)
			}
			ev.Values = []cep.Value{cep.String("x")}
			key := []byte("k")
			b.ReportAllocs()
			for b.Loop() {
				i++
				ev.Seq, ev.Time = i, cep.Time(i)
				m.Event(key, ev, all)
			}
		})
	}
}

// BenchmarkLoopBefore is a brute force that goes on: n events of an unbounded loop on one key, then the step behind it.
func BenchmarkLoopBefore(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := sequence(b, "a{5,} >>b")
			s.Within, s.After, s.Limits.EventsPerMatch = seconds(1_000_000), SkipPastLast, 10_000
			m := NewMachine(s.compile(b), nil)
			ev := &cep.Event{Position: cep.Position{Partition: &cep.Partition{}}}
			i := uint64(0)
			for b.Loop() {
				for k := range n + 1 {
					i++
					ev.Seq, ev.Time, ev.Values = i, cep.Time(i), []cep.Value{cep.String("a")}
					if k == n {
						ev.Values = []cep.Value{cep.String("b")}
					}
					m.Event([]byte("k"), ev, all)
				}
				if len(m.Matches()) != 1 {
					b.Fatal("not one match")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n+1), "ns/event")
		})
	}
}

// BenchmarkSnapshot writes and reads the state of a million starts, mostly one a key.
func BenchmarkSnapshot(b *testing.B) {
	const starts = 1_000_000
	p := twoSteps(b)
	m := NewMachine(p, nil)
	partition := &cep.Partition{}
	ev := &cep.Event{Values: []cep.Value{cep.String("a")}, Position: cep.Position{Partition: partition}}
	var key []byte
	for i := range starts {
		ev.Seq, ev.Time = uint64(i+1), cep.Time(i)
		key = key13(key, i)
		m.Event(key, ev, all)
	}
	data := m.AppendSnapshot(nil)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			data = m.AppendSnapshot(data[:0])
		}
		b.ReportMetric(float64(len(data))/float64(m.OpenStarts()), "B/start")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := Restore(p, nil, data, func(string, string) *cep.Partition { return partition }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSliding is one key with many open starts, of which each event opens one and lets one expire.
func BenchmarkSliding(b *testing.B) {
	for _, starts := range []int{100, 10_000} {
		b.Run(fmt.Sprint(starts), func(b *testing.B) {
			s := sequence(b, "a >>b")
			s.Within = cep.Duration(starts)
			m := NewMachine(s.compile(b), nil)
			ev := &cep.Event{Values: []cep.Value{cep.String("a")}, Position: cep.Position{Partition: &cep.Partition{}}}
			key := []byte("k")
			i := uint64(0)
			event := func() {
				i++
				ev.Seq, ev.Time = i, cep.Time(i)
				m.Event(key, ev, all)
			}
			for range 2 * starts {
				event()
			}
			for b.Loop() {
				event()
			}
		})
	}
}

// BenchmarkRecords writes and reads a million starts, one a key, as records: all of them, and those of 100,000 keys that have
// changed.
func BenchmarkRecords(b *testing.B) {
	const starts, dirty = 1_000_000, 100_000
	p := twoSteps(b)
	partition := &cep.Partition{}
	parts := newNumbers(func(string, string) *cep.Partition { return partition })
	m := NewMachine(p, nil)
	ev := &cep.Event{Values: []cep.Value{cep.String("a")}, Position: cep.Position{Partition: partition}}
	var key []byte
	seq := 0
	event := func(i int) {
		seq++
		ev.Seq, ev.Time, ev.Position.Offset = uint64(seq), cep.Time(seq), int64(seq)*200
		key = key13(key, i)
		m.Event(key, ev, all)
	}
	for i := range starts {
		event(i)
	}
	keys, values, bytes := []string{}, [][]byte{}, 0
	m.Changes(parts, func(key string, value []byte) {
		keys, values, bytes = append(keys, key), append(values, slices.Clone(value)), bytes+len(value)
	})
	globals := m.AppendGlobals(nil)
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			r := NewRestorer(p, nil, parts)
			if err := r.Globals(globals); err != nil {
				b.Fatal(err)
			}
			for i, key := range keys {
				if err := r.Key(key, values[i]); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := r.Machine(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(bytes)/float64(len(keys)), "B/key")
	})
	next := 0
	b.Run("changes", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for range dirty {
				next = (next + 7) % starts
				event(next)
			}
			b.StartTimer()
			n := 0
			m.Changes(parts, func(string, []byte) { n++ })
			if n != dirty {
				b.Fatalf("%d keys have changed", n)
			}
		}
	})
}
