package kafkawire

import (
	"context"
	"fmt"
)

// A cursor is resting, or waits to be asked for, or is part of a fetch.
type cursorState uint8

const (
	resting cursorState = iota
	hungry
	asked
)

// Ends are the ends of a partition, as the last answer had them; zero before the first one.
type Ends struct {
	// LogStart is the first offset that is there, Stable that below which every transaction has ended, End the high
	// watermark. A cursor at Stable has read all it may see.
	LogStart, Stable, End int64
}

// Cursor reads one partition. Next, Offset and Close belong to one goroutine; Ends and Trouble may be called from any.
type Cursor struct {
	fetcher   *Fetcher
	topic     Topic
	partition int32
	decoder   decoder
	// current is being decoded; offset is behind what Next has returned.
	current *page
	offset  int64
	ready   chan struct{}

	// The rest is guarded by fetcher.mu.
	state       cursorState
	page        *page
	fetchAt     int64
	leaderEpoch int32
	atLeast     int32
	waiting     bool
	closed      bool
	failures    int
	trouble     error
	fatal       error
	ends        Ends
}

// Open begins to read a partition at an offset, which is a number: ListOffsets makes one. The topic is that of the id: a
// topic of the same name that is made later is another one, and a RecreatedError.
func (f *Fetcher) Open(t Topic, partition int32, offset int64) (*Cursor, error) {
	if offset < 0 {
		return nil, fmt.Errorf("open %s/%d: offset %d is no place in a log", t.Name, partition, offset)
	}
	if t.ID == (TopicID{}) {
		return nil, fmt.Errorf("open %s/%d: the topic has no id: ask Topic for it", t.Name, partition)
	}
	c := &Cursor{
		fetcher: f, topic: t, partition: partition, decoder: newDecoder(f.codecs),
		offset: offset, fetchAt: offset, ready: make(chan struct{}, 1),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cursors[c] = true
	return c, nil
}

// signal wakes Next. The caller holds the lock.
func (c *Cursor) signal() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Next waits for records and returns those of one batch, in order; they are valid until the next call. It returns no records
// and no error when an empty answer came, after FetcherConfig.MaxWait: Offset and Ends may have moved. An OutOfRangeError, RecreatedError or CorruptError is the end of the cursor; what may pass is repeated, and
// told by [Fetcher.Trouble].
func (c *Cursor) Next(ctx context.Context) ([]Record, error) {
	f := c.fetcher
	for {
		if c.current != nil {
			records, offset, err := c.decoder.next(c.current, c.offset)
			c.offset = offset
			if err != nil {
				err = &CorruptError{c.topic.Name, c.partition, offset, err}
				f.mu.Lock()
				c.fatal = err
				f.mu.Unlock()
				return nil, err
			}
			if len(records) > 0 {
				return records, nil
			}
			c.current = nil
		}
		f.mu.Lock()
		if c.page != nil {
			c.current, c.page = c.page, nil
			f.buffered -= int64(len(c.current.raw))
			f.feed(c)
			f.mu.Unlock()
			continue
		}
		err := c.fatal
		if err == nil && (c.closed || f.ended != nil) {
			err = ErrClosed
		}
		if err != nil {
			f.mu.Unlock()
			return nil, err
		}
		c.waiting = true
		f.want(c)
		f.mu.Unlock()
		select {
		case <-c.ready:
		case <-ctx.Done():
			f.mu.Lock()
			c.waiting = false
			f.mu.Unlock()
			return nil, ctx.Err()
		}
		f.mu.Lock()
		c.waiting = false
		nothing := c.page == nil && c.fatal == nil && !c.closed && f.ended == nil
		f.mu.Unlock()
		if nothing {
			return nil, nil
		}
	}
}

// Offset is where reading goes on: behind all that Next has returned, and behind what nobody sees, such as the markers of
// transactions.
func (c *Cursor) Offset() int64 { return c.offset }

// Ends returns the partition's ends.
func (c *Cursor) Ends() Ends {
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	return c.ends
}

// Trouble is what keeps the partition from being read now, as [Fetcher.Trouble] says for all; nil: nothing does, as far as
// anybody has tried.
func (c *Cursor) Trouble() error {
	c.fetcher.mu.Lock()
	defer c.fetcher.mu.Unlock()
	return c.trouble
}

// Close forgets the partition.
func (c *Cursor) Close() {
	f := c.fetcher
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.page != nil {
		f.buffered -= int64(len(c.page.raw))
		c.page = nil
	}
	c.closed, c.current = true, nil
	delete(f.cursors, c)
	c.signal()
}
