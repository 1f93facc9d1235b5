package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
)

// hook is a destination without a position, which never takes messages about one user.
type hook struct {
	mu      sync.Mutex
	refuses string
	got     []string
}

// Peek implements [sinks.Sink].
func (h *hook) Peek(context.Context) (sinks.Progress, error) { return sinks.Progress{}, nil }

// Open implements [sinks.Sink].
func (h *hook) Open(context.Context) (sinks.Progress, error) { return sinks.Progress{}, nil }

// Begin implements [sinks.Sink].
func (h *hook) Begin(context.Context, sinks.Progress) error { return nil }

// Close implements [sinks.Sink].
func (h *hook) Close() error { return nil }

// Publish implements [sinks.Sink].
func (h *hook) Publish(_ context.Context, b sinks.Batch) (sinks.Ack, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ack := sinks.Ack{Published: b.Base}
	for i := range b.Messages {
		m := &b.Messages[i]
		if h.refuses != "" && strings.Contains(string(m.Body), h.refuses) {
			return ack, &sinks.RejectedError{Sequence: m.Sequence, Reason: "no such user"}
		}
		h.got = append(h.got, member(string(m.Body), "time"))
		ack.Published.Sequence, ack.Published.Chain = m.Sequence, m.Chain
	}
	return ack, nil
}

// withHook adds the destination as a sink of all alerts.
func withHook(h *hook) func(*Config) {
	return func(c *Config) {
		c.Sinks = append(c.Sinks, Sink{Name: "hook", Sink: h, Guarantee: sinks.AtLeastOnce, All: true})
	}
}

func TestRefusedByTheDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["dead"] = memsink.NewServer(memsink.Options{})
		for i, user := range []string{"x", "y", "z"} {
			w.stream("auth").write("0", event(3*i, "a", user), event(3*i+1, "b", user))
		}
		w.stream("auth").finish()
		h := &hook{refuses: `"user":"y"`}
		w.once(withHook(h), func(c *Config) { c.DeadLetters = "dead" })
		if want := []string{`"1970-01-01T00:00:01Z"`, `"1970-01-01T00:00:07Z"`}; !slices.Equal(h.got, want) {
			t.Errorf("the hook got %q, want %q", h.got, want)
		}
		if got := w.sent("dead", "kind", "detail", "sink"); !slices.Equal(got, []string{`"excess" "refused by the destination: no such user" "hook"`}) {
			t.Errorf("dead letters %q\n%s", got, w.log)
		}
		if got := w.sent("out"); len(got) != 3 {
			t.Errorf("the other sink got %d alerts", len(got))
		}
		w.once(withHook(h), func(c *Config) { c.DeadLetters = "dead" })
		if len(h.got) != 2 || len(w.sent("dead")) != 1 {
			t.Errorf("after an orderly end the hook got %q, and there are %d dead letters", h.got, len(w.sent("dead")))
		}
	})
}

// TestRefusedWithoutDeadLetters: the message is counted, and the sink goes on.
func TestRefusedWithoutDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").write("0", event(1, "a", "y"), event(2, "b", "y"), event(3, "a", "x"), event(4, "b", "x"), event(9, "c", "x"))
		h := &hook{refuses: `"user":"y"`}
		l := w.run(withHook(h))
		settle(5 * time.Second)
		if len(h.got) != 1 {
			t.Errorf("the hook got %q", h.got)
		}
		for _, s := range l.Status().Sinks {
			if s.Name == "hook" && (s.Rejected != 1 || s.Waiting.Count != 0) {
				t.Errorf("%+v", s)
			}
		}
		l.crash()
		_ = l.wait()
	})
}

// TestRulesNameTheirSinks: alerts go where their rule says, else to all sinks that take them.
func TestRulesNameTheirSinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["side"] = memsink.NewServer(memsink.Options{})
		w.rules = `version: 1
rules:
- {id: all, from: auth, where: kind == "a"}
- {id: one, from: auth, where: kind == "a", alert: {to: [side]}}
- {id: two, from: auth, where: kind == "a", alert: {to: [side, out]}}
`
		w.stream("auth").write("0", event(1, "a", "x"))
		w.stream("auth").finish()
		w.once()
		for sink, want := range map[string][]string{"out": {`"all"`, `"two"`}, "side": {`"one"`, `"two"`}} {
			if got := w.sent(sink, "rule"); !slices.Equal(got, want) {
				t.Errorf("%s got %q, want %q", sink, got, want)
			}
		}
	})
}

