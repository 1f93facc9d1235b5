package watch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cepd/cepd/rules/watch"
)

func Example() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	seen := 0
	_ = watch.Watch(ctx, []string{dir}, watch.Options{Debounce: time.Millisecond}, func() {
		seen++
		switch seen {
		case 1:
			fmt.Println("what there is")
			_ = os.WriteFile(filepath.Join(dir, "ssh.yaml"), []byte("version: 1\n"), 0o600)
		case 2:
			fmt.Println("a rule file was written")
			cancel()
		}
	})
	// Output:
	// what there is
	// a rule file was written
}
