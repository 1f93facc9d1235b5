package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Options say what a broker is like. The zero value is one node with the newest of everything.
type Options struct {
	// Nodes is 1 (or 0) or 3: each is a broker and a controller. They are numbered from 1. With three, one may be away.
	Nodes int
	// TransactionVersion is what the cluster finalizes: 1, or 2 (KIP-890); 0 is the newest.
	TransactionVersion int
	// Properties are further lines of server.properties, name=value. They win over ours.
	Properties []string
	// HeapMiB caps the memory of the objects of a node; 0 is enough for tests.
	HeapMiB int
	// Compilers has Java use both of its compilers, for measurements: it starts slower, and is faster in the end.
	Compilers bool
}

// heapMiB is enough for topics of some 100 MB, which lie in the cache of the system and not in the heap.
const heapMiB = 256

// clusterID is that of all clusters: each has its own directory and ports.
const clusterID = "Y2VwZC1rYWZrYS10ZXN0cw"

// Broker is a real cluster: one process for each node, with its files in a directory. Its methods take the numbers of nodes;
// without one they mean all.
type Broker struct {
	// Dir is where the files are; those of node 1 are in node1 there.
	Dir string
	// Kafka is its version.
	Kafka string

	options Options
	runtime *runtime
	papers  *papers
	nodes   []*node
	shared  bool // by the tests of this process: topics are deleted when their test ends
}

// Start starts a broker for this test alone, which ends with it. Where it cannot run here the test is skipped with a line
// that says what is missing.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	b, err := newBroker(t.Context(), t.TempDir(), ports, o)
	skipWithout(t, err)
	t.Cleanup(func() {
		b.Kill()
		if t.Failed() {
			b.tell(t)
		}
	})
	if err := b.Launch(); err != nil {
		t.Fatal(err)
	}
	return b.cluster()
}

