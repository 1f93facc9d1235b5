package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// defaultMaxWait is how long a leader holds a fetch that has nothing to give. A partition that becomes hungry meanwhile
	// does not wait for it but for a free request, of which there are maxInFlight.
	defaultMaxWait = 500 * time.Millisecond
	// defaultPartitionBytes is the default of Kafka's own consumer, and so what topics are sized for.
	defaultPartitionBytes = 1 << 20
	// defaultMaxBytes bounds one answer: 16 full partitions, 13 ms on a link of 10 Gbit/s.
	defaultMaxBytes = 16 << 20
	// defaultBuffer bounds what waits to be decoded, but for one answer of each partition that somebody waits for.
	defaultBuffer = 64 << 20
	// maxInFlight is the number of fetches that one leader holds for us, each on a connection of its own. With one, every
	// partition would wait for the idle ones, up to MaxWait; with four, partitions that trickle long-poll beside them.
	maxInFlight = 4
)

// FetcherConfig bounds a Fetcher. Zero values are the defaults.
type FetcherConfig struct {
	// MaxWait is how long a leader holds an empty answer (500 ms).
	MaxWait time.Duration
	// PartitionBytes and MaxBytes bound an answer, for one partition (1 MiB) and in all (16 MiB). A batch that is larger
	// comes whole.
	PartitionBytes, MaxBytes int32
	// Buffer bounds what is read ahead, as it came (64 MiB).
	Buffer int64
}

// Fetcher reads the partitions that are opened on it. Run must run.
type Fetcher struct {
	client *Client
	config FetcherConfig
	codecs *codecs
	// wake has room for one: Run looks at everything anyway.
	wake chan struct{}

	mu       sync.Mutex
	hungry   []*Cursor
	inFlight map[int32]int
	buffered int64
	cursors  map[*Cursor]bool
	ended    error
}

// NewFetcher makes a Fetcher that reads nothing yet.
func (c *Client) NewFetcher(config FetcherConfig) *Fetcher {
	if config.MaxWait <= 0 {
		config.MaxWait = defaultMaxWait
	}
	if config.PartitionBytes <= 0 {
		config.PartitionBytes = defaultPartitionBytes
	}
	if config.MaxBytes <= 0 {
		config.MaxBytes = defaultMaxBytes
	}
	if config.Buffer <= 0 {
		config.Buffer = defaultBuffer
	}
	return &Fetcher{
		client: c, config: config, codecs: newCodecs(), wake: make(chan struct{}, 1),
		inFlight: map[int32]int{}, cursors: map[*Cursor]bool{},
	}
}

// Run sends the fetches, until ctx ends; it returns when every one has ended. Cursors then return ErrClosed.
func (f *Fetcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for {
		for _, work := range f.plan() {
			wg.Go(func() { work(ctx) })
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			wg.Wait()
			f.mu.Lock()
			f.ended = ErrClosed
			for c := range f.cursors {
				c.signal()
			}
			f.mu.Unlock()
			return ctx.Err()
		}
	}
}

// plan takes what is hungry and can be asked for now.
func (f *Fetcher) plan() []func(context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var (
		work    []func(context.Context)
		later   []*Cursor
		lost    = map[TopicID][]*Cursor{}
		leaders = map[int32][]*Cursor{}
	)
	for _, c := range f.hungry {
		if c.closed {
			c.state = resting
			continue
		}
		leader, ok := f.client.knownLeader(c.topic.ID, c.partition)
		switch {
		case !ok:
			lost[c.topic.ID] = append(lost[c.topic.ID], c)
		case f.inFlight[leader.Leader] >= maxInFlight:
			later = append(later, c)
		default:
			c.leaderEpoch = leader.LeaderEpoch
			leaders[leader.Leader] = append(leaders[leader.Leader], c)
		}
	}
	f.hungry = later
	for _, cursors := range lost {
		take(cursors)
		work = append(work, func(ctx context.Context) { f.locate(ctx, cursors) })
	}
	for broker, cursors := range leaders {
		take(cursors)
		f.inFlight[broker]++
		work = append(work, func(ctx context.Context) { f.fetch(ctx, broker, cursors) })
	}
	return work
}

