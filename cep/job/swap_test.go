package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/rules"
)

// set compiles rules in flow style.
func (w *world) set(list ...string) *rules.Set {
	w.t.Helper()
	set, err := compile("version: 1\nrules:\n- " + strings.Join(list, "\n- ") + "\n")
	if err != nil {
		w.t.Fatal(err)
	}
	return set
}

const (
	pairRule   = `{id: pair, from: auth, by: [user], within: 1m, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]}`
	tripleRule = `{id: pair, from: auth, by: [user], within: 1m, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}, {step: c, where: kind == "c"}]}`
	droppyRule = `{id: droppy, from: auth, by: [user], within: 1m, on_change: drop, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]}`
	droppedTo  = `{id: droppy, from: auth, by: [user], within: 1m, on_change: drop, sequence: [{step: a, where: kind == "a"}, {step: c, where: kind == "c"}]}`
	placeRule  = `{id: place, from: auth, by: [user], where: place == "here"}`
)

// TestSwapOfAFieldOfTheAlert: an alert that reads more than open starts have kept, or less, is no other meaning. They finish with the
// alert that they began under, also where a change of meaning would drop them.
func TestSwapOfAFieldOfTheAlert(t *testing.T) {
	less := []string{pairRule, droppyRule}
	more := make([]string, len(less))
	for i, rule := range less {
		more[i] = strings.TrimSuffix(rule, "}") + ", alert: {fields: {p: a.place}}}"
	}
	for name, sets := range map[string][2][]string{"more": {less, more}, "less": {more, less}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "auth")
				s := w.stream("auth")
				before := w.set(sets[0]...)
				s.write("0", `{"t":1,"kind":"a","user":"x","place":"home"}`, event(20, "z", "z"))
				l := w.run(func(c *Config) { c.Rules = before })
				settle(5 * time.Second)
				done, err := l.Swap(t.Context(), w.set(sets[1]...))
				if err != nil {
					t.Fatal(err)
				}
				reason := "what its alert reads has changed, and with it what is kept for open starts"
				want := []RuleChange{
					{Rule: "droppy", Kind: "draining", Starts: 1, Reason: reason}, {Rule: "pair", Kind: "draining", Starts: 1, Reason: reason},
				}
				if diff := cmp.Diff(want, done.Changes); diff != "" {
					t.Error(diff)
				}
				s.write("0", event(21, "b", "x"), event(40, "z", "z"))
				settle(5 * time.Second)
				fields := map[string]string{"more": "{}", "less": `{"p":"home"}`}[name]
				if got := w.sent("out", "fields"); !slices.Equal(got, []string{fields, fields}) {
					t.Errorf("fields of alerts %q", got)
				}
				l.crash()
				_ = l.wait()
			})
		})
	}
}

