package redissink

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// An append-only file whose end never reached the disk, cut at any byte: position and stream agree, because the server keeps
// what a script did whole or not at all; and what is missing is sent again.
func TestTornFile(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		const cuts, last = 12, 200
		srv := redistest.Start(t, p, "--appendonly", "yes", "--appendfsync", "no")
		lost := 0
		for cut := range cuts {
			srv.Must(t, "FLUSHALL")
			srv.Must(t, "BGREWRITEAOF")
			redistest.WaitFor(t, "the file to be written anew", func() bool {
				i := srv.Info(t, "persistence")
				return i["aof_rewrite_in_progress"] == "0" && i["aof_rewrite_scheduled"] == "0"
			})
			j := &journal{size: 100}
			s := newSink(t, srv.Address, func(c *Config) { c.Logger = nil })
			open(t, s)
			for at := uint64(0); at < last; at += 10 {
				put(t, s, j.batch(1, at, 10))
			}
			srv.Kill()
			file := appendOnlyFile(t, srv)
			info, err := os.Stat(file)
			must(t, err)
			must(t, os.Truncate(file, info.Size()*int64(2*cut+1)/(2*cuts)+int64(cut)))
			srv.Restart(t)

			sequence := srv.Must(t, "HGET", s.position, "sequence")
			if sequence == nil {
				sequence = "0"
			}
			if id := srv.LastID("alerts"); id != "1-"+sequence.(string) && (id != "" || sequence != "0") {
				t.Fatalf("cut %d: the position says %v, the stream %s", cut, sequence, id)
			}
			again := publish(t, s, j)
			if again.Status().Published.Sequence < last {
				lost++
			}
			again.commit(t, j, last)
			_ = again.stop()
			stream(t, srv, "alerts", j, 1, 1, last)
		}
		if lost == 0 {
			t.Fatal("nothing was lost: the test shows nothing")
		}
	})
}

// appendOnlyFile is the one that the server appends to: the newest part, from 7.0 on.
func appendOnlyFile(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(srv.Dir, "appendonlydir", "*.incr.aof"))
	must(t, err)
	if len(files) == 0 {
		return filepath.Join(srv.Dir, "appendonly.aof")
	}
	newest := files[0]
	for _, f := range files { // appendonly.aof.N.incr.aof
		if len(f) > len(newest) || len(f) == len(newest) && f > newest {
			newest = f
		}
	}
	return newest
}

// A server that hangs does what it was asked when it wakes, long after nobody waits for the answer.
func TestHang(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Default(t))
	j := &journal{}
	s := newSink(t, srv.Address)
	open(t, s)
	srv.Pause()
	began := time.Now()
	_, err := s.Publish(t.Context(), j.batch(1, 0, 5))
	if err == nil || !broken(err) {
		t.Fatal(err)
	}
	if took := time.Since(began); took < answerTimeout {
		t.Fatalf("gave up after %s", took)
	}
	srv.Resume()
	redistest.WaitFor(t, "the late request", func() bool { return srv.LastID("alerts") == "1-5" })
	if _, err := publishAgain(t, s, j.batch(1, 0, 5)); err != nil {
		t.Fatal(err)
	}
	stream(t, srv, "alerts", j, 1, 1, 5)
}

// What readers see of a failover that lost messages: one that keeps its own last id sees each once; a consumer group, whose
// place the failover took back, and a reader of a list see some again, with the same id.
func TestReaders(t *testing.T) {
	m, r := pair(t, redistest.Default(t))
	proxy, address := turn(t, m)
	j := &journal{}
	s := newSink(t, address)
	l := newSink(t, address, func(c *Config) { c.Name, c.List = "list", "list" })
	open(t, s)
	open(t, l)
	m.Must(t, "XGROUP", "CREATE", "alerts", "group", "0", "MKSTREAM")
	own, group, list := map[string]int{}, map[string]int{}, map[string]int{}
	from := "-"
	read := func(srv *redistest.Server) {
		got, err := srv.ReadStream("alerts", from)
		must(t, err)
		for _, e := range got {
			own[e.Fields["id"]]++
			from = "(" + e.ID
		}
		c := redis.NewClient(&redis.Options{Addr: srv.Address, DisableIdentity: true})
		defer func() { _ = c.Close() }()
		streams, err := c.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "group", Consumer: "c", Streams: []string{"alerts", ">"}, Block: -1, NoAck: true}).Result()
		if err != nil && !strings.Contains(err.Error(), "nil") {
			t.Fatal(err)
		}
		for _, part := range streams {
			for _, e := range part.Messages {
				id, _ := e.Values["id"].(string)
				group[id]++
			}
		}
		for {
			v := srv.Must(t, "LPOP", "list")
			if v == nil {
				return
			}
			text, _ := v.(string)
			list[text]++
		}
	}
	both := func(at uint64) {
		t.Helper()
		put(t, s, j.batch(1, at, 20))
		put(t, l, j.batch(1, at, 20))
	}
	both(0)
	read(m)
	r.CatchUp(t, m)
	r.Promote(t)
	both(20) // lost, and read before
	read(m)
	failOver(proxy, r)
	for _, k := range []*Sink{s, l} {
		if _, err := publishAgain(t, k, j.batch(1, 40, 1)); err == nil {
			t.Fatal("nothing was lost")
		}
	}
	both(20)
	both(40)
	read(r)
	for what, c := range map[string]struct {
		seen  map[string]int
		twice int
	}{"own last id": {own, 0}, "group": {group, 20}, "list": {list, 20}} {
		twice := 0
		for _, n := range c.seen {
			if n > 1 {
				twice++
			}
		}
		if len(c.seen) != 60 || twice != c.twice {
			t.Errorf("%s: %d messages, %d of them twice; want 60, %d", what, len(c.seen), twice, c.twice)
		}
	}
}
