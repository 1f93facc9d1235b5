package redissink

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

func TestMain(m *testing.M) {
	RouteClientLog(slog.New(slog.DiscardHandler)) // what the library says about servers that are killed on purpose
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests wait for servers more than they compute
		panic(err)
	}
	os.Exit(m.Run())
}

// journal is a history of messages that follow from their number: the same salt is the same history. It is also an outbox
// that holds all of them up to last, or from first on.
type journal struct {
	salt string
	size int // of a body, at least

	mu          sync.Mutex
	all         []sinks.Message
	first, last uint64
	begun       sinks.Progress
	published   sinks.Progress
}

// message is the one of a sequence, from 1.
func (j *journal) message(sequence uint64) sinks.Message {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.grow(sequence)[sequence-1]
}

func (j *journal) grow(through uint64) []sinks.Message {
	for n := uint64(len(j.all)) + 1; n <= through; n++ {
		var chain sinks.Chain
		if n > 1 {
			chain = j.all[n-2].Chain
		}
		body := fmt.Sprintf(`{"n":%d,"salt":%q}`, n, j.salt)
		if j.size > len(body) {
			body = fmt.Sprintf(`{"n":%d,"salt":%q,"pad":%q}`, n, j.salt, strings.Repeat("x", j.size-len(body)))
		}
		m := sinks.Message{Sequence: n, ID: sha256.Sum256([]byte(body)), Rule: "rule", What: "match", Severity: "high", Body: []byte(body)}
		m.Chain = chain.Next(m.ID)
		j.all = append(j.all, m)
	}
	return j.all
}

// at is the position behind a message; 0: before the first.
func (j *journal) at(lineage, sequence uint64) sinks.Progress {
	p := sinks.Progress{Lineage: lineage, Sequence: sequence}
	if sequence > 0 {
		p.Chain = j.message(sequence).Chain
	}
	return p
}

// batch is the n messages behind a sequence.
func (j *journal) batch(lineage, base uint64, n int) sinks.Batch {
	b := sinks.Batch{Base: j.at(lineage, base)}
	for i := 1; i <= n; i++ {
		b.Messages = append(b.Messages, j.message(base+uint64(i)))
	}
	return b
}

// branch is a journal that is the same up to a sequence and another one from there.
func (j *journal) branch(through uint64, salt string) *journal {
	other := &journal{salt: salt, size: j.size}
	other.all = append(other.all, j.grow(through)[:through]...)
	return other
}

func (j *journal) Read(_ context.Context, from uint64, count, bytes int) ([]sinks.Message, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if from <= j.first {
		return nil, fmt.Errorf("message %d is forgotten", from)
	}
	var l []sinks.Message
	for n := from; n <= j.last && len(l) < count; n++ {
		m := j.grow(n)[n-1]
		if bytes -= len(m.Body); bytes < 0 && len(l) > 0 {
			break
		}
		l = append(l, m)
	}
	return l, nil
}

func (j *journal) Chain(_ context.Context, sequence uint64) (sinks.Chain, error) {
	if sequence < j.Range().First.Sequence {
		return sinks.Chain{}, fmt.Errorf("the chain at %d is forgotten", sequence)
	}
	return j.at(0, sequence).Chain, nil
}

func (j *journal) Range() sinks.Range {
	j.mu.Lock()
	first, last, begun, published := j.first, j.last, j.begun, j.published
	j.mu.Unlock()
	if published.Sequence < first {
		published = j.at(begun.Lineage, first)
	}
	return sinks.Range{First: j.at(begun.Lineage, first), Begun: begun, Sent: published, Last: j.at(begun.Lineage, last)}
}

func (j *journal) Confirm(published sinks.Progress, forget uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.published, j.first = published, max(j.first, forget)
	return nil
}

func (j *journal) Begin(_ context.Context, p sinks.Progress) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun, j.published = p, p
	return nil
}

