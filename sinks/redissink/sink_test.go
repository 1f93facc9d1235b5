package redissink

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// Every answer of the script, and that nothing but OK appends.
func TestAnswers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		j := &journal{}
		s := newSink(t, srv.Address)
		at, err := s.Open(t.Context())
		if err != nil || at != (sinks.Progress{}) || s.fence != 1 {
			t.Fatalf("first open: %v, %v, fence %d", at, err, s.fence)
		}
		_, err = s.Publish(t.Context(), j.batch(1, 0, 1))
		fenced(t, err, true) // no position yet
		must(t, s.Begin(t.Context(), j.at(1, 0)))
		must(t, s.Begin(t.Context(), j.at(1, 0))) // asked twice

		put(t, s, j.batch(1, 0, 3))                                    // OK
		put(t, s, j.batch(1, 0, 3))                                    // DUP
		stands(t, s, j.batch(1, 0, 5), j.at(1, 3))                     // AHEAD: overlaps
		put(t, s, j.batch(1, 3, 2))                                    // OK
		stands(t, s, j.batch(1, 0, 2), j.at(1, 5))                     // AHEAD
		stands(t, s, j.batch(1, 7, 1), j.at(1, 5))                     // GAP
		stands(t, s, j.batch(1, 7, 0), j.at(1, 5))                     // GAP to a probe
		stands(t, s, j.batch(1, 4, 0), j.at(1, 5))                     // AHEAD to a probe
		stands(t, s, j.batch(2, 5, 1), j.at(1, 5))                     // GAP: an older lineage
		if ack := put(t, s, j.batch(1, 5, 0)); ack.Acknowledged != 5 { // OK to a probe
			t.Fatalf("acknowledged %d", ack.Acknowledged)
		}
		other := j.branch(3, "other")
		_, err = s.Publish(t.Context(), other.batch(1, 5, 1)) // DIVERGED below the batch
		diverged(t, err, "lineage 1, sequence 5")
		_, err = s.Publish(t.Context(), other.batch(1, 3, 2)) // DIVERGED at its end
		diverged(t, err, "lineage 1, sequence 5")
		stream(t, srv, "alerts", j, 1, 1, 5)

		// A second owner fences the first.
		heir := newSink(t, srv.Address)
		if at := open(t, heir); at != j.at(1, 5) || heir.fence != 2 {
			t.Fatalf("the heir found %v, fence %d", at, heir.fence)
		}
		_, err = s.Publish(t.Context(), j.batch(1, 5, 1))
		fenced(t, err, false)
		if !strings.Contains(err.Error(), heir.owner) {
			t.Fatalf("%v does not name the owner", err)
		}
		fenced(t, s.Begin(t.Context(), j.at(2, 5)), false)
		_, err = s.Open(t.Context())
		fenced(t, err, false) // it does not take back what it has lost
		put(t, heir, j.batch(1, 5, 5))

		// A new lineage that begins lower: its ids go on rising.
		must(t, heir.Begin(t.Context(), j.at(2, 7)))
		stands(t, heir, j.batch(1, 10, 1), j.at(2, 7)) // AHEAD: a newer lineage
		put(t, heir, j.batch(2, 7, 2))
		if last := srv.LastID("alerts"); last != "2-9" {
			t.Fatalf("last id %s", last)
		}
		for _, p := range []sinks.Progress{j.at(1, 9), j.at(2, 7)} { // never back
			if err, ok := errors.AsType[*sinks.StandsError](heir.Begin(t.Context(), p)); !ok || err.At != j.at(2, 9) {
				t.Fatalf("begin below what was published: %v", err)
			}
		}
	})
}

