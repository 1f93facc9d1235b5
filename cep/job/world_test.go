package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
)

// world is what outlives a job: a disk, destinations, and what there is to read. It belongs to one synctest bubble.
type world struct {
	t       *testing.T
	disk    *memstore.Disk
	servers map[string]*memsink.Server
	streams []*tapes
	rules   string
	log     *journal
	// point is called at each failpoint of a life that is not dead.
	point func(l *life, point string)
}

const pairs = `version: 1
rules:
- {id: pair, from: auth, by: [user], within: 1m, sequence: [{step: a, where: kind == "a"}, {step: b, where: kind == "b"}]}
`

func newWorld(t *testing.T, streams ...string) *world {
	w := &world{
		t: t, disk: memstore.NewDisk(memstore.Options{}), rules: pairs, log: &journal{},
		servers: map[string]*memsink.Server{"out": memsink.NewServer(memsink.Options{})},
	}
	for _, s := range streams {
		w.streams = append(w.streams, &tapes{stream: s, changed: make(chan struct{})})
	}
	return w
}

// tapes is a source: what its partitions hold, and will.
type tapes struct {
	stream string

	mu       sync.Mutex
	list     []*tape
	complete bool // no tape will be added
	hidden   bool // the source cannot be listed
	changed  chan struct{}
	trimmed  map[string]int64
	crowded  bool
	lags     bool // its readers know where their partitions end
}

// tape is a partition.
type tape struct {
	name    string
	records []source.Record
	closed  bool  // nothing will be added
	broken  error // reading fails at the end of what is there
	missing bool  // it is there for those who know, and not found
	gone    bool  // once read to its end it cannot be opened again
	columns []string
	seeks   []int64
}

// set changes what there is.
func (s *tapes) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *tapes) tape(name string) *tape {
	for _, t := range s.list {
		if t.name == name {
			return t
		}
	}
	t := &tape{name: name}
	s.list = append(s.list, t)
	return t
}

// write appends events: {"t": seconds, ...}.
func (s *tapes) write(name string, events ...string) {
	s.set(func() {
		t := s.tape(name)
		for _, e := range events {
			t.records = append(t.records, source.Record{Data: []byte(e), Offset: 10 * int64(len(t.records))})
		}
	})
}

// finish closes all partitions.
func (s *tapes) finish() {
	s.set(func() {
		s.complete = true
		for _, t := range s.list {
			t.closed = true
		}
	})
}

// errPanic has a reader panic.
var errPanic = errors.New("the moon")

// tapesSource is the source of one life.
type tapesSource struct {
	*tapes
	parts *source.Partitions
}

