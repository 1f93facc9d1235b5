package kafkatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// proxied is one client behind the proxy, which does not repeat what it has sent.
func proxied(t *testing.T, p *kafkatest.Proxy) *kgo.Client {
	t.Helper()
	return p.Cluster().Client(t, kgo.RequestRetries(0))
}

func end(t *testing.T, c *kafkatest.Cluster, topic string) int64 {
	t.Helper()
	ends, err := c.Admin(t).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := ends.Lookup(topic, 0)
	return o.Offset
}

// What is lost on the way there has no effect, what is lost on the way back has; clients stay behind the proxy.
func TestProxyLoses(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := kafkatest.NewProxy(t, c)
		topic := c.Topic(t, 1)
		var nodes []int
		p.Rule(func(r kafkatest.Request) kafkatest.Fate {
			if r.Key == kmsg.Produce.Int16() {
				nodes = append(nodes, r.Node)
			}
			return kafkatest.Pass
		})
		client := proxied(t, p)
		write(t, client, topic, "a")
		p.Rule(nil)
		if len(nodes) != 1 || nodes[0] != 0 {
			t.Fatalf("the proxy has seen records for %v, not one for node 0", nodes)
		}
		// A group's position has no sequence that would hide the repetition: the answer says all.
		commit := func(at int64) error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var o kadm.Offsets
			o.AddOffset(topic, 0, at, -1)
			answer, err := kadm.NewClient(proxied(t, p)).CommitOffsets(ctx, topic, o)
			return errors.Join(err, answer.Error())
		}
		committed := func() int64 {
			o, err := c.Admin(t).FetchOffsets(t.Context(), topic)
			if err != nil {
				return -1 // there is no group yet
			}
			at, _ := o.Lookup(topic, 0)
			return at.At
		}
		kafkatest.WaitFor(t, "the coordinator of the group", func() bool { return commit(1) == nil && committed() == 1 })
		lost := p.Once(kmsg.OffsetCommit, kafkatest.LoseRequest)
		if err := commit(2); err == nil || !lost() {
			t.Errorf("a lost request was answered (%v)", err)
		}
		if at := committed(); at != 1 {
			t.Errorf("a lost request left %d", at)
		}
		lost = p.Once(kmsg.OffsetCommit, kafkatest.LoseAnswer)
		if err := commit(3); err == nil || !lost() {
			t.Errorf("a lost answer came (%v)", err)
		}
		kafkatest.WaitFor(t, "the request whose answer was lost", func() bool { return committed() == 3 })
	})
}

func TestProxyHoldsAndCuts(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := kafkatest.NewProxy(t, c)
		topic := c.Topic(t, 1)
		client := p.Cluster().Client(t)
		write(t, client, topic, "a")
		p.Hold(true)
		sent := make(chan error, 1)
		go func() {
			sent <- client.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: []byte("b")}).FirstErr()
		}()
		select {
		case err := <-sent:
			t.Fatalf("what was held was answered (%v)", err)
		case <-time.After(200 * time.Millisecond):
		}
		if at := end(t, c, topic); at != 1 {
			t.Errorf("what was held is there: the end is %d", at)
		}
		p.Hold(false)
		if err := <-sent; err != nil {
			t.Error(err)
		}
		p.Cut()
		if at := write(t, client, topic, "c"); at != 2 {
			t.Errorf("after a cut the record is at %d", at)
		}
	})
}
