package kafkasource_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/cep/source/kafkasource"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// asked are the topics of each request for metadata that a fake had of us.
type asked struct {
	mu       sync.Mutex
	requests []string
	// refused has codes by topic.
	refused map[string]int16
}

// listen begins to take note.
func (a *asked) listen(c *kafkatest.Cluster) {
	fake := c.Fake
	fake.ControlKey(kmsg.Metadata.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if r.GetVersion() != 12 { // kafka-go's own
			return nil, nil, false
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		var names []string
		answer := r.ResponseKind().(*kmsg.MetadataResponse)
		for _, t := range r.(*kmsg.MetadataRequest).Topics {
			names = append(names, *t.Topic)
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.ErrorCode = t.Topic, a.refused[*t.Topic]
			answer.Topics = append(answer.Topics, topic)
		}
		a.requests = append(a.requests, strings.Join(names, " "))
		if len(a.refused) == 0 {
			return nil, nil, false
		}
		return answer, nil, true
	})
}

func (a *asked) since(n int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests[n:])
}

// However many topics are named, a look for new partitions is one request: every two seconds, and every second while one of
// the topics is not there, which keeps the others from nothing.
func TestOneRequestForAllTopics(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		var names, want []string
		for i := range 50 {
			names = append(names, fmt.Sprintf("t%02d", i))
			want = append(want, names[i]+"/0")
			c.CreateTopic(t, names[i], 1)
		}
		all := strings.Join(names, " ")
		a := &asked{}
		a.listen(c)
		w := watch(t, c, kafkasource.Config{Topics: names})
		if d := cmp.Diff(want, w.names()); d != "" {
			t.Errorf("partitions (-want +got):\n%s", d)
		}
		if got := a.since(0); len(got) != 1 || got[0] != all {
			t.Errorf("at the start %q is asked", got)
		}
		time.Sleep(time.Minute)
		got := a.since(1)
		if len(got) < 29 || len(got) > 30 || slices.ContainsFunc(got, func(r string) bool { return r != all }) {
			t.Errorf("in a minute %d requests for %d topics, the last %q", len(got), len(names), got[max(0, len(got)-1):])
		}
		t.Logf("%d requests in a minute for %d topics", len(got), len(names))

		before := len(a.since(0))
		w = watch(t, c, kafkasource.Config{Topics: []string{"later", "never", names[0]}})
		if d := cmp.Diff(want[:1], w.names()); d != "" {
			t.Errorf("partitions (-want +got):\n%s", d)
		}
		c.CreateTopic(t, "later", 1)
		w.reader("later/0")
		w.until("trouble with one", func() bool { return len(w.troubles) > 0 && w.troubles[len(w.troubles)-1] == "no such topic: never" })
		time.Sleep(time.Minute)
		for _, r := range a.since(before) {
			if r != "later never "+names[0] && r != all {
				t.Errorf("%q is asked", r)
			}
		}
	})
}

// A topic that may not be read is named, and found is what else there is.
func TestRefusedTopic(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		c.CreateTopic(t, "mine", 1)
		a := &asked{refused: map[string]int16{"theirs": 29, "nobodys": 3}}
		a.listen(c)
		w := watch(t, c, kafkasource.Config{Topics: []string{"mine", "nobodys", "theirs", "zones"}})
		err := w.failure()
		if err == nil || !strings.Contains(err.Error(), "look for topics mine, nobodys, theirs and 1 more: Metadata theirs: code 29") {
			t.Errorf("%v", err)
		}
	})
}

// Nobody at the address of the brokers is told after two looks, and a recording is given up after some more.
func TestNobodyThere(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		c.CreateTopic(t, "t", 1)
		var there atomic.Bool
		reach := c.Dial
		away := *c
		away.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if there.Load() {
				return reach(ctx, network, address)
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		began := time.Now()
		w := watch(t, &away, kafkasource.Config{Topics: []string{"t"}})
		w.until("trouble", func() bool { return len(w.troubles) > 0 })
		if took := time.Since(began); took > 3*time.Second || !strings.Contains(w.troubles[0], "connection refused") {
			t.Errorf("after %v: %s", took, w.troubles[0])
		}
		began = time.Now()
		given := newSource(t, &away, kafkasource.Config{Topics: []string{"t"}, Finite: true})
		_, err := given.Open(t.Context(), kafkasource.Bound{}, kafkasource.Bound{})
		_ = given.Close()
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "connection refused") || took < 10*time.Second || took > 20*time.Second {
			t.Errorf("a recording after %v: %v", took, err)
		}
		go func() {
			time.Sleep(5 * time.Second)
			there.Store(true)
		}()
		s := newSource(t, &away, kafkasource.Config{Topics: []string{"t"}, Finite: true})
		if readers, err := s.Open(t.Context(), kafkasource.Bound{}, kafkasource.Bound{}); err != nil || len(readers) != 1 {
			t.Errorf("brokers that come: %d partitions, %v", len(readers), err)
		}
		_ = s.Close()
		if got := w.names(); len(got) != 1 {
			t.Errorf("found %q", got)
		}
		w.until("the end of the trouble", func() bool { return w.troubles[len(w.troubles)-1] == "" })
	})
}