// TestSwapInARunningJob: what becomes of each rule is said before and after; open starts stay, drain or are dropped; a rule
// that is new sees what was read and not released, fields included that nobody read before.
func TestSwapInARunningJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		before := w.set(pairRule, droppyRule, strings.Replace(pairRule, "pair", "other", 1), strings.Replace(pairRule, "pair", "deleted", 1))
		s.write("0", event(1, "a", "x"), event(10, "a", "y"), event(20, "z", "z"),
			`{"t":20,"kind":"z","user":"z","place":"here"}`) // above the watermark, which is below 19
		l := w.run(func(c *Config) { c.Rules = before })
		settle(5 * time.Second)
		after := w.set(tripleRule, droppedTo, strings.Replace(pairRule, "pair", "other", 1), placeRule)
		want := []RuleChange{
			{Rule: "deleted", Kind: "deleted", Starts: 2},
			{Rule: "droppy", Kind: "changed", Starts: 2},
			{Rule: "other", Kind: "kept", Starts: 2},
			{Rule: "pair", Kind: "draining", Starts: 2},
			{Rule: "place", Kind: "added"},
		}
		plan, err := l.Plan(t.Context(), after)
		if diff := cmp.Diff(want, plan); diff != "" || err != nil {
			t.Errorf("planned: %v %s", err, diff)
		}
		if l.Rules().ID() != before.ID() {
			t.Error("a plan has changed the rules")
		}
		done, err := l.Swap(t.Context(), after)
		if err != nil {
			t.Fatalf("%v\n%s", err, w.log)
		}
		if diff := cmp.Diff(want, done.Changes); diff != "" {
			t.Error("swapped", diff)
		}
		if done.Set != after.ID() || l.Rules().ID() != after.ID() || done.Epoch == 0 || l.Status().Epoch.Committed < done.Epoch {
			t.Errorf("%+v, rules %s, status %+v", done, l.Rules().ID(), l.Status().Epoch)
		}
		settle(5 * time.Second)
		s.write("0", event(25, "b", "x"), event(26, "c", "y"), event(40, "z", "z"))
		settle(5 * time.Second)
		got := w.sent("out", "rule", "time")
		slices.Sort(got)
		if diff := cmp.Diff([]string{
			`"other" "1970-01-01T00:00:25Z"`, `"pair" "1970-01-01T00:00:25Z"`, `"place" "1970-01-01T00:00:20Z"`,
		}, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s\n%s", diff, w.log)
		}
		if st := l.Status().Streams[0]; st.Events != 7 || st.Late+st.Returned != 0 {
			t.Errorf("stream %+v", st)
		}
		// The same bytes again: nothing happens.
		epoch := l.Status().Epoch.Committed
		again, err := l.Swap(t.Context(), after)
		if err != nil || again.Epoch != 0 || len(again.Changes) > 0 || l.Status().Epoch.Committed != epoch {
			t.Errorf("the same set again: %+v, %v", again, err)
		}
		if plan, err := l.Plan(t.Context(), after); err != nil || plan != nil {
			t.Errorf("a plan for the same set: %v, %v", plan, err)
		}
		l.crash()
		_ = l.wait()
		if _, err := l.Swap(t.Context(), before); !errors.Is(err, ErrNotRunning) {
			t.Errorf("a swap in a job that is over: %v", err)
		}
	})
}

// TestSwapRefused: a set that sends to a sink that is not there, and one that comes when the job ends.
func TestSwapRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").write("0", event(1, "a", "x"))
		l := w.run()
		settle(time.Second)
		lost := w.set(`{id: pair, from: auth, where: kind == "a", alert: {to: [pager]}}`)
		if _, err := l.Swap(t.Context(), lost); err == nil || !strings.Contains(err.Error(), `there is no sink "pager"; there are out`) {
			t.Errorf("a sink that is not there: %v", err)
		}
		if _, err := l.Plan(t.Context(), lost); err == nil {
			t.Error("a plan for a sink that is not there")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Swap(ctx, w.set(tripleRule)); !errors.Is(err, context.Canceled) {
			t.Errorf("who has given up: %v", err)
		}
		settle(time.Second)
		if l.Rules().ID() != l.config.Rules.ID() {
			t.Error("a swap that was refused has changed the rules")
		}
		if _, err := l.Swap(t.Context(), w.set(tripleRule)); err != nil {
			t.Errorf("another one behind it: %v", err)
		}
		l.crash()
		_ = l.wait()
	})
}

