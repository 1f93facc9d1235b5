package kafkawire_test

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cepd/cepd/internal/kafkawire"
)

// A transaction writes a record and the position behind it; a cursor reads the record.
func Example() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	ctx, stop := context.WithCancel(context.Background())

	client, err := kafkawire.NewClient(kafkawire.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	alerts, err := client.CreateTopic(ctx, kafkawire.NewTopic{Name: "alerts", Partitions: 1, Replicas: 1})
	if err != nil {
		log.Fatal(err)
	}
	positions, err := client.CreateTopic(ctx, kafkawire.NewTopic{
		Name: "positions", Partitions: 1, Replicas: 1, Config: map[string]string{"cleanup.policy": "compact"},
	})
	if err != nil {
		log.Fatal(err)
	}

	producer, err := client.NewProducer(kafkawire.ProducerConfig{ID: "fraud/bus", Progress: positions})
	if err != nil {
		log.Fatal(err)
	}
	position, err := producer.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("opened at %q\n", position)
	err = producer.Transact(ctx, []byte("1"), []kafkawire.PartitionBatch{
		{Topic: alerts, Records: []kafkawire.Record{{Key: []byte("u1"), Value: []byte("too many failures")}}},
	})
	if err != nil { // Recover says whether it is there all the same.
		log.Fatal(err)
	}
	if position, err = producer.Recover(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("stands at %q\n", position)

	fetcher := client.NewFetcher(kafkawire.FetcherConfig{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = fetcher.Run(ctx)
	}()
	cursor, err := fetcher.Open(alerts, 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	for n := 0; n == 0; {
		records, err := cursor.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range records {
			fmt.Printf("%d %s: %s\n", r.Offset, r.Key, r.Value)
		}
		n = len(records)
	}
	stop()
	<-done
	// Output:
	// opened at ""
	// stands at "1"
	// 0 u1: too many failures
}
