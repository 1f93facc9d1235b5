package kafkatest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fate is what becomes of a request.
type Fate uint8

// The fates.
const (
	// Pass forwards the request and its answer.
	Pass Fate = iota
	// LoseRequest cuts the connection instead of forwarding the request.
	LoseRequest
	// LoseAnswer forwards the request, and cuts the connection instead of forwarding the answer.
	LoseAnswer
)

// Request is one that a client sends.
type Request struct {
	Key, Version int16
	// Node is the place of the node's address in the cluster's, to which it goes.
	Node int
	// Count is how many of this key there were since the rule was set, this one included.
	Count int
}

// Proxy stands before all nodes of a cluster, and loses the requests and answers that a rule names. The nodes' answers say
// where the nodes are; the proxy puts its own addresses there, so that clients stay with it.
type Proxy struct {
	// Addresses are those of the proxy, one for each node.
	Addresses []string

	cluster *Cluster
	front   map[string]string // the address of the proxy that stands before one of a node
	running sync.WaitGroup

	ruling sync.Mutex // one request at a time is judged
	rule   func(Request) Fate
	counts map[int16]int

	mu        sync.Mutex
	listeners []net.Listener
	pairs     map[*link]struct{}
	held      chan struct{} // nil, or open while everything waits
	closed    bool
}

// link is a connection and the one to the node behind it.
type link struct {
	client, server net.Conn

	mu      sync.Mutex
	waiting map[int32]asked // by correlation id
}

// asked is a request whose answer has not come.
type asked struct {
	key, version int16
	fate         Fate
}

// frameMax bounds what is taken for one request or answer: brokers refuse requests above 100 MiB.
const frameMax = 128 << 20

// NewProxy starts a proxy before the unprotected addresses of a cluster. It ends with the test.
func NewProxy(t testing.TB, c *Cluster) *Proxy {
	t.Helper()
	p := &Proxy{cluster: c, front: map[string]string{}, counts: map[int16]int{}, pairs: map[*link]struct{}{}}
	t.Cleanup(p.close)
	for range c.Addresses {
		l, err := c.listen()
		if err != nil {
			t.Fatalf("proxy: %v", err)
		}
		p.listeners = append(p.listeners, l)
		p.Addresses = append(p.Addresses, l.Addr().String())
	}
	for i, a := range c.Addresses {
		p.front[a] = p.Addresses[i]
	}
	for i, l := range p.listeners {
		p.running.Go(func() { p.accept(i, l) })
	}
	return p
}

// Cluster is the cluster as it is seen through the proxy.
func (p *Proxy) Cluster() *Cluster {
	c := *p.cluster
	c.Addresses = p.Addresses
	c.Endpoints = []Endpoint{{Name: "plain", Addresses: p.Addresses}}
	return &c
}

// Rule says from now on what becomes of requests; nil lets all pass. It is called for one request at a time.
func (p *Proxy) Rule(rule func(Request) Fate) {
	p.ruling.Lock()
	defer p.ruling.Unlock()
	p.rule = rule
	clear(p.counts)
}

// Once loses the next request of a key, or its answer, and returns what says whether that has happened.
func (p *Proxy) Once(key kmsg.Key, fate Fate) func() bool {
	var mu sync.Mutex
	done := false
	p.Rule(func(r Request) Fate {
		mu.Lock()
		defer mu.Unlock()
		if r.Key != key.Int16() || done {
			return Pass
		}
		done = true
		return fate
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done
	}
}

// Cut cuts all connections. Clients may connect again.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.pairs {
		l.cut()
	}
}

// Hold says whether all that is sent waits here while the connections stay, as when a network drops packets.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.held == nil:
		p.held = make(chan struct{})
	case !on && p.held != nil:
		close(p.held)
		p.held = nil
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		_ = l.Close()
	}
	p.mu.Unlock()
	p.Hold(false)
	p.Cut()
	p.running.Wait()
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *Proxy) accept(node int, from net.Listener) {
	for {
		client, err := from.Accept()
		if err != nil {
			return
		}
		server, err := p.cluster.Dial(context.Background(), "tcp", p.cluster.Addresses[node])
		if err != nil {
			_ = client.Close() // the node is down: the client sees a connection that ends
			continue
		}
		l := &link{client: client, server: server, waiting: map[int32]asked{}}
		p.mu.Lock()
		p.pairs[l] = struct{}{}
		if p.closed {
			l.cut()
		}
		p.mu.Unlock()
		p.running.Go(func() {
			p.forward(l, client, server, func(frame []byte) ([]byte, error) { return frame, p.request(l, node, frame) })
		})
		p.running.Go(func() { p.forward(l, server, client, func(frame []byte) ([]byte, error) { return p.answer(l, frame) }) })
	}
}

