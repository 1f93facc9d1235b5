package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/sinks"
)

// progressPartition is the partition of the progress topic that positions stand in: the only one of a topic that is made here.
const progressPartition = 0

// progressConfig is that of a progress topic which is made here. Opening reads it from its beginning, so it is kept short:
// compaction leaves the newest segment alone, and after it one record for each sink and the markers of transactions that are
// younger than delete.retention.ms. A sink that publishes 100 times a second fills a segment of 16 MiB in ten minutes.
var progressConfig = map[string]string{
	"cleanup.policy": "compact", "segment.bytes": "16777216", "segment.ms": "3600000",
	"min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "600000",
}

// messageMaxDefault is Kafka's default of max.message.bytes, for a user who may not ask for it.
const messageMaxDefault = 1048588

// find looks up what messages are written to.
func (s *Sink) find(ctx context.Context) error {
	t, limit, err := s.findTopic(ctx, s.config.Topic)
	if err != nil {
		return err
	}
	letters := t
	if name := s.config.LettersTopic; name != "" && name != t.Name {
		var least int
		if letters, least, err = s.findTopic(ctx, name); err != nil {
			return err
		}
		limit = min(limit, least)
	}
	s.topic, s.letters, s.messageMax, s.known = t, letters, limit, true
	return nil
}

// findTopic looks up a topic of messages, and how large a batch of records in it may be.
func (s *Sink) findTopic(ctx context.Context, name string) (t kafkawire.Topic, limit int, err error) {
	t, err = s.lookUp(ctx, kafkawire.NewTopic{Name: name, Partitions: or(s.config.Partitions), Replicas: or(s.config.Replicas)})
	if err != nil {
		return t, 0, err
	}
	limit, err = s.limit(ctx, name)
	return t, limit, err
}

// findProgress looks up the progress topic, and makes the producer that writes the position there.
func (s *Sink) findProgress(ctx context.Context) error {
	name := s.config.ProgressTopic
	t, err := s.lookUp(ctx, kafkawire.NewTopic{Name: name, Partitions: 1, Replicas: or(s.config.Replicas), Config: progressConfig})
	if err != nil {
		return err
	}
	topics := [...]kafkawire.TopicID{t.ID, s.topic.ID, s.letters.ID}
	if s.producer != nil && s.topics == topics {
		return nil
	}
	if err := s.compacted(ctx, name); err != nil {
		return err
	}
	p, err := s.client.NewProducer(kafkawire.ProducerConfig{
		ID: s.id, Timeout: s.config.TransactionTimeout, Progress: t, ProgressPartition: progressPartition, Outputs: s.outputs(), BatchBytes: s.batchBytes(),
	})
	if err != nil {
		return fmt.Errorf("%w: %w", sinks.ErrStop, err)
	}
	s.producer, s.topics = p, topics
	return nil
}

// compacted makes sure that the progress topic keeps the newest position of each sink.
func (s *Sink) compacted(ctx context.Context, name string) error {
	config, err := s.client.TopicConfig(ctx, name, "cleanup.policy")
	switch {
	case errors.Is(err, kafkawire.CodeTopicAuthorization):
		s.log.Warn("whether the progress topic is compacted cannot be checked: the user may not describe its configuration", "topic", name)
	case err != nil:
		return err
	case config["cleanup.policy"] != "compact":
		return fmt.Errorf("%w: topic %s has cleanup.policy=%s, and would lose positions: set it to compact, or choose another progress topic",
			sinks.ErrStop, name, config["cleanup.policy"])
	}
	return nil
}

// outputs are the topics of messages.
func (s *Sink) outputs() []kafkawire.Topic {
	if s.letters.Name == s.topic.Name {
		return []kafkawire.Topic{s.topic}
	}
	return []kafkawire.Topic{s.topic, s.letters}
}

