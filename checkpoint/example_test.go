package checkpoint_test

import (
	"context"
	"fmt"

	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/memstore"
)

// One epoch, from its barrier to its commit, and what the next process finds.
func Example() {
	ctx := context.Background()
	disk := memstore.NewDisk(memstore.Options{})
	store, err := disk.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	c := checkpoint.NewCoordinator(0, "engine", "sinks")
	e, err := c.Begin() // now the barrier is sent
	if err != nil {
		fmt.Println(err)
		return
	}
	engine := &checkpoint.Commit{Records: []checkpoint.Record{{Slot: 7, Key: []byte("user=alice"), Value: []byte("3 failures")}}}
	sinks := &checkpoint.Commit{Outbox: []checkpoint.Outgoing{{Sink: "out", Sequence: 1, Data: []byte("an alert")}}}
	for name, part := range map[string]*checkpoint.Commit{"engine": engine, "sinks": sinks} {
		if err := c.Vote(e, name, part); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(c.Phase())
	if err := store.Commit(ctx, c.Commit()); err != nil {
		fmt.Println(err) // the epoch stays prepared, and is written again
	}
	if err := c.Done(e); err != nil {
		fmt.Println(err)
	}

	disk.Crash()
	next, err := disk.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = next.Restore(ctx, e, func(r checkpoint.Record) error {
		fmt.Printf("%s: %s\n", r.Key, r.Value)
		return nil
	})
	fmt.Println(err)
	waiting, err := next.Outbox(ctx, "out", 1, 10, 1<<20)
	fmt.Println(len(waiting), err)
	// Output:
	// prepared
	// user=alice: 3 failures
	// <nil>
	// 1 <nil>
}