// The stream's last id is the second witness: it outlives trimming and the deletion of entries, and stands in for the hash.
func TestWitness(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		j := &journal{}
		s := newSink(t, srv.Address)
		open(t, s)
		put(t, s, j.batch(1, 0, 10))

		// The hash is gone: the last entry says where we stood, with its chain.
		srv.Must(t, "DEL", s.position)
		_, err := s.Publish(t.Context(), j.batch(1, 10, 1))
		fenced(t, err, true)
		peeks(t, srv, j.at(1, 10))
		if at := open(t, s); at != j.at(1, 10) || s.fence != 2 {
			t.Fatalf("recalled %v, fence %d", at, s.fence)
		}
		put(t, s, j.batch(1, 10, 1))

		// The last entry is gone too: where we stood is known, the chain is not.
		srv.Must(t, "XDEL", "alerts", "1-11")
		srv.Must(t, "DEL", s.position)
		peeks(t, srv, sinks.Progress{Lineage: 1, Sequence: 11})
		at, err := s.Open(t.Context())
		if err != nil || at != (sinks.Progress{Lineage: 1, Sequence: 11}) {
			t.Fatalf("recalled %v, %v", at, err)
		}
		must(t, s.Begin(t.Context(), j.at(1, 11)))
		put(t, s, j.batch(1, 11, 1))

		// All entries are gone, the last id is not.
		srv.Must(t, "XTRIM", "alerts", "MAXLEN", 0)
		put(t, s, j.batch(1, 12, 0))
		srv.Must(t, "DEL", s.position)
		if at, err := s.Open(t.Context()); err != nil || at != (sinks.Progress{Lineage: 1, Sequence: 12}) {
			t.Fatalf("recalled %v, %v", at, err)
		}
		must(t, s.Begin(t.Context(), j.at(1, 12)))

		// The stream itself is deleted: nothing is sent again, the next message has the next id, and somebody is told.
		srv.Must(t, "DEL", "alerts")
		if s.emptied {
			t.Fatal("emptied too early")
		}
		put(t, s, j.batch(1, 12, 1))
		if !s.emptied {
			t.Fatal("nobody is told that the stream was deleted")
		}
		put(t, s, j.batch(1, 13, 1))
		if s.emptied {
			t.Fatal("the stream is there again")
		}
		stream(t, srv, "alerts", j, 1, 13, 14)
	})
}

// peeks fails the test unless another sink finds the destination at a position, and changes none of what is kept there but who
// asked last.
func peeks(t *testing.T, srv *redistest.Server, want sinks.Progress) {
	t.Helper()
	s := newSink(t, srv.Address)
	kept := func() string {
		return fmt.Sprint(srv.Must(t, "HMGET", s.position, "owner", "fence", "lineage", "sequence", "chain"))
	}
	before := kept()
	if at, err := s.Peek(t.Context()); err != nil || at != want {
		t.Fatalf("peek: %v, %v, want %v", at, err, want)
	}
	if now := kept(); now != before {
		t.Fatalf("the position is %s, before the peek %s", now, before)
	}
}

// A stream that is not ours is left alone.
func TestForeign(t *testing.T) {
	srv := redistest.Start(t, redistest.Default(t))
	j := &journal{}
	srv.Must(t, "XADD", "alerts", "*", "a", "b")
	s := newSink(t, srv.Address)
	_, err := s.Peek(t.Context())
	diverged(t, err, "entries that cepd did not write")
	_, err = s.Open(t.Context())
	diverged(t, err, "entries that cepd did not write")
	srv.Must(t, "FLUSHALL")
	srv.Must(t, "XADD", "alerts", "1-500", "a", "b") // an id as ours, an entry that is not
	_, err = s.Open(t.Context())
	diverged(t, err, "entries that cepd did not write")

	srv.Must(t, "FLUSHALL")
	open(t, s)
	put(t, s, j.batch(1, 0, 3))
	for _, id := range []string{"1-4", "2-0", "*"} { // just above, another lineage, a time
		srv.Must(t, "XADD", "alerts", id, "a", "b")
		_, err = s.Publish(t.Context(), j.batch(1, 3, 1))
		diverged(t, err, "somebody else appends")
		_, err = s.Publish(t.Context(), j.batch(1, 3, 0))
		diverged(t, err, "somebody else appends")
		_, err = newSink(t, srv.Address).Peek(t.Context())
		diverged(t, err, "somebody else appends")
		_, err = newSink(t, srv.Address).Open(t.Context())
		diverged(t, err, "somebody else appends")
		srv.Must(t, "DEL", "alerts", s.position)
		open(t, s)
		put(t, s, j.batch(1, 0, 3))
	}
	diverged(t, func() error {
		srv.Must(t, "XADD", "alerts", "3-0", "a", "b")
		return s.Begin(t.Context(), j.at(2, 3))
	}(), "somebody else appends")

	// Another job's stream: its last entry has a chain, which is not ours.
	srv.Must(t, "FLUSHALL")
	open(t, s)
	put(t, s, j.batch(1, 0, 3))
	stranger := newSink(t, srv.Address, func(c *Config) { c.Job = "stranger" })
	if at := open(t, stranger); at != j.at(1, 3) {
		t.Fatalf("a stranger found %v", at)
	}
	other := &journal{salt: "other"}
	_, err = stranger.Publish(t.Context(), other.batch(1, 3, 1))
	diverged(t, err, "lineage 1, sequence 3")
}

