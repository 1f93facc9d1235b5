package kafkatest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// lentVariable names the directory of a broker that another process lends to this one.
const lentVariable = "CEPD_KAFKA_LENT"

// The broker that the tests of this process share.
var shared struct {
	sync.Mutex
	running bool // within Run
	tried   bool
	cluster *Cluster
	err     error
	dir     string // of one that this process has started
}

// Run runs the tests of a package, and ends the broker that they shared. TestMain calls it:
//
//	func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) }
func Run(m interface{ Run() int }) int {
	shared.Lock()
	shared.running = true
	shared.Unlock()
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.dir != "" {
		if shared.cluster != nil {
			shared.cluster.Broker.Kill()
		}
		_ = os.RemoveAll(shared.dir)
	}
	return code
}

// Shared returns the broker that the tests of this process share, of one node, which the first test that asks for it starts,
// unless this process was lent one. Tests leave it as they found it: who kills it takes its own with Start.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		t.Fatal("the shared broker needs func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) } in this package, which ends it")
	}
	if !shared.tried {
		shared.tried = true
		shared.cluster, shared.err = share()
	}
	skipWithout(t, shared.err)
	return shared.cluster
}

func share() (*Cluster, error) {
	if dir := os.Getenv(lentVariable); dir != "" {
		if c, err := borrow(dir); err == nil {
			return c, nil
		}
	}
	dir, err := os.MkdirTemp("", "cepd-kafka-")
	if err != nil {
		return nil, err
	}
	shared.dir = dir
	// It outlives the test that starts it, so that test's context is not the one to use.
	b, err := newBroker(context.Background(), dir, ports, Options{})
	if err != nil {
		return nil, err
	}
	b.shared = true
	if err := b.Launch(); err != nil {
		return nil, err
	}
	return b.cluster(), nil
}

// lent is what a lender tells of its broker, in a file.
type lent struct {
	Kafka string
	Ports []int
	Error string // why there is none
}

const lentFile = "lent.json"

// Lender starts a broker that the tests of several packages share, each of which is a process of its own: they find it by an
// environment variable, and wait while it starts.
type Lender struct {
	dir     string
	lock    *os.File
	broker  *Broker
	started chan struct{}
}

// Lend starts one. It returns at once, and nil where this checkout lends one already: then each package starts its own.
func Lend(ctx context.Context) (*Lender, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	// The name is the same at each run: what go test keeps of a run depends on the environment.
	sum := sha256.Sum256([]byte(root))
	l := &Lender{dir: filepath.Join(os.TempDir(), fmt.Sprintf("cepd-kafka-lent-%d-%x", os.Getuid(), sum[:6])), started: make(chan struct{})}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	if l.lock, err = os.Create(filepath.Join(l.dir, "lock")); err != nil {
		return nil, err
	}
	if err := lock(l.lock); err != nil {
		return nil, l.lock.Close()
	}
	// What a lender that was killed has left is none of ours.
	err = os.RemoveAll(filepath.Join(l.dir, "node1"))
	if gone := os.Remove(filepath.Join(l.dir, lentFile)); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err != nil {
		return nil, errors.Join(err, l.lock.Close())
	}
	go func() {
		defer close(l.started)
		l.start(ctx)
	}()
	return l, nil
}

// start starts the broker and says how it went.
func (l *Lender) start(ctx context.Context) {
	var told lent
	b, err := newBroker(ctx, l.dir, ports, Options{})
	if err == nil {
		l.broker = b
		told.Kafka, told.Ports = b.Kafka, b.nodes[0].ports
		err = b.Launch()
	}
	if err != nil {
		told.Error = err.Error()
	}
	_ = told.write(l.dir) // whoever does not find it starts its own
}

func (l lent) write(dir string) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	made := filepath.Join(dir, lentFile+".new")
	if err := os.WriteFile(made, text, 0o600); err != nil {
		return err
	}
	return os.Rename(made, filepath.Join(dir, lentFile))
}

// Environment is what a process needs to find the broker.
func (l *Lender) Environment() string { return lentVariable + "=" + l.dir }

// Close ends the broker. Its data go with it.
func (l *Lender) Close() error {
	<-l.started
	if l.broker != nil {
		l.broker.Kill()
	}
	return errors.Join(os.Remove(filepath.Join(l.dir, lentFile)), os.RemoveAll(filepath.Join(l.dir, "node1")), l.lock.Close())
}

// borrow returns the broker that is lent in a directory, once it is ready.
func borrow(dir string) (*Cluster, error) {
	var told lent
	for deadline := time.Now().Add(patienceOfNode); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, lentFile))
		if err == nil {
			if err := json.Unmarshal(text, &told); err != nil {
				return nil, err
			}
			break
		}
		if !errors.Is(err, os.ErrNotExist) || time.Now().After(deadline) {
			return nil, err
		}
	}
	if told.Error != "" || len(told.Ports) != len(listeners) {
		return nil, fmt.Errorf("no broker is lent: %s", told.Error)
	}
	p, err := readPapers(dir)
	if err != nil {
		return nil, err
	}
	n := &node{id: 1, dir: filepath.Join(dir, "node1"), ports: told.Ports}
	if !listening(n.ports[plainPort]) {
		return nil, errors.New("the broker that was lent is gone")
	}
	b := &Broker{Dir: dir, Kafka: told.Kafka, papers: p, nodes: []*node{n}, shared: true}
	return b.cluster(), nil
}
