package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
)

// topic is a source as brokers have it: its partitions begin somewhere, can be gone to by time, are known by an identity, and
// remember for a group how far it is.
type topic struct {
	*tapesSource
	identity string
	first    int                   // records below it are gone
	left     map[string]int64      // where the group left off
	moved    bool                  // by a job
	told     chan map[string]int64 // what the source was told
	away     func() error          // why it cannot be told
	slow     time.Duration         // for how long it takes what it is told, whether anybody waits for it or not
	mu       sync.Mutex
}

// Watch implements [source.Source].
func (s *topic) Watch(ctx context.Context, known []string, d source.Discovery) error {
	return s.tapesSource.Watch(ctx, known, topicDiscovery{d, s})
}

// Committed implements [source.Committer].
func (s *topic) Committed(ctx context.Context, at map[string]int64) error {
	s.mu.Lock()
	away, slow := s.away, s.slow
	s.mu.Unlock()
	if slow > 0 {
		taken := make(chan struct{})
		time.AfterFunc(slow, func() {
			s.told <- maps.Clone(at)
			close(taken)
		})
		select {
		case <-taken:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if away != nil {
		if err := away(); err != nil {
			return err
		}
	}
	s.told <- maps.Clone(at)
	return nil
}

type topicDiscovery struct {
	source.Discovery
	topic *topic
}

// Found implements [source.Discovery].
func (d topicDiscovery) Found(r source.Reader) {
	d.Discovery.Found(&topicReader{r.(*tapeReader), d.topic})
}

type topicReader struct {
	*tapeReader
	topic *topic
}

// Identity implements [source.Identified].
func (r *topicReader) Identity() string { return r.topic.identity }

// SeekStart implements [source.Starter].
func (r *topicReader) SeekStart(context.Context) (int64, error) {
	r.goTo(r.topic.first)
	return int64(10 * r.topic.first), nil
}

// SeekTo implements [source.Reader].
func (r *topicReader) SeekTo(offset int64) error {
	if first := int64(10 * r.topic.first); first > 0 && offset <= first-10 {
		return fmt.Errorf("offset %d: %w", offset, source.ErrGone)
	}
	return r.tapeReader.SeekTo(offset)
}

func (r *topicReader) goTo(record int) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.next = record
}

// SeekTime implements [source.Dater].
func (r *topicReader) SeekTime(_ context.Context, t cep.Time) (int64, error) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.next = r.topic.first
	for r.next < len(r.tape.records) && !strings.Contains(string(r.tape.records[r.next].Data), fmt.Sprintf(`"t":%d,`, t/cep.Second)) {
		r.next++
	}
	return int64(10 * r.next), nil
}

// Resume implements [source.Resumer].
func (r *topicReader) Resume(_ context.Context, others bool) (int64, bool, error) {
	at, ok := r.topic.left[r.tape.name]
	if ok = ok && (!others || !r.topic.moved); ok {
		r.goTo(int(at / 10))
	}
	return at, ok, nil
}

// End implements [source.Lagger].
func (r *topicReader) End() (int64, bool) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	return int64(10 * len(r.tape.records)), true
}

// asTopic makes the stream of a life a broker's.
func asTopic(t *topic) func(*Config) {
	return func(c *Config) {
		t.tapesSource = c.Streams[0].Source.(*tapesSource)
		c.Streams[0].Source = t
	}
}

// TestWhereTopicsBegin: where the group left off, else where the configuration says, else at what is there; and on from there
// whatever happens before the first record.
func TestWhereTopicsBegin(t *testing.T) {
	tests := []struct {
		name   string
		start  Start
		left   map[string]int64
		counts uint64
	}{
		{"earliest", Earliest, nil, 3},
		{"a time", At, nil, 2},
		{"latest", Latest, nil, 0},
		{"the group", Latest, map[string]int64{"0": 30}, 2},
		{"another partition of the group", Earliest, map[string]int64{"1": 30}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "auth")
				s := w.stream("auth")
				s.write("0", event(1, "a", "x"), event(2, "a", "x"), event(3, "a", "x"), event(4, "a", "x"), event(5, "a", "x"))
				topic := &topic{identity: "T1", first: 2, left: tt.left, told: make(chan map[string]int64, 1000)}
				from := func(c *Config) { c.Streams[0].Start, c.Streams[0].StartAt = tt.start, 4*cep.Second }
				crashed := false
				w.point = func(l *life, p string) {
					if p == PointCommitted && !crashed { // before anything is read
						crashed = true
						l.crash()
					}
				}
				l := w.run(asTopic(topic), from)
				settle(5 * time.Second)
				if tt.start == Earliest && tt.left == nil {
					t.Log("nothing has to be durable before reading")
				}
				_ = l.wait()
				s.write("0", event(6, "a", "x")) // while it is down
				topic.left = nil
				l = w.run(asTopic(topic), from)
				settle(5 * time.Second)
				st := l.Status().Streams[0]
				if st.Events != tt.counts+1 || st.Bad["bad json"] != 0 {
					t.Errorf("%d events, want %d\n%s", st.Events, tt.counts+1, w.log)
				}
				if p := st.List[0]; p.End != 60 || p.Read != 51 {
					t.Errorf("%+v", p)
				}
				l.crash()
				_ = l.wait()
			})
		})
	}
}

