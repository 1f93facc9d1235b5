package sinks_test

import (
	"context"
	"fmt"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
	"github.com/cepd/cepd/sinks/sinktest"
)

func Example() {
	server := memsink.NewServer(memsink.Options{})
	outbox := &sinktest.Outbox{} // a job has one in its store

	p := sinks.NewPublisher(sinks.PublisherConfig{Name: "out", Sink: server.Sink(), Outbox: outbox})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := p.Open(ctx); err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()

	outbox.Commit(sinktest.Messages(outbox.Range().Last, 2, "example")...)
	p.Wake()
	if err := p.Drained(ctx); err != nil {
		fmt.Println(err)
	}
	cancel()
	fmt.Println(<-ended)
	fmt.Println(server.Bodies())
	at, _ := server.At()
	fmt.Println("lineage", at.Lineage, "sequence", at.Sequence)
	// Output:
	// context canceled
	// [{"n":1,"salt":"example"} {"n":2,"salt":"example"}]
	// lineage 1 sequence 2
}
