package kafkatest

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestBorrow: a process that is lent a broker comes in by every way; one that is told why there is none starts its own.
func TestBorrow(t *testing.T) {
	c := Shared(t)
	dir := c.Broker.Dir
	if err := (lent{Kafka: c.Broker.Kafka, Ports: c.Broker.nodes[0].ports}).write(dir); err != nil {
		t.Fatal(err)
	}
	borrowed, err := borrow(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(borrowed.Addresses, c.Addresses) || !borrowed.Real() || len(borrowed.Endpoints) != len(c.Endpoints) {
		t.Errorf("borrowed %+v, not %+v", borrowed, c)
	}
	topic := borrowed.Topic(t, 1)
	for _, e := range borrowed.Endpoints {
		as := *borrowed
		as.Endpoints = []Endpoint{e}
		if err := as.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(e.Name)}).FirstErr(); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	for _, told := range []lent{{Error: "no Java"}, {Ports: []int{1, 2, 3, 4, 5, 6}}} {
		none := t.TempDir()
		if _, err := makePapers(none); err != nil {
			t.Fatal(err)
		}
		if err := told.write(none); err != nil {
			t.Fatal(err)
		}
		if c, err := borrow(none); err == nil {
			t.Errorf("%+v lends %v", told, c.Addresses)
		}
	}
}
