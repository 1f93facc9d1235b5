package source_test

import (
	"fmt"
	"testing"

	"github.com/cepd/cepd/cep/source"
)

func Example() {
	parts := source.NewPartitions("auth", "web")
	p := parts.Get("web", "3")
	fmt.Println(p.Stream, p.Name, p.Order)
	// Output: web 3 1
}

func TestPartitionsAreOne(t *testing.T) {
	parts := source.NewPartitions("auth", "web")
	zero := parts.Get("auth", "0")
	if parts.Get("auth", "0") != zero {
		t.Error("two pointers for one partition")
	}
	if parts.Get("web", "0") == zero {
		t.Error("one pointer for two streams")
	}
	if parts.Get("mail", "0") != nil {
		t.Error("a partition of a stream that nobody configured")
	}
}
