package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cepd/cepd/cep"
)

// TestIdlePartition: a silent partition holds its stream back until it is idle, and is named in the log and the status.
func TestIdlePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(30, "c", "x"))
		s.write("1", event(1, "c", "x"))
		l := w.run(func(c *Config) { c.Streams[0].Idle = 30 * time.Second })
		settle(20 * time.Second)
		if got := w.sent("out"); len(got) != 0 {
			t.Errorf("%d alerts, although partition 1 may still bring earlier events", len(got))
		}
		st := l.Status().Streams[0]
		if !slices.Equal(st.HeldBy, []string{"tape 1"}) || !slices.Equal(st.HeldRules, []string{"pair"}) || st.Idle != 0 {
			t.Errorf("held by %q, rules %q, %d idle", st.HeldBy, st.HeldRules, st.Idle)
		}
		if !w.log.has("the stream is held back", "tape 1") {
			t.Errorf("nobody was named:\n%s", w.log)
		}
		s.write("0", event(31, "c", "x")) // that one is not idle
		settle(15 * time.Second)
		if got := w.sent("out"); len(got) != 1 {
			t.Errorf("%d alerts once partition 1 is idle\n%s", len(got), w.log)
		}
		st = l.Status().Streams[0]
		if st.Idle != 1 || len(st.HeldBy) != 0 || !st.List[0].Idle || st.List[0].Name != "tape 1" {
			t.Errorf("%d idle, held by %q, %+v", st.Idle, st.HeldBy, st.List)
		}
		if !w.log.has("a partition is idle", "tape 1") || w.log.has("a partition is idle", "tape 0") {
			t.Errorf("%s", w.log)
		}
		if !w.log.has("the stream is no longer held back") {
			t.Errorf("%s", w.log)
		}
		s.write("1", event(40, "c", "x"))
		settle(time.Second)
		if st := l.Status().Streams[0]; st.Idle != 0 || !w.log.has("a partition is no longer idle", "tape 1") {
			t.Errorf("%d idle\n%s", st.Idle, w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestIdleNever: the stream waits for ever.
func TestIdleNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").write("0", event(1, "a", "x"), event(2, "b", "x"), event(30, "c", "x"))
		w.stream("auth").write("1", event(1, "c", "x"))
		l := w.run()
		settle(24 * time.Hour)
		if got := w.sent("out"); len(got) != 0 {
			t.Errorf("%d alerts", len(got))
		}
		if st := l.Status().Streams[0]; st.Idle != 0 || len(st.HeldBy) != 1 {
			t.Errorf("%+v", st)
		}
		l.crash()
		_ = l.wait()
	})
}

const lonely = `version: 1
rules:
- {id: dead, from: auth, by: [user], sequence: [{step: a, where: kind == "a"}, {absent: b, for: 10m}]}
`

// TestLoneSensorDies: time passes in a stream that is silent altogether, the silence before it was noticed included.
func TestLoneSensorDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.rules = lonely
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"))
		l := w.run(func(c *Config) { c.Streams[0].Idle = 30 * time.Second })
		settle(10*time.Minute - 5*time.Second)
		if got := w.sent("out"); len(got) != 0 {
			t.Errorf("%d alerts too early", len(got))
		}
		settle(10 * time.Second) // the second of lateness, and that of the ticks
		if got := w.sent("out", "time"); !slices.Equal(got, []string{`"1970-01-01T00:10:01Z"`}) {
			t.Errorf("alerts %q\n%s", got, w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestTicksGoOnAfterARestart: the time that the job was away counts, once the stream has been silent for as long as it takes
// to be idle.
func TestTicksGoOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.rules = lonely
		w.stream("auth").write("0", event(1, "a", "x"))
		idle := func(c *Config) { c.Streams[0].Idle = 30 * time.Second }
		l := w.run(idle)
		settle(5 * time.Minute)
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-l.ended
		settle(20 * time.Minute)
		l = w.run(idle)
		settle(25 * time.Second)
		if got := w.sent("out"); len(got) != 0 {
			t.Errorf("%d alerts before it is known that the stream is silent", len(got))
		}
		settle(10 * time.Second)
		if got := w.sent("out", "time"); !slices.Equal(got, []string{`"1970-01-01T00:10:01Z"`}) {
			t.Errorf("alerts %q\n%s", got, w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestBacklogOfAnIdlePartition: what came to a partition while the job was away is not late because the partition was idle before.
// Its silence counts from the start.
func TestBacklogOfAnIdlePartition(t *testing.T) {
	for _, silent := range []string{"0", "1"} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("partition %s, crash %v", silent, crash), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "auth")
					s := w.stream("auth")
					other := map[string]string{"0": "1", "1": "0"}[silent]
					s.write(silent, event(1, "c", "x"))
					s.write(other, event(1, "c", "x"))
					idle := func(c *Config) { c.Streams[0].Idle = 30 * time.Second }
					l := w.run(idle)
					settle(25 * time.Second)
					s.write(other, event(40, "c", "x"))
					settle(20 * time.Second)
					if st := l.Status().Streams[0]; st.Idle != 1 {
						t.Errorf("%d partitions are idle", st.Idle)
					}
					if crash {
						l.crash()
						_ = l.wait()
					} else {
						if err := l.Drain(t.Context()); err != nil {
							t.Fatal(err)
						}
						<-l.ended
					}
					for i := range 600 { // more than is read of one partition at a time
						s.write(silent, event(100+i, []string{"a", "b"}[i%2], "x"))
						s.write(other, event(2000+i, "c", "x"))
					}
					s.write(silent, event(2500, "c", "x"))
					l = w.run(idle)
					settle(10 * time.Second)
					if st := l.Status().Streams[0]; len(w.sent("out")) != 300 || st.Late+st.Returned > 0 {
						t.Errorf("%d alerts, %d events late, %d returned\n%s", len(w.sent("out")), st.Late, st.Returned, w.log)
					}
					l.crash()
					_ = l.wait()
				})
			})
		}
	}
}

