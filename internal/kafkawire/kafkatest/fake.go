package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FakeOptions say what a fake is like. The zero value is one node without protection, at real addresses.
type FakeOptions struct {
	// Nodes is how many there are, 1 where it is 0. They are numbered from 0.
	Nodes int
	// TLS and Mechanism protect all ways in; see Endpoint.
	TLS       bool
	Mechanism string
	// TransactionVersion is what the cluster finalizes, 2 where it is 0.
	TransactionVersion int
	// Network takes the place of the machine's, so that the fake runs in a bubble of testing/synctest. A fake with TLS
	// has to be outside.
	Network *kfake.VirtualNetwork
	// Options come after ours.
	Options []kfake.Opt
}

// Fake is kfake, whose ControlKey and Fault answer requests with errors or cut the connection they came by.
//
// It does otherwise than a broker in these points. One of them is mended here: kfake lets InitProducerID pass with a pair
// of producer id and epoch that a newer owner has replaced, so that an instance that was fenced fences its successor; here
// it is refused with PRODUCER_FENCED, as by a broker. The others stay: it never answers CONCURRENT_TRANSACTIONS, it does not
// stamp records by LogAppendTime, it leaves the list of aborted transactions out of an answer that was cut for its size, it
// does not list a transaction for a fetch that begins at its marker, and it loses nothing when a node is removed.
type Fake struct {
	*kfake.Cluster
	// As is the fake as a Cluster.
	As *Cluster

	inner *kgo.Client // by which the requests are given that stand for those of clients

	mu     sync.Mutex
	owners map[string]owner
}

// owner is what InitProducerID gave last to a transactional id.
type owner struct {
	id    int64
	epoch int16
	// before is the epoch that the owner itself replaced, with which it may repeat the request when the answer was lost;
	// -1 where another one was replaced.
	before int16
}

// StartFake starts a fake, which ends with the test.
func StartFake(t testing.TB, o FakeOptions) *Fake {
	t.Helper()
	f := &Fake{owners: map[string]owner{}}
	c := &Cluster{Name: "kfake", Fake: f, Dial: (&net.Dialer{}).DialContext, listen: loopback}
	f.As = c
	e := Endpoint{Name: protection(o.TLS, o.Mechanism)}
	options := []kfake.Opt{kfake.NumBrokers(max(o.Nodes, 1)), kfake.GroupMinSessionTimeout(500 * time.Millisecond)}
	if o.TLS {
		p := newPapers(t, t.TempDir())
		e.CAFile, e.TLS = p.ca, p.client()
		options = append(options, kfake.TLS(p.server()))
	}
	if o.Mechanism != "" {
		e.Mechanism, e.User, e.Password = o.Mechanism, user, password
		options = append(options, kfake.EnableSASL(), kfake.Superuser(o.Mechanism, user, password))
	}
	if o.Network != nil {
		// The memory gives no ports by itself.
		next := bubblePort
		c.Dial = o.Network.DialContext
		c.listen = func() (net.Listener, error) {
			next++
			return o.Network.Listen("tcp", address(next))
		}
		nodes := make([]int, max(o.Nodes, 1))
		for i := range nodes {
			next++
			nodes[i] = next
		}
		options = append(options, kfake.ListenFn(o.Network.Listen), kfake.Ports(nodes...))
	}
	cluster, err := kfake.NewCluster(append(options, o.Options...)...)
	if err != nil {
		t.Fatalf("kfake: %v", err)
	}
	t.Cleanup(cluster.Close)
	f.Cluster = cluster
	e.Addresses = cluster.ListenAddrs()
	c.Endpoints = []Endpoint{e}
	if !o.TLS && o.Mechanism == "" {
		c.Addresses = e.Addresses
	}
	f.inner = c.Client(t, kgo.ClientID("kafkatest"))
	cluster.ControlKey(kmsg.InitProducerID.Int16(), f.initProducerID)
	if o.TransactionVersion != 0 {
		c.Finalize(t, "transaction.version", o.TransactionVersion)
	}
	return f
}

// bubblePort is below the ports of a fake in a bubble.
const bubblePort = 9091

// Finalize sets a feature of the cluster, such as transaction.version.
func (c *Cluster) Finalize(t testing.TB, feature string, level int) {
	t.Helper()
	r := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = feature, int16(level), 1
	if c.Fake != nil { // it begins with the newest
		u.AllowDowngrade, u.UpgradeType = true, 2
	}
	r.FeatureUpdates = append(r.FeatureUpdates, u)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := r.RequestWith(ctx, c.Client(t))
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	for i := 0; err == nil && i < len(answer.Results); i++ {
		err = kerr.ErrorForCode(answer.Results[i].ErrorCode)
	}
	if err != nil {
		t.Fatalf("set %s to %d: %v", feature, level, err)
	}
}

// ours marks a request that the fake gives itself: a tagged field with a number that Kafka does not use.
const ours = 0x6365

// initProducerID stands before kfake's own handling of it. It gives the request to kfake in its own name, because only so it
// sees the answer, one at a time, and knows at each who owns the transactional id.
func (f *Fake) initProducerID(kreq kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // the order is kfake's
	f.KeepControl()
	req, ok := kreq.(*kmsg.InitProducerIDRequest)
	if !ok || req.TransactionalID == nil {
		return nil, nil, false
	}
	mine := false
	req.UnknownTags.Each(func(tag uint32, _ []byte) { mine = mine || tag == ours })
	if mine {
		return nil, nil, false
	}
	node := f.CurrentNode()
	answer := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	var err error
	f.SleepControl(func() { err = f.give(node, req, answer) })
	return answer, err, true
}

// give answers a request.
func (f *Fake) give(node int32, req *kmsg.InitProducerIDRequest, answer *kmsg.InitProducerIDResponse) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := *req.TransactionalID
	own, known := f.owners[id]
	recovers := req.ProducerID >= 0 && req.ProducerEpoch >= 0
	if recovers && known && req.ProducerID == own.id && req.ProducerEpoch < own.epoch && req.ProducerEpoch != own.before {
		answer.ErrorCode = kerr.ProducerFenced.Code
		return nil
	}
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch
	r.UnknownTags.Set(ours, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kresp, err := f.inner.Broker(int(node)).Request(ctx, r)
	if err != nil {
		return fmt.Errorf("give InitProducerID to kfake: %w", err)
	}
	got, ok := kresp.(*kmsg.InitProducerIDResponse)
	if !ok {
		return errors.New("kfake answers InitProducerID with something else")
	}
	answer.ErrorCode, answer.ProducerID, answer.ProducerEpoch = got.ErrorCode, got.ProducerID, got.ProducerEpoch
	if got.ErrorCode != 0 {
		return nil
	}
	next := owner{id: got.ProducerID, epoch: got.ProducerEpoch, before: -1}
	if recovers && got.ProducerID == req.ProducerID {
		next.before = req.ProducerEpoch
	}
	f.owners[id] = next
	return nil
}
