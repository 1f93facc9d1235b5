package kafkatest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Standing is a broker that no test owns: for people, who start it with make kafka. It outlives the process that starts it.
type Standing struct {
	Address string
	Kafka   string // its version
	Pid     int
}

// Stand starts a broker of one node in a directory and waits until it is ready. Its unprotected port is as told, the others
// are those behind it. One that runs in that directory stays; what it keeps stays when it ends.
func Stand(ctx context.Context, dir string, port int) (*Standing, error) {
	return stand(ctx, dir, port, detach)
}

// stand starts one whose process lives as release says.
func stand(ctx context.Context, dir string, port int, release func(*exec.Cmd)) (*Standing, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if pid := standing(dir); pid != 0 {
		at, err := standingAddress(dir, pid)
		if err != nil {
			return nil, err
		}
		version, err := os.ReadFile(filepath.Join(dir, "version"))
		if err != nil {
			return nil, err
		}
		return &Standing{Address: at, Kafka: string(version), Pid: pid}, nil
	}
	r, err := ready(ctx)
	if err != nil {
		return nil, err
	}
	next := port
	b, err := r.broker(dir, func() (int, error) {
		next++
		if listening(next - 1) {
			return 0, fmt.Errorf("port %d is taken: choose another first one of %d", next-1, len(listeners))
		}
		return next - 1, nil
	}, Options{Nodes: 1, HeapMiB: heapMiB})
	if err != nil {
		return nil, err
	}
	n := b.nodes[0]
	cmd := r.command(b.options, n.file("log4j2.properties"), nil, "kafka.Kafka", n.file("server.properties"))
	release(cmd)
	if err := n.start(cmd); err != nil {
		return nil, err
	}
	s := &Standing{Address: address(port), Kafka: r.kafka, Pid: cmd.Process.Pid}
	for name, text := range map[string]string{"pid": strconv.Itoa(s.Pid), "address": s.Address, "version": s.Kafka} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Kill()
			return nil, err
		}
	}
	if err := n.ready(); err != nil {
		b.Kill()
		return nil, err
	}
	return s, nil
}

// standing is the process of the broker in a directory, 0 where none runs. A number may have been given to another process
// since; the command line tells.
func standing(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, os.ErrNotExist) {
		line, err = exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	}
	if err != nil || !bytes.Contains(line, []byte(filepath.Join(dir, "node1", "server.properties"))) {
		return 0
	}
	return pid
}

// standingAddress is where the broker in a directory answers.
func standingAddress(dir string, pid int) (string, error) {
	at, err := os.ReadFile(filepath.Join(dir, "address"))
	if err != nil {
		return "", fmt.Errorf("a broker runs in %s (process %d), at an address that is not known: %w", dir, pid, err)
	}
	return string(at), nil
}

// sentMax is the size of a line: a broker takes 1 MiB by default.
const sentMax = 1 << 20

// Send writes lines to a topic of the broker that stands in a directory, one record for each, and returns their number. The
// topic is made where it is missing, with one partition, so that the order of the lines is kept.
func Send(ctx context.Context, dir, topic string, lines io.Reader) (int, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	pid := standing(dir)
	if pid == 0 {
		return 0, fmt.Errorf("no broker runs in %s: start one there", dir)
	}
	at, err := standingAddress(dir, pid)
	if err != nil {
		return 0, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(at), kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(-1))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return 0, fmt.Errorf("make topic %s: %w", topic, err)
	}
	var records []*kgo.Record
	text := bufio.NewScanner(lines)
	text.Buffer(nil, sentMax)
	for text.Scan() {
		if line := bytes.TrimSpace(text.Bytes()); len(line) > 0 {
			records = append(records, kgo.SliceRecord(bytes.Clone(line)))
		}
	}
	if err := text.Err(); err != nil {
		return 0, fmt.Errorf("read line %d: %w", len(records)+1, err)
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return 0, fmt.Errorf("write to %s: %w", topic, err)
	}
	return len(records), nil
}

// Fell ends the broker that stands in a directory, and returns its process, 0 where none does.
func Fell(dir string) (int, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	pid := standing(dir)
	if pid == 0 {
		return 0, nil
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return pid, fmt.Errorf("find process %d: %w", pid, err)
	}
	deadline := time.Now().Add(patienceOfNode)
	for signal := syscall.SIGTERM; standing(dir) != 0; time.Sleep(50 * time.Millisecond) {
		if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return pid, fmt.Errorf("end process %d: %w", pid, err)
		}
		if time.Now().After(deadline) {
			signal = syscall.SIGKILL
		}
	}
	return pid, os.Remove(filepath.Join(dir, "pid"))
}