// TestLostEpochsHaveMovedTheGroup: the epoch that is left knows no place in the topic, and later ones, which are damaged, have
// moved the group past what it has not seen. That is read, and not skipped.
func TestLostEpochsHaveMovedTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		topic := &topic{identity: "T1", first: 0, told: make(chan map[string]int64, 1000)}
		s.set(func() { s.hidden = true })
		l := w.run(asTopic(topic))
		settle(5 * time.Second)
		good := l.Status().Epoch.Committed // before the cluster has answered
		s.set(func() { s.hidden = false })
		s.write("0", event(1, "a", "x"), event(2, "a", "x"), event(3, "a", "x"))
		settle(5 * time.Second)
		bad := l.Status().Epoch.Committed
		l.crash()
		_ = l.wait()
		if good == 0 || bad == good {
			t.Fatalf("epochs %d and %d", good, bad)
		}
		topic.left, topic.moved = map[string]int64{"0": 30}, true
		for e := good + 1; e <= bad; e++ {
			if err := w.disk.Damage(e); err != nil {
				t.Fatal(err)
			}
		}
		l = w.run(asTopic(topic))
		settle(5 * time.Second)
		if st := l.Status().Streams[0]; st.Events != 3 {
			t.Errorf("%d events, want 3\n%s", st.Events, w.log)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestATopicMadeAgain: no position is carried over to what has only the name.
func TestATopicMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(3, "a", "x"), event(9, "z", "z"))
		told := make(chan map[string]int64, 1000)
		l := w.run(asTopic(&topic{identity: "T1", told: told}))
		settle(5 * time.Second)
		l.crash()
		_ = l.wait()
		s.set(func() { s.list = nil })
		s.write("0", event(20, "a", "y"), event(21, "b", "y"), event(30, "z", "z"))
		again := func() *topic { return &topic{identity: "T2", told: told} }
		l = w.run(asTopic(again()))
		if err := l.wait(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "its position is of T1, and this is T2") {
			t.Errorf("%v", err)
		}
		l = w.run(asTopic(again()), func(c *Config) { c.AcceptGap = true })
		settle(5 * time.Second)
		if st := l.Status().Streams[0]; st.Events != 7 || st.Late+st.Returned != 0 {
			t.Errorf("%+v\n%s", st, w.log)
		}
		l.crash()
		_ = l.wait()
		s.write("0", event(40, "z", "z"))
		l = w.run(asTopic(again()))
		settle(5 * time.Second)
		if got := w.sent("out", "time"); !slices.Equal(got, []string{`"1970-01-01T00:00:02Z"`, `"1970-01-01T00:00:21Z"`}) {
			t.Errorf("sent %v", got)
		}
		l.crash()
		_ = l.wait()
	})
}

// TestSourcesAreTold how far each durable epoch is, and that they cannot be is said and changes nothing.
func TestSourcesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"), event(2, "b", "x"), event(9, "c", "x"))
		topic := &topic{identity: "T", told: make(chan map[string]int64, 1000)}
		l := w.run(asTopic(topic))
		settle(5 * time.Second)
		last := func() (at map[string]int64) {
			for len(topic.told) > 0 {
				at = <-topic.told
			}
			return at
		}
		if at := last(); at["0"] != 21 {
			t.Errorf("told %v\n%s", at, w.log)
		}
		topic.mu.Lock()
		topic.away = func() error {
			time.Sleep(time.Minute)
			return errors.New("no coordinator")
		}
		topic.mu.Unlock()
		for i := range 50 {
			s.write("0", event(10+i, "a", "x"), event(10+i, "b", "x"))
			settle(time.Second)
		}
		settle(2 * time.Minute)
		st := l.Status() // a job that lacks nothing is as ready as any
		if !strings.Contains(st.Streams[0].Untold, "no coordinator") || len(st.Degraded) != 0 || len(w.sent("out")) < 40 {
			t.Errorf("untold %q, %+v, %d alerts", st.Streams[0].Untold, st.Degraded, len(w.sent("out")))
		}
		topic.mu.Lock()
		topic.away = nil
		topic.mu.Unlock()
		s.write("0", event(100, "z", "z"))
		settle(2 * time.Minute)
		if at := last(); at["0"] != 10*103+1 || l.Status().Streams[0].Untold != "" {
			t.Errorf("told %v, untold %q", at, l.Status().Streams[0].Untold)
		}
		// At an orderly end the last position is told, however slow the source is; not for ever.
		topic.mu.Lock()
		topic.away = func() error {
			time.Sleep(time.Second)
			return nil
		}
		topic.mu.Unlock()
		s.write("0", event(101, "z", "z"))
		synctest.Wait() // it is read, and in no epoch yet
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if at := last(); at["0"] != 10*104+1 {
			t.Errorf("told %v at the end", at)
		}
		_ = l.wait()
	})
}

