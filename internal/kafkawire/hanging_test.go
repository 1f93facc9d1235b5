package kafkawire_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// A transaction of which a broker has lost the marker of one partition is ended as it was, by whoever opens the id next; if
// that is not known any more, it is said.
func testHanging(t *testing.T, c *kafkatest.Cluster) {
	verify(t, c, "false")
	defer verify(t, c, "true")
	for _, x := range []struct {
		name           string
		commit, forget bool
		want           []string
	}{
		{name: "committed", commit: true, want: []string{"hangs", "next"}},
		{name: "aborted", want: []string{"next"}},
		{name: "forgotten", commit: true, forget: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newStage(t, c, 2)
			if err := kafkawire.Hang(t.Context(), s.client, s.id, s.out, x.commit); err != nil {
				t.Fatal(err)
			}
			if stable := offset(t, s.client, s.out, kafkawire.Latest, 1); stable != 0 {
				t.Fatalf("the second partition is stable up to %d: nothing hangs", stable)
			}
			if x.forget {
				if err := kafkawire.Forget(t.Context(), s.client, s.id); err != nil {
					t.Fatal(err)
				}
			}
			p, err := s.client.NewProducer(kafkawire.ProducerConfig{ID: s.id, Progress: s.progress, Outputs: []kafkawire.Topic{s.out}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Open(t.Context())
			if x.want == nil {
				if h, ok := errors.AsType[*kafkawire.HangingError](err); !ok || h.Where != s.out.Name+"/1" || h.ID != s.id || !strings.Contains(err.Error(), "kafka-transactions.sh") {
					t.Errorf("opened with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Transact(t.Context(), []byte("1"), []kafkawire.PartitionBatch{s.batch(0, "next"), s.batch(1, "next")}); err != nil {
				t.Fatal(err)
			}
			for partition := range int32(2) {
				if got := values(same(t, c, s.client, s.out, partition)); !slices.Equal(got, x.want) {
					t.Errorf("partition %d has %v, want %v", partition, got, x.want)
				}
			}
		})
	}
}

// verify has brokers ask whether a partition was added to the transaction, or not.
func verify(t *testing.T, c *kafkatest.Cluster, on string) {
	t.Helper()
	answers, err := c.Admin(t).AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "transaction.partition.verification.enable", Value: &on}})
	for _, a := range answers {
		err = errors.Join(err, a.Err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
