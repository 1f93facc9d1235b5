package boltstore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
)

// An epoch, and what the next process finds.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "state-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := boltstore.Open(ctx, dir, boltstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = store.Commit(ctx, &checkpoint.Commit{
		Manifest: checkpoint.Manifest{Epoch: 1, Job: "fraud"},
		Records:  []checkpoint.Record{{Slot: 7, Key: []byte("user=alice"), Value: []byte("3 failures")}},
	})
	fmt.Println("committed", err)
	fmt.Println("closed", store.Close())

	store, err = boltstore.Open(ctx, dir, boltstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Restore(ctx, 1, func(r checkpoint.Record) error {
		fmt.Printf("%s: %s\n", r.Key, r.Value)
		return nil
	})
	fmt.Println("restored", err)
	fmt.Println("sound", store.Check(ctx), store.Close())
	// Output:
	// committed <nil>
	// closed <nil>
	// user=alice: 3 failures
	// restored <nil>
	// sound <nil> <nil>
}
