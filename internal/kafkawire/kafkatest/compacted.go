package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Compacted was compacted: records, whole batches and markers are missing, and batches and markers are left that have no
// record, since a broker keeps the last of each producer for what it knows of it. Newest is the last committed value of every key, nil where the key
// was deleted. The cleaner is off when the log is returned, so that it stays as it is. It takes some seconds on a broker.
func Compacted(t testing.TB, c *Cluster) (l *Log, newest map[string][]byte) {
	t.Helper()
	h := begin(t, c, "cleanup.policy", "compact", "segment.ms", "100", "min.cleanable.dirty.ratio", "0.01",
		"min.compaction.lag.ms", "0", "max.compaction.lag.ms", "500", "delete.retention.ms", "0")
	newest = map[string][]byte{}
	put := func(client *kgo.Client, commit bool, keys ...string) {
		h.t.Helper()
		records := h.records(len(keys))
		for i, k := range keys {
			if k[0] == '-' { // the key is deleted
				k, records[i].Value = k[1:], nil
			}
			records[i].Key = []byte(k)
		}
		h.transaction(client, commit, records)
		for _, r := range records {
			if commit {
				newest[string(r.Key)] = r.Value
			}
		}
	}
	for i := range 8 {
		free := h.client()
		again := h.records(2)
		again[0].Key, again[1].Key = []byte("a"), []byte("b")
		h.write(free, again)
		free.Close()
		client := h.transactional()
		once := fmt.Sprintf("once%d", i)
		put(client, true, "a", once, "b")
		put(client, i%3 != 2, "a", "b")
		if i%4 == 1 {
			put(client, true, "-once"+fmt.Sprint(i-1))
		}
		put(client, i%2 == 0, "b")
		client.Close()
	}
	written := h.written
	// The newest segment is never cleaned: what is written here makes new ones.
	client := h.transactional()
	WaitFor(t, "the cleaner of "+h.log.Topic, func() bool {
		put(client, true, "z")
		if c.Fake != nil {
			c.Fake.Compact()
		}
		kept, empty := 0, map[bool]bool{true: c.Fake != nil, false: c.Fake != nil} // the fake leaves none
		for _, b := range c.Batches(t, h.log.Topic) {
			if b.Records == 0 {
				empty[b.Control] = true
			}
			if !b.Control {
				kept += b.Records
			}
		}
		kept -= h.written - written
		if kept < written/2 && empty[true] && empty[false] {
			return true
		}
		time.Sleep(100 * time.Millisecond)
		return false
	})
	c.Configure(t, h.log.Topic, "cleanup.policy", "delete")
	before := c.Batches(t, h.log.Topic)
	WaitFor(t, "the cleaner's end", func() bool {
		time.Sleep(300 * time.Millisecond) // it wakes every 200 ms
		after := c.Batches(t, h.log.Topic)
		same := slices.Equal(before, after)
		before = after
		return same
	})
	l = h.finish(false)
	l.Records = c.Read(t, l.Topic, l.Start, l.Stable)
	return l, newest
}

// Configure changes configs of a topic, given as pairs of name and value.
func (c *Cluster) Configure(t testing.TB, topic string, configs ...string) {
	t.Helper()
	var alter []kadm.AlterConfig
	for i := 0; i+1 < len(configs); i += 2 {
		alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: configs[i], Value: &configs[i+1]})
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers, err := c.Admin(t).AlterTopicConfigs(ctx, alter, topic)
	for _, a := range answers {
		if err == nil {
			err = a.Err
		}
	}
	if err != nil {
		t.Fatalf("configure topic %s: %v", topic, err)
	}
}
