package kafkatest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience is how long a cluster may take to do what it was asked for before a test fails: far beyond what a loaded machine
// needs, so that only a cluster that hangs is found.
const patience = 60 * time.Second

// Cluster is a Kafka that a test talks to.
type Cluster struct {
	// Name is what it is, kafka or kfake.
	Name string
	// Addresses are the host:port of its nodes, in the order of their numbers, for clients without encryption and
	// password.
	Addresses []string
	// Endpoints are all ways in. The first is Addresses, but where a Fake has only a protected one.
	Endpoints []Endpoint
	// Dial connects to the addresses: through the memory of the process, where the cluster is in a bubble of synctest.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// listen opens a port where Dial finds it.
	listen func() (net.Listener, error)
	// One of these is set.
	Broker *Broker
	Fake   *Fake
}

// Endpoint is a way in.
type Endpoint struct {
	// Name says what protects it, and is fit for the name of a test: plain, tls, mtls, sasl-plain, sasl-scram-256,
	// tls-sasl-plain, tls-sasl-scram-512.
	Name      string
	Addresses []string
	// CAFile is the certificate of whoever signed that of the server, as PEM; "" without encryption. CertFile and KeyFile
	// are those of a client, where the server wants to see one.
	CAFile, CertFile, KeyFile string
	// TLS is what those files say, nil without encryption.
	TLS *tls.Config
	// Mechanism is that of SASL, as Kafka spells it: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; "" without a password.
	Mechanism, User, Password string
}

// Real says whether it is a real broker.
func (c *Cluster) Real() bool { return c.Broker != nil }

// Each runs a test on the fake and on the real broker that the tests of this process share. The real one is skipped where
// it cannot run.
func Each(t *testing.T, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	t.Run("kfake", func(t *testing.T) { f(t, StartFake(t, FakeOptions{}).As) })
	t.Run("kafka", func(t *testing.T) { f(t, Shared(t)) })
}

// EachEndpoint runs a test on every way into the fake and into the shared broker.
func EachEndpoint(t *testing.T, f func(t *testing.T, c *Cluster, e Endpoint)) {
	t.Helper()
	t.Run("kfake", func(t *testing.T) {
		for _, o := range []FakeOptions{
			{}, {TLS: true}, {Mechanism: "PLAIN"}, {Mechanism: "SCRAM-SHA-256"}, {TLS: true, Mechanism: "PLAIN"}, {TLS: true, Mechanism: "SCRAM-SHA-512"},
		} {
			c := StartFake(t, o).As
			t.Run(c.Endpoints[0].Name, func(t *testing.T) { f(t, c, c.Endpoints[0]) })
		}
	})
	t.Run("kafka", func(t *testing.T) {
		c := Shared(t)
		for _, e := range c.Endpoints {
			t.Run(e.Name, func(t *testing.T) { f(t, c, e) })
		}
	})
}

var names atomic.Int64

// Unique returns a name that no other test uses, for a topic, a group or a transactional id, which begins as told.
func Unique(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), names.Add(1))
}

// loopback opens a port of the machine.
func loopback() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// Client returns a client of franz-go, which has nothing in common with ours, closed when the test ends. The options come
// after those that lead to the cluster.
func (c *Cluster) Client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(c.options(), options...)...)
	if err != nil {
		t.Fatalf("franz-go: %v", err)
	}
	t.Cleanup(client.CloseAllowingRebalance)
	return client
}

// options lead franz-go to the first endpoint. Metadata is asked for often, since tests make topics and end brokers.
func (c *Cluster) options() []kgo.Opt {
	e := c.Endpoints[0]
	o := []kgo.Opt{kgo.SeedBrokers(e.Addresses...), kgo.MetadataMinAge(50 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond)}
	if e.TLS != nil {
		dialer := &tls.Dialer{Config: e.TLS}
		o = append(o, kgo.Dialer(dialer.DialContext))
	} else {
		o = append(o, kgo.Dialer(c.Dial))
	}
	if m := e.mechanism(); m != nil {
		o = append(o, kgo.SASL(m))
	}
	return o
}

// Admin returns a client of franz-go for the administration of the cluster.
func (c *Cluster) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(c.Client(t))
}

// Topic makes a topic of so many partitions, with configs as pairs of name and value, and returns its name, which no other
// test uses. It is deleted when the test ends.
func (c *Cluster) Topic(t testing.TB, partitions int, configs ...string) string {
	t.Helper()
	name := Unique("topic")
	c.CreateTopic(t, name, partitions, configs...)
	return name
}

// CreateTopic makes a topic of that name, and waits until every node knows it and who leads its partitions: nodes learn that
// some milliseconds after the answer.
func (c *Cluster) CreateTopic(t testing.TB, name string, partitions int, configs ...string) {
	t.Helper()
	settings := map[string]*string{}
	for i := 0; i+1 < len(configs); i += 2 {
		settings[configs[i]] = &configs[i+1]
	}
	admin := c.Admin(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := admin.CreateTopic(ctx, int32(partitions), -1, settings, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	if c.Broker != nil && c.Broker.shared {
		t.Cleanup(func() { c.drop(admin, name) })
	}
	nodes, err := admin.ListBrokers(ctx)
	if err != nil {
		t.Fatalf("nodes: %v", err)
	}
	client := c.Client(t)
	defer client.Close()
	for _, id := range nodes.NodeIDs() {
		WaitFor(t, fmt.Sprintf("node %d to know topic %s", id, name), func() bool { return knows(ctx, client.Broker(int(id)), name, partitions) })
	}
}

// knows says whether a node names the leaders of all partitions.
func knows(ctx context.Context, node *kgo.Broker, topic string, partitions int) bool {
	r := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	r.Topics = append(r.Topics, rt)
	answer, err := node.RetriableRequest(ctx, r)
	m, ok := answer.(*kmsg.MetadataResponse)
	if err != nil || !ok || len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 || len(m.Topics[0].Partitions) != partitions {
		return false
	}
	for _, p := range m.Topics[0].Partitions {
		if p.ErrorCode != 0 || p.Leader < 0 {
			return false
		}
	}
	return true
}

// drop deletes a topic that a test may have deleted already.
func (c *Cluster) drop(admin *kadm.Client, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _ = admin.DeleteTopic(ctx, name)
}

// WaitFor waits until something is so, and fails the test where it never is.
func WaitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}