// forward takes frames from one side to the other until one of them ends.
func (p *Proxy) forward(l *link, from, to net.Conn, judge func(frame []byte) ([]byte, error)) {
	defer func() {
		l.cut()
		p.mu.Lock()
		delete(p.pairs, l)
		p.mu.Unlock()
	}()
	r := bufio.NewReaderSize(from, 4<<10)
	for {
		frame, err := readFrame(r)
		if err != nil {
			return
		}
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if held != nil {
			<-held
		}
		out, err := judge(frame)
		if err != nil {
			return
		}
		if err := writeFrame(to, out); err != nil {
			return
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) error {
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(frame)), uint32(len(frame)))
	_, err := w.Write(append(out, frame...))
	return err
}

var (
	errLost  = errors.New("lost")
	errFrame = errors.New("not of the protocol")
)

// request judges a request. Its first fields are the same in all versions: key, version, correlation id.
func (p *Proxy) request(l *link, node int, frame []byte) error {
	if len(frame) < 8 {
		return errFrame
	}
	a := asked{key: int16(binary.BigEndian.Uint16(frame)), version: int16(binary.BigEndian.Uint16(frame[2:]))}
	p.ruling.Lock()
	p.counts[a.key]++
	if p.rule != nil {
		a.fate = p.rule(Request{Key: a.key, Version: a.version, Node: node, Count: p.counts[a.key]})
	}
	p.ruling.Unlock()
	if a.fate == LoseRequest {
		return errLost
	}
	l.mu.Lock()
	l.waiting[int32(binary.BigEndian.Uint32(frame[4:]))] = a
	l.mu.Unlock()
	return nil
}

// answer judges an answer and puts the proxy's addresses into it.
func (p *Proxy) answer(l *link, frame []byte) ([]byte, error) {
	if len(frame) < 4 {
		return nil, errFrame
	}
	id := int32(binary.BigEndian.Uint32(frame))
	l.mu.Lock()
	a, ok := l.waiting[id]
	delete(l.waiting, id)
	l.mu.Unlock()
	switch {
	case !ok:
		return nil, errFrame
	case a.fate == LoseAnswer:
		return nil, errLost
	}
	return p.readdress(a, frame)
}

// readdress decodes those answers that name addresses of nodes.
func (p *Proxy) readdress(a asked, frame []byte) ([]byte, error) {
	switch key := kmsg.Key(a.key); {
	case key == kmsg.Metadata, key == kmsg.FindCoordinator, key == kmsg.DescribeCluster:
	case key == kmsg.Produce && a.version >= 10, key == kmsg.Fetch && a.version >= 16: // they name new leaders
	default:
		return frame, nil
	}
	resp := kmsg.ResponseForKey(a.key)
	resp.SetVersion(a.version)
	head := 4
	if resp.IsFlexible() {
		head++ // the header's tags, of which there are none
		if len(frame) < head || frame[head-1] != 0 {
			return nil, errFrame
		}
	}
	if err := resp.ReadFrom(frame[head:]); err != nil {
		return nil, err
	}
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			p.stand(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		p.stand(&r.Host, &r.Port)
		for i := range r.Coordinators {
			p.stand(&r.Coordinators[i].Host, &r.Coordinators[i].Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			p.stand(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.ProduceResponse:
		for i := range r.Brokers {
			p.stand(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.FetchResponse:
		for i := range r.Brokers {
			p.stand(&r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	}
	return resp.AppendTo(frame[:head:head]), nil
}

// stand puts the proxy before an address of a node.
func (p *Proxy) stand(host *string, port *int32) {
	front, ok := p.front[net.JoinHostPort(*host, fmt.Sprint(*port))]
	if !ok {
		return // no address at all, as in an answer that is an error
	}
	h, text, err := net.SplitHostPort(front)
	if err != nil {
		return
	}
	*host = h
	_, _ = fmt.Sscan(text, port)
}
