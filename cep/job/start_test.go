package job

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
)

// refused makes a life that must not start, and looks for words in the reason.
func (w *world) refused(words []string, change ...func(*Config)) {
	w.t.Helper()
	l, err := w.try(change...)
	if err == nil {
		l.Close()
		w.t.Fatalf("it starts\n%s", w.log)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.t.Errorf("%v\ndoes not say %q", err, word)
		}
	}
}

func TestStateIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(3, "a", "y"), event(4, "b", "y"))
		s.finish()
		w.once()
		w.disk = memstore.NewDisk(memstore.Options{})
		w.refused([]string{"state is empty", "sink out stands at lineage 1, sequence 2", "--accept-gap"})
		if _, err := w.try(); !errors.Is(err, ErrRefused) {
			t.Errorf("%v is no refusal", err)
		}
		// With it nothing is sent twice, because the same alerts come of the same input.
		w.once(func(c *Config) { c.AcceptGap = true })
		s.write("0", event(5, "a", "z"), event(6, "b", "z"))
		w.once()
		if got := w.sent("out", "time"); len(got) != 3 {
			t.Errorf("sent %q\n%s", got, w.log)
		}
	})
}

// TestFirstStartNeedsAnAnswer: a destination that is away may know better, so the job does not start before it answers.
func TestFirstStartNeedsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["out"].Stop()
		w.stream("auth").finish()
		go func() {
			time.Sleep(time.Minute)
			w.servers["out"].Start()
		}()
		begun := time.Now()
		w.once()
		if time.Since(begun) < time.Minute {
			t.Error("it started without an answer")
		}
		// Not so with state: it starts, and sends once it can.
		w.servers["out"].Stop()
		begun = time.Now()
		l := w.run()
		if time.Since(begun) > time.Second {
			t.Error("it waited for an answer that it does not need")
		}
		w.servers["out"].Start()
		settle(time.Minute)
		l.crash()
		_ = l.wait()
	})
}

func TestAnotherJobsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").finish()
		w.once()
		w.refused([]string{`of the job "test"`, `"other"`}, func(c *Config) { c.Name = "other" })
	})
}

func TestDamagedEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(5, "c", "x"))
		l := w.run()
		settle(5 * time.Second)
		good := l.Status().Epoch.Committed
		s.write("0", event(6, "a", "x"), event(7, "b", "x"), event(10, "c", "x"))
		settle(5 * time.Second)
		bad := l.Status().Epoch.Committed
		l.crash()
		_ = l.wait()
		for e := good + 1; e <= bad; e++ {
			if err := w.disk.Damage(e); err != nil {
				t.Fatal(err)
			}
		}
		l = w.run()
		settle(5 * time.Second)
		r := l.Status().Restored
		if r == nil || r.Epoch != good || len(r.SetAside) != int(bad-good) || r.SetAside[0].Epoch != bad {
			t.Errorf("restored %+v", r)
		}
		if !w.log.has("an epoch is damaged and set aside") {
			t.Error(w.log)
		}
		s.finish()
		settle(time.Second)
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-l.ended
		if got := w.sent("out", "time"); len(got) != 2 {
			t.Errorf("sent %q\n%s", got, w.log)
		}
		w.once()

		for e := cep.Epoch(1); ; e++ {
			if err := w.disk.Damage(e); err != nil && e > 100 {
				break
			}
		}
		w.refused([]string{"no epoch that is kept is sound", "--accept-gap"})
		w.disk = memstore.NewDisk(memstore.Options{})
		w.once(func(c *Config) { c.AcceptGap = true })
		if got := w.sent("out", "time"); len(got) != 2 {
			t.Errorf("sent %q\n%s", got, w.log)
		}
	})
}

