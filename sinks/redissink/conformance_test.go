package redissink

import (
	"testing"
	"time"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/redissink/redistest"
	"github.com/cepd/cepd/sinks/sinktest"
)

// What package sinks promises, kept by a stream and by a list of every server.
func TestConformance(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		for _, kind := range []string{"stream", "list"} {
			t.Run(kind, func(t *testing.T) {
				sinktest.Run(t, sinktest.Subject{New: func(t *testing.T) sinktest.Destination {
					srv.Must(t, "FLUSHALL")
					return sinktest.Destination{
						Sink: func() sinks.Sink {
							return newSink(t, srv.Address, func(c *Config) {
								if kind == "list" {
									c.List = "alerts"
								}
							})
						},
						Bodies: func() []string { return bodies(t, srv, kind) },
					}
				}})
			})
		}
	})
}

func bodies(t *testing.T, srv *redistest.Server, kind string) []string {
	t.Helper()
	var l []string
	if kind == "list" {
		elements, _ := srv.Must(t, "LRANGE", "alerts", 0, -1).([]any)
		for _, e := range elements {
			text, _ := e.(string)
			l = append(l, text)
		}
		return l
	}
	for _, e := range srv.Stream(t, "alerts") {
		l = append(l, e.Fields["body"])
	}
	return l
}

// Without a position: at least once, in order, beside other writers.
func TestApart(t *testing.T) {
	redistest.Each(t, func(t *testing.T, p redistest.Program) {
		srv := redistest.Start(t, p)
		apart := func(c *Config) { c.Guarantee = sinks.AtLeastOnce }
		sinktest.Run(t, sinktest.Subject{Apart: true, Unfenced: true, New: func(t *testing.T) sinktest.Destination {
			srv.Must(t, "FLUSHALL")
			return sinktest.Destination{
				Sink:   func() sinks.Sink { return newSink(t, srv.Address, apart) },
				Bodies: func() []string { return bodies(t, srv, "stream") },
			}
		}})

		srv.Must(t, "FLUSHALL")
		srv.Must(t, "XADD", "alerts", "*", "a", "b")
		j := &journal{}
		s := newSink(t, srv.Address, apart, func(c *Config) { c.MaxAge = time.Hour })
		if at, err := s.Open(t.Context()); err != nil || at != (sinks.Progress{}) {
			t.Fatalf("a sink without a position stands at %v, %v", at, err)
		}
		put(t, s, j.batch(0, 0, 3))
		srv.Must(t, "XADD", "alerts", "*", "a", "b")
		put(t, s, j.batch(0, 3, 3))
		if n := len(srv.Stream(t, "alerts")); n != 8 {
			t.Fatalf("%d entries, want 8", n)
		}
		if n := srv.Must(t, "EXISTS", s.position); n != int64(0) {
			t.Fatal("it keeps a position all the same")
		}
		s.config.MaxAge = time.Nanosecond
		long := j.batch(0, 6, 1000)
		put(t, s, long)
		time.Sleep(2 * time.Millisecond)
		put(t, s, j.batch(0, 1006, 1))
		if n := len(srv.Stream(t, "alerts")); n > 200 {
			t.Fatalf("%d entries are kept that are older than a nanosecond", n)
		}
	})
}
