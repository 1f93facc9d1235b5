package kafkasink

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

// isLetter says which of the suite's messages are letters here.
func isLetter(sequence uint64) bool { return sequence%3 == 0 }

// lettered makes letters of some messages: the suite sends alerts alone.
type lettered struct{ *Sink }

func (l lettered) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	b.Messages = withLetters(b.Messages)
	return l.Sink.Publish(ctx, b)
}

func withLetters(messages []sinks.Message) []sinks.Message {
	list := slices.Clone(messages)
	for i := range list {
		if isLetter(list[i].Sequence) {
			list[i].Kind, list[i].Key = sinks.KindLate, ""
		}
	}
	return list
}

// both returns the records of the topics of alerts and letters in the order of the job's history, and fails where one stands
// in the other's place.
func (p *place) both(t *testing.T, letters string) []*kgo.Record {
	t.Helper()
	alerts := p.messages(t)
	list := p.read(t, letters)
	for _, r := range append(slices.Clone(alerts), list...) {
		if isLate := headerOf(r, "ce_type") == "dev.cepd.letter.late"; isLate != (r.Topic == letters) {
			t.Fatalf("%s stands in %s", sequence(r), r.Topic)
		}
	}
	for i, r := range list {
		if i > 0 && list[i-1].Partition == r.Partition && !before(t, list[i-1], r) {
			t.Fatalf("letters: %s stands before %s", sequence(list[i-1]), sequence(r))
		}
	}
	list = append(list, alerts...)
	slices.SortFunc(list, func(a, b *kgo.Record) int {
		switch {
		case before(t, a, b):
			return -1
		case before(t, b, a):
			return 1
		}
		return 0
	})
	return list
}

func headerOf(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// TestLettersConformance: a sink of two topics keeps all that one of a single topic does.
func TestLettersConformance(t *testing.T) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("version=%d", version), func(t *testing.T) {
			c := kafkatest.StartFake(t, kafkatest.FakeOptions{TransactionVersion: version}).As
			sinktest.Run(t, sinktest.Subject{New: func(t *testing.T) sinktest.Destination {
				p := newPlace(t, c, 2)
				letters := c.Topic(t, 1, "max.message.bytes", "4194304")
				return sinktest.Destination{
					Sink:   func() sinks.Sink { return lettered{p.sink(t, func(c *Config) { c.LettersTopic = letters })} },
					Bodies: func() []string { return append([]string(nil), values(p.both(t, letters))...) }, // nil where there are none
				}
			}})
		})
	}
}

// TestLettersInTheSameTransaction: where the end of a transaction is lost, neither topic has anything of it.
func TestLettersInTheSameTransaction(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p, proxy := newPlace(t, c, 3), kafkatest.NewProxy(t, c)
		letters := c.Topic(t, 2)
		p.addresses = proxy.Addresses
		change := func(c *Config) { c.LettersTopic = letters }
		s := p.sink(t, change)
		all := withLetters(sinktest.Messages(sinks.Progress{Lineage: 1}, 60, "a"))
		at := put(t, s, open(t, s), all[:20])
		for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn} {
			for _, fate := range []kafkatest.Fate{kafkatest.LoseRequest, kafkatest.LoseAnswer} {
				lost := proxy.Once(key, fate)
				at = persist(t, s, at, all[at.Sequence:at.Sequence+5])
				if !lost() {
					t.Fatalf("%s: nothing was lost", key.Name())
				}
			}
		}
		// The instance dies before the end of its transaction: its successor finds none of it.
		reached := make(chan struct{}, 1)
		proxy.Rule(func(r kafkatest.Request) kafkatest.Fate {
			if r.Key != kmsg.EndTxn.Int16() {
				return kafkatest.Pass
			}
			select {
			case reached <- struct{}{}:
			default:
			}
			return kafkatest.LoseRequest
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.Publish(ctx, sinks.Batch{Base: at, Messages: withLetters(sinktest.Messages(at, 20, "canary"))})
			ended <- err
		}()
		<-reached // its messages are written
		cancel()
		if err := <-ended; err == nil {
			t.Fatal("published without an end")
		}
		proxy.Rule(nil)
		heir := p.sink(t, change)
		if found := open(t, heir); found != at {
			t.Fatalf("the heir opened at %+v, want %+v", found, at)
		}
		put(t, heir, at, all[at.Sequence:])
		if d := cmp.Diff(bodies(all), values(p.both(t, letters))); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// TestLettersApart: without a position letters have their topic too.
func TestLettersApart(t *testing.T) {
	c := kafkatest.StartFake(t, kafkatest.FakeOptions{}).As
	p := newPlace(t, c, 2)
	letters := c.Topic(t, 1)
	s := p.sink(t, func(c *Config) { c.Guarantee, c.LettersTopic = sinks.AtLeastOnce, letters })
	all := withLetters(sinktest.Messages(open(t, s), 20, "a"))
	put(t, s, sinks.Progress{}, all)
	if d := cmp.Diff(bodies(all), values(p.both(t, letters))); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
}
