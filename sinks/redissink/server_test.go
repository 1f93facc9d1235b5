package redissink

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink/redistest"
)

// refuses demands an error that stops, or one that may pass, and words in it.
func refuses(t testing.TB, err error, stops bool, words string) {
	t.Helper()
	if err == nil || errors.Is(err, sinks.ErrStop) != stops || !strings.Contains(err.Error(), words) || isAnswer(err) {
		t.Fatalf("%v (stops: %v), want one with %q (stops: %v)", err, errors.Is(err, sinks.ErrStop), words, stops)
	}
}

// What servers answer that cannot work, and whether it may pass.
func TestServerErrors(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		m, r := pair(t, p)
		j := &journal{}
		s := newSink(t, m.Address)
		open(t, s)
		put(t, s, j.batch(1, 0, 5))
		next := func() error {
			_, err := s.Publish(t.Context(), j.batch(1, 5, 1))
			return err
		}
		unchanged := func(what string) {
			t.Helper()
			if last := m.LastID("alerts"); last != "1-5" {
				t.Fatalf("%s: the last id is %s", what, last)
			}
		}

		// A replica whose master is away and that may not serve stale data.
		at := newSink(t, r.Address)
		at.checked, at.fence, at.owner = true, s.fence, s.owner
		r.Must(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
		r.Must(t, "REPLICAOF", "127.0.0.1", "1")
		_, err := at.Publish(t.Context(), j.batch(1, 5, 1))
		refuses(t, err, false, "MASTERDOWN")

		// Too few replicas for a write.
		m.Must(t, "CONFIG", "SET", "min-replicas-to-write", 1)
		if p.AtLeast(7, 0) { // 6.2 lets scripts write all the same
			refuses(t, next(), false, "NOREPLICAS")
			unchanged("NOREPLICAS")
		}
		m.Must(t, "CONFIG", "SET", "min-replicas-to-write", 0)

		// The disk refuses a snapshot.
		dir := filepath.Join(t.TempDir(), "gone")
		must(t, os.Mkdir(dir, 0o755))
		m.Must(t, "CONFIG", "SET", "dir", dir)
		m.Must(t, "CONFIG", "SET", "save", "3600 1")
		must(t, os.RemoveAll(dir))
		redistest.WaitFor(t, "the snapshot to fail", func() bool {
			_, _ = m.Do("BGSAVE") // refused while another child runs
			return m.Info(t, "persistence")["rdb_last_bgsave_status"] == "err"
		})
		refuses(t, next(), false, "MISCONF")
		unchanged("MISCONF")
		m.Must(t, "CONFIG", "SET", "save", "")

		// Memory.
		m.Must(t, "CONFIG", "SET", "maxmemory", "1mb")
		refuses(t, next(), false, "OOM")
		unchanged("OOM")
		_, err = newSink(t, m.Address).Open(t.Context())
		refuses(t, err, false, "OOM")
		m.Must(t, "CONFIG", "SET", "maxmemory", 0)

		// Everything has passed.
		if err := next(); err != nil {
			t.Fatal(err)
		}

		// Another type under the names.
		m.Must(t, "FLUSHALL")
		m.Must(t, "SET", "alerts", "x")
		_, err = newSink(t, m.Address).Open(t.Context())
		refuses(t, err, true, "WRONGTYPE")
		m.Must(t, "FLUSHALL")
		m.Must(t, "SET", s.position, "x")
		_, err = newSink(t, m.Address).Open(t.Context())
		refuses(t, err, true, "WRONGTYPE")
		m.Must(t, "FLUSHALL")
		list := newSink(t, m.Address, func(c *Config) { c.List = "list" })
		open(t, list)
		m.Must(t, "SET", "list", "x")
		_, err = list.Publish(t.Context(), j.batch(1, 0, 1))
		refuses(t, err, true, "WRONGTYPE")
		if got := m.Must(t, "HGET", list.position, "sequence"); got != "0" {
			t.Fatalf("the position moved to %v without a message", got)
		}

		// A position that somebody has written into.
		m.Must(t, "FLUSHALL")
		open(t, s)
		m.Must(t, "HSET", s.position, "chain", "short")
		_, err = s.Publish(t.Context(), j.batch(1, 0, 0))
		refuses(t, err, true, "field chain")
		m.Must(t, "DEL", s.position)

		// A database that is not there.
		_, err = newSink(t, m.Address, func(c *Config) { c.Database = 99 }).Open(t.Context())
		refuses(t, err, true, "DB index is out of range")
	})
}