// TestStillIdle: a partition that was idle before, and of which it is known that nothing came meanwhile, holds nobody back again.
func TestStillIdle(t *testing.T) {
	for _, lags := range []bool{false, true} {
		t.Run(fmt.Sprint("the end is known: ", lags), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "auth")
				s := w.stream("auth")
				s.lags = lags
				s.write("0", event(1, "c", "x"))
				s.write("1", event(1, "c", "x"))
				s.tape("2") // nothing ever comes
				idle := func(c *Config) { c.Streams[0].Idle = 30 * time.Second }
				l := w.run(idle)
				settle(45 * time.Second)
				s.write("0", event(50, "c", "x"))
				settle(5 * time.Second)
				if err := l.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-l.ended
				s.write("0", event(100, "a", "x"), event(101, "b", "x"), event(200, "c", "x"))
				l = w.run(idle)
				settle(5 * time.Second)
				if got := len(w.sent("out")); got != map[bool]int{true: 1}[lags] {
					t.Errorf("%d alerts five seconds after the start\n%s", got, w.log)
				}
				settle(30 * time.Second)
				if got := len(w.sent("out")); got != 1 {
					t.Errorf("%d alerts\n%s", got, w.log)
				}
				l.crash()
				_ = l.wait()
			})
		})
	}
}

// TestNothingIsRefused: where events are written as they happen none is refused, whichever partitions fall silent, and however often
// and for however long the job is away.
func TestNothingIsRefused(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(t, "auth")
				s := w.stream("auth")
				s.lags = random.IntN(2) == 0
				names := []string{"0", "1", "2"}[:1+random.IntN(3)]
				for _, name := range names {
					s.write(name, event(0, "c", "x"))
				}
				begin := time.Now()
				busy := names // now and then one falls silent
				write := func() {
					if random.IntN(10) == 0 {
						busy = names[random.IntN(len(names)):]
					}
					s.write(busy[random.IntN(len(busy))], event(int(time.Since(begin)/time.Second), []string{"a", "b"}[random.IntN(2)], "x"))
				}
				// away writes for a while, in which nobody reads.
				away := func() {
					for range random.IntN(20) {
						settle(time.Duration(random.IntN(20)) * time.Second)
						write()
					}
				}
				idle := func(c *Config) { c.Streams[0].Idle = 10 * time.Second }
				l := w.run(idle)
				check := func() {
					t.Helper()
					if st := l.Status().Streams[0]; st.Late+st.Returned > 0 {
						t.Fatalf("%d events late, %d returned\n%s", st.Late, st.Returned, w.log)
					}
				}
				for range 120 {
					settle(time.Duration(random.IntN(4)) * time.Second)
					write()
					switch random.IntN(12) {
					case 0:
						check()
						l.crash()
						_ = l.wait()
						away()
						l = w.run(idle)
					case 1:
						check()
						if err := l.Drain(t.Context()); err != nil {
							t.Fatal(err)
						}
						<-l.ended
						away()
						l = w.run(idle)
					case 2:
						settle(time.Duration(random.IntN(60)) * time.Second)
					}
				}
				settle(time.Minute)
				check()
				l.crash()
				_ = l.wait()
			})
		})
	}
}

