package kafkawire

import (
	"errors"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
)

// Code is an error code of the protocol: a broker's refusal. errors.Is(err, CodeX) finds it in any error of this package.
type Code int16

// The codes that somebody branches on. The numbers are Kafka's.
const (
	CodeUnknownServer         Code = -1
	CodeOffsetOutOfRange      Code = 1
	CodeUnknownTopic          Code = 3
	CodeLeaderNotAvailable    Code = 5
	CodeNotLeader             Code = 6
	CodeRequestTimedOut       Code = 7
	CodeBrokerNotAvailable    Code = 8
	CodeReplicaNotAvailable   Code = 9
	CodeMessageTooLarge       Code = 10
	CodeNetworkException      Code = 13
	CodeCoordinatorLoading    Code = 14
	CodeCoordinatorNotAvail   Code = 15
	CodeNotCoordinator        Code = 16
	CodeInvalidTopic          Code = 17
	CodeRecordListTooLarge    Code = 18
	CodeNotEnoughReplicas     Code = 19
	CodeNotEnoughAfterAppend  Code = 20
	CodeUnknownMember         Code = 25
	CodeTopicAuthorization    Code = 29
	CodeGroupAuthorization    Code = 30
	CodeClusterAuthorization  Code = 31
	CodeUnsupportedMechanism  Code = 33
	CodeIllegalSASLState      Code = 34
	CodeUnsupportedVersion    Code = 35
	CodeTopicExists           Code = 36
	CodeNotController         Code = 41
	CodePolicyViolation       Code = 44
	CodeOutOfOrderSequence    Code = 45
	CodeDuplicateSequence     Code = 46
	CodeInvalidProducerEpoch  Code = 47
	CodeInvalidTxnState       Code = 48
	CodeInvalidProducerID     Code = 49
	CodeInvalidTxnTimeout     Code = 50
	CodeConcurrentTxns        Code = 51
	CodeTxnAuthorization      Code = 53
	CodeKafkaStorage          Code = 56
	CodeSASLAuthentication    Code = 58
	CodeUnknownProducer       Code = 59
	CodeFencedLeaderEpoch     Code = 74
	CodeUnknownLeaderEpoch    Code = 75
	CodeOffsetNotAvailable    Code = 78
	CodeInvalidRecord         Code = 87
	CodeUnstableOffset        Code = 88
	CodeProducerFenced        Code = 90
	CodeUnknownTopicID        Code = 100
	CodeInconsistentTopicID   Code = 103
	CodeTransactionAbortable  Code = 120
	codeNone                  Code = 0
	codeInconsistentTopicName Code = 107
)

// later is what kafka-go's table of names lacks.
var laterNames = map[Code]string{
	CodeUnknownTopicID:        "unknown topic id",
	CodeInconsistentTopicID:   "inconsistent topic id",
	codeInconsistentTopicName: "inconsistent cluster id or topic name",
	CodeTransactionAbortable:  "transaction must be aborted",
}

// Error is the number and Kafka's name for it.
func (c Code) Error() string {
	name := laterNames[c]
	if name == "" {
		name = kafka.Error(c).Title()
	}
	return fmt.Sprintf("code %d (%s)", int16(c), name)
}

// retriable says that the same request may succeed a little later: leaders and coordinators move, replicas come back.
func (c Code) retriable() bool {
	switch c {
	case CodeUnknownTopic, CodeLeaderNotAvailable, CodeNotLeader, CodeRequestTimedOut, CodeBrokerNotAvailable,
		CodeReplicaNotAvailable, CodeNetworkException, CodeCoordinatorLoading, CodeCoordinatorNotAvail, CodeNotCoordinator,
		CodeNotEnoughReplicas, CodeNotEnoughAfterAppend, CodeNotController, CodeConcurrentTxns, CodeKafkaStorage,
		CodeFencedLeaderEpoch, CodeUnknownLeaderEpoch, CodeOffsetNotAvailable, CodeUnstableOffset:
		return true
	default:
		return false
	}
}

// BrokerError is a broker's refusal of one request, or of what it asks of one partition.
type BrokerError struct {
	// API is the name of the request.
	API string
	// Topic and Partition are what was refused; Topic "" where the whole request was.
	Topic     string
	Partition int32
	Code      Code
	// Text is what the broker says about it; most say nothing.
	Text string
}

// Error names the request and the partition.
func (e *BrokerError) Error() string {
	s := e.API
	if e.Topic != "" {
		s += fmt.Sprintf(" %s/%d", e.Topic, e.Partition)
	}
	s += ": " + e.Code.Error()
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Unwrap returns the code.
func (e *BrokerError) Unwrap() error { return e.Code }

// OutOfRangeError says that a position is not in the log: what stood there was deleted, or never was. Nobody jumps over that
// in silence.
type OutOfRangeError struct {
	Topic     string
	Partition int32
	// Offset is where reading was to go on.
	Offset int64
	// Start and End are what the log has: from Start up to, not including, End.
	Start, End int64
}

// Error names the partition and the offsets.
func (e *OutOfRangeError) Error() string {
	s := fmt.Sprintf("topic %s partition %d: offset %d is not there, the log has %d to %d", e.Topic, e.Partition, e.Offset, e.Start, e.End)
	if e.Offset < e.Start {
		return s + fmt.Sprintf(": %d offsets were deleted before they were read (see retention.ms and retention.bytes of the topic)", e.Start-e.Offset)
	}
	return s + ": the topic lost records, or is not the one that was read before"
}

// RecreatedError says that a topic was deleted and made again: offsets of the old one mean nothing in the new one.
type RecreatedError struct {
	Topic   string
	Was, Is TopicID
}

// Error names the topic and both ids.
func (e *RecreatedError) Error() string {
	return fmt.Sprintf("topic %s was deleted and made again (its id was %s and is %s): positions in the old one do not hold in the new one", e.Topic, e.Was, e.Is)
}

// CorruptError says that a batch cannot be decoded.
type CorruptError struct {
	Topic     string
	Partition int32
	// Offset is the first of the batch, where it could be read, else where reading was to go on.
	Offset int64
	Err    error
}

// Error names the partition and the offset.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("topic %s partition %d: batch at offset %d: %v", e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// FencedError says that another instance owns the transactional id. Whoever gets it stops: the other one has the position.
type FencedError struct {
	// ID is the transactional id.
	ID string
	// Ours and Owner are the tokens of this instance and of the one that wrote the position last; Owner is "" where none did.
	Ours, Owner string
}

// Error says what to do.
func (e *FencedError) Error() string {
	return fmt.Sprintf("another instance took over transactional id %q (its token is %q, ours %q): this one must not write any more; run one instance for each job name", e.ID, e.Owner, e.Ours)
}

var (
	// ErrUnsettled comes from Transact after a failure, until Recover has said which position stands.
	ErrUnsettled = errors.New("an earlier transaction is not settled: recover first")
	// ErrClosed comes from whatever waits when a Client, a Fetcher or a Cursor is closed.
	ErrClosed = errors.New("closed")
)

// Retriable reports whether the same call may succeed later without anybody doing anything: brokers that move, restart or
// cannot be reached. What it does not name needs a person, or a decision.
func Retriable(err error) bool {
	if err == nil {
		return false
	}
	if c, ok := errors.AsType[Code](err); ok {
		return c.retriable()
	}
	return transport(err)
}