// alternate has sets take over from each other for as long as the life is, with a pause in between.
func (l *life) alternate(t *testing.T, pause time.Duration, sets ...*rules.Set) (swaps int) {
	for i := 0; ; i++ {
		_, err := l.Swap(l.ctx, sets[i%len(sets)])
		switch {
		case err == nil:
			swaps++
		case l.dead.Load() || errors.Is(err, ErrNotRunning) || strings.Contains(err.Error(), "about to end"):
			return swaps
		default:
			t.Errorf("swap %d: %v", i, err)
			return swaps
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// passing are sets that differ in a rule beside those of crashRules, and in the fields that are read.
func passing(w *world) []*rules.Set {
	var sets []*rules.Set
	for i := range 3 {
		set, err := compile(crashRules + fmt.Sprintf("- {id: passing, from: [auth, web], by: [user], within: 1m, where: field%d == 1, sequence: [{step: a}, {step: b, where: kind == \"%d\"}]}\n", i, i))
		if err != nil {
			w.t.Fatal(err)
		}
		sets = append(sets, set)
	}
	return sets
}

// TestSwapsChangeNothingElse: rules that stay find what they find without any swap, while others come and go all the time,
// partitions end, are idle, lie behind, or wait for room.
func TestSwapsChangeNothingElse(t *testing.T) {
	want := byLane(undisturbed(t, crashRules))
	for _, pause := range []time.Duration{10 * time.Millisecond, 150 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "auth", "web")
			w.rules = crashRules
			for _, s := range w.streams {
				s.write("0")
				s.write("1")
			}
			l := w.run(func(c *Config) {
				c.Interval, c.Once = 50*time.Millisecond, true
				c.Streams[0].Ahead = Limit{Count: 20}
			})
			settle(10 * time.Millisecond)
			sets := passing(w)
			swaps := make(chan int)
			go func() { swaps <- l.alternate(t, pause, sets...) }()
			for i := range 200 { // what one partition brings waits for the others
				if i%2 == 0 {
					w.streams[0].write("0", nth(i, "auth"))
				}
			}
			w.streams[0].set(func() { w.streams[0].tape("0").closed = true })
			for i := range 200 {
				if i%2 == 1 {
					w.streams[0].write("1", nth(i, "auth"))
				}
				w.streams[1].write(fmt.Sprint(i%2), nth(i, "web"))
				if i%10 == 0 {
					settle(100 * time.Millisecond)
				}
			}
			for _, s := range w.streams {
				s.finish()
			}
			if err := l.wait(); err != nil {
				t.Fatalf("%v\n%s", err, w.log)
			}
			n := <-swaps
			if n < 5 {
				t.Errorf("only %d swaps", n)
			}
			compareLanes(t, want, byLane(w.servers["out"].Bodies()), w)
		})
	}
}

func compareLanes(t *testing.T, want, got map[string][]string, w *world) {
	t.Helper()
	for lane, list := range want {
		if !slices.Equal(got[lane], list) {
			t.Errorf("%s (-undisturbed +arrived):\n%s\n%s", lane, cmp.Diff(list, got[lane]), w.log)
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lanes, want %d", len(got), len(want))
	}
}

// TestCrashAroundASwap ends a life at each point of a swap, at its first, second and fifth time, while sets alternate: rules
// that stay find what they find undisturbed, and each once.
func TestCrashAroundASwap(t *testing.T) {
	want := byLane(undisturbed(t, crashRules))
	points := []string{
		PointSwapping, PointSwapped, PointBarrier, PointCut, PointSwapPrepared, PointCommitted, PointSwapCommitted, PointTold, PointConfirmed,
		"publisher.sent",
	}
	for _, point := range points {
		for _, times := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s %d", point, times), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "auth", "web")
					w.rules = crashRules
					var hit atomic.Int64
					var swapping atomic.Bool
					w.point = func(l *life, p string) {
						if p == PointSwapping {
							swapping.Store(true)
						}
						if p == point && swapping.Load() && hit.Add(1) == int64(times) {
							l.crash()
						}
					}
					for _, s := range w.streams {
						s.write("0")
						s.write("1")
					}
					change := func(c *Config) { c.Interval = 50 * time.Millisecond }
					l := w.run(change)
					settle(10 * time.Millisecond)
					sets := passing(w)
					swaps := make(chan int, 1)
					go func() { swaps <- l.alternate(t, 20*time.Millisecond, sets...) }()
					for i := range 200 {
						for _, s := range w.streams {
							s.write(fmt.Sprint(i%2), nth(i, s.stream))
						}
						if i%10 == 0 {
							settle(50 * time.Millisecond)
						}
					}
					settle(3 * time.Second)
					if n := hit.Load(); n < int64(times) {
						l.crash()
						t.Errorf("the point was reached %d times", n)
					}
					<-l.ended
					<-swaps
					w.point = nil
					for _, s := range w.streams {
						s.finish()
					}
					w.rules = crashRules + "- {id: passing, from: auth, where: field == 1}\n"
					w.once()
					compareLanes(t, want, byLane(w.servers["out"].Bodies()), w)
				})
			})
		}
	}
}

