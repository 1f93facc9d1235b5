package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/eventlog"
	"github.com/cepd/cepd/cep/source/httpsource"
	"github.com/cepd/cepd/sinks/redissink"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

const (
	// latencyRate is the number of events a second, latencyHit how many there are for one that completes a match.
	latencyRate = 10_000
	latencyHit  = 50
	// latencyWarm is left out of the figures: connections are made, and memory is taken.
	latencyWarm = 2 * time.Second
	// latencyEnd is how long the last alerts may take.
	latencyEnd = 10 * time.Second
	// floorTimes is how often the disk and the server are asked alone.
	floorTimes = 300
	alertsKey  = "alerts"
)

// latency measures how long it takes from the arrival of the event that completes a match to the alert as a client of a Redis
// server reads it. Events come at an even pace, from inside of the process, or over HTTP and through the log that keeps them.
func latency(w io.Writer, o options, took time.Duration) error {
	server, err := startRedis()
	if err != nil {
		return err
	}
	defer server.stop()
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "%s, %d cores, %s; %s; %d events a second, an alert each %d, for %s\n\n", processor(), runtime.NumCPU(), runtime.Version(), server.version,
		latencyRate, latencyHit, took)
	fmt.Fprint(b, "| from | to | alerts | p50 ms | p99 ms | p99.9 ms | most ms |\n|---|---|---|---|---|---|---|\n")
	if err := floor(b, server); err != nil {
		return err
	}
	for _, way := range []string{"process", "http"} {
		if err := server.conn(func(c *redistest.Conn) error {
			_, err := c.Do("FLUSHALL")
			return err
		}); err != nil {
			return err
		}
		list, err := latencyBy(way, o, server, took)
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		from := map[string]string{"process": "the source's hand-over", "http": "the sending of the request"}[way]
		row(b, from, "the alert at a reader of the stream", list)
	}
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

func row(w *bytes.Buffer, from, to string, list []time.Duration) {
	slices.Sort(list)
	ms := func(p float64) float64 { return share(list, p).Seconds() * 1e3 }
	fmt.Fprintf(w, "| %s | %s | %d | %.2f | %.2f | %.2f | %.2f |\n", from, to, len(list), ms(0.5), ms(0.99), ms(0.999), ms(1))
}

// floor measures what disk and server take by themselves: an alert needs two syncs for its epoch and one append.
func floor(w *bytes.Buffer, server *redisServer) error {
	f, err := os.CreateTemp("", "cepd-bench")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }() // nothing of it matters
	var syncs, appends []time.Duration
	block := make([]byte, 4096)
	return server.conn(func(c *redistest.Conn) error {
		for range floorTimes {
			began := time.Now()
			for range 2 {
				if _, err := f.WriteAt(block, 0); err != nil {
					return err
				}
				if err := f.Sync(); err != nil {
					return err
				}
			}
			syncs = append(syncs, time.Since(began))
			began = time.Now()
			if _, err := c.Do("XADD", "floor", "*", "body", string(block[:512])); err != nil {
				return err
			}
			appends = append(appends, time.Since(began))
		}
		row(w, "two writes of 4 kB to a file", "both synced, nothing else running", syncs)
		row(w, "an XADD", "its answer, nothing else running", appends)
		return nil
	})
}

