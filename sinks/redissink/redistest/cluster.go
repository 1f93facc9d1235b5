package redistest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slots is the number of slots of a cluster.
const slots = 16384

// Cluster is a few masters that share the slots evenly.
type Cluster struct {
	Nodes []*Server
}

// StartCluster starts a cluster of n masters.
func StartCluster(t testing.TB, p Program, n int) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range n {
		c.Nodes = append(c.Nodes, Start(t, p, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000"))
	}
	for i, s := range c.Nodes {
		s.Must(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		args := []any{"CLUSTER", "ADDSLOTS"}
		for slot := slots * i / n; slot < slots*(i+1)/n; slot++ {
			args = append(args, slot)
		}
		s.Must(t, args...)
		host, port, _ := net.SplitHostPort(s.Address)
		c.Nodes[0].Must(t, "CLUSTER", "MEET", host, port)
	}
	for _, s := range c.Nodes {
		WaitFor(t, "the cluster", func() bool {
			text, _ := s.Must(t, "CLUSTER", "INFO").(string)
			return strings.Contains(text, "cluster_state:ok") && strings.Contains(text, fmt.Sprintf("cluster_known_nodes:%d", n)) &&
				strings.Contains(text, fmt.Sprintf("cluster_slots_ok:%d", slots))
		})
	}
	return c
}

// Addresses lists those of the nodes.
func (c *Cluster) Addresses() []string {
	var l []string
	for _, s := range c.Nodes {
		l = append(l, s.Address)
	}
	return l
}

// Slot is that of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	n, _ := c.Nodes[0].Must(t, "CLUSTER", "KEYSLOT", key).(int64)
	return int(n)
}

// Owner is the node that holds a key, by its own word.
func (c *Cluster) Owner(t testing.TB, key string) *Server {
	t.Helper()
	for _, s := range c.Nodes {
		if _, err := s.Do("TYPE", key); err == nil {
			return s
		}
	}
	t.Fatalf("no node holds %s", key)
	return nil
}

// Move moves the slot of a key to a node, as resharding does: one key at a time, with a pause between, and the map last.
func (c *Cluster) Move(t testing.TB, key string, to *Server, pause time.Duration) {
	t.Helper()
	from, slot := c.Owner(t, key), c.Slot(t, key)
	if from == to {
		return
	}
	fromID, toID := from.Must(t, "CLUSTER", "MYID"), to.Must(t, "CLUSTER", "MYID")
	to.Must(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Must(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := net.SplitHostPort(to.Address)
	for {
		keys, _ := from.Must(t, "CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		from.Must(t, "MIGRATE", host, port, keys[0], 0, 5000)
		time.Sleep(pause)
	}
	for _, s := range append([]*Server{to, from}, c.Nodes...) {
		s.Must(t, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
}

// StartSentinel starts a sentinel that watches a master by a name and fails over after half a second.
func StartSentinel(t testing.TB, p Program, name string, master *Server) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Address)
	s := &Server{Program: p, Dir: t.TempDir()}
	own := freePort(t)
	s.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(own))
	file := writeFile(t, s.Dir, "sentinel.conf", fmt.Sprintf(
		"port %d\nbind 127.0.0.1\ndir %s\nlogfile %s/log\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 3000\n",
		own, s.Dir, s.Dir, name, host, port, name, name))
	s.args = []string{file, "--sentinel"}
	s.launch(t)
	WaitFor(t, "the sentinel to know the replicas", func() bool {
		v, err := s.Do("SENTINEL", "REPLICAS", name)
		list, _ := v.([]any)
		return err == nil && len(list) > 0
	})
	return s
}