func take(cursors []*Cursor) {
	for _, c := range cursors {
		c.state = asked
	}
}

func (f *Fetcher) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// want puts a cursor among the hungry. The caller holds the lock.
func (f *Fetcher) want(c *Cursor) {
	if c.state == resting && !c.closed && c.fatal == nil {
		c.state = hungry
		f.hungry = append(f.hungry, c)
		f.poke()
	}
}

// locate finds the leaders of one topic's partitions.
func (f *Fetcher) locate(ctx context.Context, cursors []*Cursor) {
	c := cursors[0]
	t, err := f.client.topic(ctx, c.topic.Name)
	if err == nil && t.ID != c.topic.ID {
		err = &RecreatedError{c.topic.Name, c.topic.ID, t.ID}
	}
	if err == nil {
		for _, c := range cursors { // One without a leader is put off, the others go on.
			if _, ok := f.client.knownLeader(c.topic.ID, c.partition); !ok {
				f.client.forgetTopic(c.topic.ID)
				f.fail(ctx, &BrokerError{API: apiMetadata.name, Topic: c.topic.Name, Partition: c.partition, Code: CodeLeaderNotAvailable}, c)
			} else {
				f.again(c)
			}
		}
		return
	}
	f.fail(ctx, err, cursors...)
}

// again lets cursors be asked for once more.
func (f *Fetcher) again(cursors ...*Cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range cursors {
		c.state = resting
		f.want(c)
	}
}

// fail notes an error of cursors that are asked for, and lets them be asked for again after a pause, where that helps.
func (f *Fetcher) fail(ctx context.Context, err error, cursors ...*Cursor) {
	if ctx.Err() != nil {
		return
	}
	fatal := fatalRead(err)
	pause := maxPause
	f.mu.Lock()
	for _, c := range cursors {
		c.failures++
		c.trouble = err
		pause = min(pause, minPause<<min(c.failures, 10))
		if fatal {
			c.state, c.fatal = resting, err
			c.signal()
		}
	}
	f.mu.Unlock()
	if fatal {
		return
	}
	f.client.log.DebugContext(ctx, "fetch again", "topic", cursors[0].topic.Name, "partitions", len(cursors), "err", err)
	if sleep(ctx, pause) == nil {
		f.again(cursors...)
	}
}

// fatalRead says that waiting will not help. All else is repeated for ever and told by Trouble: a broker that cannot be
// reached, a right that somebody may grant.
func fatalRead(err error) bool {
	if _, ok := errors.AsType[*OutOfRangeError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*RecreatedError](err); ok {
		return true
	}
	_, ok := errors.AsType[*CorruptError](err)
	return ok
}

func (f *Fetcher) fetch(ctx context.Context, broker int32, cursors []*Cursor) {
	f.mu.Lock()
	want := make([]wanted, len(cursors))
	for i, c := range cursors {
		want[i] = wanted{c.topic.ID, c.partition, c.leaderEpoch, c.fetchAt, max(f.config.PartitionBytes, c.atLeast)}
	}
	f.mu.Unlock()
	got, err := f.client.fetch(ctx, broker, want, f.config.MaxBytes, f.config.MaxWait)
	f.mu.Lock()
	f.inFlight[broker]--
	f.mu.Unlock()
	f.poke()
	if err != nil {
		for _, c := range cursors {
			f.client.forgetTopic(c.topic.ID)
		}
		f.fail(ctx, err, cursors...)
		return
	}
	var failed sync.WaitGroup
	for i, c := range cursors {
		if code := got[i].code; code != codeNone {
			failed.Go(func() { f.refused(ctx, c, want[i].offset, code) })
			continue
		}
		f.deliver(c, &got[i])
	}
	failed.Wait()
}