// latencyBy measures one way.
func latencyBy(way string, o options, server *redisServer, took time.Duration) (_ []time.Duration, err error) {
	dir, err := os.MkdirTemp("", "cepd-bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left of it harms nobody
	o.work = "w2"
	r, err := newRig(o, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	var push func(batch []byte, ends []int) error
	if way == "http" {
		push, err = r.listen(dir)
	} else {
		push, err = r.feed()
	}
	if err != nil {
		return nil, err
	}
	r.config.Streams[0].Arrival = true
	sink, err := redissink.New(redissink.Config{Job: "bench", Name: "out", Addresses: []string{server.address}, Stream: alertsKey})
	if err != nil {
		return nil, err
	}
	r.send(sink)
	if err := r.make(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- r.job.Run(context.Background()) }()
	seen := &arrivals{at: map[string]time.Time{}}
	reading, stop := context.WithCancel(context.Background())
	defer stop()
	read := make(chan error, 1)
	go func() { read <- seen.read(reading, server.address) }()
	sent, err := pace(took, push)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(latencyEnd); seen.count.Load() < int64(len(sent)) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	err = r.job.Drain(context.Background())
	err = errors.Join(err, <-ended)
	stop()
	if err := errors.Join(err, <-read); err != nil {
		return nil, err
	}
	return seen.since(sent)
}

// pace sends events at an even pace, those that are due together, and returns when each alert's last event was sent.
func pace(took time.Duration, push func(lines []byte, ends []int) error) (map[string]time.Time, error) {
	sent := map[string]time.Time{}
	began := time.Now()
	var lines []byte
	var ends []int
	for n, most := 0, int(took.Seconds()*latencyRate); n < most; {
		due := min(most, int(time.Since(began).Seconds()*latencyRate))
		if n >= due {
			time.Sleep(time.Second / latencyRate / 2)
			continue
		}
		lines, ends = lines[:0], ends[:0]
		now := time.Now()
		for ; n < due; n++ {
			kind, key := "page_view", "k"+strconv.Itoa(n/latencyHit)
			switch n % latencyHit {
			case 0:
				kind = "login_failed"
			case latencyHit - 1:
				kind = "transfer"
				sent[key] = now
			}
			lines = fmt.Appendf(lines, `{"type":%q,"user":"user-%08d","src_ip":%q,"device":"cli","country":"DE","amount":%d.50,"status":401}`+"\n",
				kind, n%1000, key, 101+n%899)
			ends = append(ends, len(lines))
		}
		if err := push(lines, ends); err != nil {
			return nil, err
		}
	}
	// Time stands still behind the last event until one comes that is later.
	time.Sleep(time.Second / 100)
	if err := push([]byte("{}\n"), []int{3}); err != nil {
		return nil, err
	}
	for key, at := range sent {
		if at.Before(began.Add(latencyWarm)) {
			sent[key] = time.Time{}
		}
	}
	return sent, nil
}

// arrivals are when alerts were read, by their keys.
type arrivals struct {
	count atomic.Int64
	mu    sync.Mutex
	at    map[string]time.Time
}

// read reads the stream as a client of the server does, until ctx ends.
func (a *arrivals) read(ctx context.Context, address string) error {
	c, err := redistest.Connect(address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was written
	last := "0-0"
	for ctx.Err() == nil {
		answer, err := c.Do("XREAD", "COUNT", 1000, "BLOCK", 100, "STREAMS", alertsKey, last)
		if err != nil {
			return err
		}
		now := time.Now()
		streams, _ := answer.([]any)
		if len(streams) == 0 {
			continue
		}
		entries := streams[0].([]any)[1].([]any)
		a.mu.Lock()
		for _, e := range entries {
			e := e.([]any)
			last = e[0].(string)
			fields := e[1].([]any)
			var body struct {
				Key map[string]string `json:"key"`
			}
			for i := 0; i+1 < len(fields); i += 2 {
				if fields[i] == "body" {
					err = errors.Join(err, json.Unmarshal([]byte(fields[i+1].(string)), &body))
				}
			}
			if _, twice := a.at[body.Key["src_ip"]]; twice {
				err = errors.Join(err, fmt.Errorf("the alert of %v came twice", body.Key))
			}
			a.at[body.Key["src_ip"]] = now
		}
		a.mu.Unlock()
		a.count.Add(int64(len(entries)))
		if err != nil {
			return err
		}
	}
	return nil
}

// since returns how long alerts took, of those that count.
func (a *arrivals) since(sent map[string]time.Time) (list []time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, from := range sent {
		at, ok := a.at[key]
		if !ok {
			return nil, fmt.Errorf("the alert of %s did not come; %d of %d did", key, len(a.at), len(sent))
		}
		if !from.IsZero() {
			list = append(list, at.Sub(from))
		}
	}
	return list, nil
}

// feed adds a stream that is fed inside of the process.
func (r *rig) feed() (push func(lines []byte, ends []int) error, err error) {
	s := &fedSource{id: r.config.Partitions.Get("events", "fed"), more: make(chan struct{}, 1)}
	return s.push, r.read(s, 0)
}

// fedSource is a source of records in memory, and its one reader.
type fedSource struct {
	id   *cep.Partition
	more chan struct{}

	mu      sync.Mutex
	waiting []source.Record

	taken  []source.Record
	offset int64
}

func (s *fedSource) push(lines []byte, ends []int) error {
	lines = slices.Clone(lines)
	arrived, ok := cep.TimeOf(time.Now())
	if !ok {
		return errors.New("the clock is out of range")
	}
	s.mu.Lock()
	from := 0
	for _, end := range ends {
		s.waiting = append(s.waiting, source.Record{Data: lines[from : end-1], Offset: s.offset, Arrived: arrived})
		from = end
		s.offset++
	}
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

// Next implements [source.Reader].
func (s *fedSource) Next(ctx context.Context) (source.Record, error) {
	for len(s.taken) == 0 {
		s.mu.Lock()
		s.taken, s.waiting = s.waiting, nil
		s.mu.Unlock()
		if len(s.taken) > 0 {
			break
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			return source.Record{}, ctx.Err()
		}
	}
	r := s.taken[0]
	s.taken = s.taken[1:]
	return r, nil
}

// Watch implements [source.Source].
func (s *fedSource) Watch(ctx context.Context, _ []string, d source.Discovery) error {
	d.Found(s)
	d.Ready()
	<-ctx.Done()
	return ctx.Err()
}

// Partition implements [source.Reader].
func (s *fedSource) Partition() *cep.Partition { return s.id }

// Name implements [source.Reader].
func (s *fedSource) Name() string { return "fed" }

// Format implements [source.Reader].
func (s *fedSource) Format() source.Format { return source.Format{} }

// SeekTo implements [source.Reader].
func (s *fedSource) SeekTo(offset int64) error {
	if offset > 0 {
		return source.ErrNotSeekable
	}
	return nil
}

// Progress implements [source.Reader].
func (s *fedSource) Progress() (read, total int64) { return 0, -1 }

// Close implements [source.Source] and [source.Reader].
func (s *fedSource) Close() error { return nil }

// listen adds a stream that takes events over HTTP. Push sends a request and waits for its answer: the events are on the disk.
func (r *rig) listen(dir string) (push func(lines []byte, ends []int) error, err error) {
	events, err := eventlog.Open(eventlog.Config{Dir: filepath.Join(dir, "events")})
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, events.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler:           httpsource.New(httpsource.Config{Streams: map[string]httpsource.Stream{"events": {Log: events}}}),
		ReadHeaderTimeout: latencyEnd,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	r.closers = append(r.closers, func() error {
		err := server.Close()
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	})
	url := "http://" + l.Addr().String() + httpsource.Prefix + "events/events"
	push = func(lines []byte, _ []int) error {
		reply, err := http.Post(url, "application/x-ndjson", bytes.NewReader(lines))
		if err != nil {
			return err
		}
		text, err := io.ReadAll(reply.Body)
		if err := errors.Join(err, reply.Body.Close()); err != nil {
			return err
		}
		if reply.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", reply.Status, text)
		}
		return nil
	}
	return push, r.read(eventlog.NewSource(eventlog.SourceConfig{Log: events, Stream: "events", Partitions: r.config.Partitions}), 0)
}

// redisServer is a server of our own, which logs to its disk as Redis recommends.
type redisServer struct {
	address, version string
	stop             func()
}

// startRedis starts a redis-server.
func startRedis() (*redisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("the latency is measured to a Redis server: apt-get install redis-server: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "cepd-bench-redis")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes")
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &redisServer{address: address, version: "Redis, appendonly yes"}
	s.stop = func() {
		_ = cmd.Process.Kill() // it keeps nothing that matters
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	for end := time.Now().Add(latencyEnd); ; time.Sleep(10 * time.Millisecond) {
		err := s.conn(func(c *redistest.Conn) error {
			_, err := c.Do("PING")
			return err
		})
		if err == nil {
			return s, nil
		}
		if time.Now().After(end) {
			s.stop()
			return nil, fmt.Errorf("%s does not answer: %w", program, err)
		}
	}
}

// conn runs f with a connection.
func (s *redisServer) conn(f func(*redistest.Conn) error) error {
	c, err := redistest.Connect(s.address)
	if err != nil {
		return err
	}
	return errors.Join(f(c), c.Close())
}
