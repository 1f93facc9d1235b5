package job

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
)

// TestRefusedStartDisturbsNobody: whatever a destination has against a start is found before one of them has another owner, so
// that a job which runs elsewhere goes on as if nobody had started.
func TestRefusedStartDisturbsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["side"] = memsink.NewServer(memsink.Options{}) // nothing is sent there: it alone would let everybody in
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		first := w.run()
		settle(5 * time.Second)
		running := w.disk

		// The state of another history: its own rules, and its own destinations so far.
		others := newWorld(t, "auth")
		others.servers["side"] = memsink.NewServer(memsink.Options{})
		others.rules = `version: 1
rules:
- {id: other, from: auth, where: kind == "c"}
`
		others.stream("auth").write("0", event(1, "c", "x"), event(2, "c", "x"), event(9, "c", "x"))
		o := others.run()
		settle(5 * time.Second)
		o.crash()
		_ = o.wait()

		for _, c := range []struct {
			name   string
			start  *world
			disk   *memstore.Disk
			words  []string
			change func(*Config)
		}{
			{"the state is empty", w, memstore.NewDisk(memstore.Options{}), []string{"state is empty", "--accept-gap"}, func(*Config) {}},
			{"the state is empty, and repetition accepted", w, memstore.NewDisk(memstore.Options{}), []string{"state is empty", "--accept-gap"}, func(c *Config) { c.AcceptRepeat = true }},
			{"the state is of another history", others, others.disk, []string{"holds other messages", "--accept-repeat"}, func(*Config) {}},
			{"a savepoint of another history", others, others.disk, []string{"holds other messages", "--accept-repeat"}, func(c *Config) { c.NewLineage = true }},
		} {
			t.Log(c.name)
			c.start.disk, c.start.servers = c.disk, w.servers
			opened := map[string]sinks.Progress{}
			for name, server := range w.servers {
				opened[name], _ = server.At()
			}
			c.start.refused(c.words, c.change)
			for name, server := range w.servers {
				if at, _ := server.At(); at != opened[name] {
					t.Errorf("sink %s stands at %+v, before %+v", name, at, opened[name])
				}
			}
			settle(2 * sinks.ProbeEvery) // the owner asks whether it still is
		}
		s.write("0", event(10, "a", "x"), event(11, "b", "x"), event(15, "c", "x"))
		settle(5 * time.Second)
		if got := w.sent("out"); len(got) != 2 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		for _, sink := range first.Status().Sinks {
			if sink.Opened != 1 || sink.Error != "" {
				t.Errorf("%+v", sink.Status)
			}
		}
		if err := first.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := first.wait(); err != nil {
			t.Errorf("the first job: %v", err)
		}
		w.disk = running
		s.finish()
		w.once()
	})
}

// between is a sink whose destination moves between a peek and the open behind it.
type between struct {
	sinks.Sink
	once sync.Once
	move func()
}

// Open implements [sinks.Sink].
func (b *between) Open(ctx context.Context) (sinks.Progress, error) {
	b.once.Do(b.move)
	return b.Sink.Open(ctx)
}

// TestPeekIsOvertaken: what came between the peek and the open is found by the open.
func TestPeekIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		s.finish()
		moved := false
		overtaken := func(c *Config) {
			c.Sinks[0].Sink = &between{Sink: c.Sinks[0].Sink, move: func() {
				mine := w.disk
				w.disk = memstore.NewDisk(memstore.Options{})
				w.once()
				w.disk, moved = mine, true
			}}
		}
		w.refused([]string{"state is empty", "--accept-gap"}, overtaken)
		if got := w.sent("out"); !moved || len(got) != 1 {
			t.Errorf("moved %v, %d alerts", moved, len(got))
		}
	})
}

// silent is a sink whose destination never says where it stands, but where it is opened.
type silent struct{ sinks.Sink }

// Peek implements [sinks.Sink].
func (s silent) Peek(ctx context.Context) (sinks.Progress, error) {
	<-ctx.Done()
	return sinks.Progress{}, ctx.Err()
}

// TestPeekIsBrief: a start that has state, or may begin without it, does not wait for what opening will tell.
func TestPeekIsBrief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		l := w.run()
		settle(5 * time.Second)
		l.crash()
		_ = l.wait()
		mute := func(c *Config) { c.Sinks[0].Sink = silent{c.Sinks[0].Sink} }
		for _, disk := range []*memstore.Disk{w.disk, memstore.NewDisk(memstore.Options{})} {
			w.disk = disk
			begun := time.Now()
			l = w.run(mute, func(c *Config) { c.AcceptGap = true })
			if took := time.Since(begun); took > 2*peekPatience { // of the bubble's clock
				t.Errorf("the start took %s", took)
			}
			settle(5 * time.Second)
			l.crash()
			_ = l.wait()
		}
		if got := w.sent("out"); len(got) != 1 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		// A first start that nobody has given leave waits, and can be given up.
		w.disk = memstore.NewDisk(memstore.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		probe := &life{world: w, disk: w.disk}
		c := w.config(probe)
		mute(&c)
		if _, err := New(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it starts without an answer: %v", err)
		}
	})
}

// TestPeekNeedsAnAnswer: what a first start is not told, it says it waits for, and no destination has another owner meanwhile.
func TestPeekNeedsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["away"] = memsink.NewServer(memsink.Options{})
		s := w.stream("auth")
		s.write("0", event(1, "c", "x"))
		first := w.run()
		settle(time.Second)
		w.servers["away"].Stop()
		w.disk = memstore.NewDisk(memstore.Options{})
		began := make(chan error, 1)
		go func() {
			l, err := w.try()
			if err == nil {
				l.Close()
			}
			began <- err
		}()
		settle(3 * sinks.ProbeEvery)
		if !w.log.has("the sink does not say where it stands", "sink=away") {
			t.Error(w.log)
		}
		select {
		case <-first.ended:
			t.Errorf("the first job ended: %v", first.err)
		default:
		}
		// There it has sent nothing, so that this start is a first one as far as anybody can tell, and takes over.
		w.servers["away"].Start()
		settle(3 * sinks.ProbeEvery)
		if err := <-began; err != nil {
			t.Error(err)
		}
		if err := first.wait(); err == nil || !strings.Contains(err.Error(), "another instance owns") {
			t.Errorf("the first job: %v", err)
		}
	})
}