// deliver hands a cursor what came for it.
func (f *Fetcher) deliver(c *Cursor, got *fetched) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.state, c.failures, c.trouble, c.atLeast = resting, 0, nil, 0
	c.ends = Ends{LogStart: got.logStart, Stable: got.stable, End: got.highWatermark}
	if len(got.raw) == 0 || c.closed {
		c.signal() // Whoever asks whether it has caught up sees new ends.
		f.feed(c)
		return
	}
	next := nextOffset(got.raw, c.fetchAt)
	if next == c.fetchAt {
		f.tooSmall(c, got.raw)
		return
	}
	c.fetchAt = next
	c.page = &page{raw: got.raw, aborted: got.aborted}
	f.buffered += int64(len(got.raw))
	c.signal()
}

// tooSmall is an answer without one whole batch: brokers send a first batch whole, but not where other partitions have taken
// the answer's room before.
func (f *Fetcher) tooSmall(c *Cursor, raw []byte) {
	n := batchSize(raw)
	whole := n > 0 && n <= int64(len(raw))
	if whole || n > maxAnswer/2 {
		c.fatal = &CorruptError{c.topic.Name, c.partition, c.fetchAt, fmt.Errorf("a batch of %d bytes that leads nowhere", n)}
		c.signal()
		return
	}
	c.atLeast = int32(max(n, int64(f.config.PartitionBytes)))
	f.want(c)
}

// feed asks for more where somebody waits, or where there is room to read ahead. The caller holds the lock.
func (f *Fetcher) feed(c *Cursor) {
	if c.page == nil && (c.waiting || f.buffered < f.config.Buffer) {
		f.want(c)
	}
}

// refused is a leader's refusal of one partition.
func (f *Fetcher) refused(ctx context.Context, c *Cursor, offset int64, code Code) {
	var err error = &BrokerError{API: apiFetch.name, Topic: c.topic.Name, Partition: c.partition, Code: code}
	f.client.forgetTopic(c.topic.ID)
	switch code {
	case CodeOffsetOutOfRange:
		// The answer has no ends, so they are asked for. Where the offset lies between them after all, the leader had just
		// changed.
		start, err1 := f.client.listOffset(ctx, c.topic, Earliest, c.partition)
		end, err2 := f.client.listOffset(ctx, c.topic, End, c.partition)
		if ends := errors.Join(err1, err2); ends != nil {
			err = ends
		} else if offset < start || offset > end {
			err = &OutOfRangeError{c.topic.Name, c.partition, offset, start, end}
		}
	case CodeUnknownTopicID, CodeInconsistentTopicID, CodeUnknownTopic:
		if t, asked := f.client.topic(ctx, c.topic.Name); asked != nil {
			err = asked
		} else if t.ID != c.topic.ID {
			err = &RecreatedError{c.topic.Name, c.topic.ID, t.ID}
		}
	default:
	}
	f.fail(ctx, err, c)
}

// Trouble is all that keeps partitions from being read now; nil where nothing does.
func (f *Fetcher) Trouble() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	by := map[string]error{}
	for c := range f.cursors {
		if c.trouble != nil {
			text := fmt.Sprintf("%s/%d", c.topic.Name, c.partition)
			all = append(all, text)
			by[text] = c.trouble
		}
	}
	slices.Sort(all)
	var errs []error
	for _, text := range all {
		errs = append(errs, fmt.Errorf("read %s: %w", text, by[text]))
	}
	return errors.Join(errs...)
}

// knownLeader is the leader as it was last seen.
func (c *Client) knownLeader(id TopicID, partition int32) (Partition, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.leaders[id]
	if !ok || partition < 0 || int(partition) >= len(t.Partitions) || t.Partitions[partition].Leader < 0 {
		return Partition{}, false
	}
	return t.Partitions[partition], true
}
