package kafkatest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// node is one process of a broker, and its directory.
type node struct {
	id    int
	dir   string
	ports []int // one for each of listeners

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// file is one of the node's files.
func (n *node) file(name string) string { return filepath.Join(n.dir, name) }

// format gives the node's directory the identity of the cluster, and the user, where it has not got them. What the tool makes of
// the same arguments is kept beside the jars: it takes as long as half a start.
func (b *Broker) format(n *node) error {
	data := filepath.Join(n.dir, "data")
	if _, err := os.Stat(filepath.Join(data, "meta.properties")); err == nil {
		return nil
	}
	args := []string{"format", "--cluster-id", clusterID}
	for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", m, user, password))
	}
	if v := b.options.TransactionVersion; v != 0 {
		args = append(args, "--feature", fmt.Sprintf("transaction.version=%d", v))
	}
	sum := sha256.Sum256([]byte(strings.Join(args, " ")))
	kept := filepath.Join(b.runtime.lib, fmt.Sprintf("formatted-%x-%d", sum[:6], n.id))
	if _, err := os.Stat(kept); err == nil {
		return os.CopyFS(data, os.DirFS(kept))
	}
	args = append(args, "--config", n.file("server.properties"))
	cmd := b.runtime.command(b.options, n.file("log4j2.properties"), nil, "kafka.tools.StorageTool", args...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format node %d: %w: %s", n.id, err, bytes.TrimSpace(said))
	}
	dir, err := os.MkdirTemp(b.runtime.lib, "formatting-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.CopyFS(dir, os.DirFS(data)); err != nil {
		return err
	}
	if err := os.Rename(dir, kept); err != nil && !errors.Is(err, fs.ErrExist) { // another process may have been first
		return fmt.Errorf("keep a formatted directory: %w", err)
	}
	return nil
}

// start starts the process. What it writes goes to a file, not through a pipe: nobody has to read it, and a process that
// outlives this one keeps it.
func (n *node) start(cmd *exec.Cmd) error {
	out, err := os.Create(n.file("log"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	done := make(chan struct{})
	n.mu.Lock()
	n.cmd, n.done = cmd, done
	n.mu.Unlock()
	go func() {
		_ = cmd.Wait() // an error is how a killed process ends
		close(done)
	}()
	return nil
}

// Running says whether the process runs.
func (n *node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

func (n *node) signal(s os.Signal) {
	if n.Running() {
		n.mu.Lock()
		defer n.mu.Unlock()
		_ = n.cmd.Process.Signal(s) // it may have ended since
	}
}

// wait waits for the end of the process.
func (n *node) wait() {
	n.mu.Lock()
	done := n.done
	n.mu.Unlock()
	if done != nil {
		<-done
	}
}

// stop asks the process to end and waits until it has.
func (n *node) stop() error {
	if !n.Running() {
		return nil
	}
	n.signal(syscall.SIGTERM)
	select {
	case <-n.done:
		return nil
	case <-time.After(patienceOfNode):
		n.signal(syscall.SIGKILL)
		n.wait()
		return fmt.Errorf("node %d did not end within %s and was killed\n%s", n.id, patienceOfNode, n.tail())
	}
}

// ready waits until the node has registered and answers at its port. The line in the log comes after both, but the log is
// written by another thread.
func (n *node) ready() error {
	deadline := time.NewTimer(patienceOfNode)
	defer deadline.Stop()
	for {
		if strings.Contains(n.log(), "Kafka Server started") && listening(n.ports[plainPort]) {
			return nil
		}
		select {
		case <-n.done:
			return fmt.Errorf("node %d ended at its start\n%s", n.id, n.tail())
		case <-deadline.C:
			return fmt.Errorf("node %d is not ready after %s\n%s", n.id, patienceOfNode, n.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func listening(port int) bool {
	c, err := net.DialTimeout("tcp", address(port), time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

func (n *node) log() string {
	b, _ := os.ReadFile(n.file("log"))
	return string(b)
}

// tail is the end of the log: enough lines for the trace of an error.
func (n *node) tail() string {
	const lines = 30
	all := strings.Split(strings.TrimSpace(n.log()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
