package redissink

import (
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// In a cluster everything goes to the master of the stream's slot, WAIT too; while the slot moves from node to node nothing is
// lost, doubled or out of order.
func TestCluster(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		c := redistest.StartCluster(t, p, 3)
		j := &journal{}
		s := newSink(t, "", func(cfg *Config) {
			cfg.Addresses, cfg.Cluster, cfg.Replicas, cfg.ReplicaTimeout = c.Addresses(), true, 1, time.Millisecond
		})
		owner := c.Owner(t, "alerts")
		open(t, s)
		at := uint64(0)
		for range 10 {
			if ack := put(t, s, j.batch(1, at, 3)); ack.Acknowledged != 0 {
				t.Fatalf("acknowledged %d without a replica", ack.Acknowledged)
			}
			at += 3
		}
		for _, n := range c.Nodes {
			calls := n.Calls(t, "wait")
			if n == owner && calls < 10 || n != owner && calls != 0 {
				t.Errorf("WAIT was called %d times at %s; the owner is %s", calls, n.Address, owner.Address)
			}
		}
		must(t, s.Close())

		// Under load, with the slot on its way round.
		s = newSink(t, "", func(cfg *Config) { cfg.Addresses, cfg.Cluster = c.Addresses(), true })
		pub := publish(t, s, j)
		pub.commit(t, j, at)
		stop := make(chan struct{})
		fed := make(chan uint64)
		go func() {
			n := at
			for {
				select {
				case <-stop:
					fed <- n
					return
				case <-time.After(time.Millisecond):
					n += 3
					j.mu.Lock()
					j.last = n
					j.mu.Unlock()
					pub.Wake()
				}
			}
		}()
		for i := range 4 {
			next := c.Nodes[i%3]
			if next == c.Owner(t, "alerts") {
				next = c.Nodes[(i+1)%3]
			}
			before := pub.Status().Published.Sequence
			c.Move(t, "alerts", next, 20*time.Millisecond)
			redistest.WaitFor(t, "messages at the new owner", func() bool { return pub.Status().Published.Sequence > before+30 })
		}
		close(stop)
		last := <-fed
		pub.commit(t, j, last)
		if pub.Status().Retries == 0 {
			t.Error("no call met the slot on its way: the test shows nothing")
		}
		stream(t, c.Owner(t, "alerts"), "alerts", j, 1, 1, last)
		_ = pub.stop()

		// Most nodes are away: this passes, and is not taken for a refusal.
		owner = c.Owner(t, "alerts")
		for _, n := range c.Nodes {
			if n != owner {
				n.Kill()
			}
		}
		redistest.WaitFor(t, "the cluster to be down", func() bool {
			text, _ := owner.Must(t, "CLUSTER", "INFO").(string)
			return strings.Contains(text, "cluster_state:fail")
		})
		_, err := publishAgain(t, s, j.batch(1, last, 1))
		refuses(t, err, false, "CLUSTERDOWN")
		for _, n := range c.Nodes {
			if n != owner {
				n.Restart(t)
			}
		}
		redistest.WaitFor(t, "the cluster to be up", func() bool {
			_, err := s.Publish(t.Context(), j.batch(1, last, 1))
			return err == nil
		})
	})
}

// Keys of two slots are refused before anything is sent to them.
func TestClusterKeys(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Default(t), 3)
	j := &journal{}
	s := newSink(t, "", func(cfg *Config) { cfg.Addresses, cfg.Cluster, cfg.Stream = c.Addresses(), true, "a{b}c" })
	open(t, s)
	put(t, s, j.batch(1, 0, 3))
	stream(t, c.Owner(t, "a{b}c"), "a{b}c", j, 1, 1, 3)
	s.position = "elsewhere" // what a name with other braces would come to
	_, err := s.Publish(t.Context(), j.batch(1, 3, 1))
	refuses(t, err, true, "CROSSSLOT")
}

// Sentinels say who the master is; a failover by them is followed without an Open.
func TestSentinel(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		m, r := pair(t, p)
		watch := redistest.StartSentinel(t, p, "primary", m)
		j := &journal{}
		s := newSink(t, "", func(c *Config) { c.Addresses, c.Sentinel, c.Replicas = []string{watch.Address}, "primary", 1 })
		pub := publish(t, s, j)
		pub.commit(t, j, 100)
		m.Kill()
		redistest.WaitFor(t, "the sentinel to promote the replica", func() bool {
			text, _ := r.Do("INFO", "replication") // the failover cuts connections
			info, _ := text.(string)
			return strings.Contains(info, "role:master")
		})
		pub.commit(t, j, 200)
		stream(t, r, "alerts", j, 1, 1, 200)
		if opened := pub.Status().Opened; opened != 1 {
			t.Errorf("opened %d times", opened)
		}
		if ack := pub.Status().Acknowledged; ack > 200 || pub.Status().Published != j.at(1, 200) {
			t.Errorf("published %v, acknowledged %d", pub.Status().Published, ack)
		}

		// A sentinel taken for a server.
		_, err := newSink(t, watch.Address).Open(t.Context())
		refuses(t, err, true, "is a sentinel")
		// A master that the sentinels do not watch: may pass, they may learn of it.
		_, err = newSink(t, "", func(c *Config) { c.Addresses, c.Sentinel = []string{watch.Address}, "other" }).Open(t.Context())
		if err == nil || isAnswer(err) {
			t.Fatalf("an unknown master: %v", err)
		}
	})
}
