package kafkasink

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/kafkawire"
	"github.com/cepd/cepd/sinks"
)

// keyMax is the size in bytes above which a record's key is a hash: a key of an alert may be as long as an event, and
// brokers keep keys in every index of a compacted topic.
const keyMax = 1024

// sequenceHeader says where in the job's history a message stands, <lineage>-<sequence>. It is beside the message and no part
// of it: the order of alerts of rules on different clocks may differ between runs.
const sequenceHeader = "cepd-sequence"

// record is what a reader of the topic finds.
func (s *Sink) record(m *sinks.Message, lineage uint64) kafkawire.Record {
	r := kafkawire.Record{Key: recordKey(m.Key), Value: m.Body}
	if s.config.Format == sinks.Raw {
		r.Headers = s.attributes(m)
	} else {
		r.Value = s.config.Format.Append(nil, s.source, m)
		r.Headers = append(r.Headers, header("content-type", s.config.Format.MediaType()+"; charset=UTF-8"))
	}
	place := strconv.AppendUint(append(strconv.AppendUint(nil, lineage, 10), '-'), m.Sequence, 10)
	r.Headers = append(r.Headers, kafkawire.Header{Key: sequenceHeader, Value: place})
	return r
}

// target is where a message goes: a partition of the topic of letters, or of that of alerts.
type target struct {
	letters   bool
	partition int32
}

// batches puts messages into their partitions, each in its order. None is larger than what the topics take at once, but for
// a message that is so by itself.
func (s *Sink) batches(messages []sinks.Message, lineage uint64) []kafkawire.PartitionBatch {
	var list []kafkawire.PartitionBatch
	last := make(map[target]int, len(s.topic.Partitions)) // the batch that is being filled, of each partition
	sizes := make([]int, 0, len(s.topic.Partitions))
	apart := s.letters.Name != s.topic.Name
	for i := range messages {
		r := s.record(&messages[i], lineage)
		size := recordSize(&r)
		topic, to := s.topic, target{letters: apart && messages[i].Kind != sinks.KindAlert}
		if to.letters {
			topic = s.letters
		}
		to.partition = partition(r.Key, len(topic.Partitions))
		n, begun := last[to]
		if !begun || sizes[n]+size > s.batchBytes() {
			n = len(list)
			last[to] = n
			list = append(list, kafkawire.PartitionBatch{Topic: topic, Partition: to.partition})
			sizes = append(sizes, batchOverhead)
		}
		list[n].Records = append(list[n].Records, r)
		sizes[n] += size
	}
	return list
}

// batchOverhead and recordOverhead are what a batch and a record take beside keys, values and headers, at most.
const (
	batchOverhead  = 61
	recordOverhead = 32
	headerOverhead = 10
)

func recordSize(r *kafkawire.Record) int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += headerOverhead + len(h.Key) + len(h.Value)
	}
	return n
}

// attributes are those of the CloudEvent of m, as the binary mode of the Kafka binding has them: the same as in the
// structured one, each in a header of its own.
func (s *Sink) attributes(m *sinks.Message) []kafkawire.Header {
	list := make([]kafkawire.Header, 0, 12)
	add := func(name, value string) { list = append(list, header("ce_"+name, value)) }
	add("specversion", "1.0")
	add("id", m.ID.String())
	add("source", s.source)
	if m.Kind == sinks.KindAlert {
		add("type", "dev.cepd.alert."+m.What)
	} else {
		add("type", "dev.cepd.letter."+m.Kind.String())
	}
	if m.Rule != "" {
		add("subject", m.Rule)
	}
	if m.Time != cep.BeforeAll && m.Time != cep.AfterAll {
		add("time", m.Time.Std().Format(time.RFC3339Nano))
	}
	list = append(list, header("content-type", sinks.Raw.MediaType()))
	if m.Kind == sinks.KindAlert {
		add("dataschema", sinks.AlertSchema)
	}
	if m.Severity != "" {
		add("severity", m.Severity)
	}
	if m.Key != "" {
		add("partitionkey", hash(m.Key))
	}
	return list
}

func header(name, value string) kafkawire.Header {
	return kafkawire.Header{Key: name, Value: []byte(value)}
}

// recordKey is the alert's key as a JSON array of its parts, nil for a rule without `by`. Equal keys are equal bytes. One that
// is very long is a hash.
func recordKey(k cep.Key) []byte {
	if k == "" {
		return nil
	}
	parts, err := k.Parts()
	if err != nil || len(k) > keyMax {
		return []byte(hash(k))
	}
	b := []byte{'['}
	for i, p := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = cep.AppendJSON(b, p)
	}
	if b = append(b, ']'); len(b) > keyMax {
		return []byte(hash(k))
	}
	return b
}

// hash is the `partitionkey` of CloudEvents: docs/format/cloudevents.md.
func hash(k cep.Key) string {
	sum := sha256.Sum256([]byte(k))
	return hex.EncodeToString(sum[:16])
}
