package eventlog_test

import (
	"context"
	"fmt"
	"os"

	"github.com/cepd/cepd/cep/source/eventlog"
)

func Example() {
	dir, err := os.MkdirTemp("", "log")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log, err := eventlog.Open(eventlog.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = log.Close() }()
	for range 2 {
		a, err := log.Append(context.Background(), []eventlog.Event{
			{Data: []byte(`{"user":"root"}`), ID: "7f3a"}, {Data: []byte(`{"user":"guest"}`)},
		})
		fmt.Println(a.Accepted, a.Duplicates, err)
	}
	// Output:
	// 2 0 <nil>
	// 1 1 <nil>
}