// TestSwapWaitsForTheDisk: while an epoch cannot be made durable no set takes over; whoever has given up has changed nothing,
// or is told so.
func TestSwapWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"))
		l := w.run()
		settle(3 * time.Second)
		w.disk.SetFull(true)
		s.write("0", event(2, "a", "y"), event(3, "a", "y"))
		settle(3 * time.Second) // an epoch fails
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Swap(ctx, w.set(tripleRule)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNotDurable) {
			t.Errorf("while the disk is full: %v", err)
		}
		w.disk.SetFull(false)
		settle(time.Minute)
		if l.Rules().ID() != l.config.Rules.ID() {
			t.Error("a swap that was given up took place")
		}
		// Nothing is under way now: the set takes over, and its epoch finds no room.
		w.disk.SetFull(true)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		next := w.set(tripleRule)
		if _, err := l.Swap(ctx, next); !errors.Is(err, ErrNotDurable) {
			t.Errorf("with an epoch that finds no room: %v", err)
		}
		if l.Rules().ID() == next.ID() {
			t.Error("rules that are not durable are said to be")
		}
		w.disk.SetFull(false)
		settle(time.Minute)
		if l.Rules().ID() != next.ID() {
			t.Error("the rules are not durable, and there is room")
		}
		l.crash()
		_ = l.wait()
	})
}

// TestSwapAndWhatIsGone: a partition that has failed, or is read to its end and cannot be opened again, with events that wait,
// would lose them: the set is refused until they are released.
func TestSwapAndWhatIsGone(t *testing.T) {
	for _, end := range []error{errors.New("bad sector"), io.EOF} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "auth")
			s := w.stream("auth")
			s.write("0", event(1, "a", "x"), event(2, "a", "x"), event(30, "b", "x"))
			s.write("1", event(1, "z", "z"))
			s.set(func() {
				if s.tape("0").broken = end; errors.Is(end, io.EOF) {
					s.tape("0").broken, s.tape("0").closed, s.tape("0").gone = nil, true, true
				}
			})
			l := w.run(func(c *Config) { c.Streams[0].Idle = 10 * time.Minute })
			settle(10 * time.Second)
			if _, err := l.Swap(t.Context(), w.set(pairRule, placeRule)); err == nil || !strings.Contains(err.Error(), "cannot be read again now (auth tape 0)") {
				t.Errorf("%v", err)
			}
			s.write("1", event(60, "z", "z"))
			settle(10 * time.Second)
			s.write("1", event(61, "z", "z"))
			settle(15 * time.Minute) // a partition that has failed is idle by then, one that has ended holds nobody back
			if got := w.sent("out"); len(got) != 1 {
				t.Errorf("%d alerts\n%s", len(got), w.log)
			}
			if _, err := l.Swap(t.Context(), w.set(pairRule, placeRule)); err != nil {
				t.Errorf("once it is released: %v", err)
			}
			l.crash()
			_ = l.wait()
		})
	}
}

