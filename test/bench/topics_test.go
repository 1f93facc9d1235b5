package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Run(m)) }

// BenchmarkTopicToTopic runs the real program from a topic of three partitions to another one, over events of 100 bytes of which
// every twentieth ends a match: epochs, transactions and the position included, from the start of the process to its end.
func BenchmarkTopicToTopic(b *testing.B) {
	const events, users = 300_000, 2_000
	c := kafkatest.Start(b, kafkatest.Options{HeapMiB: 1024, Compilers: true})
	dir := b.TempDir()
	program := filepath.Join(dir, "cepd")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/cepd/cepd/cmd/cepd").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	in := c.Topic(b, 3)
	client := c.Client(b, kgo.DefaultProduceTopic(in), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	for i := range events {
		kind := "fail"
		if i/users%20 == 19 {
			kind = "ok"
		}
		value := fmt.Appendf(nil, `{"t":%d,"kind":%q,"user":"u%d","ip":"10.0.%d.%d","path":"/login","agent":"curl/8.5.0"}`, 900_000_000_000+i, kind, i%users, i%200, i%97)
		client.Produce(b.Context(), &kgo.Record{Value: value, Partition: int32(i % users % 3)}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "rules"), 0o755); err != nil {
		b.Fatal(err)
	}
	rule := "version: 1\nrules:\n- {id: brute, from: auth, by: [user], within: 1m, sequence: [{step: fail, where: kind == \"fail\", times: 3..}, {step: ok, where: kind == \"ok\"}], alert: {fields: {n: len(fail)}, include_events: none}}\n"
	if err := os.WriteFile(filepath.Join(dir, "rules", "rules.yaml"), []byte(rule), 0o600); err != nil {
		b.Fatal(err)
	}
	var processor time.Duration
	alerts := 0
	for b.Loop() {
		b.StopTimer()
		out, positions := c.Topic(b, 3), c.Topic(b, 1, "cleanup.policy", "compact")
		state := filepath.Join(dir, out)
		config := fmt.Sprintf(`version: 1
job: %s
rules: [%s/rules]
streams: {auth: {source: {kafka: {brokers: %[3]q, topics: %[4]s}}, time: "t,unix_ms", lateness: 1s, idle: never, max_ahead: 0s}}
sinks: {bus: {kafka: {brokers: %[3]q, topic: %[1]s, progress_topic: %[5]s}}}
checkpoint: {path: %[6]s, interval: 1s}
http: {listen: off}
`, out, dir, c.Addresses[0], in, positions, state)
		file := filepath.Join(dir, out+".yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		cmd := exec.CommandContext(context.Background(), program, "run", "-c", file, "--once")
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			b.Fatalf("%v\n%s", err, said.Bytes())
		}
		b.StopTimer()
		processor += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		w := kafkatest.NewWitness(b, c, out)
		w.Settle(b)
		if alerts = w.Count(out); alerts == 0 {
			b.Fatal("no alerts")
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.N)*events/processor.Seconds(), "events/cpu-s")
	b.ReportMetric(float64(alerts), "alerts")
}
