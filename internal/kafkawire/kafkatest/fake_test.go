package kafkatest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

type pair struct {
	id    int64
	epoch int16
}

// none asks for a pair without having one, which takes over.
var none = pair{-1, -1}

func initialize(t *testing.T, client *kgo.Client, id string, p pair) (pair, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &id, 60_000, p.id, p.epoch
		answer, err := r.RequestWith(ctx, client)
		if err != nil {
			t.Fatal(err)
		}
		err = kerr.ErrorForCode(answer.ErrorCode)
		if errors.Is(err, kerr.ConcurrentTransactions) || errors.Is(err, kerr.CoordinatorLoadInProgress) {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		return pair{answer.ProducerID, answer.ProducerEpoch}, err
	}
}

// An instance that was replaced cannot take over with the pair that it holds, and does not disturb its successor.
func TestReplacedPairIsFenced(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) { replaced(t, c) })
}

func replaced(t *testing.T, c *kafkatest.Cluster) {
	t.Helper()
	client, id := c.Client(t), kafkatest.Unique("tx")
	must := func(p pair) pair {
		t.Helper()
		next, err := initialize(t, client, id, p)
		if err != nil {
			t.Fatalf("InitProducerID with %v: %v", p, err)
		}
		return next
	}
	refused := func(p pair) {
		t.Helper()
		if next, err := initialize(t, client, id, p); !errors.Is(err, kerr.ProducerFenced) {
			t.Fatalf("InitProducerID with the replaced %v: %v, %v", p, next, err)
		}
	}
	old := must(none)
	owner := must(none)
	refused(old)
	next := must(owner) // the owner recovers
	if again := must(owner); again.id == next.id && again.epoch < next.epoch {
		t.Errorf("the answer was lost and the request repeated: %v after %v", again, next)
	} else {
		next = again
	}
	refused(old)
	refused(pair{next.id, next.epoch + 100})
	must(next)
	last := must(none)
	refused(next)
	must(last)
}

// The fake runs in a bubble, where time does not pass by itself.
func TestFakeInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := kafkatest.StartFake(t, kafkatest.FakeOptions{Nodes: 3, Network: new(kfake.VirtualNetwork)}).As
		replaced(t, c)
		write(t, c.Client(t), c.Topic(t, 1), "a")
		time.Sleep(time.Hour)
		if passed := time.Since(began); passed < time.Hour {
			t.Errorf("%s passed", passed)
		}
	})
}

// transactionVersion is what the cluster has finalized.
func transactionVersion(t *testing.T, c *kafkatest.Cluster) int16 {
	t.Helper()
	answer, err := c.Admin(t).ApiVersions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range answer {
		for _, f := range v.Raw().FinalizedFeatures {
			if f.Name == "transaction.version" {
				return f.MaxVersionLevel
			}
		}
	}
	return 0
}

func TestTransactionVersion(t *testing.T) {
	if v := transactionVersion(t, kafkatest.StartFake(t, kafkatest.FakeOptions{}).As); v != 2 {
		t.Errorf("the fake has version %d", v)
	}
	if v := transactionVersion(t, kafkatest.StartFake(t, kafkatest.FakeOptions{TransactionVersion: 1}).As); v != 1 {
		t.Errorf("the fake that was told 1 has version %d", v)
	}
	if v := transactionVersion(t, kafkatest.Shared(t)); v != 2 {
		t.Errorf("the broker has version %d", v)
	}
}

// Every way in lets a client write that shows what is asked for, and no other.
func TestEndpoints(t *testing.T) {
	names := map[string]bool{}
	kafkatest.EachEndpoint(t, func(t *testing.T, c *kafkatest.Cluster, e kafkatest.Endpoint) {
		names[c.Name+"/"+e.Name] = true
		as := *c
		as.Endpoints = []kafkatest.Endpoint{e}
		write(t, as.Client(t), c.Topic(t, 1), "a")
		refused := func(what string, e kafkatest.Endpoint) {
			t.Helper()
			as.Endpoints = []kafkatest.Endpoint{e}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := as.Client(t).Ping(ctx); err == nil {
				t.Errorf("%s came in at %s", what, e.Name)
			}
		}
		if e.Mechanism != "" {
			wrong := e
			wrong.Password = "wrong"
			refused("a wrong password", wrong)
			wrong.Mechanism = ""
			refused("a client without a password", wrong)
		}
		if e.TLS != nil {
			wrong := e
			wrong.TLS = nil
			refused("a client without encryption", wrong)
		}
		if e.CertFile != "" {
			wrong := e
			wrong.TLS = e.TLS.Clone()
			wrong.TLS.Certificates = nil
			refused("a client without a certificate", wrong)
		}
	})
	for _, want := range []string{"kfake/tls-sasl-scram-512", "kfake/plain", "kafka/plain", "kafka/tls", "kafka/mtls", "kafka/sasl-plain", "kafka/sasl-scram-256", "kafka/tls-sasl-plain", "kafka/tls-sasl-scram-512"} {
		if !names[want] && !t.Failed() && (want[:5] == "kfake" || kafkatest.Shared(t) != nil) {
			t.Errorf("%s was not tried", want)
		}
	}
}
