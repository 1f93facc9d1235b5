package filesource_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
)

// BenchmarkRead reads lines of 185 bytes from a file in memory, for each way of reading; B/op is the line.
func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "lines")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	const lines = 500_000
	for i := range lines {
		if _, err := fmt.Fprintf(f, "{\"n\":%07d,\"pad\":%q}\n", i, strings.Repeat("x", 160)); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	for name, open := range map[string]func() (source.Reader, error){
		"replay": func() (source.Reader, error) { return one(config(path)) },
		"job": func() (source.Reader, error) {
			f, err := filesource.NewFollower(filesource.FollowerConfig{Stream: "s", Partitions: source.NewPartitions("s"), Paths: []string{path}, Finite: true})
			if err != nil {
				return nil, err
			}
			w := &watching{paused: true, at: map[string]int64{}, ended: map[string]bool{}}
			if err := f.Watch(context.Background(), nil, w); err != nil {
				return nil, err
			}
			return w.found[0], nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			r, err := open()
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				rec, err := r.Next(ctx)
				if errors.Is(err, io.EOF) {
					err = r.SeekTo(0)
				}
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(max(185, int64(len(rec.Data))))
			}
		})
	}
}