// newSink makes a sink on the stream "alerts" of a server.
func newSink(t testing.TB, address string, change ...func(*Config)) *Sink {
	t.Helper()
	c := Config{Job: "job", Name: "sink", Addresses: []string{address}, Stream: "alerts", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, f := range change {
		f(&c)
	}
	if c.List != "" {
		c.Stream = ""
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a sink and begins the first lineage where there is none.
func open(t testing.TB, s *Sink) sinks.Progress {
	t.Helper()
	p, err := s.Open(t.Context())
	must(t, err)
	if p.Lineage == 0 {
		p.Lineage = 1
		must(t, s.Begin(t.Context(), p))
	}
	return p
}

func put(t testing.TB, s *Sink, b sinks.Batch) sinks.Ack {
	t.Helper()
	ack, err := s.Publish(t.Context(), b)
	must(t, err)
	if ack.Published != b.End() {
		t.Fatalf("published %v, want %v", ack.Published, b.End())
	}
	return ack
}

// stands demands the answer that the destination is elsewhere.
func stands(t testing.TB, s *Sink, b sinks.Batch, want sinks.Progress) {
	t.Helper()
	_, err := s.Publish(t.Context(), b)
	e, ok := errors.AsType[*sinks.StandsError](err)
	if !ok {
		t.Fatalf("behind %d: %v, want a StandsError", b.Base.Sequence, err)
	}
	if e.At != want {
		t.Fatalf("behind %d: %v, want %v", b.Base.Sequence, e.At, want)
	}
}

// fenced demands the answer that somebody else is the owner.
func fenced(t testing.TB, err error, forgotten bool) {
	t.Helper()
	e, ok := errors.AsType[*sinks.FencedError](err)
	if !ok || e.Forgotten != forgotten {
		t.Fatalf("%v (%T), want a FencedError, forgotten %v", err, err, forgotten)
	}
}

func diverged(t testing.TB, err error, words string) {
	t.Helper()
	if _, ok := errors.AsType[*sinks.DivergedError](err); !ok || !strings.Contains(err.Error(), words) {
		t.Fatalf("%v (%T), want a DivergedError with %q", err, err, words)
	}
}

// stream demands that a stream holds the messages of a journal from a sequence on, and nothing else.
func stream(t testing.TB, s *redistest.Server, key string, j *journal, lineage, from, through uint64) {
	t.Helper()
	entries := s.Stream(t, key)
	if uint64(len(entries)) != through-from+1 {
		t.Fatalf("%d entries, want %d", len(entries), through-from+1)
	}
	for i, e := range entries {
		entry(t, e, j.message(from+uint64(i)), lineage)
	}
}

func entry(t testing.TB, e redistest.Entry, m sinks.Message, lineage uint64) {
	t.Helper()
	want := map[string]string{
		"id": m.ID.String(), "rule": m.Rule, "kind": kindOf(&m), "severity": m.Severity, "body": string(m.Body), "chain": m.Chain.String(),
	}
	if e.ID != entryID(lineage, m.Sequence) || len(e.Fields) != len(want) {
		t.Fatalf("entry %s: %v, want %v as %s", e.ID, e.Fields, want, entryID(lineage, m.Sequence))
	}
	for name, text := range want {
		if e.Fields[name] != text {
			t.Fatalf("entry %s: field %s is %q, want %q", e.ID, name, e.Fields[name], text)
		}
	}
}

// publisher runs a sink as a job does, until the test ends or stop is called.
type publisher struct {
	*sinks.Publisher
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run
}

func publish(t testing.TB, s *Sink, j *journal, change ...func(*sinks.PublisherConfig)) *publisher {
	t.Helper()
	c := sinks.PublisherConfig{Name: "sink", Sink: s, Outbox: j, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &publisher{Publisher: sinks.NewPublisher(c), cancel: cancel, done: make(chan struct{})}
	must(t, p.Open(ctx))
	go func() {
		defer close(p.done)
		p.err = p.Run(ctx)
	}()
	t.Cleanup(func() { _ = p.stop() })
	return p
}

// stop ends Run and returns its error.
func (p *publisher) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// commit makes messages up to a sequence part of the outbox, and waits until they are published.
func (p *publisher) commit(t testing.TB, j *journal, through uint64) {
	t.Helper()
	j.mu.Lock()
	j.last = max(j.last, through)
	j.mu.Unlock()
	p.Wake()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := p.Drained(ctx); err != nil {
		t.Fatalf("drained: %v (status: %+v)", err, p.Status())
	}
}