// A server that loads its data, and one that runs somebody's long script.
func TestBusyServers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		j := &journal{}
		srv := redistest.Start(t, p, "--lua-time-limit", "50")
		s := newSink(t, srv.Address)
		open(t, s)
		c, err := redistest.Connect(srv.Address)
		must(t, err)
		defer func() { _ = c.Close() }()
		ended := make(chan error, 1)
		go func() {
			_, err := c.Do("EVAL", "while true do redis.call('TIME') end", 0)
			ended <- err
		}()
		var busy error
		redistest.WaitFor(t, "the server to be busy", func() bool {
			_, busy = s.Publish(t.Context(), j.batch(1, 0, 0))
			return busy != nil
		})
		refuses(t, busy, false, "BUSY")
		srv.Must(t, "SCRIPT", "KILL")
		if err := <-ended; err == nil {
			t.Error("the endless script ended by itself")
		}
		put(t, s, j.batch(1, 0, 3))
		if !p.AtLeast(7, 0) {
			return // 6.2 has no switch that makes loading slow
		}
		srv.Must(t, "CONFIG", "SET", "save", "3600 1")
		srv.Must(t, "EVAL", "for i = 1, 1000 do local v = '' for k = 1, 20 do v = v .. redis.sha1hex(i .. v) end redis.call('SET', 'k' .. i, v) end", 0)
		srv.Must(t, "SAVE")
		srv.Kill()
		srv.LaunchSlowly(t) // for 2 s: when dialling fails the library tries again each second only
		var loading error
		redistest.WaitFor(t, "the server to load", func() bool {
			_, loading = s.Publish(t.Context(), j.batch(1, 3, 1))
			return loading == nil || !broken(loading)
		})
		refuses(t, loading, false, "LOADING")
		redistest.WaitFor(t, "the server to have loaded", func() bool {
			_, err := s.Publish(t.Context(), j.batch(1, 3, 1))
			return err == nil
		})
		stream(t, srv, "alerts", j, 1, 1, 4)
	})
}

// A memory limit stops a batch whole or not at all, whatever is left.
func TestMemoryLimit(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		j := &journal{size: 5000}
		s := newSink(t, srv.Address)
		open(t, s)
		put(t, s, j.batch(1, 0, 1))
		used := func() int {
			n, _ := strconv.Atoi(srv.Info(t, "memory")["used_memory"])
			return n
		}
		base, at, refused, whole := used(), uint64(1), 0, 0
		for i := range 40 {
			srv.Must(t, "CONFIG", "SET", "maxmemory", base+i*50_000)
			_, err := s.Publish(t.Context(), j.batch(1, at, 50)) // 250 kB
			n, _ := srv.Must(t, "XLEN", "alerts").(int64)
			switch {
			case err != nil && strings.Contains(err.Error(), "OOM") && uint64(n) == at:
				refused++
			case err == nil && uint64(n) == at+50:
				whole++
				at += 50
				base = used()
			default:
				t.Fatalf("limit %d: %v, %d entries of %d or %d", i, err, n, at, at+50)
			}
		}
		if refused == 0 || whole == 0 {
			t.Fatalf("%d refused, %d whole: the test shows nothing", refused, whole)
		}
		srv.Must(t, "CONFIG", "SET", "maxmemory", 0)
		stream(t, srv, "alerts", j, 1, 1, at)
	})
}

// rights is the ACL rule of docs/redis.md, without a command.
func rights(p redistest.Program, without string) []any {
	l := []any{"ACL", "SETUSER", "cepd", "reset", "resetchannels", "on", ">secret", "~cepd:{alerts}:*", "~alerts", "&alerts"}
	for _, c := range commands(p) {
		if c != without {
			l = append(l, c)
		}
	}
	return l
}

func commands(p redistest.Program) []string {
	xinfo := "+xinfo|stream"
	if !p.AtLeast(7, 0) {
		xinfo = "+xinfo" // 6.2 knows no rights to a part of it
	}
	return []string{"+eval", "+evalsha", "+hmget", "+hset", xinfo, "+xadd", "+xtrim", "+publish", "+wait", "+info"}
}

// TestCloseBehindACut: the end of a context may cut a connection while the library closes it, which is no error of either.
func TestCloseBehindACut(t *testing.T) {
	srv := redistest.Start(t, redistest.Default(t))
	var conns connections
	n, err := conns.dial(t.Context(), "tcp", srv.Address, nil)
	must(t, err)
	conns.cut()
	if err := n.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := n.Write([]byte("PING\r\n")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is open: %v", err)
	}
}

