package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// leave notes an offset of a partition in a group, as its members do: leave GROUP TOPIC PARTITION OFFSET.
func leave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: leave GROUP TOPIC PARTITION OFFSET")
	}
	partition, err := strconv.ParseInt(args[2], 10, 32)
	ts.Check(err)
	offset, err := strconv.ParseInt(args[3], 10, 64)
	ts.Check(err)
	ctx, cancel, client := witness(ts)
	defer cancel()
	at := kadm.Offsets{}
	at.AddOffset(args[1], int32(partition), offset, -1)
	ts.Check(kadm.NewClient(client).CommitAllOffsets(ctx, args[0], at))
}

// offsets writes what a group has noted to a file, a line for each partition: offsets GROUP FILE.
func offsets(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: offsets GROUP FILE")
	}
	ctx, cancel, client := witness(ts)
	defer cancel()
	at, err := kadm.NewClient(client).FetchOffsets(ctx, args[0])
	ts.Check(err)
	var lines []string
	at.Each(func(o kadm.OffsetResponse) {
		ts.Check(o.Err)
		lines = append(lines, fmt.Sprintf("%s/%d %d\n", o.Topic, o.Partition, o.At))
	})
	slices.Sort(lines)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(lines, "")), 0o600))
}

// put writes one record: put TOPIC PARTITION KEY VALUE [HEADER=VALUE...]. The value - is none.
func put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: put TOPIC PARTITION KEY VALUE [HEADER=VALUE...]")
	}
	partition, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	r := &kgo.Record{Topic: args[0], Partition: int32(partition), Key: []byte(args[2])}
	if args[3] != "-" {
		r.Value = []byte(args[3])
	}
	for _, h := range args[4:] {
		name, value, _ := strings.Cut(h, "=")
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	ctx, cancel, client := witness(ts)
	defer cancel()
	ts.Check(client.ProduceSync(ctx, r).FirstErr())
}

// abort writes the lines of a file to a partition in a transaction, which it aborts: abort TOPIC PARTITION FILE.
func abort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: abort TOPIC PARTITION FILE")
	}
	partition, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	ctx, cancel, client := witness(ts)
	defer cancel()
	writer, err := kgo.NewClient(append(client.Opts(), kgo.TransactionalID(args[0]+"-aborted"))...)
	ts.Check(err)
	defer writer.Close()
	ts.Check(writer.BeginTransaction())
	for line := range strings.Lines(ts.ReadFile(args[2])) {
		r := &kgo.Record{Topic: args[0], Partition: int32(partition), Value: []byte(strings.TrimSuffix(line, "\n"))}
		ts.Check(writer.ProduceSync(ctx, r).FirstErr())
	}
	ts.Check(writer.EndTransaction(context.WithoutCancel(ctx), kgo.TryAbort))
}
