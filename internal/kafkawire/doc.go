// Package kafkawire speaks to Kafka what kafka-go does not: reads that hide aborted records, transactions that survive lost
// answers, and the versions of the protocol in which both can be done right.
//
// A [Client] is one cluster: it knows topics, offsets and groups. A [Fetcher] reads partitions, each through a [Cursor] that
// returns the records a read_committed consumer may see. A [Producer] writes records and a position in one transaction, and
// says after any failure which position stands.
//
//	client, err := kafkawire.NewClient(kafkawire.Config{Brokers: []string{"127.0.0.1:9092"}})
//	topic, err := client.Topic(ctx, "orders")
//	fetcher := client.NewFetcher(kafkawire.FetcherConfig{})
//	go fetcher.Run(ctx) // until ctx ends
//	cursor, err := fetcher.Open(topic, 0, offset)
//	for {
//		records, err := cursor.Next(ctx) // valid until the next Next
//		...
//	}
//
// Connections, TLS and SASL are those of a kafka-go Transport, which lends them through [protocol.RawExchanger]. The bytes of
// every request are our own: docs/kafka-protocol.md has the table of versions and the facts that were measured.
//
// # Concurrency
//
// A Client and a Fetcher may be shared. A Cursor belongs to one goroutine, and so does a Producer.
//
// # Cost
//
// A batch is decoded when its records are asked for, in the goroutine that asks; what is buffered is as compressed as it came.
// At most one answer of each partition waits.
//
// # Caveats
//
// Kafka 3.1 is the oldest broker that knows what is asked here: it is where reading by a topic's id began. Formats of records
// before version 2 (Kafka 0.11) are refused.
package kafkawire