// The documented rights are enough, and none of them can be left out.
func TestRights(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		j := &journal{}
		var log strings.Builder
		user := func(without string) *Sink {
			srv.Must(t, "FLUSHALL")
			srv.Must(t, "SCRIPT", "FLUSH")
			srv.Must(t, rights(p, without)...)
			log.Reset()
			return newSink(t, srv.Address, func(c *Config) {
				c.Username, c.Password, c.Channel, c.MaxLen, c.Replicas, c.ReplicaTimeout = "cepd", "secret", "alerts", 1000, 1, time.Millisecond
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
		}
		all := func(s *Sink) error {
			if _, err := s.Peek(t.Context()); err != nil {
				return err
			}
			at, err := s.Open(t.Context())
			if err != nil {
				return err
			}
			if at.Lineage == 0 {
				if err := s.Begin(t.Context(), j.at(1, 0)); err != nil {
					return err
				}
			}
			_, err = s.Publish(t.Context(), j.batch(1, 0, 3))
			return err
		}
		must(t, all(user("")))
		if strings.Contains(log.String(), "refused") {
			t.Fatal(log.String())
		}
		stream(t, srv, "alerts", j, 1, 1, 3)
		for _, c := range commands(p) {
			err := all(user(c))
			switch c {
			case "+xtrim", "+publish": // the messages stand, and it is logged
				if err != nil || !strings.Contains(log.String(), "refused to trim or publish") {
					t.Errorf("without %s: %v\n%s", c, err, log.String())
				}
				stream(t, srv, "alerts", j, 1, 1, 3)
			default:
				if err == nil || !errors.Is(err, sinks.ErrStop) {
					t.Errorf("without %s: %v", c, err)
				}
				if n, _ := srv.Must(t, "XLEN", "alerts").(int64); n != 0 && c != "+wait" {
					t.Errorf("without %s: %d entries", c, n)
				}
			}
		}
		// Another key than the granted ones.
		srv.Must(t, rights(p, "")...)
		_, err := newSink(t, srv.Address, func(c *Config) { c.Username, c.Password, c.Stream = "cepd", "secret", "other" }).Open(t.Context())
		refuses(t, err, true, "")

		// Passwords: wrong, changed in its file while the sink runs, none.
		_, err = newSink(t, srv.Address, func(c *Config) { c.Username, c.Password = "cepd", "wrong" }).Open(t.Context())
		refuses(t, err, true, "WRONGPASS")
		file := filepath.Join(t.TempDir(), "password")
		must(t, os.WriteFile(file, []byte("secret\n"), 0o600))
		s := newSink(t, srv.Address, func(c *Config) { c.Username, c.PasswordFile = "cepd", file })
		open(t, s)
		srv.Must(t, "ACL", "SETUSER", "cepd", "resetpass", ">changed")
		must(t, os.WriteFile(file, []byte("changed\n"), 0o600))
		s.client.conns.cut()
		if _, err := publishAgain(t, s, j.batch(1, 3, 0)); err != nil {
			if _, ok := errors.AsType[*sinks.StandsError](err); !ok {
				t.Fatalf("with a changed password: %v", err)
			}
		}
		must(t, os.Remove(file))
		s.client.conns.cut()
		for range 2 { // the first one finds the connection cut
			_, err = s.Publish(t.Context(), j.batch(1, 3, 0))
		}
		if err == nil || !strings.Contains(err.Error(), "read the password") {
			t.Fatalf("without the file of the password: %v", err)
		}
		srv.Must(t, "ACL", "SETUSER", "default", "off")
		_, err = newSink(t, srv.Address).Open(t.Context())
		refuses(t, err, true, "NOAUTH")
	})
}

// The rights for a list, and for a cluster.
func TestOtherRights(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		j := &journal{}
		srv.Must(t, "ACL", "SETUSER", "cepd", "reset", "resetchannels", "on", ">secret", "~cepd:{alerts}:*", "~alerts", "+eval", "+evalsha", "+hmget", "+hset", "+info", "+rpush", "+ltrim")
		var log strings.Builder
		s := newSink(t, srv.Address, func(c *Config) {
			c.List, c.MaxLen, c.Username, c.Password, c.Logger = "alerts", 2, "cepd", "secret", slog.New(slog.NewTextHandler(&log, nil))
		})
		open(t, s)
		put(t, s, j.batch(1, 0, 3))
		if n := srv.Must(t, "LLEN", "alerts"); n != int64(2) || strings.Contains(log.String(), "refused") {
			t.Fatalf("%v elements\n%s", n, log.String())
		}

		c := redistest.StartCluster(t, p, 3)
		slots := "+cluster|slots"
		if !p.AtLeast(7, 0) {
			slots = "+cluster"
		}
		for _, n := range c.Nodes {
			n.Must(t, append(rights(p, ""), slots)...)
		}
		clustered := newSink(t, "", func(cfg *Config) {
			cfg.Addresses, cfg.Cluster, cfg.Username, cfg.Password = c.Addresses(), true, "cepd", "secret"
		})
		open(t, clustered)
		put(t, clustered, j.batch(1, 0, 3))
		stream(t, c.Owner(t, "alerts"), "alerts", j, 1, 1, 3)
	})
}

