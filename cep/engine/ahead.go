package engine

import (
	"context"
	"slices"

	"github.com/cepd/cepd/cep/source"
)

// aheadMax is how many partitions are decoded ahead: each takes some 300 KB for it, and with more there is enough to do for all
// processors in what the rules make of them.
const aheadMax = 256

// ahead decodes a partition before the rules come to it: up to two batches, of which one is being filled.
type ahead struct {
	full  chan *batch
	empty chan *batch
}

// batch holds as many records as are read from one partition in turn, so that partitions take turns as they do without it.
type batch struct {
	readings []reading // and their memory from turn to turn
	data     []byte
	// err is why nothing follows, io.EOF at the end.
	err error
}

func newAhead() *ahead {
	a := &ahead{full: make(chan *batch, 2), empty: make(chan *batch, 2)}
	a.empty <- &batch{}
	a.empty <- &batch{}
	return a
}

// run fills batches until the partition ends, or the context.
func (a *ahead) run(ctx context.Context, in *input) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-a.empty:
			b.fill(ctx, in)
			a.full <- b // there is always room
			if b.err != nil {
				return
			}
		}
	}
}

// take returns the next batch.
func (a *ahead) take(ctx context.Context) (*batch, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case b := <-a.full:
		return b, nil
	}
}

// give lets a batch be filled again.
func (a *ahead) give(b *batch) { a.empty <- b }

func (b *batch) fill(ctx context.Context, in *input) {
	b.readings, b.data = slices.Grow(b.readings[:0], runMax), b.data[:0]
	for n := range runMax {
		b.readings = b.readings[:n+1]
		if b.err = in.next(ctx, &b.readings[n], b.hold); b.err != nil {
			b.readings = b.readings[:n]
			return
		}
	}
}

// hold copies what a record lends. The bytes may move while more are added; what was lent before keeps the old ones.
func (b *batch) hold(rec source.Record) source.Record {
	rec.Data = b.copy(rec.Data)
	if rec.Meta == nil {
		return rec
	}
	m := *rec.Meta
	m.Key = b.copy(m.Key)
	m.Headers = slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = b.copy(m.Headers[i].Value)
	}
	rec.Meta = &m
	return rec
}

// copy keeps nil nil: it means something.
func (b *batch) copy(x []byte) []byte {
	if x == nil {
		return nil
	}
	n := len(b.data)
	b.data = append(b.data, x...)
	return b.data[n:len(b.data):len(b.data)]
}