// Watch implements [source.Source].
func (s *tapesSource) Watch(ctx context.Context, known []string, d source.Discovery) error {
	found, ready := map[string]bool{}, false
	for {
		s.mu.Lock()
		changed, complete, hidden := s.changed, s.complete, s.hidden
		var list []*tape
		for _, t := range s.list {
			if !found[t.name] && !t.missing && !hidden {
				found[t.name] = true
				list = append(list, t)
			}
		}
		s.mu.Unlock()
		for _, t := range list {
			r := &tapeReader{source: s.tapes, tape: t, id: s.parts.Get(s.stream, t.name)}
			if s.lags {
				d.Found(&laggingReader{r})
			} else {
				d.Found(r)
			}
		}
		if !ready && !hidden {
			ready = true
			d.Ready()
		}
		if hidden {
			d.Trouble(errors.New("no such directory"))
		} else {
			d.Trouble(nil)
		}
		if complete && !hidden {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Trim implements [source.Trimmer].
func (s *tapesSource) Trim(partition string, before int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trimmed == nil {
		s.trimmed = map[string]int64{}
	}
	s.trimmed[partition] = before
	return nil
}

// Crowded implements [source.Trimmer].
func (s *tapesSource) Crowded(partition string, before int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crowded && before > s.trimmed[partition]
}

// Close implements [source.Source].
func (s *tapesSource) Close() error { return nil }

type tapeReader struct {
	source *tapes
	tape   *tape
	id     *cep.Partition
	next   int
}

// Partition implements [source.Reader].
func (r *tapeReader) Partition() *cep.Partition { return r.id }

// Name implements [source.Reader].
func (r *tapeReader) Name() string { return "tape " + r.tape.name }

// Format implements [source.Reader].
func (r *tapeReader) Format() source.Format {
	return source.Format{Columns: r.tape.columns, Comma: ','}
}

// Next implements [source.Reader].
func (r *tapeReader) Next(ctx context.Context) (source.Record, error) {
	for {
		if ctx.Err() != nil {
			return source.Record{}, ctx.Err()
		}
		r.source.mu.Lock()
		changed, closed, broken := r.source.changed, r.tape.closed, r.tape.broken
		if r.next < len(r.tape.records) {
			rec := r.tape.records[r.next]
			r.next++
			r.source.mu.Unlock()
			if string(rec.Data) == "large" {
				return source.Record{}, &source.RecordError{Position: cep.Position{Partition: r.id, Offset: rec.Offset}, Err: source.ErrTooLarge}
			}
			return rec, nil
		}
		r.source.mu.Unlock()
		switch {
		case errors.Is(broken, errPanic):
			panic(broken)
		case broken != nil:
			return source.Record{}, broken
		case closed:
			return source.Record{}, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// SeekTo implements [source.Reader].
func (r *tapeReader) SeekTo(offset int64) error {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	if r.tape.gone && r.next == len(r.tape.records) {
		return errors.New("no such tape")
	}
	r.tape.seeks = append(r.tape.seeks, offset)
	r.next = int((offset + 9) / 10) // a record's offset, or the one behind it
	if offset%10 > 1 || r.next > len(r.tape.records) {
		return fmt.Errorf("offset %d is none", offset)
	}
	return nil
}

// SeekEnd implements [source.Ender].
func (r *tapeReader) SeekEnd(context.Context) (int64, error) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	r.next = len(r.tape.records)
	return 10 * int64(r.next), nil
}

// Progress implements [source.Reader].
func (r *tapeReader) Progress() (read, total int64) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	return int64(r.next), -1
}

// Close implements [source.Reader].
func (r *tapeReader) Close() error { return nil }

// laggingReader is a reader that knows how much there is.
type laggingReader struct{ *tapeReader }

// End implements [source.Lagger].
func (r *laggingReader) End() (offset int64, known bool) {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	if n := len(r.tape.records); n > 0 {
		return r.tape.records[n-1].Offset + 1, true
	}
	return 0, true
}

// journal keeps what is logged.
type journal struct {
	mu    sync.Mutex
	lines []string
}

// Write implements [io.Writer].
func (l *journal) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSpace(string(b)))
	return len(b), nil
}

// has reports whether a line holds all the words.
func (l *journal) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool {
		for _, w := range words {
			if !strings.Contains(line, w) {
				return false
			}
		}
		return true
	})
}

func (l *journal) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// life is one process: a job from its start to its end.
type life struct {
	*Job
	world *world
	disk  *memstore.Disk
	ctx   context.Context
	crash func()
	dead  atomic.Bool
	err   error
	ended chan struct{}
}

// mortal is a sink whose process may be dead.
type mortal struct {
	sinks.Sink
	dead *atomic.Bool
}

var errDead = errors.New("the process is dead")

// Peek implements [sinks.Sink].
func (m *mortal) Peek(ctx context.Context) (sinks.Progress, error) {
	if m.dead.Load() {
		return sinks.Progress{}, errDead
	}
	return m.Sink.Peek(ctx)
}

// Open implements [sinks.Sink].
func (m *mortal) Open(ctx context.Context) (sinks.Progress, error) {
	if m.dead.Load() {
		return sinks.Progress{}, errDead
	}
	return m.Sink.Open(ctx)
}

// Begin implements [sinks.Sink].
func (m *mortal) Begin(ctx context.Context, p sinks.Progress) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Sink.Begin(ctx, p)
}