// Taking over is a compare-and-set: whoever is late, or dead, takes nothing back.
func TestRaceForOpen(t *testing.T) {
	srv := redistest.Start(t, redistest.Default(t))
	j := &journal{}
	a, b := newSink(t, srv.Address), newSink(t, srv.Address)
	open(t, a)
	open(t, b)
	// The packet in which a asked to own arrives now: it saw no fence.
	late, err := a.call(t.Context(), request{op: opOwn, fence: "", number: 1})
	if err != nil || late.status != statusRaced {
		t.Fatalf("late: %v, %v", late.status, err)
	}
	put(t, b, j.batch(1, 0, 1))
	// b's own packet arrives twice.
	twice, err := b.call(t.Context(), request{op: opOwn, fence: "1", number: 2})
	if err != nil || twice.status != statusOwned || twice.fence != 2 {
		t.Fatalf("twice: %v, %v", twice, err)
	}

	const racers = 8
	racing := make([]*Sink, racers)
	var wg sync.WaitGroup
	for i := range racing {
		racing[i] = newSink(t, srv.Address)
		wg.Go(func() {
			if _, err := racing[i].Open(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	owners := 0
	for _, s := range racing {
		_, err := s.Publish(t.Context(), j.batch(1, 1, 0))
		if err == nil {
			owners++
		} else {
			fenced(t, err, false)
		}
	}
	if owners != 1 {
		t.Fatalf("%d owners after a race", owners)
	}
}

// Lua writes 1e+15: sequences beyond that keep all their digits.
func TestBigSequences(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		s := newSink(t, srv.Address)
		open(t, s)
		for i, base := range []uint64{99_999_999_999_998, 999_999_999_999_998, sequenceMax - 8} {
			lineage := uint64(i + 2)
			j := &journal{}
			b := j.batch(lineage, 0, 3)
			b.Base.Sequence = base
			for k := range b.Messages {
				b.Messages[k].Sequence = base + uint64(k) + 1
			}
			must(t, s.Begin(t.Context(), b.Base))
			put(t, s, b)
			put(t, s, b)
			if last := srv.LastID("alerts"); last != entryID(lineage, base+3) {
				t.Fatalf("last id %s, want %s", last, entryID(lineage, base+3))
			}
			if at := open(t, s); at != b.End() {
				t.Fatalf("stands at %v, want %v", at, b.End())
			}
		}
		_, err := s.Publish(t.Context(), sinks.Batch{Base: sinks.Progress{Lineage: 9, Sequence: sequenceMax + 1}})
		if !errors.Is(err, sinks.ErrStop) {
			t.Fatalf("beyond what is exact: %v", err)
		}
	})
}

// What a list can do, and what it cannot.
func TestList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		j := &journal{}
		sub := subscribe(t, srv, "channel")
		s := newSink(t, srv.Address, func(c *Config) { c.List, c.MaxLen, c.Channel = "list", 10, "channel" })
		open(t, s)
		put(t, s, j.batch(1, 0, 25))
		put(t, s, j.batch(1, 0, 25)) // again: nothing is pushed, nothing is published
		list, _ := srv.Must(t, "LRANGE", "list", 0, -1).([]any)
		if len(list) != 10 {
			t.Fatalf("%d elements, want 10", len(list))
		}
		for i, v := range list {
			if want := string(j.message(uint64(16 + i)).Body); v != want {
				t.Fatalf("element %d is %v, want %s", i, v, want)
			}
		}
		for n := uint64(1); n <= 25; n++ {
			if got, want := <-sub.Channel(), string(j.message(n).Body); got.Payload != want {
				t.Fatalf("published %s, want %s", got.Payload, want)
			}
		}
		put(t, s, j.batch(1, 25, 1))
		if got := <-sub.Channel(); got.Payload != string(j.message(26).Body) {
			t.Fatalf("published %s after the 25", got.Payload)
		}
		// No second witness: without the hash a list stands nowhere.
		srv.Must(t, "DEL", s.position)
		if at, err := s.Open(t.Context()); err != nil || at != (sinks.Progress{}) {
			t.Fatalf("a list without its hash stands at %v, %v", at, err)
		}
	})
}

