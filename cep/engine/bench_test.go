//go:build unix

package engine_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/rules"
)

// traffic pushes events of one rule, a then b by user: every event is relevant.
type traffic struct {
	*engine.Core
	users  []cep.Value
	ev     cep.Event
	values []cep.Value
	n      int
	seed   uint64
}

func loginRule() *rules.Set {
	return setOf(rule("login", 10*time.Minute, element{from: "auth", kind: "a"}, element{from: "auth", kind: "b"}))
}

func newTraffic(b *testing.B, o engine.Options, users int) *traffic {
	core, err := engine.New(loginRule(), []engine.Stream{{Name: "auth"}}, o)
	if err != nil {
		b.Fatal(err)
	}
	l := &traffic{Core: core, seed: 1}
	for i := range users {
		l.users = append(l.users, cep.String(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)))
	}
	return l
}

func (l *traffic) push(kind string, user, step int) {
	l.values = append(l.values[:0], cep.String(kind), l.users[user])
	l.ev = cep.Event{Time: cep.Time(l.n) * cep.Time(step), Position: cep.Position{Partition: auth0, Offset: int64(l.n)}, Values: l.values}
	l.Push(auth0, &l.ev, nil)
	l.n++
}

// next pushes an event of any user: one in four is a b.
func (l *traffic) next() {
	l.seed = l.seed*6364136223846793005 + 1442695040888963407
	kind := "a"
	if l.seed>>33&3 == 0 {
		kind = "b"
	}
	l.push(kind, int(l.seed>>36)%len(l.users), int(600*time.Second)/len(l.users))
}

// cpu is the processor time that the process has used: on a machine that others use too it says more than the clock.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCore is the cost of an event where every one is relevant, with 200,000 keys, by layout.
func BenchmarkCore(b *testing.B) {
	for _, o := range []engine.Options{{}, {Shards: 2}, {Parallel: true}, {Shards: 2, Parallel: true}, {Shards: 4, Parallel: true}} {
		b.Run(fmt.Sprintf("shards=%d,parallel=%v", max(o.Shards, 1), o.Parallel), func(b *testing.B) {
			o.Alert = func(*cep.Alert) {}
			l := newTraffic(b, o, 200_000)
			for range 400_000 {
				l.next()
			}
			l.Summary() // what was pushed is worked off
			began := cpu()
			for b.Loop() {
				l.next()
			}
			l.Summary()
			b.ReportMetric(float64((cpu()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
			l.Close()
		})
	}
}

// BenchmarkBarrier is how long a barrier keeps the front, with a million live starts and a thousand keys that have changed,
// and how long until it is answered.
func BenchmarkBarrier(b *testing.B) {
	for _, o := range []engine.Options{{PerClock: true}, {PerClock: true, Shards: 2, Parallel: true}} {
		b.Run(fmt.Sprintf("shards=%d,parallel=%v", max(o.Shards, 1), o.Parallel), func(b *testing.B) {
			l := newTraffic(b, o, 1_000_000)
			for i := range len(l.users) {
				l.push("a", i, 1000)
			}
			cuts := make(chan *engine.Cut, 1)
			epoch := cep.Epoch(0)
			barrier := func() (pause time.Duration) {
				epoch++
				began := time.Now()
				if err := l.Barrier(epoch, func(c *engine.Cut) { cuts <- c }); err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			barrier()
			<-cuts
			var pauses, answers, spent time.Duration
			records := 0
			for b.Loop() {
				b.StopTimer()
				for i := range 1000 {
					l.push("a", (i*997+l.n)%len(l.users), 1000)
				}
				l.Summary() // the pause is that of the barrier alone
				b.StartTimer()
				began, used := time.Now(), cpu()
				pauses += barrier()
				cut := <-cuts
				answers += time.Since(began)
				spent += cpu() - used
				records += len(cut.Records)
			}
			b.ReportMetric(float64(pauses.Nanoseconds())/float64(b.N)/1e3, "us/pause")
			b.ReportMetric(float64(answers.Nanoseconds())/float64(b.N)/1e3, "us/answer")
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/1e3, "cpu-us/epoch")
			b.ReportMetric(float64(records)/float64(b.N), "records/epoch")
			l.Close()
		})
	}
}

// BenchmarkRestore is the time from a million records to an engine that can go on.
func BenchmarkRestore(b *testing.B) {
	for _, o := range []engine.Options{{PerClock: true}, {PerClock: true, Shards: 2, Parallel: true}} {
		b.Run(fmt.Sprintf("shards=%d,parallel=%v", max(o.Shards, 1), o.Parallel), func(b *testing.B) {
			l := newTraffic(b, engine.Options{PerClock: true}, 1_000_000)
			for i := range len(l.users) {
				l.push("a", i, 100)
			}
			var d disk
			if err := l.Barrier(1, func(c *engine.Cut) { d.commit(b, c) }); err != nil {
				b.Fatal(err)
			}
			var spent time.Duration
			for b.Loop() {
				began := cpu()
				core, err := engine.Restore(loginRule(), []engine.Stream{{Name: "auth"}}, parts(), o, d.saved())
				if err != nil {
					b.Fatal(err)
				}
				spent += cpu() - began
				core.Close()
			}
			b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkUntouched is the cost of an event that no rule can touch.
func BenchmarkUntouched(b *testing.B) {
	l := newTraffic(b, engine.Options{}, 1000)
	began := cpu()
	for b.Loop() {
		l.push("x", l.n%1000, 1000)
	}
	b.ReportMetric(float64((cpu()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
