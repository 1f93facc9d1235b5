package kafkasink

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/sinks"
)

// Limits of one sink.
const (
	// ProgressTopicDefault is the topic in which all jobs keep their positions; each has a key of its own there.
	ProgressTopicDefault = "cepd-progress"
	// TransactionTimeoutDefault is how long a transaction may stay open before the broker aborts it, and so how long an
	// instance that died in one can hide what others write behind it. A batch takes milliseconds; a coordinator that is
	// killed is back within ten seconds.
	TransactionTimeoutDefault = time.Minute
	// TransactionTimeoutLeast leaves a request that waits for a slow replica its time; TransactionTimeoutMost is what brokers
	// allow unless they are told otherwise (transaction.max.timeout.ms).
	TransactionTimeoutLeast = time.Second
	TransactionTimeoutMost  = 15 * time.Minute
	// nameMax bounds the names of the job and the sink: they stand in every record of the position. topicMax is Kafka's own.
	nameMax  = 512
	topicMax = 249
)

// Config says where a sink writes and what.
type Config struct {
	// Job and Name are whose position is kept: JOB/NAME is the transactional id and the key of the position. Two sinks of
	// the same job and name own the same position, and the one that opened last is the owner.
	Job, Name string

	// Cluster says which brokers, and how to get in.
	Cluster kafkawire.Config

	// Guarantee says whether a position is kept at the cluster (exactly once) or not (at least once).
	Guarantee sinks.Guarantee
	// Topic is what messages are written to. Letters are written to LettersTopic, in the same transaction as the alerts beside
	// them; "" is Topic.
	Topic, LettersTopic string
	// ProgressTopic is where the position stands; "" is [ProgressTopicDefault]. It must be compacted.
	ProgressTopic string
	// Create makes topics that are not there, with so many Partitions (0: the cluster's default; the progress topic has
	// one) and Replicas (0: the cluster's default). Without it a topic that is missing is an error.
	Create     bool
	Partitions int32
	Replicas   int16
	// TransactionTimeout is how long a transaction may stay open; 0 is [TransactionTimeoutDefault].
	TransactionTimeout time.Duration

	// Format is what the values are: the body with the attributes of CloudEvents as headers (the binary mode of its binding
	// to Kafka), or the whole event (the structured mode). Source is the source of CloudEvents, "" for that of the job.
	Format sinks.Format
	Source string

	Logger *slog.Logger
}

// check reports every mistake.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, n := range []struct{ what, name string }{{"job", c.Job}, {"name", c.Name}} {
		if n.name == "" || len(n.name) > nameMax || strings.Contains(n.name, "/") {
			bad("%s %q: must be 1 to %d bytes without a slash, because the transactional id is made of it", n.what, n.name, nameMax)
		}
	}
	if c.Guarantee == sinks.AtMostOnce {
		bad("guarantee %s: a request whose answer is lost is sent again; choose %s or %s", c.Guarantee, sinks.ExactlyOnce, sinks.AtLeastOnce)
	}
	if err := checkTopic("topic", c.Topic); err != nil {
		errs = append(errs, err)
	}
	if c.LettersTopic != "" {
		if err := checkTopic("letters topic", c.LettersTopic); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Guarantee == sinks.ExactlyOnce {
		if err := checkTopic("progress topic", c.ProgressTopic); err != nil {
			errs = append(errs, err)
		} else if c.ProgressTopic == c.Topic || c.ProgressTopic == c.LettersTopic {
			bad("progress topic %q: is the topic of the messages too, and a compacted topic forgets messages; choose another one", c.ProgressTopic)
		}
	}
	switch {
	case c.Partitions < 0 || c.Replicas < 0:
		bad("partitions %d, replicas %d: must be 1 or more, or absent for the cluster's default", c.Partitions, c.Replicas)
	case !c.Create && (c.Partitions > 0 || c.Replicas > 0):
		bad("partitions and replicas are those of a topic that is made; say that topics are to be made, or leave them out")
	}
	if c.TransactionTimeout < TransactionTimeoutLeast || c.TransactionTimeout > TransactionTimeoutMost {
		bad("transaction timeout %s: must be %s to %s", c.TransactionTimeout, TransactionTimeoutLeast, TransactionTimeoutMost)
	}
	return errors.Join(errs...)
}

// checkTopic holds a name against Kafka's rule.
func checkTopic(what, name string) error {
	legal := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
	}
	if name == "" || len(name) > topicMax || name == "." || name == ".." || strings.ContainsFunc(name, func(r rune) bool { return !legal(r) }) {
		return fmt.Errorf("%s %q: must be 1 to %d letters, digits, dots, underscores and hyphens", what, name, topicMax)
	}
	return nil
}