func subscribe(t testing.TB, srv *redistest.Server, channel string) *redis.PubSub {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: srv.Address, DisableIdentity: true})
	sub := c.Subscribe(t.Context(), channel)
	_, err := sub.Receive(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = sub.Close(); _ = c.Close() })
	return sub
}

// Retention: by length, by age, and that a refused one takes nothing from what was appended.
func TestRetention(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		j := &journal{}
		s := newSink(t, srv.Address, func(c *Config) { c.MaxLen = 100 })
		open(t, s)
		put(t, s, j.batch(1, 0, 1000))
		put(t, s, j.batch(1, 1000, 1))
		if n, _ := srv.Must(t, "XLEN", "alerts").(int64); n < 100 || n > 300 {
			t.Fatalf("%d entries are kept, want about 100", n)
		}

		aged := newSink(t, srv.Address, func(c *Config) { c.Stream, c.MaxAge = "aged", time.Hour })
		pass := func(d time.Duration) {
			for i := range aged.retention.marks {
				aged.retention.marks[i].at = aged.retention.marks[i].at.Add(-d)
			}
		}
		open(t, aged)
		pass(30 * time.Minute)
		put(t, aged, j.batch(1, 0, 1000))
		pass(59 * time.Minute)
		put(t, aged, j.batch(1, 1000, 500))
		if n, _ := srv.Must(t, "XLEN", "aged").(int64); n != 1500 {
			t.Fatalf("%d entries are kept within the hour, want all 1500", n)
		}
		pass(time.Minute)
		put(t, aged, j.batch(1, 1500, 500))
		if n, _ := srv.Must(t, "XLEN", "aged").(int64); n < 1000 || n > 1200 {
			t.Fatalf("%d entries are kept, want about 1000", n)
		}
		if got := srv.Stream(t, "aged"); got[len(got)-1].ID != "1-2000" {
			t.Fatalf("the newest is %s", got[len(got)-1].ID)
		}

		// A threshold that the server refuses.
		bad := newSink(t, srv.Address, func(c *Config) { c.Stream = "bad" })
		open(t, bad)
		bad.config.MaxLen = 1
		bad.script = redis.NewScript(strings.Replace(emitSource, "'~', ARGV[9]", "'~', 'many'", 1))
		a, err := bad.call(t.Context(), request{op: opAppend, fence: bad.fenceText(), number: 1, base: j.at(1, 0), messages: j.batch(1, 0, 2).Messages})
		if err != nil || a.status != statusOK || a.trouble == "" {
			t.Fatalf("refused trimming: %v, %v", a, err)
		}
		stream(t, srv, "bad", j, 1, 1, 2)
	})
}

// Bodies as CloudEvents, and what is no alert.
func TestFormat(t *testing.T) {
	srv := redistest.Start(t, redistest.Default(t))
	j := &journal{}
	s := newSink(t, srv.Address, func(c *Config) { c.Format = sinks.CloudEvents })
	open(t, s)
	b := j.batch(1, 0, 2)
	b.Messages[1].Kind, b.Messages[1].What, b.Messages[1].Rule, b.Messages[1].Severity = sinks.KindLate, "", "", ""
	put(t, s, b)
	got := srv.Stream(t, "alerts")
	for i, m := range b.Messages {
		if want := string(sinks.CloudEvents.Append(nil, "/cepd/job", &m)); got[i].Fields["body"] != want {
			t.Fatalf("entry %d: %s, want %s", i+1, got[i].Fields["body"], want)
		}
	}
	if got[0].Fields["kind"] != "match" || got[1].Fields["kind"] != "late" || got[1].Fields["rule"] != "" {
		t.Fatalf("kinds: %v", got)
	}
}