// TestBufferAhead: a partition that runs ahead of one which lags is paused, and nothing is dropped.
func TestBufferAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		for i := range 10_000 {
			s.write("0", event(i, []string{"a", "b"}[i%2], "x"))
		}
		s.write("1", event(0, "c", "y"))
		l := w.run(func(c *Config) { c.Streams[0].Ahead.Count = 1000 })
		settle(time.Minute)
		st := l.Status().Streams[0]
		if !st.Paused || st.Events < 1000 || st.Events > 1000+2*batchMax+10 || st.Buffered.Bytes < 1000*int64(len(event(0, "a", "x"))) {
			t.Errorf("paused %v, %d events read, %+v in the buffer", st.Paused, st.Events, st.Buffered)
		}
		for i := range 20 {
			s.write("1", event(500*i, "c", "y"))
			settle(time.Second)
		}
		s.write("1", event(20_000, "c", "y"))
		settle(time.Minute)
		s.write("0", event(20_000, "c", "y"))
		settle(time.Minute)
		st = l.Status().Streams[0]
		if st.Paused || st.Events != 10_000+22+1 || st.Late != 0 {
			t.Errorf("paused %v, %d events read, %d late", st.Paused, st.Events, st.Late)
		}
		if got := w.sent("out"); len(got) != 5000 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestStreamsWaitForEachOther: a rule over two streams holds the one back that is ahead.
func TestStreamsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth", "web")
		w.rules = `version: 1
rules:
- {id: both, from: [auth, web], by: [user], within: 1m, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]}
`
		for i := range 5000 {
			w.stream("auth").write("0", event(i, []string{"a", "b"}[i%2], "x"))
		}
		l := w.run(func(c *Config) { c.Streams[0].Ahead.Count = 500 })
		settle(time.Minute)
		st := l.Status().Streams[0]
		if !st.Paused || st.Events > 500+2*batchMax {
			t.Errorf("paused %v, %d events read", st.Paused, st.Events)
		}
		for i := 0; i < 6000; i += 100 {
			w.stream("web").write("0", event(i, "c", "x"))
		}
		settle(time.Minute)
		if got := w.sent("out"); len(got) < 2490 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestManyPartitions: thousands of partitions, most of them ended, some silent, and one at work.
func TestManyPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		for i := range 3000 {
			s.write(time.Duration(i).String(), event(i/100, "c", "x"))
		}
		s.set(func() {
			for i, tape := range s.list {
				tape.closed = i%10 > 0
			}
		})
		l := w.run(func(c *Config) { c.Streams[0].Idle = 10 * time.Second })
		settle(30 * time.Second)
		st := l.Status().Streams[0]
		if st.Events != 3000 || st.Ended != 2700 || st.Idle != 300 || len(st.List) != partitionsMax {
			t.Errorf("%d events, %d ended, %d idle, %d listed", st.Events, st.Ended, st.Idle, len(st.List))
		}
		s.write("busy", event(100, "a", "x"), event(101, "b", "x"), event(110, "c", "x"))
		settle(time.Second)
		if got := w.sent("out"); len(got) != 1 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

func TestQueueHandsOutTheLowestClock(t *testing.T) {
	var q queue
	for i := range 100 {
		q.push(cep.Time(i*37%100), &input{id: &cep.Partition{Name: time.Duration(i).String()}})
	}
	for want := range 100 {
		if got := q.least().clock; got != cep.Time(want) {
			t.Fatalf("clock %d, want %d", got, want)
		}
		q.remove()
	}
	if q.least() != nil {
		t.Error("something is left")
	}
}

const joined = `version: 1
rules:
- {id: both, from: [auth, web], by: [user], within: 1h, sequence: [{step: a, from: auth, where: kind == "a"}, {step: b, from: web, where: kind == "b"}]}
`