// Servers that are refused at the start, and what is said about those that are not.
func TestStartChecks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		m, r := pair(t, p)
		_, err := newSink(t, r.Address).Open(t.Context())
		refuses(t, err, true, "is a replica of 127.0.0.1:")
		for _, policy := range []string{"allkeys-lru", "allkeys-random"} {
			m.Must(t, "CONFIG", "SET", "maxmemory", 1<<30)
			m.Must(t, "CONFIG", "SET", "maxmemory-policy", policy)
			_, err = newSink(t, m.Address).Open(t.Context())
			refuses(t, err, true, "set maxmemory-policy to noeviction")
			m.Must(t, "CONFIG", "SET", "maxmemory", 0) // without a limit nothing is evicted
			open(t, newSink(t, m.Address))
		}
		m.Must(t, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
		m.Must(t, "CONFIG", "SET", "maxmemory", 1<<30)
		open(t, newSink(t, m.Address))
		_, err = newSink(t, m.Address, func(c *Config) { c.Cluster = true }).Open(t.Context())
		refuses(t, err, true, "leave out `cluster: true`")
		n := redistest.Start(t, p, "--cluster-enabled", "yes")
		_, err = newSink(t, n.Address).Open(t.Context())
		refuses(t, err, true, "cluster: true")

		var log strings.Builder
		say := func(replicas int) string {
			log.Reset()
			open(t, newSink(t, m.Address, func(c *Config) {
				c.Logger, c.Replicas, c.ReplicaTimeout = slog.New(slog.NewTextHandler(&log, nil)), replicas, time.Millisecond
			}))
			return log.String()
		}
		if l := say(2); !strings.Contains(l, "appendonly yes") || !strings.Contains(l, "replicas=1 wanted=2") || !strings.Contains(l, p.Name+" "+p.Version) {
			t.Errorf("warnings: %s", l)
		}
		m.Must(t, "CONFIG", "SET", "appendonly", "yes")
		if l := say(1); strings.Contains(l, "WARN") {
			t.Errorf("warnings: %s", l)
		}
	})
}

// Facts that no server here shows.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		info   string
		config Config
		want   string
	}{
		{"redis_version:6.0.16\r\n", Config{}, "6.2 is the oldest"},
		{"redis_version:5.0.1\r\n", Config{}, "6.2 is the oldest"},
		{"redis_version:6.2.0\r\nredis_mode:standalone\r\nrole:master\r\n", Config{}, ""},
		{"redis_version:10.0.0\r\n", Config{}, ""},
		{"redis_mode:cluster\r\n", Config{Cluster: true}, ""},
		{"role:slave\r\n", Config{}, "is a replica"},
		{"role:slave\r\n", Config{Cluster: true}, ""},
		{"role:slave\r\n", Config{Sentinel: "m"}, ""},
		{"redis_mode:sentinel\r\n", Config{}, "is a sentinel"},
		{"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lfu\r\n", Config{}, ""},
		{"maxmemory:1\r\nmaxmemory_policy:allkeys-lfu\r\n", Config{}, "allkeys-lfu"},
		{"", Config{}, ""}, // a server that says nothing is taken: the script will show
	} {
		f := facts{}
		f.add(c.info)
		got := f.refusal(&c.config)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.info, got, c.want)
		}
	}
}

// Each error text finds its class, in a script's words too.
func TestClassify(t *testing.T) {
	for _, c := range classes {
		for _, text := range []string{c.text + " of the server", "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -" + c.text + " x"} {
			if got := classOf(redistest.Error(text)); got != classConnection {
				t.Fatal("an error of the test's own is taken for one of the library")
			}
			if got := classOf(fmt.Errorf("wrapped: %w", replyError(text))); got != c.class {
				t.Errorf("%q: class %d, want %d", text, got, c.class)
			}
		}
	}
	for _, c := range classes {
		if (c.class == classStop) != (c.advice != "") {
			t.Errorf("%s: class %d with the advice %q", c.text, c.class, c.advice)
		}
	}
	if got := classOf(replyError("ERR something new")); got != classAgain {
		t.Errorf("an unknown error: class %d", got)
	}
	if !slices.Equal([]class{classOf(net.ErrClosed), classOf(os.ErrDeadlineExceeded)}, []class{classConnection, classConnection}) {
		t.Error("a broken connection is none")
	}
}

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
