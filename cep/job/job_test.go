package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
)

// fill writes a history in which many pairs are found, over two streams of two partitions.
func (w *world) fill() {
	for i := range 200 {
		for _, s := range w.streams {
			s.write(fmt.Sprint(i%2), nth(i, s.stream))
		}
	}
}

// nth is an event of that history.
func nth(i int, stream string) string {
	kind := []string{"a", "b", "c", "a", "b"}[(i*7+len(stream))%5]
	return event(i/3, kind, fmt.Sprintf("u%d", i%4))
}

func TestSendsEachAlertOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(3, "a", "y"))
		l := w.run()
		settle(10 * time.Second)
		s.write("0", event(9, "b", "y"), event(20, "c", "z"))
		settle(10 * time.Second)
		if got, want := w.sent("out", "rule", "time"), []string{
			`"pair" "1970-01-01T00:00:02Z"`, `"pair" "1970-01-01T00:00:09Z"`,
		}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q\n%s", got, want, w.log)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Errorf("drain: %v", err)
		}
		if err := l.wait(); err != nil {
			t.Errorf("run: %v", err)
		}

		s.write("0", event(21, "a", "x"), event(22, "b", "x"))
		s.finish()
		w.once()
		if got := w.sent("out", "time"); len(got) != 3 || got[2] != `"1970-01-01T00:00:22Z"` {
			t.Errorf("after a restart %q\n%s", got, w.log)
		}
		w.once()
		if got := w.sent("out", "time"); len(got) != 3 {
			t.Errorf("after another one %q", got)
		}
	})
}

// undisturbed is what one life sends of the history.
func undisturbed(t *testing.T, rules string) (bodies []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth", "web")
		w.rules = rules
		w.fill()
		for _, s := range w.streams {
			s.finish()
		}
		w.once()
		bodies = w.servers["out"].Bodies()
	})
	return bodies
}

const crashRules = `version: 1
rules:
- {id: pair, from: auth, by: [user], within: 1m, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]}
- {id: both, from: [auth, web], by: [user], within: 20s, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b", contiguity: any}]}
- {id: silent, from: web, by: [user], sequence: [{step: a, where: kind == "a"}, {absent: b, where: kind == "b", for: 5s}]}
- {id: storm, from: auth, by: [user], where: kind == "c", alert: {suppress: {by: [user], for: 7s}}}
`

// TestCrashAtEveryPoint ends a life at each point, at its first, second and fifth time, and finds the alerts of the
// undisturbed run after the next life, in order for each rule and key, and nothing else.
func TestCrashAtEveryPoint(t *testing.T) {
	want := byLane(undisturbed(t, crashRules))
	if len(want) < 10 {
		t.Fatalf("%d lanes: the history finds nothing", len(want))
	}
	rare := []string{PointSwapping, PointSwapped, PointSwapPrepared, PointSwapCommitted, "publisher.noted", "publisher.rejected"} // tested where they belong
	for _, point := range append(Failpoints(), sinks.Failpoints...) {
		if slices.Contains(rare, point) {
			continue
		}
		for _, times := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s %d", point, times), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "auth", "web")
					w.rules = crashRules
					hit := 0
					w.point = func(l *life, p string) {
						if p == point {
							if hit++; hit == times {
								l.crash()
							}
						}
					}
					change := func(c *Config) { c.Interval = 50 * time.Millisecond }
					for _, s := range w.streams { // a partition that appears later would be late
						s.write("0")
						s.write("1")
					}
					l, err := w.try(change)
					if err != nil && hit == times { // the crash came before the job could run
						l, err = w.try(change)
					}
					if err != nil {
						t.Fatal(err)
					}
					go l.live()
					w.fill()
					settle(3 * time.Second)
					for _, s := range w.streams {
						s.finish()
					}
					settle(time.Second)
					if !l.dead.Load() {
						_ = l.Drain(t.Context()) // the crash may come here
					}
					<-l.ended
					if hit == 0 {
						t.Errorf("the point was never reached")
					}
					if hit < times { // it may come in the life that mends all
						l = w.run(change, func(c *Config) { c.Once = true })
						_ = l.wait()
					}
					w.point = nil
					w.once()
					got := byLane(w.servers["out"].Bodies())
					for lane, list := range want {
						if !slices.Equal(got[lane], list) {
							t.Errorf("%s (-undisturbed +arrived):\n%s\n%s", lane, cmp.Diff(list, got[lane]), w.log)
						}
					}
					if len(got) != len(want) {
						t.Errorf("%d lanes, want %d", len(got), len(want))
					}
				})
			})
		}
	}
}

// byLane sorts bodies by rule and key: an alert keeps its order among those.
func byLane(bodies []string) map[string][]string {
	lanes := map[string][]string{}
	for _, b := range bodies {
		lane := member(b, "rule") + member(b, "key")
		lanes[lane] = append(lanes[lane], b)
	}
	return lanes
}

func TestDrainSendsWhatIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		l := w.run(func(c *Config) { c.Interval = time.Hour })
		synctest.Wait()
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.wait(); err != nil {
			t.Errorf("run: %v", err)
		}
		if got := w.sent("out"); len(got) != 1 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		if s := l.Status(); s.Phase != "ended" || s.Sinks[0].Waiting.Count != 0 || s.Epoch.Committed == 0 {
			t.Errorf("status %+v", s)
		}
		if err := l.Run(t.Context()); !errors.Is(err, errTwice) {
			t.Errorf("run again: %v", err)
		}
	})
}

// TestDrainRunsOutOfTime: the destination is away, so what is committed stays for the next life.
func TestDrainRunsOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		l := w.run()
		w.servers["out"].Stop()
		settle(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := l.Drain(ctx)
		unsent, ok := errors.AsType[*UnsentError](err)
		if !ok || len(unsent.Sinks) != 1 || !strings.Contains(unsent.Error(), "out: 1 messages") {
			t.Errorf("drain: %v", err)
		}
		if err := l.wait(); !errors.Is(err, ErrAbandoned) {
			t.Errorf("run: %v", err)
		}
		w.servers["out"].Start()
		w.stream("auth").finish()
		w.once()
		if got := w.sent("out"); len(got) != 1 {
			t.Errorf("%d alerts", len(got))
		}
	})
}

func TestCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		l := w.run(func(c *Config) { c.Interval = time.Hour })
		settle(time.Second)
		first, err := l.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		second, err := l.Checkpoint(t.Context())
		if err != nil || second != first+1 {
			t.Errorf("epochs %d and %d: %v", first, second, err)
		}
		l.crash()
		_ = l.wait()
		if _, err := l.Checkpoint(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Errorf("checkpoint of a job that is over: %v", err)
		}
	})
}

// TestSilenceWritesNothing: a job to which nothing happens makes no epochs.
func TestSilenceWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").write("0", event(1, "a", "x"))
		l := w.run(func(c *Config) { c.Streams[0].Idle = 30 * time.Second })
		settle(2 * time.Minute)
		before := l.Status().Epoch.Committed
		settle(2 * time.Hour)
		if after := l.Status().Epoch.Committed; after != before || before == 0 {
			t.Errorf("epochs %d, then %d", before, after)
		}
		l.crash()
		_ = l.wait()
	})
}

func TestStoreWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		l := w.run()
		settle(2 * time.Second)
		w.disk.SetFull(true)
		w.stream("auth").write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		settle(time.Minute)
		for i := range 1000 {
			w.stream("auth").write("0", event(10+i, "a", "x"))
		}
		settle(time.Minute)
		s := l.Status()
		if s.Epoch.Error == "" || len(s.Degraded) == 0 || s.Degraded[0].What != "epoch" {
			t.Errorf("status %+v", s)
		}
		if len(w.sent("out")) != 0 {
			t.Error("an alert was sent that is not durable")
		}
		if n := s.Streams[0].Events; n > 3+batchMax {
			t.Errorf("%d events were read", n)
		}
		w.disk.SetFull(false)
		settle(time.Minute)
		s = l.Status()
		if s.Epoch.Error != "" || len(s.Degraded) != 0 || s.Streams[0].Events != 1003 {
			t.Errorf("status %+v", s)
		}
		if len(w.sent("out")) != 1 {
			t.Errorf("%d alerts\n%s", len(w.sent("out")), w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestOutboxWithoutRoom: a destination that is away pauses reading, and memory stays flat.
func TestOutboxWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.rules = strings.ReplaceAll(pairs, `sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]`, `where: kind == "a"`)
		l := w.run(func(c *Config) { c.Sinks[0].OutboxMax.Count = 100 })
		settle(time.Second)
		w.servers["out"].Stop()
		const events = 60_000
		list := make([]string, events)
		for i := range list {
			list[i] = event(i, "a", "x")
		}
		w.stream("auth").write("0", list...)
		settle(time.Minute)
		s := l.Status()
		if !s.Sinks[0].Full || len(s.Degraded) < 2 || s.Streams[0].Events > 4*alertsMax { // what is on its way in the engine is over the limit too
			t.Errorf("status %+v", s)
		}
		if !w.log.has("no room in the outbox", "sink=out") {
			t.Error(w.log)
		}
		w.servers["out"].Start()
		settle(time.Minute)
		if got := w.sent("out", "time"); len(got) != events-2 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		if s := l.Status(); s.Sinks[0].Full || len(s.Degraded) != 0 {
			t.Errorf("status %+v", s)
		}
		l.crash()
		_ = l.wait()
	})
}

func TestExcessBecomesDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["dead"] = memsink.NewServer(memsink.Options{})
		w.rules = strings.ReplaceAll(pairs, `sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]`, `where: kind == "a"`)
		l := w.run(func(c *Config) {
			c.DeadLetters = "dead"
			for i := range c.Sinks {
				if c.Sinks[i].Name == "out" {
					c.Sinks[i].OutboxMax.Count, c.Sinks[i].OnFull = 10, DeadLetter
				}
			}
		})
		settle(time.Second)
		w.servers["out"].Stop()
		for i := range 30 {
			w.stream("auth").write("0", event(i, "a", "x"))
		}
		settle(time.Minute)
		if got := w.sent("dead", "kind", "sink"); len(got) != 18 || got[0] != `"excess" "out"` { // the last two events wait for their watermark
			t.Errorf("dead letters %q\n%s", got, w.log)
		}
		w.servers["out"].Start()
		settle(time.Minute)
		if got := w.sent("out"); len(got) != 10 {
			t.Errorf("%d alerts", len(got))
		}
		if s := l.Status(); s.Alerts.Excess != 18 || s.Alerts.Letters != 18 {
			t.Errorf("%+v", s.Alerts)
		}
		l.crash()
		_ = l.wait()
	})
}

func TestRefusedEventsAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["dead"] = memsink.NewServer(memsink.Options{})
		w.servers["late"] = memsink.NewServer(memsink.Options{})
		now := int(time.Now().Unix())
		w.stream("auth").write("0", event(now, "a", "x"), `{"t":`, event(now-60, "a", "x"), "large", event(now+7200, "b", "x"), event(now+1, "b", "x"))
		w.stream("auth").finish()
		change := func(c *Config) {
			c.DeadLetters, c.Streams[0].Late, c.Streams[0].MaxAhead = "dead", "late", time.Hour
		}
		w.once(change)
		if got, want := w.sent("dead", "reason", "offset"), []string{`"bad json" 10`, `"too large" 30`, `"future" 40`}; !slices.Equal(got, want) {
			t.Errorf("dead letters %q, want %q\n%s", got, want, w.servers["dead"].Bodies())
		}
		if got, want := w.sent("late", "kind", "offset"), []string{`"late" 20`}; !slices.Equal(got, want) {
			t.Errorf("late events %q, want %q", got, want)
		}
		if len(w.sent("out")) != 1 {
			t.Errorf("alerts %q", w.sent("out"))
		}
		w.once(change) // what is read again is not refused again
		if a, b := w.sent("dead"), w.sent("late"); len(a) != 3 || len(b) != 1 {
			t.Errorf("after a restart %d dead letters, %d late events", len(a), len(b))
		}
	})
}

// TestTimeOfArrival: the time of an event is when its record came in, and a record that does not say so is none.
func TestTimeOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["dead"] = memsink.NewServer(memsink.Options{})
		s := w.stream("auth")
		s.set(func() {
			for i, kind := range []string{"a", "b", "a", "c"} {
				r := source.Record{Data: []byte(event(0, kind, "x")), Offset: 10 * int64(i), Arrived: cep.Time(i+5) * cep.Second}
				if i == 2 {
					r.Arrived = 0
				}
				s.tape("0").records = append(s.tape("0").records, r)
			}
		})
		s.finish()
		w.once(func(c *Config) { c.DeadLetters, c.Streams[0].Arrival = "dead", true })
		if got := w.sent("out", "time"); !slices.Equal(got, []string{`"1970-01-01T00:00:06Z"`}) {
			t.Errorf("alerts %q\n%s", got, w.log)
		}
		if got := w.sent("dead", "reason", "offset"); !slices.Equal(got, []string{`"no time" 20`}) {
			t.Errorf("dead letters %q", got)
		}
	})
}

// TestDelimitedRecords: partitions of rows beside partitions of objects; what alerts show of them is JSON, what is refused is
// shown as it was.
func TestDelimitedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["late"] = memsink.NewServer(memsink.Options{})
		w.rules = strings.Replace(pairs, `kind == "b"}]`, `kind == "b"}], alert: {include_events: all}`, 1)
		s := w.stream("auth")
		s.write("csv", "1,a,x", "2,b,x", "9,c,x", "3,a,x")
		s.write("json", event(1, "a", "y"), event(2, "b", "y"))
		s.set(func() { s.tape("csv").columns = []string{"t", "kind", "user"} })
		s.finish()
		w.once(func(c *Config) { c.Streams[0].Late = "late" })
		if got, want := w.sent("out", "event"), []string{`{"t":1,"kind":"a","user":"x"}`, `{"t":1,"kind":"a","user":"y"}`}; !slices.Equal(got, want) {
			t.Errorf("alerts %q, want %q\n%s", got, want, w.log)
		}
		if got := w.servers["late"].Bodies(); len(got) != 1 || !strings.HasSuffix(got[0], `"offset":30,"time":"1970-01-01T00:00:03Z","data":"3,a,x"}`) {
			t.Errorf("late events %q", got)
		}
	})
}
