package kafkatest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Log is partition 0 of a topic, written for readers. Everything in it is settled when a test gets it: what is committed can
// be read.
type Log struct {
	Topic string
	// ID is the topic's, which one of the same name that is made later does not have.
	ID [16]byte
	// Start is the first offset that is kept, End the one behind the last, and Stable the first one of a transaction that
	// is open, else End.
	Start, Stable, End int64
	// Records are those that a reader of committed ones gets, from Start on, in order.
	Records []*kgo.Record
	// Batches are what the broker keeps.
	Batches []Batch
}

// Batch is one as the broker keeps it.
type Batch struct {
	// First and Last are the offsets that it covers: more than its records have, where some were compacted.
	First, Last int64
	// Records is how many there are.
	Records int
	// Control says that it is the marker at the end of a transaction.
	Control bool
	// Codec is the number of its compression, Size what it takes with its header.
	Codec, Size int
	// Begins says that it is the first in an answer to a fetch without limits, since a broker answers from one segment.
	Begins bool
}

// From are the records at an offset and behind it: what a reader gets that begins there.
func (l *Log) From(offset int64) []*kgo.Record {
	for i, r := range l.Records {
		if r.Offset >= offset {
			return l.Records[i:]
		}
	}
	return nil
}

// hand writes one log.
type hand struct {
	t       testing.TB
	c       *Cluster
	log     *Log
	written int // records, whose values count them
}

// now is the time of the first record of every log; each record is a second later than the one before. It is one that no
// clock gives, and one that no broker deletes for its age.
var now = time.Now().Add(-2 * time.Hour).Truncate(time.Hour)

// begin makes the topic.
func begin(t testing.TB, c *Cluster, configs ...string) *hand {
	t.Helper()
	return &hand{t: t, c: c, log: &Log{Topic: c.Topic(t, 1, configs...)}}
}

// client returns one that writes: each call of write is one batch.
func (h *hand) client(options ...kgo.Opt) *kgo.Client {
	h.t.Helper()
	return h.c.Client(h.t, append([]kgo.Opt{
		kgo.ManualFlushing(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, options...)...)
}

// transactional returns a client whose batches belong to transactions.
func (h *hand) transactional(options ...kgo.Opt) *kgo.Client {
	h.t.Helper()
	return h.client(append([]kgo.Opt{kgo.TransactionalID(Unique("tx"))}, options...)...)
}

// records makes the next n.
func (h *hand) records(n int) []*kgo.Record {
	var l []*kgo.Record
	for range n {
		l = append(l, &kgo.Record{
			Key: fmt.Appendf(nil, "k%d", h.written%7), Value: fmt.Appendf(nil, "v%d", h.written),
			Headers:   []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, h.written)}},
			Timestamp: now.Add(time.Duration(h.written) * time.Second),
		})
		h.written++
	}
	return l
}

// write writes one batch and waits until it is acknowledged.
func (h *hand) write(client *kgo.Client, records []*kgo.Record) []*kgo.Record {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var failed error
	for _, r := range records {
		r.Topic = h.log.Topic
		client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		h.t.Fatalf("write to %s: %v", h.log.Topic, err)
	}
	if failed != nil {
		h.t.Fatalf("write to %s: %v", h.log.Topic, failed)
	}
	return records
}

// open begins a transaction.
func (h *hand) open(client *kgo.Client) {
	h.t.Helper()
	if err := client.BeginTransaction(); err != nil {
		h.t.Fatal(err)
	}
}

// end ends the transaction.
func (h *hand) end(client *kgo.Client, commit bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		h.t.Fatalf("end a transaction: %v", err)
	}
}

// transaction writes a transaction of one batch. What is committed is what readers get.
func (h *hand) transaction(client *kgo.Client, commit bool, records []*kgo.Record) {
	h.t.Helper()
	h.open(client)
	h.write(client, records)
	h.end(client, commit)
	if commit {
		h.log.Records = append(h.log.Records, records...)
	}
}

