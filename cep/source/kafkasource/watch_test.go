package kafkasource_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// patience is how long anything may take on a machine that does much else.
const patience = time.Minute

// watched is a source under Watch.
type watched struct {
	t      testing.TB
	source *kafkasource.Source
	cancel context.CancelFunc
	ended  chan error

	mu       sync.Mutex
	readers  map[string]*kafkasource.Reader
	late     []string // found behind Ready
	ready    bool
	troubles []string // "" where it is over
	changed  chan struct{}
}

// watch begins; it ends with the test, unless end was called.
func watch(t testing.TB, c *kafkatest.Cluster, config kafkasource.Config) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watched{
		t: t, source: newSource(t, c, config), cancel: cancel, ended: make(chan error, 1),
		readers: map[string]*kafkasource.Reader{}, changed: make(chan struct{}, 1),
	}
	go func() { w.ended <- w.source.Watch(ctx, nil, w) }()
	t.Cleanup(w.close)
	return w
}

func (w *watched) close() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.cancel = nil
	select {
	case err := <-w.ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("watch: %v", err)
		}
	case <-time.After(patience):
		w.t.Error("watch does not end")
	}
	w.shut()
}

func (w *watched) shut() {
	for _, r := range w.readers {
		_ = r.Close() // as the source is closed anyway
	}
	if err := w.source.Close(); err != nil {
		w.t.Errorf("close: %v", err)
	}
}

// failure waits until Watch ends by itself.
func (w *watched) failure() error {
	w.t.Helper()
	select {
	case err := <-w.ended:
		w.cancel()
		w.cancel = nil
		w.shut()
		return err
	case <-time.After(patience):
		w.t.Fatal("watch goes on")
		return nil
	}
}

// finished waits until Watch has found all there is; the source stays open.
func (w *watched) finished() {
	w.t.Helper()
	select {
	case err := <-w.ended:
		if err != nil {
			w.t.Fatalf("watch: %v", err)
		}
		w.ended <- nil
	case <-time.After(patience):
		w.t.Fatal("watch goes on")
	}
}

func (w *watched) Found(r source.Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[r.Name()] = r.(*kafkasource.Reader)
	if w.ready {
		w.late = append(w.late, r.Name())
	}
	w.signal()
}

func (w *watched) Ready() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = true
	w.signal()
}

func (w *watched) Trouble(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.troubles = append(w.troubles, text)
	w.signal()
}

func (w *watched) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// until waits for what is sees under the lock.
func (w *watched) until(what string, is func() bool) {
	w.t.Helper()
	limit := time.After(patience)
	for {
		w.mu.Lock()
		ok := is()
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-w.changed:
		case err := <-w.ended:
			w.ended <- err
			w.mu.Lock()
			ok := is()
			w.mu.Unlock()
			if !ok {
				w.t.Fatalf("%s: watch has ended: %v", what, err)
			}
			return
		case <-limit:
			w.t.Fatalf("%s: not within %v; trouble %q", what, patience, w.troubles)
		}
	}
}

func (w *watched) reader(name string) *kafkasource.Reader {
	w.t.Helper()
	w.until("partition "+name, func() bool { return w.readers[name] != nil })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readers[name]
}

// names are those of what was found, once all that was there is.
func (w *watched) names() []string {
	w.t.Helper()
	w.until("ready", func() bool { return w.ready })
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for name := range w.readers {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// next is the next record, or what else Next says.
func next(t testing.TB, r source.Reader) (source.Record, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.Next(ctx)
}

// values reads n records.
func values(t testing.TB, r source.Reader, n int) (all []string) {
	t.Helper()
	for range n {
		rec, err := next(t, r)
		if err != nil {
			t.Fatalf("behind %q: %v", all, err)
		}
		all = append(all, string(rec.Data))
	}
	return all
}

func TestTopicsOfAPattern(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		base := kafkatest.Unique("pattern")
		for _, name := range []string{base + ".a", base + ".b", "x" + base + ".a", base + ".a.more"} {
			c.CreateTopic(t, name, 3)
		}
		w := watch(t, c, kafkasource.Config{Pattern: base + `\.[ab]`, Numbers: []int32{0, 2, 7}})
		if d := cmp.Diff([]string{base + ".a/0", base + ".a/2", base + ".b/0", base + ".b/2"}, w.names()); d != "" {
			t.Errorf("partitions (-want +got):\n%s", d)
		}
	})
}