// TestAlertThatIsTooLarge goes without its events, and is counted.
func TestAlertThatIsTooLarge(t *testing.T) {
	o := &outlet{Sink: Sink{Name: "out", All: true}, outbox: newShelf(t).outbox}
	p := newPost([]*outlet{o}, "")
	a := &cep.Alert{Rule: "r", Steps: []cep.AlertStep{{Name: "s"}}}
	raw := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 1<<20))
	for range bodyMax>>20 + 1 {
		a.Steps[0].Events = append(a.Steps[0].Events, cep.AlertEvent{Position: cep.Position{Partition: &cep.Partition{}}, Raw: raw})
	}
	p.alert(&engine.Out{Alert: a, Rule: &rules.Rule{}})
	if p.tally.Cut != 1 || p.tally.Alerts != 1 || len(p.outgoing) != 1 || len(p.outgoing[0].Data) > 10_000 {
		t.Errorf("%+v, %d messages", p.tally, len(p.outgoing))
	}
	if a.Steps == nil {
		t.Error("the alert itself was changed")
	}
}

// TestPartitionComesBack: a log that was read to its end and rotated comes back with more behind it.
func TestPartitionComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "c", "x"))
		s.write("1", event(1, "c", "x"))
		s.set(func() { s.tape("0").closed = true })
		l := w.run()
		settle(5 * time.Second)
		if st := l.Status().Streams[0]; st.Ended != 1 || st.Events != 3 {
			t.Errorf("%d ended, %d events", st.Ended, st.Events)
		}
		again := &tapeReader{source: s, tape: s.tape("0"), id: l.config.Partitions.Get("auth", "0")}
		s.set(func() { s.tape("0").closed = false })
		l.inbox.put(notice{kind: noticeFound, stream: l.streams[0], reader: source.Reader(again), beginning: beginning{offset: -1}})
		s.write("0", event(3, "b", "x"), event(9, "c", "x"))
		settle(time.Second)
		s.write("1", event(9, "c", "x"))
		settle(5 * time.Second)
		if st := l.Status().Streams[0]; st.Ended != 0 || st.Events != 6 || st.Late != 0 {
			t.Errorf("%d ended, %d events, %d late", st.Ended, st.Events, st.Late)
		}
		if got := w.sent("out"); len(got) != 1 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestSourcesAreCrowded: a source that has little room left forgets what no newer epoch needs, although nothing happens any
// more that would move the oldest epoch on; and then there is quiet.
func TestSourcesAreCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		l := w.run(func(c *Config) { c.Interval = 100 * time.Millisecond })
		for i := range 100 { // in so few epochs that no base is due
			for range 10 {
				s.write("0", event(i, "c", "x"))
			}
			settle(5 * time.Millisecond)
		}
		settle(5 * time.Second)
		trimmed := func() int64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.trimmed["0"]
		}
		if before := trimmed(); before != 0 {
			t.Fatalf("trimmed before %d, of itself", before)
		}
		s.mu.Lock()
		s.crowded = true
		s.mu.Unlock()
		settle(5 * time.Second)
		newest := l.Status().Epoch.Committed
		if m, err := l.config.Store.Manifest(t.Context(), newest); err != nil || trimmed() == 0 || trimmed() != m.Sources[0].From {
			t.Errorf("trimmed before %d, the newest epoch %d needs %+v (%v)\n%s", trimmed(), newest, m.Sources, err, w.log)
		}
		settle(10 * time.Second)
		if later := l.Status().Epoch.Committed; later != newest {
			t.Errorf("%d epochs came of nothing", later-newest)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestSourcesForget: what no kept epoch needs is trimmed.
func TestSourcesForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		l := w.run(func(c *Config) { c.Interval = 100 * time.Millisecond })
		for i := range 100 {
			for range 10 {
				s.write("0", event(i, "c", "x"))
			}
			settle(time.Second)
		}
		s.mu.Lock()
		before := s.trimmed["0"]
		s.mu.Unlock()
		oldest, err := l.config.Store.Oldest(t.Context())
		if err != nil || before == 0 || before > oldest.Sources[0].From {
			t.Errorf("trimmed before %d, the oldest epoch needs %+v (%v)", before, oldest.Sources, err)
		}
		l.crash()
		_ = l.wait()
	})
}
