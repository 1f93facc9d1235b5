package kafkawire

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// TopicID is what a topic is known by: a topic that is deleted and made again has another one (KIP-516).
type TopicID [16]byte

// String returns the id in hex.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// Topic is a topic as the cluster has it now.
type Topic struct {
	Name string
	ID   TopicID
	// Internal topics are Kafka's own.
	Internal bool
	// Partitions are in order of their numbers, from 0.
	Partitions []Partition
}

// Partition is who leads a partition.
type Partition struct {
	Number int32
	// Leader is a broker; -1: none now.
	Leader, LeaderEpoch int32
	Code                Code
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic/partition.
func (p TopicPartition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Topics returns all topics, by name. It asks once: who looks for topics now and then repeats by that, and can say what is wrong
// meanwhile. Metadata v12 (KIP-516 topic ids, KIP-320 leader epochs).
func (c *Client) Topics(ctx context.Context) ([]Topic, error) {
	m, err := c.metadata(ctx, nil)
	if err != nil {
		return nil, err
	}
	var topics []Topic
	for _, t := range m.topics {
		if t.code == codeNone {
			topics = append(topics, t.Topic)
		}
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics, nil
}

// Named returns the topics of these names by one request, in order of the names, and which names there are no topics of. What else
// is wrong with some is an error beside the others. It asks once, as Topics does. Metadata v12; it never creates a topic.
func (c *Client) Named(ctx context.Context, names []string) (topics []Topic, missing []string, err error) {
	if len(names) == 0 {
		return nil, nil, nil // an empty list would do, and the next reader would take it for all
	}
	m, err := c.metadata(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	answered := make(map[string]metadataTopic, len(m.topics))
	for _, t := range m.topics {
		answered[t.Name] = t
	}
	var errs []error
	for _, name := range names {
		t, ok := answered[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s: topic %s is not in the answer", apiMetadata.name, name))
		case t.code == CodeUnknownTopic:
			missing = append(missing, name)
		case t.code != codeNone:
			errs = append(errs, &BrokerError{API: apiMetadata.name + " " + name, Code: t.code})
		default:
			topics = append(topics, t.Topic)
		}
	}
	return topics, missing, errors.Join(errs...)
}

// Topic returns one topic; an error with CodeUnknownTopic where it does not exist. Metadata v12; it never creates the topic.
func (c *Client) Topic(ctx context.Context, name string) (Topic, error) {
	var t Topic
	err := c.retryFor(ctx, c.config.RetryFor, "topic "+name, func() (err error) {
		t, err = c.topic(ctx, name)
		return err
	}, func(err error) bool { return Retriable(err) && !errors.Is(err, CodeUnknownTopic) })
	return t, err
}

// topic asks once.
func (c *Client) topic(ctx context.Context, name string) (Topic, error) {
	m, err := c.metadata(ctx, []string{name})
	if err != nil {
		return Topic{}, err
	}
	if len(m.topics) != 1 || m.topics[0].Name != name {
		return Topic{}, fmt.Errorf("%s: %d topics in the answer to one", apiMetadata.name, len(m.topics))
	}
	t := m.topics[0]
	if t.code != codeNone {
		return Topic{}, &BrokerError{API: apiMetadata.name + " " + name, Code: t.code}
	}
	return t.Topic, nil
}

type metadata struct {
	controller int32
	topics     []metadataTopic
}

type metadataTopic struct {
	Topic
	code Code
}

// metadata asks for topics; nil: for all.
func (c *Client) metadata(ctx context.Context, names []string) (metadata, error) {
	var r request
	if names == nil {
		r.null()
	} else {
		r.list(len(names))
	}
	for _, name := range names {
		r.id(TopicID{})
		r.string(name)
		r.noTags()
	}
	r.boolean(false) // Nothing is created by looking.
	r.boolean(false)
	r.noTags()
	a, err := c.ask(ctx, anyBroker, apiMetadata, r.b, 0)
	if err != nil {
		return metadata{}, err
	}
	var m metadata
	a.i32() // throttle
	for n := a.length(); n > 0 && a.err == nil; n-- {
		a.i32() // broker
		a.string()
		a.i32()
		a.string() // rack
		a.tags()
	}
	a.string() // cluster
	m.controller = a.i32()
	for n := a.length(); n > 0 && a.err == nil; n-- {
		t := metadataTopic{code: Code(a.i16())}
		t.Name, t.ID, t.Internal = a.string(), a.id(), a.i8() != 0
		for n := a.length(); n > 0 && a.err == nil; n-- {
			p := Partition{Code: Code(a.i16()), Number: a.i32(), Leader: a.i32(), LeaderEpoch: a.i32()}
			a.skipInts() // replicas
			a.skipInts() // in sync
			a.skipInts() // offline
			a.tags()
			t.Partitions = append(t.Partitions, p)
		}
		a.i32() // operations
		a.tags()
		slices.SortFunc(t.Partitions, func(a, b Partition) int { return int(a.Number) - int(b.Number) })
		m.topics = append(m.topics, t)
	}
	a.tags()
	if a.err != nil {
		return metadata{}, fmt.Errorf("%s: %w", apiMetadata.name, a.err)
	}
	c.mu.Lock()
	for _, t := range m.topics {
		if t.code == codeNone {
			c.leaders[t.ID] = t.Topic
		}
	}
	c.mu.Unlock()
	return m, nil
}

// leader returns who leads a partition of a topic, which must still be the same one.
func (c *Client) leader(ctx context.Context, name string, id TopicID, partition int32) (Partition, error) {
	c.mu.Lock()
	t, ok := c.leaders[id]
	c.mu.Unlock()
	if !ok {
		var err error
		if t, err = c.topic(ctx, name); err != nil {
			return Partition{}, err
		}
		if t.ID != id {
			return Partition{}, &RecreatedError{name, id, t.ID}
		}
	}
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return Partition{}, &BrokerError{API: apiMetadata.name, Topic: name, Partition: partition, Code: CodeUnknownTopic, Text: fmt.Sprintf("the topic has %d partitions", len(t.Partitions))}
	}
	p := t.Partitions[partition]
	if p.Leader < 0 {
		c.forgetTopic(id)
		return p, &BrokerError{API: apiMetadata.name, Topic: name, Partition: partition, Code: CodeLeaderNotAvailable}
	}
	return p, nil
}

// forgetTopic makes the next leader ask again.
func (c *Client) forgetTopic(id TopicID) {
	c.mu.Lock()
	delete(c.leaders, id)
	c.mu.Unlock()
}

// NewTopic is a topic to be made.
type NewTopic struct {
	Name string
	// Partitions and Replicas: -1 is the cluster's default.
	Partitions int32
	Replicas   int16
	// Config are the topic's settings, by Kafka's names.
	Config map[string]string
}

// CreateTopic makes a topic and returns it once it can be used; an error with CodeTopicExists where it is there.
// CreateTopics v7 (KIP-464 defaults by -1, KIP-516 ids).
func (c *Client) CreateTopic(ctx context.Context, n NewTopic) (Topic, error) {
	var r request
	r.list(1)
	r.string(n.Name)
	r.i32(n.Partitions)
	r.i16(n.Replicas)
	r.list(0) // assignments
	r.list(len(n.Config))
	for _, k := range sortedKeys(n.Config) {
		r.string(k)
		r.string(n.Config[k])
		r.noTags()
	}
	r.noTags()
	r.i32(int32(c.config.RequestTimeout.Milliseconds()))
	r.boolean(false)
	r.noTags()
	sent := false
	err := c.retry(ctx, "create topic "+n.Name, func() error {
		m, err := c.metadata(ctx, []string{n.Name})
		if err != nil {
			return err
		}
		a, err := c.ask(ctx, m.controller, apiCreateTopics, r.b, c.config.RequestTimeout)
		if err != nil {
			sent = true
			return err
		}
		a.i32() // throttle
		if a.length() != 1 {
			return fmt.Errorf("%s: %w", apiCreateTopics.name, errLong)
		}
		name := a.string()
		a.id()
		code, text := Code(a.i16()), a.string()
		if a.err != nil {
			return fmt.Errorf("%s: %w", apiCreateTopics.name, a.err)
		}
		if code == CodeTopicExists && sent {
			return nil // An answer was lost: it is ours, or as good.
		}
		if code != codeNone {
			return &BrokerError{API: apiCreateTopics.name + " " + name, Code: code, Text: text}
		}
		return nil
	})
	if err != nil {
		return Topic{}, err
	}
	var t Topic
	// Brokers hear of it one after the other.
	err = c.retry(ctx, "new topic "+n.Name, func() error {
		if t, err = c.topic(ctx, n.Name); err != nil {
			return err
		}
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				return &BrokerError{API: apiMetadata.name, Topic: n.Name, Partition: p.Number, Code: CodeLeaderNotAvailable}
			}
		}
		return nil
	})
	return t, err
}

// TopicConfig returns settings of a topic by Kafka's names, defaults included. DescribeConfigs v4 (KIP-133).
func (c *Client) TopicConfig(ctx context.Context, topic string, names ...string) (map[string]string, error) {
	var r request
	r.list(1)
	r.i8(2) // a topic
	r.string(topic)
	r.list(len(names))
	for _, n := range names {
		r.string(n)
	}
	r.noTags()
	r.boolean(false)
	r.boolean(false)
	r.noTags()
	var config map[string]string
	err := c.retry(ctx, "config of "+topic, func() error {
		a, err := c.ask(ctx, anyBroker, apiDescribe, r.b, 0)
		if err != nil {
			return err
		}
		a.i32() // throttle
		if a.length() != 1 {
			return fmt.Errorf("%s: %w", apiDescribe.name, errLong)
		}
		code, text := Code(a.i16()), a.string()
		a.i8()
		a.string()
		config = map[string]string{}
		for n := a.length(); n > 0 && a.err == nil; n-- {
			name := a.string()
			config[name] = a.string()
			a.i8() // read only
			a.i8() // where from
			a.i8() // sensitive
			for n := a.length(); n > 0 && a.err == nil; n-- {
				a.string()
				a.string()
				a.i8()
				a.tags()
			}
			a.i8()
			a.string()
			a.tags()
		}
		if code != codeNone {
			return &BrokerError{API: apiDescribe.name + " " + topic, Code: code, Text: text}
		}
		return a.err
	})
	return config, err
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// milliseconds is a duration as the protocol has it.
func milliseconds(d time.Duration) int32 { return int32(d.Milliseconds()) }