// TestEndedPartitionsAreNoEndOfTheStream: a log that is rotated may have ended before the next one is found. Rules that join its
// stream with another wait for it, also over a restart, as long as for a partition that is silent.
func TestEndedPartitionsAreNoEndOfTheStream(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, c := range []struct {
			idle, wait time.Duration
			lost       bool
		}{{0, time.Hour, false}, {30 * time.Second, 20 * time.Second, false}, {30 * time.Second, time.Minute, true}} {
			t.Run(fmt.Sprintf("restart %v, idle %s, %s later", restart, c.idle, c.wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "auth", "web")
					w.rules = joined
					change := func(x *Config) { x.Streams[0].Idle = c.idle }
					w.stream("auth").write("0", event(1, "x", "u"), event(10, "x", "u"))
					w.stream("auth").set(func() { w.stream("auth").tape("0").closed = true })
					w.stream("web").write("0", event(1, "x", "u"))
					l := w.run(change)
					settle(time.Second)
					if restart {
						if err := l.Drain(t.Context()); err != nil {
							t.Fatal(err)
						}
						<-l.ended
						l = w.run(change)
					}
					w.stream("web").write("0", event(12, "b", "u"), event(100, "x", "u"))
					settle(c.wait)
					w.stream("auth").write("1", event(11, "a", "u"), event(200, "x", "u"))
					settle(time.Second)
					want := []string{`"both"`}
					if c.lost { // time has gone on, and that is said
						want = []string{}
					}
					if got := w.sent("out", "rule"); !slices.Equal(got, want) {
						t.Errorf("alerts %q, want %q\n%s", got, want, w.log)
					}
					if n := l.Status().Streams[0].Returned; (n > 0) != c.lost {
						t.Errorf("%d events were refused", n)
					}
					l.crash()
					_ = l.wait()
				})
			})
		}
	}
}

// TestStreamThatIsOver: rules that join a stream which has come to its end with another one wait for it no more, nor do they behind a
// swap or a restart.
func TestStreamThatIsOver(t *testing.T) {
	for _, between := range []string{"nothing", "a swap", "a restart"} {
		t.Run(between, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "auth", "web")
				w.rules = joined
				w.stream("auth").write("0", event(1, "x", "u"), event(10, "a", "u"))
				w.stream("auth").finish()
				w.stream("web").write("0", event(1, "x", "u"))
				l := w.run()
				settle(time.Second)
				switch between {
				case "a swap":
					set, err := compile(joined + "- {id: more, from: auth, by: [user], where: kind == \"m\"}\n")
					if err != nil {
						t.Fatal(err)
					}
					if _, err := l.Swap(t.Context(), set); err != nil {
						t.Fatal(err)
					}
				case "a restart":
					if err := l.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					<-l.ended
					l = w.run()
				}
				w.stream("web").write("0", event(12, "b", "u"), event(100, "x", "u"))
				settle(time.Second)
				if got := w.sent("out", "rule"); !slices.Equal(got, []string{`"both"`}) {
					t.Errorf("alerts %q\n%s", got, w.log)
				}
				l.crash()
				_ = l.wait()
			})
		})
	}
}

// TestJobThatStoodStill: while the job itself stood still, as a process that is stopped, nobody looked at its sources. What came
// meanwhile is not late, whether its partition was idle before or not; what stays silent is idle all the same.
func TestJobThatStoodStill(t *testing.T) {
	for _, before := range []time.Duration{5 * time.Second, time.Minute} {
		t.Run(fmt.Sprintf("silent for %s before", before), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "auth")
				s := w.stream("auth")
				s.write("0", event(1, "a", "x"))
				const still = 40 * time.Second
				var stop atomic.Bool
				w.point = func(_ *life, p string) {
					if p == PointBarrier && stop.CompareAndSwap(true, false) {
						time.Sleep(still)
					}
				}
				l := w.run(func(c *Config) { c.Streams[0].Idle = 30 * time.Second })
				settle(before)
				stop.Store(true)
				go func() { _, _ = l.Checkpoint(t.Context()) }()
				settle(still + time.Millisecond)
				at := int((before + still/2) / time.Second)
				s.write("0", event(at, "b", "x"), event(at+20, "z", "x"))
				settle(time.Second)
				if st := l.Status().Streams[0]; st.Returned != 0 || st.Idle != 0 || stop.Load() {
					t.Errorf("%d events refused, %d partitions idle, stopped %v\n%s", st.Returned, st.Idle, !stop.Load(), w.log)
				}
				settle(31 * time.Second)
				if st := l.Status().Streams[0]; st.Idle != 1 {
					t.Errorf("%d partitions idle once all has been silent\n%s", st.Idle, w.log)
				}
				l.crash()
				_ = l.wait()
			})
		})
	}
}