// finish waits until all transactions but those told open are settled, and looks at what the broker has.
func (h *hand) finish(open bool) *Log {
	h.t.Helper()
	l, admin := h.log, h.c.Admin(h.t)
	WaitFor(h.t, "the markers of "+l.Topic, func() bool {
		l.Start = offsetOf(h.t, l.Topic, admin.ListStartOffsets)
		l.Stable = offsetOf(h.t, l.Topic, admin.ListCommittedOffsets)
		l.End = offsetOf(h.t, l.Topic, admin.ListEndOffsets)
		return (l.Stable < l.End) == open
	})
	l.ID = h.c.TopicID(h.t, l.Topic)
	l.Batches = h.c.Batches(h.t, l.Topic)
	return l
}

// offsetOf asks for an offset of partition 0.
func offsetOf(t testing.TB, topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := list(ctx, topic)
	if err != nil {
		t.Fatalf("offsets of %s: %v", topic, err)
	}
	o, ok := all.Lookup(topic, 0)
	if !ok || o.Err != nil {
		t.Fatalf("offsets of %s: %v", topic, o.Err)
	}
	return o.Offset
}

// TopicID is the id of a topic.
func (c *Cluster) TopicID(t testing.TB, topic string) [16]byte {
	t.Helper()
	return c.detail(t, topic).ID
}

func (c *Cluster) detail(t testing.TB, topic string) kadm.TopicDetail {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := c.Admin(t).ListTopics(ctx, topic)
	if err == nil {
		err = all[topic].Err
	}
	if err != nil {
		t.Fatalf("topic %s: %v", topic, err)
	}
	return all[topic]
}

// The places of what is read of a batch: https://kafka.apache.org/documentation/#recordbatch.
const (
	atLength     = 8
	atAttributes = 21
	atLast       = 23
	atCount      = 57
	batchHead    = 61
)

// Batches lists the batches of partition 0 of a topic, as a fetch gives them.
func (c *Cluster) Batches(t testing.TB, topic string) []Batch {
	t.Helper()
	d := c.detail(t, topic)
	leader := c.Client(t).Broker(int(d.Partitions[0].Leader))
	offset := offsetOf(t, topic, c.Admin(t).ListStartOffsets)
	end := offsetOf(t, topic, c.Admin(t).ListEndOffsets)
	var l []Batch
	for offset < end {
		raw := fetch(t, leader, topic, d.ID, offset)
		if len(raw) < batchHead {
			t.Fatalf("a fetch of %s at %d gives %d bytes", topic, offset, len(raw))
		}
		for begins := true; len(raw) >= batchHead; begins = false {
			size := atLength + 4 + int(binary.BigEndian.Uint32(raw[atLength:]))
			if size > len(raw) {
				break // the end of an answer may be cut; the next fetch begins here
			}
			attributes := binary.BigEndian.Uint16(raw[atAttributes:])
			b := Batch{First: int64(binary.BigEndian.Uint64(raw)), Records: int(binary.BigEndian.Uint32(raw[atCount:])), Size: size, Begins: begins}
			b.Last = b.First + int64(binary.BigEndian.Uint32(raw[atLast:]))
			b.Control, b.Codec = attributes&0x20 != 0, int(attributes&7)
			l = append(l, b)
			offset = b.Last + 1
			raw = raw[size:]
		}
	}
	return l
}

// fetch gives the batches at an offset, uncommitted ones too.
func fetch(t testing.TB, leader *kgo.Broker, topic string, id [16]byte, offset int64) []byte {
	t.Helper()
	const most = 64 << 20
	r := kmsg.NewPtrFetchRequest()
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch = 100, 1, most, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = offset, most
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := leader.RetriableRequest(ctx, r)
	if err != nil {
		t.Fatalf("fetch %s at %d: %v", topic, offset, err)
	}
	got, ok := answer.(*kmsg.FetchResponse)
	if !ok || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
		t.Fatalf("fetch %s at %d: the answer is %v", topic, offset, answer)
	}
	p := got.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		t.Fatalf("fetch %s at %d: %v", topic, offset, err)
	}
	return p.RecordBatches
}

// Aborted is written by one producer, whose transactions are committed and aborted in turn, with two aborted ones behind one
// another, and one at the end.
func Aborted(t testing.TB, c *Cluster) *Log {
	t.Helper()
	h := begin(t, c)
	client := h.transactional()
	for _, n := range []int{3, -3, 2, -1, -2, 1, -1} {
		h.transaction(client, n > 0, h.records(max(n, -n)))
	}
	return h.finish(false)
}