// Publish implements [sinks.Sink].
func (m *mortal) Publish(ctx context.Context, b sinks.Batch) (sinks.Ack, error) {
	if m.dead.Load() {
		return sinks.Ack{}, errDead
	}
	return m.Sink.Publish(ctx, b)
}

// compile makes a set of the text of a rule file.
func compile(text string) (*rules.Set, error) {
	return rules.FromFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text), Rules: true}}, nil)
}

// config is that of a life before the test has changed it.
func (w *world) config(l *life) Config {
	w.t.Helper()
	set, err := compile(w.rules)
	if err != nil {
		w.t.Fatal(err)
	}
	store, err := w.disk.Open()
	if err != nil {
		w.t.Fatal(err)
	}
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		w.t.Fatal(err)
	}
	names := make([]string, len(w.streams))
	for i, s := range w.streams {
		names[i] = s.stream
	}
	c := Config{
		Name: "test", Rules: set, Store: store, Partitions: source.NewPartitions(names...), Shards: 2,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, s := range w.streams {
		c.Streams = append(c.Streams, Stream{
			Stream: engine.Stream{Name: s.stream, Lateness: time.Second}, Time: spec, Source: &tapesSource{s, c.Partitions},
		})
	}
	for name, server := range w.servers {
		c.Sinks = append(c.Sinks, Sink{Name: name, Sink: &mortal{server.Sink(), &l.dead}, All: name == "out", Grace: time.Minute})
	}
	slices.SortFunc(c.Sinks, func(a, b Sink) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// try makes a life, which does not run yet; its error is that of New.
func (w *world) try(change ...func(*Config)) (*life, error) {
	w.t.Helper()
	l := &life{world: w, disk: w.disk, ended: make(chan struct{})}
	c := w.config(l)
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.ctx = ctx
	l.crash = func() {
		l.dead.Store(true)
		l.disk.Crash()
		cancel()
	}
	c.Failpoint = func(p string) {
		if w.point != nil && !l.dead.Load() {
			w.point(l, p)
		}
	}
	var err error
	if l.Job, err = New(ctx, c); err != nil {
		w.disk.Crash()
		cancel()
	}
	return l, err
}

// run begins a life.
func (w *world) run(change ...func(*Config)) *life {
	w.t.Helper()
	l, err := w.try(change...)
	if err != nil {
		w.t.Fatalf("new: %v\n%s", err, w.log)
	}
	go l.live()
	return l
}

// live runs the job to its end.
func (l *life) live() {
	l.err = l.Run(l.ctx)
	l.disk.Crash() // the process is gone
	close(l.ended)
}

// wait waits for the end of a life.
func (l *life) wait() error {
	<-l.ended
	return l.err
}

// once runs a life to the end of the input.
func (w *world) once(change ...func(*Config)) {
	w.t.Helper()
	l := w.run(append(change, func(c *Config) { c.Once = true })...)
	if err := l.wait(); err != nil {
		w.t.Fatalf("run: %v\n%s", err, w.log)
	}
}

// settle lets time pass, and everybody do what they do then.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// sent returns what has arrived at a sink: the members of each body that are named.
func (w *world) sent(sink string, members ...string) []string {
	w.t.Helper()
	list := []string{}
	for _, body := range w.servers[sink].Bodies() {
		var v struct{ parts []string }
		for _, m := range members {
			v.parts = append(v.parts, member(body, m))
		}
		list = append(list, strings.Join(v.parts, " "))
	}
	return list
}

// member returns a member of a JSON object as text.
func member(body, name string) string {
	_, rest, ok := strings.Cut(body, fmt.Sprintf("%q:", name))
	if !ok {
		return ""
	}
	depth := 0
	for i, c := range rest {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth < 0 || depth == 0 && c == ',' {
			return rest[:i]
		}
	}
	return rest
}

func (w *world) stream(name string) *tapes {
	for _, s := range w.streams {
		if s.stream == name {
			return s
		}
	}
	return nil
}

func event(t int, kind, user string) string {
	return fmt.Sprintf(`{"t":%d,"kind":%q,"user":%q}`, t, kind, user)
}
