package job

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/patterns/expression"
)

// TestPartitionIsDone: a log that was read to where it ended is gone at the next start, as rotation does it. Nothing of it is lost
// once all that was read of it has been released, whatever became of the job, and its stream does not wait for it.
func TestPartitionIsDone(t *testing.T) {
	const short = 3 * time.Second
	for _, c := range []struct {
		name   string
		before func(s *tapes) // in the first life
		lived  time.Duration  // before the end of it
		dead   bool           // that was no orderly one
	}{
		{"silent, and the job ended", nil, 20 * time.Second, false},
		{"silent, and the job crashed", nil, 20 * time.Second, true},
		{"finished, and the job ended", func(s *tapes) { s.set(func() { s.tape("1").closed = true }) }, 20 * time.Second, false},
		{"finished, and the job crashed", func(s *tapes) { s.set(func() { s.tape("1").closed = true }) }, 20 * time.Second, true},
		{"overtaken while silent, and the job crashed", func(s *tapes) { s.write("0", event(20, "c", "x")) }, short, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "auth")
				s := w.stream("auth")
				idle := func(c *Config) { c.Streams[0].Idle = 5 * time.Second }
				l := w.run(idle)
				settle(time.Second)
				s.write("0", event(1, "c", "x"))
				s.write("1", event(1, "c", "x"), event(2, "a", "x"))
				settle(6 * time.Second)
				if c.before != nil {
					c.before(s)
				}
				settle(c.lived)
				if !c.dead {
					if err := l.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				l.crash()
				_ = l.wait()
				s.set(func() { s.tape("1").missing = true })
				l = w.run(idle)
				settle(time.Second)
				s.write("0", event(30, "b", "x"), event(40, "c", "x"))
				settle(time.Second)
				if got := w.sent("out"); len(got) != 1 {
					t.Errorf("%d alerts: is a partition waited for?", len(got))
				}
				if w.log.has("level=ERROR") || w.log.has("level=WARN") {
					t.Error("something is wrong with it")
				}
				if !w.log.has("level=INFO", "the partition is not there", "partition=1") && !strings.HasPrefix(c.name, "finished") {
					t.Error("nobody says that it is not there")
				}
				if st := l.Status(); st.Streams[0].Absent+st.Streams[0].Ended != 1 || len(st.Degraded) != 0 {
					t.Errorf("%+v", st)
				}
				// It may come back all the same, and goes on behind what was read.
				s.set(func() { s.tape("1").missing, s.tape("1").closed = false, false })
				s.write("1", event(50, "a", "y"), event(51, "b", "y"))
				settle(time.Second)
				s.write("0", event(60, "c", "x"))
				settle(10 * time.Second)
				if got := w.sent("out"); len(got) != 2 {
					t.Errorf("%d alerts once it is back", len(got))
				}
				if seeks := s.tape("1").seeks; seeks[len(seeks)-1] != 11 {
					t.Errorf("read at %d: what is behind the last record is all that is wanted", seeks)
				}
				if t.Failed() {
					t.Log("\n" + w.log.String())
				}
				l.crash()
				_ = l.wait()
			})
		})
	}
}

// TestNothingIsThere: where a source has nothing at all, what it had may only not be there yet: a disk that is not mounted. So time
// stands still as long as a partition may be silent, and what comes back before that is refused nowhere.
func TestNothingIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		idle := func(c *Config) { c.Streams[0].Idle = 30 * time.Second }
		s.write("0", event(1, "c", "x"))
		s.write("1", event(1, "c", "x"), event(2, "a", "x"))
		l := w.run(idle)
		settle(2 * time.Minute)
		l.crash()
		_ = l.wait()
		s.set(func() { s.tape("0").missing, s.tape("1").missing = true, true })
		time.Sleep(time.Hour)
		l = w.run(idle)
		settle(20 * time.Second)
		if !w.log.has("level=INFO", "the partition is not there, nor is anything else of its stream", "idle=30s") || w.log.has("level=ERROR") {
			t.Errorf("\n%s", w.log)
		}
		if st := l.Status(); len(st.Degraded) != 2 {
			t.Errorf("%+v", st.Degraded)
		}
		s.set(func() { s.tape("0").missing, s.tape("1").missing = false, false })
		s.write("1", event(3600, "a", "x"), event(3610, "b", "x"), event(3690, "c", "x"))
		s.write("0", event(3690, "c", "x"))
		settle(2 * time.Second)
		if got := w.sent("out"); len(got) != 1 || w.log.has("events take no part") {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestRecordsAreGone: what a broker has deleted is missed where it was not released, and nowhere else: a topic of which nothing came
// for as long as it keeps records has none, and the job goes on behind them.
func TestRecordsAreGone(t *testing.T) {
	for name, silent := range map[string]time.Duration{"released": time.Minute, "not released": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "auth")
				s := w.stream("auth")
				idle := func(c *Config) { c.Streams[0].Idle = 30 * time.Second }
				topic := &topic{identity: "T1", told: make(chan map[string]int64, 1000)}
				s.write("0", event(1, "c", "x"), event(2, "a", "x"))
				l := w.run(idle, asTopic(topic))
				settle(silent)
				l.crash()
				_ = l.wait()
				topic.first = 2
				s.write("0", event(61, "b", "x"), event(90, "c", "x"))
				l = w.run(idle, asTopic(topic))
				settle(5 * time.Second)
				if gone := w.log.has("level=ERROR", source.ErrGone.Error()); gone != (name == "not released") {
					t.Errorf("gone: %v\n%s", gone, w.log)
				}
				if name == "released" {
					if got := w.sent("out"); len(got) != 1 {
						t.Errorf("%d alerts\n%s", len(got), w.log)
					}
				}
				l.crash()
				_ = l.wait()
			})
		})
	}
}

// parting is a source that has a last word, some time after it was told to end.
type parting struct {
	source.Source
	after time.Duration
}

// Watch implements [source.Source].
func (p *parting) Watch(ctx context.Context, known []string, d source.Discovery) error {
	err := p.Source.Watch(ctx, known, d)
	time.Sleep(p.after)
	d.Trouble(errors.New("half of it is lost"))
	return err
}

// TestLastWord: what a source says when it is told to end is in the log, also where the job has nothing else to do by then.
func TestLastWord(t *testing.T) {
	for _, after := range []time.Duration{0, time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "auth")
				w.stream("auth").write("0", event(1, "a", "x"))
				l := w.run(func(c *Config) { c.Streams[0].Source = &parting{c.Streams[0].Source, after} })
				settle(5 * time.Second)
				if err := l.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				if err := l.wait(); err != nil || !w.log.has("the source has trouble", "half of it is lost") {
					t.Errorf("%v\n%s", err, w.log)
				}
			})
		})
	}
}

// TestDisabledAtTheEnd: a rule that is disabled is named, also where the job ends before anybody looks.
func TestDisabledAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		l := w.run(func(c *Config) {
			c.Rules.Rules[0].Where = &expression.Expr{Canonical: "where", Test: func(*cep.Scope) (bool, error) { panic("no such thing") }}
		})
		settle(5 * time.Second)
		s.write("0", event(1, "a", "x"), event(9, "a", "x"))
		settle(time.Second)
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.wait(); err != nil || !w.log.has("level=ERROR", "a rule is disabled", "rule=pair", "no such thing") {
			t.Errorf("%v\n%s", err, w.log)
		}
	})
}
