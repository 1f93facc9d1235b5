package kafkatest_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) }

// write writes a record and returns its offset.
func write(t *testing.T, client *kgo.Client, topic, value string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).First()
	if err != nil {
		t.Fatal(err)
	}
	return r.Offset
}

// A record that was acknowledged is there after a kill, and what was sent to a paused broker when it goes on. The cluster is one
// that was told to have the older version of transactions, which saves a broker.
func TestBrokerComesBack(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kafkatest.Options{TransactionVersion: 1})
	if v := transactionVersion(t, c); v != 1 {
		t.Errorf("the broker that was told 1 has version %d of transactions", v)
	}
	b := c.Broker
	topic := c.Topic(t, 1)
	client := c.Client(t)
	if at := write(t, client, topic, "a"); at != 0 {
		t.Errorf("the first record is at %d", at)
	}
	b.Kill()
	if b.Running(1) {
		t.Error("a killed node runs")
	}
	began := time.Now()
	b.Restart(t)
	t.Logf("after a kill ready in %s", time.Since(began))
	if at := write(t, client, topic, "b"); at != 1 {
		t.Errorf("the second record is at %d", at)
	}
	b.Pause()
	began = time.Now() // before the other goroutine sleeps, however late this one goes on
	go func() {
		time.Sleep(300 * time.Millisecond)
		b.Resume()
	}()
	if at := write(t, client, topic, "c"); at != 2 {
		t.Errorf("the third record is at %d", at)
	}
	if waited := time.Since(began); waited < 200*time.Millisecond {
		t.Errorf("a paused broker answered after %s", waited)
	}
	if !strings.Contains(b.Log(1), "Kafka Server started") {
		t.Error("the log does not say that the broker started")
	}
	if err := b.Stop(); err != nil || b.Running(1) {
		t.Errorf("it was asked to end: %v; it runs: %v", err, b.Running(1))
	}
}