func TestConfig(t *testing.T) {
	fit := Config{Job: "j", Name: "n", Addresses: []string{"a:1"}, Stream: "s"}
	if err := fit.check(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no job":            {func(c *Config) { c.Job = "" }, `job ""`},
		"slash in a name":   {func(c *Config) { c.Name = "a/b" }, `name "a/b"`},
		"no address":        {func(c *Config) { c.Addresses = nil }, "addresses: none"},
		"many addresses":    {func(c *Config) { c.Addresses = []string{"a", "b"} }, "cluster or for sentinels"},
		"cluster, sentinel": {func(c *Config) { c.Cluster, c.Sentinel = true, "m" }, "no sentinels"},
		"database":          {func(c *Config) { c.Cluster, c.Database = true, 1 }, "database 1"},
		"passwords":         {func(c *Config) { c.Password, c.PasswordFile = "a", "b" }, "one of the two"},
		"two targets":       {func(c *Config) { c.List = "l" }, "exactly one"},
		"no target":         {func(c *Config) { c.Stream = "" }, "exactly one"},
		"braces":            {func(c *Config) { c.Stream = "a}b" }, "no hash tag"},
		"channel":           {func(c *Config) { c.Channel = strings.Repeat("c", nameMax+1) }, "channel"},
		"length":            {func(c *Config) { c.MaxLen = -1 }, "max length -1"},
		"age":               {func(c *Config) { c.MaxAge = -1 }, "max age -1ns"},
		"age of a list":     {func(c *Config) { c.Stream, c.List, c.MaxAge = "", "l", 1 }, "a list does not know"},
		"length and age":    {func(c *Config) { c.MaxLen, c.MaxAge = 1, 1 }, "one of the two"},
		"replicas":          {func(c *Config) { c.Replicas = -1 }, "replicas -1"},
		"replicas, apart":   {func(c *Config) { c.Guarantee, c.Replicas = sinks.AtLeastOnce, 1 }, "without a position"},
		"wait":              {func(c *Config) { c.ReplicaTimeout = ReplicaTimeoutMax + 1 }, "replica timeout"},
		"password file":     {func(c *Config) { c.PasswordFile = "/does/not/exist" }, "read the password"},
		"certificates":      {func(c *Config) { c.TLS = &TLS{CA: "/does/not/exist"} }, "certificates to trust"},
		"own certificate":   {func(c *Config) { c.TLS = &TLS{Cert: "/does/not/exist"} }, "our certificate"},
	} {
		c2 := fit
		c.change(&c2)
		_, err := New(c2)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, sinks.ErrStop) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	both := fit
	both.Job, both.MaxLen = "", -1
	if _, err := New(both); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("not all mistakes at once: %v", err)
	}
}

// The position has the slot of what it is for, by the server's own word.
func TestTag(t *testing.T) {
	srv := redistest.Start(t, redistest.Default(t), "--cluster-enabled", "yes")
	slot := func(key string) any { return srv.Must(t, "CLUSTER", "KEYSLOT", key) }
	for _, key := range []string{"alerts", "a{b}c", "{x}", "a:b/c*", "a{b}c}d{e}", "ä"} {
		c := Config{Job: "job", Name: "{sink}", Stream: key}
		if _, err := tag(key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if p := positionKey(&c); slot(p) != slot(key) {
			t.Errorf("%s has slot %v, %s has %v", key, slot(key), p, slot(p))
		}
	}
	for _, key := range []string{"", "a}b", "{}x", "a{}b", "a{b", "a{b{c}d", strings.Repeat("x", nameMax+1)} {
		if _, err := tag(key); err == nil {
			t.Errorf("%q is taken", key)
		}
	}
}

func TestEntryIDs(t *testing.T) {
	for _, n := range [][2]uint64{{1, 0}, {1, 1}, {7, sequenceMax}, {lineageMax - 1, 3}} {
		l, s, ok := parseEntryID(entryID(n[0], n[1]))
		if !ok || l != n[0] || s != n[1] {
			t.Errorf("%v: %d, %d, %v", n, l, s, ok)
		}
	}
	for _, id := range []string{"", "1", "-", "a-1", "1-a", "0-1", "1764442800000-0", "1-9007199254740993", "18446744073709551616-0"} {
		if _, _, ok := parseEntryID(id); ok {
			t.Errorf("%s is taken for ours", id)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add("OK", "owner", "1", "1", "5", strings.Repeat("ab", 32), "1-5", "none", "")
	f.Add("GONE", "", "", "", "", "", "", "", "")
	f.Add("GAP", "o", "18446744073709551616", "-1", "x", "zz", "1-", "", "ERR")
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g, h, i, k string) {
		got, err := parseAnswer([]any{a, b, c, d, e, g, h, i, k})
		if err != nil {
			return
		}
		if got.placed && (fmt.Sprint(got.at.Sequence) != e && strings.TrimLeft(e, "0") != fmt.Sprint(got.at.Sequence) && got.at.Sequence != 0) {
			t.Fatalf("sequence %q was read as %d", e, got.at.Sequence)
		}
		if got.placed && !strings.EqualFold(got.at.Chain.String(), g) {
			t.Fatalf("chain %q was read as %s", g, got.at.Chain)
		}
	})
}