// Markers is written by one producer too. Its segments begin with markers: so a reader that goes on where it stopped fetches
// from the marker of an aborted transaction, which the broker still lists, and the next transaction of that producer, in the
// same answer, is committed. A reader that does not take the entry off its list at the marker loses that. kfake has no
// segments and does not list it.
func Markers(t testing.TB, c *Cluster) *Log {
	t.Helper()
	// A segment ends when its first record is older than the next by that, and markers have the time of the clock.
	h := begin(t, c, "segment.ms", "1")
	client := h.transactional()
	for range 4 {
		h.transaction(client, true, h.records(2))
		h.transaction(client, false, h.records(1))
	}
	h.transaction(client, true, h.records(1))
	return h.finish(false)
}

// Interleaved is written by three producers of transactions and one without, all by turns, as a random number generator
// decides: how many records a batch has, how it is compressed, when a transaction ends, and how.
func Interleaved(t testing.TB, c *Cluster, seed uint64, batches int) *Log {
	t.Helper()
	h := begin(t, c)
	rng := rand.New(rand.NewPCG(seed, 0))
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	type writer struct {
		client  *kgo.Client
		open    bool
		pending []*kgo.Record
	}
	var writers []*writer
	for i := range 3 {
		writers = append(writers, &writer{client: h.transactional(kgo.ProducerBatchCompression(codecs[(int(seed%5)+i)%5]))})
	}
	free := h.client(kgo.ProducerBatchCompression(codecs[rng.IntN(5)]))
	seen := map[*kgo.Record]bool{}
	end := func(w *writer) {
		commit := rng.IntN(2) == 0
		h.end(w.client, commit)
		for _, r := range w.pending {
			seen[r] = commit
		}
		w.open, w.pending = false, nil
	}
	var all []*kgo.Record
	for range batches {
		n := 1 + rng.IntN(5)
		if rng.IntN(5) == 0 {
			l := h.write(free, h.records(n))
			for _, r := range l {
				seen[r] = true
			}
			all = append(all, l...)
			continue
		}
		w := writers[rng.IntN(len(writers))]
		if !w.open {
			h.open(w.client)
			w.open = true
		}
		l := h.write(w.client, h.records(n))
		w.pending = append(w.pending, l...)
		all = append(all, l...)
		if rng.IntN(3) == 0 {
			end(w)
		}
	}
	for _, w := range writers {
		if w.open {
			end(w)
		}
	}
	for _, r := range all { // offsets were given in this order
		if seen[r] {
			h.log.Records = append(h.log.Records, r)
		}
	}
	return h.finish(false)
}

// Open has a transaction that is not at its end, with committed records before it, which are all that readers get, and one
// behind it that no transaction holds. The function ends the transaction and returns the log as it is then.
func Open(t testing.TB, c *Cluster) (before *Log, end func(commit bool) *Log) {
	t.Helper()
	h := begin(t, c)
	client, free := h.transactional(), h.client()
	h.transaction(client, true, h.records(2))
	h.open(client)
	held := h.write(client, h.records(2))
	behind := h.write(free, h.records(1))
	l := *h.finish(true)
	return &l, func(commit bool) *Log {
		t.Helper()
		h.end(client, commit)
		if commit {
			h.log.Records = append(h.log.Records, held...)
		}
		h.log.Records = append(h.log.Records, behind...)
		return h.finish(false)
	}
}

// AppendTime stamps its records with the time at which the broker got them; the producers say the year 2001. The records'
// times are what franz-go reads. kfake does not stamp, so that its records keep 2001.
func AppendTime(t testing.TB, c *Cluster) *Log {
	t.Helper()
	h := begin(t, c, "message.timestamp.type", "LogAppendTime")
	client := h.transactional()
	for range 2 {
		l := h.records(3)
		for i, r := range l {
			r.Timestamp = time.Date(2001, 1, 1, 0, 0, i, 0, time.UTC)
		}
		h.transaction(client, true, l)
	}
	l := h.finish(false)
	l.Records = c.Read(t, l.Topic, l.Start, l.Stable)
	return l
}

