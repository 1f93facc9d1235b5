package kafkasink_test

import (
	"fmt"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/sinks/kafkasink"
)

// New says everything that is wrong at once, before anything is connected to.
func ExampleNew() {
	_, err := kafkasink.New(kafkasink.Config{
		Job: "fraud", Name: "bus", Topic: "all alerts", Partitions: 3, Cluster: kafkawire.Config{Brokers: []string{"127.0.0.1:9092"}},
	})
	fmt.Println(err)
	// Output:
	// kafka sink: the sink stops: topic "all alerts": must be 1 to 249 letters, digits, dots, underscores and hyphens
	// partitions and replicas are those of a topic that is made; say that topics are to be made, or leave them out
}