// TestSwapsLeaveNothing: after a thousand reloads of identical bytes, and a thousand swaps of sets that alternate, there are as
// many goroutines, and as much is alive, as after ten.
func TestSwapsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth", "web")
		w.disk = memstore.NewDisk(memstore.Options{Keep: 1, FoldEpochs: 1}) // else it is the disk that grows, up to what it keeps
		w.rules = crashRules
		for i := range 60 {
			for _, s := range w.streams {
				s.write(fmt.Sprint(i%3), event(i/6, "ab"[i%2:i%2+1], fmt.Sprintf("u%d", i%100)))
			}
		}
		l := w.run()
		settle(10 * time.Second)
		sets := passing(w)
		for i := range sets { // with open starts that drain
			text := crashRules
			if i%2 == 0 {
				text = strings.Replace(crashRules, "within: 1m", "within: 2m", 1)
			}
			set, err := compile(text + fmt.Sprintf("- {id: passing, from: auth, where: field%d == 1}\n", i))
			if err != nil {
				t.Fatal(err)
			}
			sets[i] = set
		}
		swap := func(set *rules.Set) {
			if _, err := l.Swap(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}
		alive := func() (heap uint64, goroutines int) {
			settle(time.Minute)
			w.log.mu.Lock()
			w.log.lines = nil
			w.log.mu.Unlock()
			for _, s := range w.streams {
				s.set(func() {
					for _, tape := range s.list {
						tape.seeks = nil
					}
				})
			}
			var m runtime.MemStats
			for range 3 {
				runtime.GC()
			}
			runtime.ReadMemStats(&m)
			return m.HeapAlloc, runtime.NumGoroutine()
		}
		for name, of := range map[string]func(i int) *rules.Set{
			"identical":   func(int) *rules.Set { return l.inForce },
			"alternating": func(i int) *rules.Set { return sets[i%len(sets)] },
		} {
			for i := range 10 {
				swap(of(i))
			}
			heap, goroutines := alive()
			epoch := l.Status().Epoch.Committed
			for i := range 990 {
				swap(of(i))
			}
			made := l.Status().Epoch.Committed - epoch
			heapAfter, goroutinesAfter := alive()
			if goroutinesAfter != goroutines {
				t.Errorf("%s: %d goroutines after 10, %d after 1,000", name, goroutines, goroutinesAfter)
			}
			if float64(heapAfter) > 1.05*float64(heap) {
				t.Errorf("%s: %d bytes alive after 10, %d after 1,000", name, heap, heapAfter)
			}
			if (name == "identical") != (made == 0) {
				t.Errorf("%s: %d epochs", name, made)
			}
			t.Logf("%s: %d bytes alive after 10, %d after 1,000; %d goroutines", name, heap, heapAfter, goroutinesAfter)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestCommittedIsTold: of every alert, once it is durable, epoch by epoch.
func TestCommittedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		var told []string
		var epochs []cep.Epoch
		var commits, barriers, sent int
		l := w.run(func(c *Config) {
			c.Committed = func(e cep.Epoch, alerts []*cep.Alert) {
				epochs = append(epochs, e)
				for _, a := range alerts {
					told = append(told, fmt.Sprint(e, " ", a.Rule, " ", a.Time))
				}
			}
			c.Observe = Observe{
				Commit: func(took time.Duration, bytes int64) {
					if commits++; bytes <= 0 {
						t.Errorf("an epoch of %d bytes", bytes)
					}
				},
				Barrier: func(time.Duration) { barriers++ },
				Publish: func(sink string, took time.Duration, messages int, err error) { sent += messages },
			}
		})
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		settle(10 * time.Second)
		s.write("0", event(10, "a", "x"), event(12, "b", "x"), event(20, "c", "x"))
		settle(10 * time.Second)
		l.crash()
		_ = l.wait()
		if len(told) != 2 || !slices.IsSorted(epochs) || len(slices.Compact(epochs)) != len(epochs) || len(epochs) < 2 {
			t.Errorf("told %q, epochs %d", told, epochs)
		}
		if commits != len(epochs) || barriers != commits || sent != 2 {
			t.Errorf("%d commits, %d barriers of %d epochs, %d messages", commits, barriers, len(epochs), sent)
		}
	})
}

// TestAListChangesAlone: what a list holds is no part of a rule's meaning: open starts stay, and events above the watermark see
// the new one.
func TestAListChangesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		with := func(list string) *rules.Set {
			t.Helper()
			set, err := rules.FromFiles([]rules.File{
				{Name: "r.yaml", Rules: true, Data: []byte("version: 1\nlists: {bad: {file: bad.csv, column: user}}\nrules:\n" +
					`- {id: pair, from: auth, by: [user], within: 1m, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b" and user in $bad}]}` + "\n")},
				{Name: "bad.csv", Data: []byte("user\n" + list)},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
		l := w.run(func(c *Config) { c.Rules = with("x\n") })
		s.write("0", event(1, "a", "x"), event(1, "a", "y"), event(3, "z", "z"))
		settle(3 * time.Second)
		done, err := l.Swap(t.Context(), with("y\n"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]RuleChange{{Rule: "pair", Kind: "kept", Starts: 2}}, done.Changes); diff != "" {
			t.Error(diff)
		}
		s.write("0", event(5, "b", "x"), event(6, "b", "y"), event(20, "z", "z"))
		settle(3 * time.Second)
		if got := w.sent("out", "key"); !slices.Equal(got, []string{`{"user":"y"}`}) {
			t.Errorf("sent %v", got)
		}
		l.crash()
		_ = l.wait()
	})
}
