package kafkawire_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// Clients, transactions and cursors end with what they were made for: a bubble of synctest fails where a goroutine stays.
// Time-outs pass in it at once.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kafkatest.StartFake(t, kafkatest.FakeOptions{Network: new(kfake.VirtualNetwork)}).As
		proxy := kafkatest.NewProxy(t, c)
		s := newStage(t, c, 2)
		o := newOutbox(t, s, newClient(t, proxy.Cluster()))
		o.write(t, 5)
		proxy.Hold(true)
		began := time.Now()
		go func() {
			time.Sleep(time.Minute)
			proxy.Hold(false)
		}()
		o.write(t, 10)
		if waited := time.Since(began); waited < time.Minute {
			t.Errorf("%s passed", waited)
		}
		o.verify(t)
	})
}