// limit returns how large a batch of records in a topic may be.
func (s *Sink) limit(ctx context.Context, topic string) (int, error) {
	config, err := s.client.TopicConfig(ctx, topic, "max.message.bytes")
	if errors.Is(err, kafkawire.CodeTopicAuthorization) {
		return messageMaxDefault, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(config["max.message.bytes"])
	if err != nil {
		return messageMaxDefault, nil //nolint:nilerr // A cluster that does not tell has a limit all the same.
	}
	return n, nil
}

// batchBytes bounds a batch: what each topic takes, and no more than keeps requests small beside those of others.
func (s *Sink) batchBytes() int { return min(s.messageMax, sinks.BytesMax) }

// topicPatience is how long a topic may be unknown before it is believed: brokers hear of a new one from the controller,
// within a second unless they are very busy.
const topicPatience = time.Second

// lookUp returns a topic, which is made where that is wanted.
func (s *Sink) lookUp(ctx context.Context, want kafkawire.NewTopic) (kafkawire.Topic, error) {
	if s.config.Create {
		t, err := s.client.Topic(ctx, want.Name)
		if !errors.Is(err, kafkawire.CodeUnknownTopic) {
			return t, err
		}
		t, err = s.client.CreateTopic(ctx, want)
		if !errors.Is(err, kafkawire.CodeTopicExists) { // else another instance was faster
			if err == nil {
				s.log.Info("topic made", "topic", want.Name, "partitions", len(t.Partitions))
			}
			return t, err
		}
	}
	return s.await(ctx, want.Name)
}

// existing returns a topic, if it is there; one that is not is an error where nobody will make it.
func (s *Sink) existing(ctx context.Context, name string) (t kafkawire.Topic, there bool, err error) {
	if !s.config.Create {
		t, err = s.await(ctx, name)
		return t, err == nil, err
	}
	t, err = s.client.Topic(ctx, name)
	if errors.Is(err, kafkawire.CodeUnknownTopic) {
		return t, false, nil
	}
	return t, err == nil, err
}

// await returns a topic that has been made.
func (s *Sink) await(ctx context.Context, name string) (kafkawire.Topic, error) {
	for end := time.Now().Add(topicPatience); ; {
		t, err := s.client.Topic(ctx, name)
		if !errors.Is(err, kafkawire.CodeUnknownTopic) {
			return t, err
		}
		if time.Now().After(end) {
			err = fmt.Errorf("topic %s does not exist: create it (docs/kafka.md says how), or let the sink do so: %w", name, err)
			if !s.checked {
				err = fmt.Errorf("%w: %w", sinks.ErrStop, err) // later it was deleted, and may come back
			}
			return t, err
		}
		select {
		case <-ctx.Done():
			return kafkawire.Topic{}, ctx.Err()
		case <-time.After(topicPatience / 20):
		}
	}
}

// or is -1, the cluster's default, for 0.
func or[T int16 | int32](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

// advices are for refusals that no repetition mends.
var advices = []struct {
	code   kafkawire.Code
	advice string
}{
	{kafkawire.CodeSASLAuthentication, "check the user and the password"},
	{kafkawire.CodeUnsupportedMechanism, "choose a mechanism that the broker offers"},
	{kafkawire.CodeTopicAuthorization, adviceRights},
	{kafkawire.CodeGroupAuthorization, adviceRights},
	{kafkawire.CodeClusterAuthorization, adviceRights},
	{kafkawire.CodeTxnAuthorization, adviceRights},
	{kafkawire.CodeInvalidTxnTimeout, "choose a transaction timeout that is at most the brokers' transaction.max.timeout.ms"},
	{kafkawire.CodeInvalidTopic, "choose another name for the topic"},
	{kafkawire.CodePolicyViolation, "the cluster has rules for new topics; ask whoever keeps it to create the topic"},
	{kafkawire.CodeUnsupportedVersion, "a broker of Kafka 3.1 or later is needed"},
	{kafkawire.CodeMessageTooLarge, adviceSize},
	{kafkawire.CodeRecordListTooLarge, adviceSize},
	{kafkawire.CodeInvalidRecord, "is the topic compacted? Messages of rules without `by` have no key"},
}

const (
	adviceRights = "docs/kafka.md lists the rights that the user needs"
	adviceSize   = "raise max.message.bytes of the topic and message.max.bytes of the brokers"
)

// failed wraps an error with the operation and the place, and says of one that no repetition mends what to do.
func (s *Sink) failed(what string, err error) error {
	if remade, ok := errors.AsType[*kafkawire.RecreatedError](err); ok && remade.Topic == s.config.ProgressTopic && !sinks.Permanent(err) {
		// To open again is to take over, and whether we may is not known any more: whoever starts us decides.
		err = fmt.Errorf("%w: %w: the position is gone; start again", sinks.ErrStop, err)
	}
	if _, hangs := errors.AsType[*kafkawire.HangingError](err); hangs && !sinks.Permanent(err) {
		err = fmt.Errorf("%w: %w", sinks.ErrStop, err)
	}
	if !sinks.Permanent(err) {
		for _, a := range advices {
			if errors.Is(err, a.code) {
				err = fmt.Errorf("%w: %w (%s)", sinks.ErrStop, err, a.advice)
				break
			}
		}
	}
	return fmt.Errorf("kafka sink %s: %s %s: %w", s.config.Name, what, s.config.Topic, err)
}
