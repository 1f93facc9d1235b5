package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// witnessKey is where a script has the client that looks at its topics: franz-go's, which has nothing in common with ours.
type witnessKey struct{}

// TestKafkaScripts runs the scripts of test/script/kafka on a broker in this process and on a real one. In a script $KAFKA is
// the broker, and $ID begins the names that nobody else uses.
func TestKafkaScripts(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		p := scripts(t, "../../test/script/kafka")
		inner := p.Setup
		p.Setup = func(env *testscript.Env) error {
			env.Setenv("KAFKA", c.Addresses[0])
			env.Setenv("ID", kafkatest.Unique("script"))
			env.Values[witnessKey{}] = c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			return inner(env)
		}
		maps.Copy(p.Cmds, map[string]func(*testscript.TestScript, bool, []string){
			"topic": makeTopic, "forget": forget, "drop": drop, "produce": produce, "consume": consume, "expand": expand,
			"leave": leave, "offsets": offsets, "put": put, "abort": abort,
		})
		testscript.Run(t, p)
	})
}

func witness(ts *testscript.TestScript) (context.Context, context.CancelFunc, *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	return ctx, cancel, ts.Value(witnessKey{}).(*kgo.Client)
}

// makeTopic makes a topic: topic NAME PARTITIONS [CONFIG=VALUE...].
func makeTopic(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: topic NAME PARTITIONS [CONFIG=VALUE...]")
	}
	partitions, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	settings := map[string]*string{}
	for _, s := range args[2:] {
		name, value, _ := strings.Cut(s, "=")
		settings[name] = &value
	}
	ctx, cancel, client := witness(ts)
	defer cancel()
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, int32(partitions), 1, settings, args[0])
	ts.Check(err)
	ts.Defer(func() { // the context of the script's command has ended
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = admin.DeleteTopic(ctx, args[0]) // the script may have deleted it
	})
	for {
		end, err := admin.ListEndOffsets(ctx, args[0])
		if err == nil && end.Error() == nil && len(end[args[0]]) == int(partitions) {
			return
		}
		ts.Check(ctx.Err())
		time.Sleep(10 * time.Millisecond)
	}
}

// forget deletes the records of a partition before an offset, as retention does: forget TOPIC PARTITION OFFSET.
func forget(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: forget TOPIC PARTITION OFFSET")
	}
	partition, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	offset, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	ctx, cancel, client := witness(ts)
	defer cancel()
	before := kadm.Offsets{}
	before.AddOffset(args[0], int32(partition), offset, -1)
	answers, err := kadm.NewClient(client).DeleteRecords(ctx, before)
	ts.Check(err)
	ts.Check(answers.Error())
}

// drop deletes a topic: drop NAME.
func drop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: drop NAME")
	}
	ctx, cancel, client := witness(ts)
	defer cancel()
	_, err := kadm.NewClient(client).DeleteTopic(ctx, args[0])
	ts.Check(err)
	client.PurgeTopicsFromClient(args[0]) // one that is made again has another id
}

// produce writes the lines of files to a partition, each as a record: produce TOPIC PARTITION FILE...
func produce(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: produce TOPIC PARTITION FILE...")
	}
	partition, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	var list []*kgo.Record
	for _, name := range args[2:] {
		for line := range strings.Lines(ts.ReadFile(name)) {
			list = append(list, &kgo.Record{Topic: args[0], Partition: int32(partition), Value: []byte(strings.TrimSuffix(line, "\n"))})
		}
	}
	ctx, cancel, client := witness(ts)
	defer cancel()
	ts.Check(client.ProduceSync(ctx, list...).FirstErr())
}

// consume waits until a topic has COUNT records that a reader of committed ones sees, and no transaction is open, and writes
// them to a file, partition by partition: consume TOPIC COUNT FILE. A line is the key, the header cepd-sequence, and the
// value.
func consume(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: consume TOPIC COUNT FILE")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	ctx, cancel, client := witness(ts)
	defer cancel()
	var list []*kgo.Record
	for len(list) < want || want == 0 {
		now, err := committed(ctx, client, args[0])
		if ctx.Err() != nil {
			ts.Logf("%v", err)
			break
		}
		ts.Check(err)
		if list = now; want == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	var b bytes.Buffer
	for _, r := range list {
		sequence := "-"
		for _, h := range r.Headers {
			if h.Key == "cepd-sequence" {
				sequence = string(h.Value)
			}
		}
		fmt.Fprintf(&b, "%s %s %s\n", r.Key, sequence, r.Value)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), b.Bytes(), 0o600))
	if len(list) != want {
		ts.Fatalf("%s holds %d records, not %d:\n%s", args[0], len(list), want, b.Bytes())
	}
}

// committed returns what a reader of committed records finds in a topic up to its end, once no transaction is open.
func committed(ctx context.Context, client *kgo.Client, topic string) ([]*kgo.Record, error) {
	admin := kadm.NewClient(client)
	ends := map[int32]int64{}
	for settled := false; !settled; {
		high, err := admin.ListEndOffsets(ctx, topic)
		if err == nil {
			err = high.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("end of %s: %w", topic, err)
		}
		time.Sleep(10 * time.Millisecond) // transactions end
		stable, err := admin.ListCommittedOffsets(ctx, topic)
		if err == nil {
			err = stable.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("stable end of %s: %w", topic, err)
		}
		settled = true
		for n, o := range high[topic] {
			s, ok := stable.Lookup(topic, n)
			if settled = settled && ok && s.Offset >= o.Offset; o.Offset > 0 {
				ends[n] = o.Offset
			}
		}
		if !settled && ctx.Err() != nil {
			return nil, fmt.Errorf("a transaction of %s is open: it ends at %v, and committed records at %v", topic, high[topic], stable[topic])
		}
	}
	from := map[int32]kgo.Offset{}
	for n := range ends {
		from[n] = kgo.NewOffset().At(0)
	}
	if len(from) == 0 {
		return nil, nil
	}
	reader, err := kgo.NewClient(append(client.Opts(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))...)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var list []*kgo.Record
	for len(ends) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				list = append(list, r)
			}
			if r.Offset >= ends[r.Partition]-1 {
				delete(ends, r.Partition)
			}
		})
	}
	slices.SortStableFunc(list, func(a, b *kgo.Record) int { return int(a.Partition) - int(b.Partition) })
	return list, nil
}

// expand puts the variables of the script into files: expand FILE...
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand FILE...")
	}
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(filepath.FromSlash(name)), []byte(text), 0o600))
	}
}