func TestMissingTopic(t *testing.T) {
	inBubble(t, testMissingTopic)
}

func testMissingTopic(t *testing.T, c *kafkatest.Cluster) {
	topic, later := c.Topic(t, 1), kafkatest.Unique("later")
	w := watch(t, c, kafkasource.Config{Topics: []string{topic, later}})
	if d := cmp.Diff([]string{topic + "/0"}, w.names()); d != "" {
		t.Errorf("partitions (-want +got):\n%s", d)
	}
	w.until("trouble", func() bool { return len(w.troubles) > 0 })
	if !strings.Contains(w.troubles[0], later) {
		t.Errorf("trouble: %s", w.troubles[0])
	}
	c.CreateTopic(t, later, 1)
	w.reader(later + "/0")
	w.until("the end of the trouble", func() bool { return w.troubles[len(w.troubles)-1] == "" })
	if d := cmp.Diff([]string{later + "/0"}, w.late); d != "" {
		t.Errorf("found behind Ready (-want +got):\n%s", d)
	}

	finite := watch(t, c, kafkasource.Config{Topics: []string{topic, kafkatest.Unique("never")}, Finite: true})
	if err := finite.failure(); err == nil || !strings.Contains(err.Error(), "never-") {
		t.Errorf("a topic that is not there, and no waiting: %v", err)
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic, group := c.Topic(t, 2), kafkatest.Unique("group")
		client := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i := range 4 {
			write(t, client, &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: []byte{'0' + byte(i)}})
		}
		w := watch(t, c, kafkasource.Config{Topics: []string{topic}, Group: group})
		zero, one := w.reader(topic+"/0"), w.reader(topic+"/1")
		if _, ok, err := zero.Resume(t.Context(), false); ok || err != nil {
			t.Fatalf("a group that was never there: %v, %v", ok, err)
		}
		if err := w.source.Committed(t.Context(), map[string]int64{topic + "/0": 1}); err != nil {
			t.Fatal(err)
		}
		offset, ok, err := zero.Resume(t.Context(), false)
		if offset != 1 || !ok || err != nil {
			t.Fatalf("the group is at %d, %v, %v", offset, ok, err)
		}
		if _, ok, err := zero.Resume(t.Context(), true); ok || err != nil {
			t.Fatalf("what a job has noted is taken for that of others: %v, %v", ok, err)
		}
		if d := cmp.Diff([]string{"2"}, values(t, zero, 1)); d != "" {
			t.Errorf("behind what the group has read (-want +got):\n%s", d)
		}
		if _, ok, err := one.Resume(t.Context(), false); ok || err != nil {
			t.Errorf("a partition that the group has not read: %v, %v", ok, err)
		}
		if d := cmp.Diff([]string{"1", "3"}, values(t, one, 2)); d != "" {
			t.Errorf("partition 1 (-want +got):\n%s", d)
		}
		at, err := c.Admin(t).FetchOffsets(t.Context(), group)
		if got, _ := at.Lookup(topic, 0); err != nil || got.At != 1 {
			t.Errorf("franz-go finds the group at %d: %v", got.At, err)
		}

		// Others come into the group. Its offsets are theirs from then on, and reading goes on.
		member := c.Client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := member.PollFetches(ctx).Err(); err != nil {
			t.Fatalf("the other member: %v", err)
		}
		err = w.source.Committed(t.Context(), map[string]int64{topic + "/0": 2})
		if !errors.Is(err, kafkawire.CodeUnknownMember) || !strings.Contains(err.Error(), group) {
			t.Errorf("offsets in a group that has members: %v", err)
		}
		write(t, client, &kgo.Record{Topic: topic, Value: []byte("4")})
		if d := cmp.Diff([]string{"4"}, values(t, zero, 1)); d != "" {
			t.Errorf("beside another member (-want +got):\n%s", d)
		}
	})
}