// Codecs has batches of all five codecs, in three sizes each; keys, values and headers are there, empty, or nil.
func Codecs(t testing.TB, c *Cluster) *Log {
	t.Helper()
	h := begin(t, c, "max.message.bytes", fmt.Sprint(16<<20))
	rng := rand.New(rand.NewPCG(5, 0))
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		client := h.client(kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(16<<20))
		for _, size := range []int{10, 5_000, 1 << 20} {
			// Half of it does not compress, so that what a codec takes in and gives out exceeds its blocks.
			value := make([]byte, size)
			for i := range value[:size/2] {
				value[i] = byte(rng.Uint32())
			}
			l := h.records(4)
			l[0].Value = value
			l[1].Key, l[1].Value, l[1].Headers = nil, nil, nil
			l[2].Key, l[2].Value = []byte{}, []byte{}
			l[2].Headers = []kgo.RecordHeader{{Key: ""}, {Key: "empty", Value: []byte{}}, {Key: "twice", Value: []byte("1")}, {Key: "twice", Value: []byte("2")}}
			h.log.Records = append(h.log.Records, h.write(client, l)...)
		}
	}
	return h.finish(false)
}

// Big has a batch of 3 MiB between two small ones: a fetch with a lower limit gets it whole, if it is the first.
func Big(t testing.TB, c *Cluster) *Log {
	t.Helper()
	h := begin(t, c, "max.message.bytes", fmt.Sprint(16<<20))
	client := h.client(kgo.ProducerBatchMaxBytes(16 << 20))
	for _, size := range []int{10, 3 << 20, 10} {
		l := h.records(1)
		l[0].Value = make([]byte, size)
		h.log.Records = append(h.log.Records, h.write(client, l)...)
	}
	return h.finish(false)
}

// Trimmed has lost its first ten records, which were deleted: its start has moved into the middle of a batch.
func Trimmed(t testing.TB, c *Cluster) *Log {
	t.Helper()
	h := begin(t, c)
	client := h.client()
	for range 5 {
		h.log.Records = append(h.log.Records, h.write(client, h.records(4))...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	offsets := kadm.Offsets{}
	offsets.AddOffset(h.log.Topic, 0, 10, -1)
	answers, err := c.Admin(t).DeleteRecords(ctx, offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s: %v", h.log.Topic, err)
	}
	l := h.finish(false)
	l.Records = l.From(10)
	return l
}

// Remade was deleted and made again with more records: old is what it was before.
func Remade(t testing.TB, c *Cluster) (old, l *Log) {
	t.Helper()
	h := begin(t, c)
	h.log.Records = h.write(h.client(), h.records(20))
	old = h.finish(false)
	c.Remake(t, old.Topic, 1)
	h.log = &Log{Topic: old.Topic}
	h.log.Records = h.write(h.client(), h.records(30))
	return old, h.finish(false)
}

// Remake deletes a topic and makes it again.
func (c *Cluster) Remake(t testing.TB, topic string, partitions int, configs ...string) {
	t.Helper()
	admin := c.Admin(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := admin.DeleteTopic(ctx, topic); err != nil {
		t.Fatalf("delete topic %s: %v", topic, err)
	}
	WaitFor(t, "the end of "+topic, func() bool {
		all, err := admin.ListTopics(ctx, topic)
		return err == nil && !all.Has(topic)
	})
	c.CreateTopic(t, topic, partitions, configs...)
}

// Read reads partition 0 of a topic; see ReadPartition.
func (c *Cluster) Read(t testing.TB, topic string, from, to int64) []*kgo.Record {
	t.Helper()
	return c.ReadPartition(t, topic, 0, from, to)
}

// ReadPartition reads a partition of a topic with franz-go, committed records only, up to an offset that is stable, and returns
// those from an offset on.
func (c *Cluster) ReadPartition(t testing.TB, topic string, partition int32, from, to int64) []*kgo.Record {
	t.Helper()
	var l []*kgo.Record
	if from >= to {
		return nil
	}
	client := c.Client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for at := from; at < to; {
		f := client.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("franz-go reads %s at %d: %v", topic, at, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if !r.Attrs.IsControl() && r.Offset < to {
				l = append(l, r)
			}
		})
	}
	return l
}
