package redistest

import (
	"errors"
	"strings"
	"testing"
)

// A killed server comes back with what its settings keep, under the same address.
func TestRestart(t *testing.T) {
	Each(t, func(t *testing.T, p Program) {
		s := Start(t, p, "--appendonly", "yes", "--appendfsync", "always")
		s.Must(t, "SET", "a", "1")
		s.Kill()
		if _, err := s.Do("PING"); err == nil {
			t.Fatal("a killed server answers")
		}
		s.Restart(t)
		if got := s.Must(t, "GET", "a"); got != "1" {
			t.Fatalf("a is %v", got)
		}
		if got := s.Must(t, "GET", "b"); got != nil {
			t.Fatalf("b is %v", got)
		}
		_, err := s.Do("XADD", "a", "*", "b", "c")
		if e := Error(""); !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			t.Fatalf("XADD to a string: %v", err)
		}
	})
}

func TestReplica(t *testing.T) {
	p := Default(t)
	m, r := Start(t, p), Start(t, p)
	m.Must(t, "XADD", "s", "1-1", "f", "v")
	r.Follow(t, m)
	if got := r.Stream(t, "s"); len(got) != 1 || got[0].ID != "1-1" || got[0].Fields["f"] != "v" {
		t.Fatalf("the replica has %v", got)
	}
	if _, err := r.Do("SET", "a", "1"); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Fatalf("write at a replica: %v", err)
	}
	r.Promote(t)
	r.Must(t, "SET", "a", "1")
	if got := m.LastID("s"); got != "1-1" {
		t.Fatalf("last id %q", got)
	}
	if got := m.LastID("none"); got != "" {
		t.Fatalf("last id of nothing: %q", got)
	}
}

func TestClusterMoves(t *testing.T) {
	Each(t, func(t *testing.T, p Program) {
		c := StartCluster(t, p, 3)
		first := c.Owner(t, "k")
		first.Must(t, "SET", "k", "v")
		to := c.Nodes[0]
		if to == first {
			to = c.Nodes[1]
		}
		c.Move(t, "k", to, 0)
		if got := c.Owner(t, "k"); got != to {
			t.Fatal("the slot did not move")
		}
		if got := to.Must(t, "GET", "k"); got != "v" {
			t.Fatalf("k is %v", got)
		}
	})
}

func TestProxy(t *testing.T) {
	s := Start(t, Default(t))
	p := NewProxy(t, s.Address)
	call := func() error {
		c, err := Connect(p.Address())
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Do("eval", "return redis.call('INCR','n')", 0)
		return err
	}
	n := func() any { return s.Must(t, "GET", "n") }
	if err := call(); err != nil || n() != "1" {
		t.Fatal(err, n())
	}
	p.LoseAnswers(1)
	if err := call(); err == nil || n() != "2" {
		t.Fatal(err, n())
	}
	p.LoseRequests(1)
	if err := call(); err == nil || n() != "2" {
		t.Fatal(err, n())
	}
	p.Truncate(10)
	if err := call(); err == nil || n() != "2" {
		t.Fatal(err, n())
	}
	if err := call(); err != nil || n() != "3" || p.Calls() != 5 {
		t.Fatal(err, n(), p.Calls())
	}
}
