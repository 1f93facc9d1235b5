package job_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/filesource"
	"github.com/cepd/cepd/checkpoint/memstore"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/sinks/memsink"
)

// A job reads a file, and another one goes on where it ended: no alert is missing, and none comes twice.
func Example() {
	dir, err := os.MkdirTemp("", "job")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "auth.jsonl")
	disk, server := memstore.NewDisk(memstore.Options{}), memsink.NewServer(memsink.Options{})

	write(path, `{"time":"2026-01-01T00:00:01Z","user":"ann","ok":false}`)
	run(path, disk, server)
	write(path, `{"time":"2026-01-01T00:00:02Z","user":"ann","ok":true}`)
	run(path, disk, server)
	run(path, disk, server)

	for _, m := range server.Messages() {
		fmt.Println(m.Sequence, m.Rule, m.Time)
	}
	// Output:
	// 1 guessed 2026-01-01T00:00:02Z
}

func run(path string, disk *memstore.Disk, server *memsink.Server) {
	set, err := rules.FromFiles([]rules.File{{Name: "rules.yaml", Rules: true, Data: []byte(`version: 1
rules:
- {id: guessed, from: auth, by: [user], within: 1m, sequence: [{step: wrong, where: not ok}, {step: right, where: ok}]}
`)}}, nil)
	if err != nil {
		panic(err)
	}
	partitions := source.NewPartitions("auth")
	files, err := filesource.NewFollower(filesource.FollowerConfig{Stream: "auth", Paths: []string{path}, Partitions: partitions, Finite: true})
	if err != nil {
		panic(err)
	}
	spec, err := codec.ParseTime("time")
	if err != nil {
		panic(err)
	}
	store, err := disk.Open()
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	j, err := job.New(ctx, job.Config{
		Name: "fraud", Rules: set, Store: store, Partitions: partitions, Once: true,
		Streams: []job.Stream{{Stream: engine.Stream{Name: "auth"}, Source: files, Time: spec}},
		Sinks:   []job.Sink{{Name: "out", Sink: server.Sink(), All: true}},
	})
	if err != nil {
		panic(err)
	}
	if err := j.Run(ctx); err != nil {
		panic(err)
	}
	if err := store.Close(); err != nil {
		panic(err)
	}
}

func write(path, line string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		panic(err)
	}
	if err := f.Close(); err != nil {
		panic(err)
	}
}