// TestRulesChange: what became of each rule is said, and what drains still raises its alerts.
func TestRulesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "c", "x"), event(2, "c", "y"))
		s.write("0", event(4, "c", "x"))
		l := w.run()
		settle(3 * time.Second)
		l.crash()
		_ = l.wait()
		w.rules = `version: 1
rules:
- {id: pair, from: auth, by: [user], within: 2m, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]}
- {id: new, from: auth, by: [user], where: kind == "b" and other == "z"}
`
		crashed := false
		w.point = func(l *life, p string) {
			if p == PointSwapped && !crashed {
				crashed = true
				l.crash()
			}
		}
		if l, err := w.try(); err == nil {
			l.Close()
			t.Error("it starts on a disk that is gone")
		}
		l = w.run()
		r := l.Status().Restored
		want := []RuleChange{{Rule: "new", Kind: "added"}, {Rule: "pair", Kind: "draining", Starts: 1}}
		if r == nil || !slices.Equal(r.Changes, want) {
			t.Errorf("restored %+v", r)
		}
		if !w.log.has("the rules have changed", "rule=pair", "change=draining", "starts=1") {
			t.Error(w.log)
		}
		settle(5 * time.Second)
		l.crash()
		_ = l.wait()

		l = w.run() // the set that took over is the recorded one now
		if r := l.Status().Restored; r == nil || len(r.Changes) != 0 {
			t.Errorf("restored %+v", r)
		}
		s.write("0", event(3, "b", "x"), event(9, "c", "x"))
		settle(5 * time.Second)
		if got := w.sent("out", "rule", "time"); !slices.Equal(got, []string{`"pair" "1970-01-01T00:00:03Z"`}) {
			t.Errorf("sent %q\n%s", got, w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestSavepoint: going back to an older state on purpose begins a new lineage, and sends again what was found since.
func TestSavepoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(5, "c", "x"))
		l := w.run()
		settle(5 * time.Second)
		saved := w.disk.Clone()
		s.write("0", event(6, "a", "x"), event(7, "b", "x"), event(10, "c", "x"))
		settle(5 * time.Second)
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-l.ended
		w.disk = saved
		s.finish()
		w.once(func(c *Config) { c.NewLineage = true })
		at, _ := w.servers["out"].At()
		if got := w.sent("out", "time"); at.Lineage != 2 || !slices.Equal(got, []string{
			`"1970-01-01T00:00:02Z"`, `"1970-01-01T00:00:07Z"`, `"1970-01-01T00:00:07Z"`,
		}) {
			t.Errorf("lineage %d, sent %q\n%s", at.Lineage, got, w.log)
		}
	})
}

// TestOlderState: without saying so, what the destination has already is not sent again.
func TestOlderState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(5, "c", "x"))
		l := w.run()
		settle(5 * time.Second)
		saved := w.disk.Clone()
		s.write("0", event(6, "a", "x"), event(7, "b", "x"), event(10, "c", "x"))
		settle(5 * time.Second)
		l.crash()
		_ = l.wait()
		w.disk = saved
		s.write("0", event(11, "a", "x"), event(12, "b", "x"))
		s.finish()
		w.once()
		if got := w.sent("out", "time"); len(got) != 3 {
			t.Errorf("sent %q\n%s", got, w.log)
		}
	})
}

// TestImportedSavepoint: the import says so by a note, which goes away once the lineage has begun.
func TestImportedSavepoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(5, "c", "x"))
		l := w.run()
		settle(5 * time.Second)
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-l.ended
		store, err := w.disk.Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.Note(t.Context(), checkpoint.NoteSavepoint, []byte(`{}`)), store.Close()); err != nil {
			t.Fatal(err)
		}
		w.servers["out"].Stop() // it begins once the destination is there
		l = w.run()
		settle(time.Second)
		if note, err := l.config.Store.Noted(t.Context(), checkpoint.NoteSavepoint); err != nil || note == nil {
			t.Errorf("the note is gone before the lineage has begun (%v)", err)
		}
		w.servers["out"].Start()
		settle(time.Minute)
		s.write("0", event(6, "a", "x"), event(7, "b", "x"), event(10, "c", "x"))
		settle(time.Minute)
		at, _ := w.servers["out"].At()
		if note, err := l.config.Store.Noted(t.Context(), checkpoint.NoteSavepoint); err != nil || note != nil || at.Lineage != 2 {
			t.Errorf("note %q (%v), lineage %d", note, err, at.Lineage)
		}
		l.crash()
		_ = l.wait()
		s.finish()
		w.once()
		if at, _ := w.servers["out"].At(); at.Lineage != 2 || len(w.sent("out")) != 2 {
			t.Errorf("lineage %d, %d alerts\n%s", at.Lineage, len(w.sent("out")), w.log)
		}
	})
}

