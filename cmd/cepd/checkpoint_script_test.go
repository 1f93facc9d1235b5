package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
)

// checkpoints makes what the commands about checkpoints read, without a job:
//
//	checkpoints make DIR EPOCHS     a store with so many epochs
//	checkpoints spoil DIR EPOCH     flips a bit in what an epoch changed
//	checkpoints hold DIR            opens it until the script ends
func checkpoints(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: checkpoints make|spoil|hold DIR [N]")
	}
	dir, n := ts.MkAbs(args[1]), uint64(0)
	if len(args) > 2 {
		var err error
		n, err = strconv.ParseUint(args[2], 10, 64)
		ts.Check(err)
	}
	switch args[0] {
	case "make":
		ts.Check(makeCheckpoints(dir, n))
	case "spoil":
		ts.Check(spoilCheckpoint(dir, cep.Epoch(n)))
	case "hold":
		s, err := boltstore.Open(context.Background(), dir, boltstore.Options{})
		ts.Check(err)
		ts.Defer(func() { ts.Check(s.Close()) })
	default:
		ts.Fatalf("unknown: checkpoints %s", args[0])
	}
}

// makeCheckpoints commits epochs with two records, of which one is text, and a message each.
func makeCheckpoints(dir string, n uint64) error {
	ctx := context.Background()
	s, err := boltstore.Open(ctx, dir, boltstore.Options{})
	if err != nil {
		return err
	}
	rule := []byte("id: one\n")
	for e := uint64(1); e <= n && err == nil; e++ {
		err = s.Commit(ctx, &checkpoint.Commit{
			Manifest: checkpoint.Manifest{
				Epoch: cep.Epoch(e), Job: "fraud", Created: time.Now(),
				Rules: []checkpoint.RuleSet{{ID: "0123456789abcdef", Files: []checkpoint.RuleFile{{Name: "one.yaml", Hash: checkpoint.BlobHash(rule), Rules: true}}}},
				Sources: []checkpoint.SourcePosition{
					{Stream: "auth", Partition: "p0", From: int64(1000 * e), Read: int64(1500 * e)},
					{Stream: "auth", Partition: "p1", From: 77, Read: 77, Ended: true},
				},
				Sinks:  []checkpoint.SinkPosition{{Name: "out", Lineage: 1, Sequence: e, Chain: "c0ffee", Published: e - 1}},
				Engine: []byte(`{"clock":1}`),
			},
			Records: []checkpoint.Record{
				{Slot: uint8(e), Key: []byte("user=alice"), Value: fmt.Appendf(nil, "epoch %d", e)},
				{Slot: 200, Key: []byte{0, 1}, Value: bytes.Repeat([]byte{0xff}, 40)},
			},
			Outbox: []checkpoint.Outgoing{{Sink: "out", Sequence: e, Data: fmt.Appendf(nil, "alert %d", e)}},
			Forget: map[string]uint64{"out": (e - 1) / 2},
			Blobs:  []checkpoint.Blob{{Hash: checkpoint.BlobHash(rule), Data: rule}},
		})
	}
	if err == nil {
		err = s.Note(ctx, "sink/out", []byte("lineage 1"))
	}
	return errors.Join(err, s.Close())
}

// spoilCheckpoint flips a bit in the value "epoch N" wherever it stands: the file may hold older copies of a page.
func spoilCheckpoint(dir string, e cep.Epoch) error {
	name := filepath.Join(dir, boltstore.FileName)
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	// The record as a segment holds it: lengths of key and value, key, value.
	text := fmt.Sprintf("epoch %d", e)
	record := append(binary.AppendUvarint([]byte{10}, uint64(len(text))+1), "user=alice"+text...)
	spoilt := bytes.ReplaceAll(data, record, append(bytes.Clone(record[:len(record)-len(text)]), "EPOCH"+text[5:]...))
	if bytes.Equal(spoilt, data) {
		return errors.New("there is nothing to spoil")
	}
	return os.WriteFile(name, spoilt, 0o600)
}