func TestOutOfRange(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		l := kafkatest.Trimmed(t, c)
		for _, at := range []int64{l.Start - 1, l.End + 1000} {
			w := watch(t, c, kafkasource.Config{Topics: []string{l.Topic}})
			r := w.reader(l.Topic + "/0")
			if start, err := r.SeekStart(t.Context()); start != l.Start || err != nil {
				t.Errorf("begins at %d, %v; the log at %d", start, err, l.Start)
			}
			if err := r.SeekTo(at); err != nil {
				t.Fatal(err)
			}
			_, err := next(t, r)
			want := kafkawire.OutOfRangeError{Topic: l.Topic, Offset: at, Start: l.Start, End: l.End}
			if e, ok := errors.AsType[*kafkawire.OutOfRangeError](err); !ok || *e != want {
				t.Errorf("the reader at %d: %v", at, err)
			}
			if _, again := next(t, r); again != err { //nolint:errorlint // the same one
				t.Errorf("the next call: %v", again)
			}
			err = w.failure()
			if e, ok := errors.AsType[*kafkawire.OutOfRangeError](err); !ok || *e != want || !errors.Is(err, source.ErrGone) {
				t.Errorf("watch: %v", err)
			}

			// A person may accept it.
			r = watch(t, c, kafkasource.Config{Topics: []string{l.Topic}, AcceptGap: true}).reader(l.Topic + "/0")
			if err := r.SeekTo(at); err != nil {
				t.Fatal(err)
			}
			if at < l.Start {
				if rec, err := next(t, r); rec.Offset != l.Start || err != nil {
					t.Errorf("from %d on, as accepted: %d, %v", at, rec.Offset, err)
				}
				continue
			}
			// Its end is nearest, and what is there from then on is written now and then.
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					case <-time.After(300 * time.Millisecond):
						write(t, c.Client(t), &kgo.Record{Topic: l.Topic, Value: []byte("more")})
					}
				}
			}()
			rec, err := next(t, r)
			close(stop)
			<-stopped
			if rec.Offset < l.End || rec.Offset >= at || err != nil {
				t.Errorf("from %d on, as accepted: %d, %v", at, rec.Offset, err)
			}
		}
	})
}

func TestTopicMadeAgain(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := c.Topic(t, 1)
		write(t, c.Client(t), &kgo.Record{Topic: topic, Value: []byte("old")})
		w := watch(t, c, kafkasource.Config{Topics: []string{topic}})
		r := w.reader(topic + "/0")
		values(t, r, 1)
		was := r.Identity()
		c.Remake(t, topic, 1)
		write(t, c.Client(t), &kgo.Record{Topic: topic, Value: []byte("new")}, &kgo.Record{Topic: topic, Value: []byte("new")})
		rec, err := next(t, r)
		e, ok := errors.AsType[*kafkawire.RecreatedError](err)
		if !ok || e.Topic != topic || e.Was.String() != was || e.Is == e.Was {
			t.Errorf("%q, %v", rec.Data, err)
		}
		if _, ok := errors.AsType[*kafkawire.RecreatedError](w.failure()); !ok {
			t.Error("watch ended otherwise")
		}
		// A later process knows it by its identity.
		if now := watch(t, c, kafkasource.Config{Topics: []string{topic}}).reader(topic + "/0").Identity(); now == was {
			t.Error("the topic has the identity of the one before")
		}
	})
}

func TestConfigMistakes(t *testing.T) {
	for want, c := range map[string]kafkasource.Config{
		"no topic is named":           {},
		"one of them says":            {Topics: []string{"a"}, Pattern: "b"},
		"missing closing )":           {Pattern: "("},
		"partition -1: numbers begin": {Topics: []string{"a"}, Numbers: []int32{-1}},
	} {
		c.Kafka.Brokers = []string{"127.0.0.1:1"}
		if _, err := kafkasource.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	if _, err := kafkasource.New(kafkasource.Config{Topics: []string{"a"}}); err == nil {
		t.Error("no broker is named, and no error")
	}
}

func TestParsePartition(t *testing.T) {
	if p, err := kafkasource.ParsePartition("a.b/12"); err != nil || p.Topic != "a.b" || p.Partition != 12 {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"", "a", "a/", "/1", "a/b", "a/-1", "a/1/2", "a/99999999999"} {
		if p, err := kafkasource.ParsePartition(bad); err == nil {
			t.Errorf("%q is %v", bad, p)
		}
	}
}
