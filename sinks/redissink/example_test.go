package redissink_test

import (
	"fmt"

	"github.com/cepd/cepd/sinks/redissink"
)

// New says everything that is wrong at once, before anything is connected to.
func ExampleNew() {
	_, err := redissink.New(redissink.Config{
		Job: "fraud", Name: "bus", Addresses: []string{"127.0.0.1:6379", "127.0.0.1:6380"}, Stream: "alerts}",
	})
	fmt.Println(err)
	// Output:
	// redis sink: the sink stops: addresses: more than one is for a cluster or for sentinels; say which
	// key "alerts}": has braces that are no hash tag; write {tag} around a part of the name, or leave them out
}
