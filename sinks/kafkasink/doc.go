// Package kafkasink sends messages to a topic of Kafka, each exactly once for readers of committed records.
//
// A [Sink] is made of a [Config]. A batch is one transaction: its messages, in partitions by the key of the alert, and the
// position behind them, in a compacted topic beside. Opening takes the transactional id JOB/NAME over, which ends whatever a
// predecessor had under way, and then reads the position.
//
//	sink, err := kafkasink.New(kafkasink.Config{Job: "fraud", Name: "bus", Topic: "alerts", Cluster: cluster})
//	...
//	at, err := sink.Open(ctx)
//	err = sink.Begin(ctx, sinks.Progress{Lineage: 1})
//	ack, err := sink.Publish(ctx, sinks.Batch{Base: at, Messages: messages})
//
// # Concurrency
//
// A Sink belongs to one goroutine, but for Close. Any number of processes may open the same position: the last one wins, and
// the others are told so.
//
// # Cost
//
// A batch costs a request to each leader of a partition that it writes to, all at once, and one to the coordinator of the
// transaction: two round trips on a cluster with transactions of version 2, four before that. So does an empty batch, since
// only who writes is told that it is fenced.
//
// # Caveats
//
// Readers that do not ask for committed records see what was aborted too. docs/kafka.md says what readers find, what a user
// must be allowed to do, and what the cluster may lose.
package kafkasink
