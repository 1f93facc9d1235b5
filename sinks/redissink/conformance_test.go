package redissink

import (
	"testing"

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