// skipWithout skips a test where something is missing, and fails it for any other error.
func skipWithout(t testing.TB, err error) {
	t.Helper()
	if m := (*Missing)(nil); errors.As(err, &m) {
		t.Skipf("the Kafka broker of the tests cannot start: %s", m.Text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tell shows what the nodes have logged last.
func (b *Broker) tell(t testing.TB) {
	for _, n := range b.nodes {
		t.Logf("the end of the log of node %d:\n%s", n.id, n.tail())
	}
}

// newBroker prepares a broker in a directory: everything but its processes.
func newBroker(ctx context.Context, dir string, ports func() (int, error), o Options) (*Broker, error) {
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.HeapMiB == 0 {
		o.HeapMiB = heapMiB
	}
	r, err := ready(ctx)
	if err != nil {
		return nil, err
	}
	return r.broker(dir, ports, o)
}

// Prepare fetches what a broker runs on, where it is not there, so that no test waits for it.
func Prepare(ctx context.Context) error {
	_, err := ready(ctx)
	return err
}

func ready(ctx context.Context) (*runtime, error) {
	r, err := findRuntime(ctx)
	if err != nil {
		return nil, err
	}
	return r, r.train(ctx)
}

func (r *runtime) broker(dir string, ports func() (int, error), o Options) (*Broker, error) {
	b := &Broker{Dir: dir, Kafka: r.kafka, options: o, runtime: r}
	var err error
	if b.papers, err = makePapers(dir); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	for id := 1; id <= o.Nodes; id++ {
		n := &node{id: id, dir: filepath.Join(dir, fmt.Sprintf("node%d", id))}
		for range listeners {
			p, err := ports()
			if err != nil {
				return nil, err
			}
			n.ports = append(n.ports, p)
		}
		b.nodes = append(b.nodes, n)
	}
	for _, n := range b.nodes {
		if err := b.configure(n); err != nil {
			return nil, fmt.Errorf("configure node %d: %w", n.id, err)
		}
		if err := b.format(n); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// cluster is the broker as a Cluster.
func (b *Broker) cluster() *Cluster {
	c := &Cluster{Name: "kafka", Broker: b, Dial: (&net.Dialer{}).DialContext, listen: loopback}
	for i, l := range listeners {
		if l.endpoint == nil {
			continue
		}
		for _, e := range l.endpoint(b.papers) {
			for _, n := range b.nodes {
				e.Addresses = append(e.Addresses, address(n.ports[i]))
			}
			c.Endpoints = append(c.Endpoints, e)
		}
	}
	c.Addresses = c.Endpoints[0].Addresses
	return c
}

// chosen are the nodes of those numbers.
func (b *Broker) chosen(ids []int) []*node {
	if len(ids) == 0 {
		return b.nodes
	}
	var l []*node
	for _, id := range ids {
		l = append(l, b.nodes[id-1])
	}
	return l
}

// Launch starts those of the nodes that do not run, and waits until they are ready.
func (b *Broker) Launch(nodes ...int) error {
	var begun []*node
	for _, n := range b.chosen(nodes) {
		if n.Running() {
			continue
		}
		if err := b.launch(n); err != nil {
			return err
		}
		begun = append(begun, n)
	}
	return together(begun, (*node).ready)
}

func (b *Broker) launch(n *node, flags ...string) error {
	cmd := b.runtime.command(b.options, n.file("log4j2.properties"), flags, "kafka.Kafka", n.file("server.properties"))
	contain(cmd)
	return n.start(cmd)
}

// Restart starts the nodes again, of which those that run are stopped first.
func (b *Broker) Restart(t testing.TB, nodes ...int) {
	t.Helper()
	if err := b.Stop(nodes...); err != nil {
		t.Fatal(err)
	}
	if err := b.Launch(nodes...); err != nil {
		t.Fatal(err)
	}
}

// Stop asks the nodes to end, as an operator does, and waits until they have. All are asked at once, for one that stops needs
// the others.
func (b *Broker) Stop(nodes ...int) error {
	return together(b.chosen(nodes), (*node).stop)
}

// together does something with all nodes at the same time.
func together(nodes []*node, f func(*node) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		all.Go(func() { errs[i] = f(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Kill ends the processes of the nodes at once, as kill -9 does, and waits for their end. Nodes that do not run stay as they
// are.
func (b *Broker) Kill(nodes ...int) {
	for _, n := range b.chosen(nodes) {
		n.signal(syscall.SIGKILL)
	}
	for _, n := range b.chosen(nodes) {
		n.wait()
	}
}

// Pause stops the processes of the nodes as SIGSTOP does: their connections stay and nothing answers.
func (b *Broker) Pause(nodes ...int) {
	for _, n := range b.chosen(nodes) {
		n.signal(pauseSignal)
	}
}

// Resume lets paused nodes go on.
func (b *Broker) Resume(nodes ...int) {
	for _, n := range b.chosen(nodes) {
		n.signal(resumeSignal)
	}
}

// Nodes is how many there are.
func (b *Broker) Nodes() int { return len(b.nodes) }

// Running says whether the process of a node runs.
func (b *Broker) Running(node int) bool { return b.nodes[node-1].Running() }

// Log is what a node has logged since it was started last.
func (b *Broker) Log(node int) string { return b.nodes[node-1].log() }

// Ports lie below those that systems give to outgoing connections, so that a node finds its own free when it restarts, and
// above those of the Redis servers of other tests. Processes that run at the same time take them from different blocks: a
// broker opens its ports seconds after they were chosen.
const (
	portFirst  = 22100
	blockSize  = 50 // its first port is the guard, the others are enough for eight nodes
	blockCount = 200
)

var block struct {
	sync.Mutex
	guards    []net.Listener // held open until the process ends: who holds the first port of a block has all of it
	next, end int
}

// ports returns a free one at each call.
func ports() (int, error) {
	block.Lock()
	defer block.Unlock()
	for {
		if block.next == block.end {
			first, err := takeBlock()
			if err != nil {
				return 0, err
			}
			block.next, block.end = first+1, first+blockSize
		}
		port := block.next
		block.next++
		if l, err := net.Listen("tcp", address(port)); err == nil {
			return port, l.Close()
		}
	}
}

// blockOfPorts returns the first of a row of ports that nobody else is given, and that are all free now.
func blockOfPorts() (int, error) {
	block.Lock()
	defer block.Unlock()
	for {
		first, err := takeBlock()
		if err != nil {
			return 0, err
		}
		if allFree(first+1, first+blockSize) {
			return first + 1, nil
		}
	}
}

// takeBlock claims a block for this process and returns its guard. The lock of block is held.
func takeBlock() (int, error) {
	for i := range blockCount {
		first := portFirst + (os.Getpid()+len(block.guards)+i)%blockCount*blockSize
		if guard, err := net.Listen("tcp", address(first)); err == nil {
			block.guards = append(block.guards, guard)
			return first, nil
		}
	}
	return 0, errors.New("no free port on the loopback address")
}

func allFree(from, to int) bool {
	for port := from; port < to; port++ {
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// train leaves the classes that a broker loads in an archive beside the jars, once for a machine: a start takes a third of
// the time with it.
func (r *runtime) train(ctx context.Context) error {
	if _, err := os.Stat(r.archive); err == nil {
		return ctx.Err()
	}
	dir, err := os.MkdirTemp("", "cepd-kafka-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b, err := r.broker(dir, ports, Options{Nodes: 1, HeapMiB: heapMiB})
	if err != nil {
		return err
	}
	made := fmt.Sprintf("%s.%d", r.archive, os.Getpid()) // beside it, since another process may do the same
	defer func() { _ = os.Remove(made) }()
	n := b.nodes[0]
	if err := b.launch(n, "-XX:ArchiveClassesAtExit="+made); err != nil {
		return err
	}
	defer b.Kill()
	if err := n.ready(); err != nil {
		return err
	}
	if err := n.stop(); err != nil {
		return err
	}
	if err := os.Rename(made, r.archive); err != nil {
		// A Java without archives makes none. Starts are slower then, no more.
		return os.WriteFile(r.archive, nil, 0o600)
	}
	return nil
}

// patienceOfNode is how long a node may take to be ready, or to end: on a loaded machine the first start takes half a minute.
const patienceOfNode = 2 * time.Minute
