package kafkasource_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
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