// TestAcceptRepeat: a destination that holds other alerts than the job finds stops it, unless repetition is accepted.
func TestAcceptRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(5, "c", "x"))
		s.finish()
		w.once()
		w.disk = memstore.NewDisk(memstore.Options{})
		w.rules = `version: 1
rules:
- {id: other, from: auth, where: kind == "c"}
`
		l := w.run(func(c *Config) { c.Once, c.AcceptGap = true, true })
		if err := l.wait(); err == nil || !strings.Contains(err.Error(), "--accept-repeat") {
			t.Errorf("run: %v", err)
		}
		if got := w.sent("out", "rule"); !slices.Equal(got, []string{`"pair"`}) {
			t.Errorf("sent %q", got)
		}
		w.once(func(c *Config) { c.AcceptRepeat = true })
		at, _ := w.servers["out"].At()
		if got := w.sent("out", "rule"); at.Lineage != 2 || !slices.Equal(got, []string{`"pair"`, `"other"`}) {
			t.Errorf("lineage %d, sent %q\n%s", at.Lineage, got, w.log)
		}
	})
}

func TestStartLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		latest := func(c *Config) { c.Streams[0].Start = Latest }
		s.write("0", event(1, "a", "x"))
		l := w.run(latest)
		settle(time.Second) // the place is in an epoch, and nothing was read
		l.crash()
		_ = l.wait()
		s.write("0", event(2, "b", "x"), event(3, "a", "y")) // written while nobody ran
		l = w.run(latest)
		settle(time.Second)
		s.write("0", event(4, "b", "y"))
		s.write("later", event(1, "c", "x"), event(9, "c", "x")) // a partition that appears is read from its beginning
		s.write("0", event(9, "c", "x"))
		settle(5 * time.Second)
		if got := w.sent("out", "time"); !slices.Equal(got, []string{`"1970-01-01T00:00:04Z"`}) {
			t.Errorf("sent %q\n%s", got, w.log)
		}
		if st := l.Status().Streams[0]; st.Events != 6 {
			t.Errorf("%d events", st.Events)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestPartitionIsLost: events that were read and not released cannot be read again. It is said, and after a while all goes on.
func TestPartitionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		s.write("1", event(1, "c", "x"))
		idle := func(c *Config) { c.Streams[0].Idle = 30 * time.Second }
		l := w.run(idle)
		settle(5 * time.Second)
		l.crash()
		_ = l.wait()
		s.set(func() { s.tape("1").missing = true })
		l = w.run(idle)
		settle(5 * time.Second)
		if st := l.Status().Streams[0]; st.Absent != 1 || !w.log.has("the partition is not there") {
			t.Errorf("%+v\n%s", st, w.log)
		}
		s.write("0", event(10, "c", "x"))
		settle(40 * time.Second)
		if got := w.sent("out"); len(got) != 1 || !w.log.has("events that were read and not released are lost") {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestEndWhileReadingAgain: a life that ends before all was read again loses nothing.
func TestEndWhileReadingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(3, "b", "x"), event(9, "c", "x"))
		s.write("1", event(2, "c", "y"))
		l := w.run()
		settle(5 * time.Second)
		l.crash()
		_ = l.wait()
		s.set(func() { s.tape("1").missing = true })
		l = w.run()
		settle(5 * time.Second)
		if _, err := l.Checkpoint(t.Context()); err != nil {
			t.Error(err)
		}
		if st := l.Status(); len(st.Streams[0].List) == 0 || !st.Streams[0].List[0].Rereading || len(st.Degraded) == 0 {
			t.Errorf("%+v %+v", st.Streams[0].List, st.Degraded)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		<-l.ended
		s.set(func() { s.tape("1").missing = false })
		s.write("1", event(4, "c", "x"))
		s.finish()
		w.once()
		if got := w.sent("out", "time"); !slices.Equal(got, []string{`"1970-01-01T00:00:03Z"`}) {
			t.Errorf("sent %q\n%s", got, w.log)
		}
	})
}

func TestSinkIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.servers["side"] = memsink.NewServer(memsink.Options{})
		w.stream("auth").write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		both := func(c *Config) { c.Sinks[1].All = true }
		l := w.run(both)
		w.servers["side"].Stop()
		settle(5 * time.Second)
		l.crash()
		_ = l.wait()
		side := w.servers["side"]
		delete(w.servers, "side")
		w.refused([]string{"1 messages for sink side", "--accept-gap"})
		w.servers["side"] = side
		side.Start()
		l = w.run(both)
		settle(5 * time.Second)
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-l.ended
		delete(w.servers, "side")
		l = w.run()
		settle(5 * time.Second)
		l.crash()
		_ = l.wait()
	})
}

func TestPanicIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		w.point = func(_ *life, p string) {
			if p == PointPrepared {
				panic("the moon")
			}
		}
		l := w.run()
		if err := l.wait(); err == nil || !strings.Contains(err.Error(), "panic in the committer: the moon") {
			t.Errorf("run: %v", err)
		}
		w.point = nil
		w.stream("auth").finish()
		w.once()
		if got := w.sent("out"); len(got) != 1 {
			t.Errorf("%d alerts", len(got))
		}
	})
}

