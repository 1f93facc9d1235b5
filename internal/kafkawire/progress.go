package kafkawire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// standing is a position, and whose it is. The zero standing is that of nobody.
type standing struct {
	value []byte
	token string
}

// progressReader reads the newest position of one key. It remembers how far it has read: of a topic that is compacted, the
// last segments are not.
type progressReader struct {
	client    *Client
	topic     Topic
	partition int32
	key       string
	decoder   decoder

	offset int64 // -1: from the beginning
	last   standing
}

// read reads up to what the partition holds now, open transactions of others included: each ends, at the latest by its
// time-out, but for one whose marker the broker lost.
func (r *progressReader) read(ctx context.Context) (standing, error) {
	var end int64
	err := r.client.retry(ctx, "end of the positions", func() (err error) {
		end, err = r.client.listOffset(ctx, r.topic, End, r.partition)
		return err
	})
	if err != nil {
		return standing{}, err
	}
	if r.offset > end { // The log was cut: what was read last may be gone.
		r.offset, r.last = -1, standing{}
	}
	moved, pause := time.Now(), minPause
	for r.offset < end {
		var before int64
		err := r.client.retry(ctx, "positions", func() error {
			before = r.offset
			return r.step(ctx)
		})
		if err != nil {
			return standing{}, err
		}
		if r.offset > before {
			moved, pause = time.Now(), minPause
			continue
		}
		if time.Since(moved) > r.client.config.RetryFor {
			return standing{}, fmt.Errorf("%s/%d: a transaction is open at offset %d and hides what stands behind it; it ends with its time-out, or hangs since the broker lost its marker (kafka-transactions.sh find-hanging): %w", r.topic.Name, r.partition, r.offset, CodeOffsetNotAvailable)
		}
		if err := sleep(ctx, pause); err != nil { // a leader that holds no fetch back answers at once
			return standing{}, err
		}
		pause = min(2*pause, maxPause)
	}
	return r.last, nil
}

// step reads one answer.
func (r *progressReader) step(ctx context.Context) error {
	if r.offset < 0 {
		start, err := r.client.listOffset(ctx, r.topic, Earliest, r.partition)
		if err != nil {
			return err
		}
		r.offset = start
		return nil
	}
	leader, err := r.client.leader(ctx, r.topic.Name, r.topic.ID, r.partition)
	if err != nil {
		return err
	}
	want := []wanted{{r.topic.ID, r.partition, leader.LeaderEpoch, r.offset, defaultPartitionBytes}}
	got, err := r.client.fetch(ctx, leader.Leader, want, defaultMaxBytes, defaultMaxWait)
	if err != nil {
		r.client.forgetTopic(r.topic.ID)
		return err
	}
	f := &got[0]
	if f.code != codeNone {
		r.client.forgetTopic(r.topic.ID)
		if f.code == CodeOffsetOutOfRange { // Only deleting moves a log's start, and what is newest stays.
			r.offset = -1
			f.code = CodeOffsetNotAvailable
		}
		return &BrokerError{API: apiFetch.name, Topic: r.topic.Name, Partition: r.partition, Code: f.code}
	}
	p := page{raw: f.raw, aborted: f.aborted}
	for {
		records, next, err := r.decoder.next(&p, r.offset)
		if err != nil {
			return &CorruptError{r.topic.Name, r.partition, next, err}
		}
		r.offset = next
		if len(records) == 0 {
			return nil
		}
		for i := range records {
			if string(records[i].Key) == r.key {
				r.last = r.standing(&records[i])
			}
		}
	}
}

func (r *progressReader) standing(record *Record) standing {
	if record.Value == nil { // Somebody removed it.
		return standing{}
	}
	s := standing{value: bytes.Clone(record.Value)}
	if len(s.value) == 0 {
		s.value = nil
	}
	for _, h := range record.Headers {
		if h.Key == tokenHeader {
			s.token = string(h.Value)
		}
	}
	return s
}

// Progress is the position of a transactional id as a bystander finds it, nil where there is none: what no open transaction
// is about to change, and who wrote it.
func (c *Client) Progress(ctx context.Context, topic Topic, partition int32, id string) (value []byte, token string, err error) {
	if topic.ID == (TopicID{}) {
		return nil, "", errors.New("progress: the topic has no id: ask Topic for it")
	}
	r := progressReader{client: c, topic: topic, partition: partition, key: id, offset: -1, decoder: newDecoder(newCodecs())}
	s, err := r.read(ctx)
	return s.value, s.token, err
}
