package memsink_test

import (
	"testing"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
	"github.com/cepd/cepd/sinks/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Subject{New: func(*testing.T) sinktest.Destination {
		server := memsink.NewServer(memsink.Options{})
		return sinktest.Destination{
			Sink:   func() sinks.Sink { return server.Sink() },
			Bodies: server.Bodies,
		}
	}})
}
