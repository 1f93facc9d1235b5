package job

import (
	"sync"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
)

// plan is how the records of a stream are decoded for the rules that run. Another set of rules has another plan.
type plan struct {
	schema  *cep.Schema
	spec    codec.TimeSpec
	options codec.Options
	batches sync.Pool
}

func newPlan(st *Stream, schema *cep.Schema, raw bool) *plan {
	p := &plan{schema: schema, options: codec.Options{MaxSize: st.EventSize, Raw: raw}}
	if !st.Arrival {
		p.spec = st.Time
	}
	return p
}

// newBatch returns an empty batch with a decoder for the input.
func (p *plan) newBatch(in *input) *batch {
	b, _ := p.batches.Get().(*batch)
	if b == nil {
		b = &batch{plan: p}
	}
	if f := in.reader.Format(); f.Delimited() {
		if in.decoder == nil {
			in.decoder = codec.NewCSV(f.Columns, f.Comma, p.schema, p.spec, p.options)
		}
		b.decoder, b.own = in.decoder, true
	} else if b.decoder == nil {
		o := p.options
		o.Meta = f.Meta
		b.decoder = codec.NewJSON(p.schema, p.spec, o)
	}
	return b
}

// give returns the batch for reuse. Strings of its events are the engine's now, texts it has copied.
func (b *batch) give() {
	b.n, b.bytes, b.text = 0, 0, b.text[:0]
	if b.own {
		b.decoder, b.own = nil, false
	}
	b.plan.batches.Put(b)
}

// turn has the input go on by another plan, with records that nobody has taken; and with all from an offset on where that is
// not -1. It reports whether the goroutine that reads has to be started again for that, from in.from.
//
// The reader is interrupted, not waited for: what it hands over from now on it has read behind the turn.
func (in *input) turn(p *plan, from int64) (restart bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.plan, in.decoder = p, nil
	if b := in.batch; b != nil {
		in.batch = nil
		if from < 0 && b.n > 0 {
			from = b.items[0].ev.Position.Offset
		}
	}
	in.giveRoom()
	if from < 0 {
		return false
	}
	in.from = from
	if in.end != nil { // also where the sequencer has not heard of it
		if restart = isEnd(in.end); restart {
			in.end = nil
		}
		return restart
	}
	in.turned, in.seek = true, from
	if in.interrupt != nil {
		in.interrupt()
	}
	return false
}

// broken says that what the input reads from cannot be gone back in: its reader has failed, or there is none.
func (in *input) broken() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.reader == nil || in.failed != nil || in.end != nil && !isEnd(in.end)
}
