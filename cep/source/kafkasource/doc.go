// Package kafkasource reads topics of Kafka.
//
// A [Source] finds the partitions of a stream, those that appear later too, and reads each through a [Reader]; all of them
// share one fetcher, which asks each broker for many partitions at a time. [Open] gives the readers of a recording: a range of
// what is there now.
//
//	from, err := kafkasource.New(kafkasource.Config{
//		Stream: "orders", Partitions: partitions, Topics: []string{"orders"},
//		Kafka: kafkawire.Config{Brokers: []string{"127.0.0.1:9092"}},
//	})
//	err = from.Watch(ctx, nil, discovery) // tells discovery of orders/0, orders/1, ...
//
// # Meaning
//
// A partition is named TOPIC/NUMBER, and its offsets are Kafka's. Partitions are assigned by the configuration, never by a
// group: the state of rules does not move with partitions. A group is only read from on a first start, and told how far the job
// is, for tools that show lag; that others are members of it changes nothing.
//
// Only what a read_committed consumer may see is an event. A record with a null value, a tombstone, has no Data. Places
// behind the last record that hold nothing for anybody, such as the markers of transactions, come as records with Nothing.
//
// A broker that is away is trouble, which ends by itself. A position that is not in the log any more, and a topic that was
// deleted and made again, are the end of Watch: no waiting brings back what was there.
//
// # Concurrency
//
// Watch runs in one goroutine, and each Reader belongs to one. The fetcher has goroutines of its own, which Close waits for.
//
// # Cost
//
// What waits to be decoded is as compressed as it came: 64 MiB a source, and one answer more for each partition that somebody
// waits for. A record is lent, and costs no allocation.
//
// # Caveats
//
// Kafka 3.1 is the oldest broker that is understood.
package kafkasource