// TestSourcesAreToldInOrder: what a source is told when the job ends is told behind what was under way by then. A broker that
// two connections tell something does not know which is newer.
func TestSourcesAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"))
		told := make(chan map[string]int64, 1000)
		topic := &topic{identity: "T", told: told}
		l := w.run(asTopic(topic))
		settle(5 * time.Second)
		topic.mu.Lock()
		topic.slow = 4 * time.Second
		topic.mu.Unlock()
		s.write("0", event(2, "a", "x"))
		for len(told) > 0 {
			<-told
		}
		settle(time.Second) // an epoch has come, and is being told
		topic.mu.Lock()
		topic.slow = time.Second
		topic.mu.Unlock()
		s.write("0", event(3, "a", "x"))
		synctest.Wait()
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		_ = l.wait()
		settle(5 * time.Second)
		close(told)
		var order []int64
		for at := range told {
			order = append(order, at["0"])
		}
		if !slices.Equal(order, []int64{11, 21}) {
			t.Errorf("told %v\n%s", order, w.log)
		}
	})
}

// TestSourcesMayHang: a source that never answers keeps a job from its end for a while only, and one that crashes not at all.
func TestSourcesMayHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, orderly := range []bool{true, false} {
			w := newWorld(t, "auth")
			s := w.stream("auth")
			topic := &topic{identity: "T", told: make(chan map[string]int64, 1000), slow: time.Hour}
			l := w.run(asTopic(topic))
			s.write("0", event(1, "a", "x"))
			settle(5 * time.Second)
			begin, most := time.Now(), time.Duration(0)
			if orderly {
				most = 6 * time.Second
				if err := l.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			} else {
				l.crash()
			}
			_ = l.wait()
			if took := time.Since(begin); took > most {
				t.Errorf("orderly: %v: it took %s to end", orderly, took)
			}
			time.Sleep(2 * time.Hour)
		}
	})
}

// severedTopic is a topic whose broker may be away.
type severedTopic struct {
	*topic
	away *atomic.Bool
}

// Watch implements [source.Source].
func (s *severedTopic) Watch(ctx context.Context, known []string, d source.Discovery) error {
	return s.tapesSource.Watch(ctx, known, severedDiscovery{d, s})
}

type severedDiscovery struct {
	source.Discovery
	topic *severedTopic
}

// Found implements [source.Discovery].
func (d severedDiscovery) Found(r source.Reader) {
	d.Discovery.Found(&severedReader{&topicReader{r.(*tapeReader), d.topic.topic}, d.topic.away})
}

type severedReader struct {
	*topicReader
	away *atomic.Bool
}

// Severed implements [source.Severed].
func (r *severedReader) Severed() bool { return r.away.Load() }

// TestNobodyIsIdleWhoCannotBeHeard: while a broker is away its partitions are not idle and time does not pass for them, so that
// what has piled up meanwhile is not late.
func TestNobodyIsIdleWhoCannotBeHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "auth")
		s := w.stream("auth")
		s.write("0", event(1, "a", "x"))
		s.write("1", event(1, "a", "y"))
		away := &atomic.Bool{}
		l := w.run(asTopic(&topic{identity: "T", told: make(chan map[string]int64, 1000)}), func(c *Config) {
			c.Streams[0].Source = &severedTopic{c.Streams[0].Source.(*topic), away}
			c.Streams[0].Idle = 10 * time.Second
		})
		settle(5 * time.Second)
		away.Store(true)
		settle(10 * time.Minute)
		if st := l.Status().Streams[0]; st.Idle != 0 {
			t.Errorf("%d partitions are idle", st.Idle)
		}
		away.Store(false)
		s.write("0", event(2, "b", "x"), event(60, "z", "z"))
		s.write("1", event(3, "b", "y"), event(60, "z", "z"))
		settle(5 * time.Second)
		if st := l.Status().Streams[0]; st.Late+st.Returned != 0 || len(w.sent("out")) != 2 {
			t.Errorf("%d late, %d returned, %d alerts", st.Late, st.Returned, len(w.sent("out")))
		}
		settle(time.Minute)
		if st := l.Status().Streams[0]; st.Idle != 2 {
			t.Errorf("%d partitions are idle", st.Idle)
		}
		// Also where they were idle before: the time of the outage does not count for them.
		away.Store(true)
		settle(10 * time.Minute)
		away.Store(false)
		settle(2 * time.Second)
		s.write("0", event(180, "z", "z"))
		settle(5 * time.Second)
		if st := l.Status().Streams[0]; st.Late+st.Returned != 0 {
			t.Errorf("%d late, %d returned", st.Late, st.Returned)
		}
		l.crash()
		_ = l.wait()
	})
}