// TestPanicOfAReader: the job ends although the sequencer waits for what is being read.
func TestPanicOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		w.stream("auth").write("0", event(1, "a", "x"))
		w.stream("auth").set(func() { w.stream("auth").tape("0").broken = errPanic })
		if err := w.run().wait(); err == nil || !strings.Contains(err.Error(), "panic in reading tape 0: the moon") {
			t.Errorf("run: %v", err)
		}
	})
}

// TestFencedBySuccessor: two jobs of one name fence each other, and the first one stops with the reason.
func TestFencedBySuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		first := w.run()
		settle(5 * time.Second)
		old := w.disk
		w.disk = old.Clone()
		second := w.run()
		settle(5 * time.Second)
		s.write("0", event(10, "a", "x"), event(11, "b", "x"), event(15, "c", "x"))
		settle(5 * time.Second)
		if _, ok := errors.AsType[*sinks.FencedError](first.wait()); !ok {
			t.Errorf("the first one: %v", first.err)
		}
		if got := w.sent("out"); len(got) != 2 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		second.crash()
		_ = second.wait()
	})
}

// TestBrokenPartition: a partition that cannot be read is named, and its stream goes on once it is idle. In a job that is to
// end it is an error.
func TestBrokenPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		s.write("1", event(1, "c", "x"))
		s.set(func() { s.tape("1").broken = errors.New("input/output error") })
		l := w.run(func(c *Config) { c.Streams[0].Idle = 10 * time.Second })
		settle(5 * time.Second)
		if st := l.Status(); len(st.Degraded) == 0 || st.Degraded[0].What != "partition" || !strings.Contains(st.Degraded[0].Reason, "input/output") {
			t.Errorf("%+v", st.Degraded)
		}
		s.write("0", event(10, "c", "x"))
		settle(10 * time.Second)
		if got := w.sent("out"); len(got) != 1 {
			t.Errorf("%d alerts\n%s", len(got), w.log)
		}
		// The source finds it again: on from behind what was read.
		s.set(func() { s.tape("1").broken = nil })
		again := &tapeReader{source: s, tape: s.tape("1"), id: l.config.Partitions.Get("auth", "1")}
		l.inbox.put(notice{kind: noticeFound, stream: l.streams[0], reader: again, beginning: beginning{offset: -1}})
		s.write("1", event(20, "c", "x"))
		settle(time.Second)
		if st := l.Status(); len(st.Degraded) != 0 || st.Streams[0].Events != 6 {
			t.Errorf("%d events, %+v", st.Streams[0].Events, st.Degraded)
		}
		s.set(func() { s.tape("1").broken = errors.New("input/output error") })
		l.crash()
		_ = l.wait()
		s.finish()
		l = w.run(func(c *Config) { c.Once = true })
		if err := l.wait(); err == nil || !strings.Contains(err.Error(), "tape 1") || !strings.Contains(err.Error(), "input/output") {
			t.Errorf("run once: %v", err)
		}
	})
}

// TestSourceInTrouble: a source that cannot be listed yet is named, and read once it can be.
func TestSourceInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		s.set(func() { s.hidden = true })
		l := w.run()
		settle(time.Minute)
		if st := l.Status().Streams[0]; st.Trouble != "no such directory" || st.Listed || st.Events != 0 {
			t.Errorf("%+v", st)
		}
		s.set(func() { s.hidden = false })
		settle(time.Minute)
		if st := l.Status().Streams[0]; st.Trouble != "" || !st.Listed || len(w.sent("out")) != 1 {
			t.Errorf("%+v\n%s", st, w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	set, err := compile(`version: 1
rules:
- {id: r, from: auth, where: kind == "a", alert: {to: [nowhere]}}
`)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Rules: set, DeadLetters: "gone", Streams: []Stream{{Late: "side"}},
		Sinks: []Sink{{Name: "a"}, {Name: "b", Sink: memsink.NewServer(memsink.Options{}).Sink(), OnFull: DeadLetter}},
	}
	c.DeadLetters = ""
	text := c.complete().Error()
	for _, want := range []string{
		"has no name", "store and partitions", "sink 1 has no", "sink b: on_full", `no sink "side"`, "has no source", `rule r: to: there is no sink "nowhere"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\ndoes not say %q", text, want)
		}
	}
}
