package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
)

// lending is a reader as they may be: the bytes of a record, and what a broker keeps with it, are written over by the next.
// Some places have nothing, some records are beyond reading.
type lending struct {
	lines
	data, key, header []byte
}

func (l *lending) Format() source.Format { return source.Format{Meta: true} }

func (l *lending) Next(ctx context.Context) (source.Record, error) {
	rec, err := l.lines.Next(ctx)
	if err != nil {
		return rec, err
	}
	if string(rec.Data) == "NOTHING" {
		return source.Record{Offset: rec.Offset, Nothing: true}, nil
	}
	for _, b := range [][]byte{l.data, l.key, l.header} {
		copy(b, strings.Repeat("!", len(b)))
	}
	l.data = append(l.data[:0], rec.Data...)
	l.key = fmt.Appendf(l.key[:0], "key %d", rec.Offset)
	l.header = fmt.Appendf(l.header[:0], "header %d", rec.Offset)
	rec.Data = l.data
	rec.Meta = &cep.Meta{Topic: "t", Key: l.key, Headers: []cep.Header{{Name: "h", Value: l.header}}, Time: cep.BeforeAll}
	return rec, nil
}

// Several goroutines that decode what readers lend, in as many partitions as there may be and more, change nothing: not an
// alert with all that it shows, nor the order, nor what is counted.
func TestReplayAhead(t *testing.T) {
	set := load(t, "version: 1\nrules:\n- id: r"+`
  from: auth
  by: [user]
  within: 1h
  sequence:
  - {step: fail, where: kind == "fail", times: 2}
  - {step: ok, where: 'kind == "ok" and _kafka.headers.h != "x"'}
  alert: {include_events: all, fields: {id: ok._kafka.key, header: first(fail)._kafka.headers.h, note: ok.note, labels: ok.tags}}`)
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		t.Fatal(err)
	}
	play := func(partitions, events, shards int) (alerts []string, s engine.Summary) {
		random := rand.New(rand.NewPCG(3, 4))
		var readers []source.Reader
		for p := range partitions {
			l := &lending{lines: lines{partition: &cep.Partition{Stream: "auth", Name: fmt.Sprintf("%03d", p)}}}
			for i := range events {
				text := fmt.Sprintf(`{"t":%d,"kind":%q,"user":"u\t%d","note":"\u00fc %d","tags":["a\n%d",{"n\"":%d}]}`,
					i/4, []string{"fail", "fail", "ok", "other"}[random.IntN(4)], random.IntN(40), i, p, i)
				switch random.IntN(20) {
				case 0:
					text = "NOTHING"
				case 1:
					text = "ERROR"
				case 2:
					text = text[:random.IntN(len(text))]
				}
				l.text = append(l.text, text)
			}
			readers = append(readers, l)
		}
		s, err := engine.Replay(t.Context(), engine.ReplayConfig{
			Rules: set, Streams: []engine.Stream{{Name: "auth", Lateness: cep.Duration(cep.Second)}}, Readers: readers, Time: spec, Shards: shards,
			Alert: func(a *cep.Alert) error {
				alerts = append(alerts, string(alert.AppendJSON(nil, a)))
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return alerts, s
	}
	for _, c := range []struct{ partitions, events int }{{1, 3000}, {7, 700}, {300, 20}} {
		want, sum := play(c.partitions, c.events, 1)
		if len(want) < 50 || sum.Streams[0].Bad["too large"] == 0 || sum.Streams[0].Bad["bad json"] == 0 {
			t.Fatalf("%d alerts, %+v", len(want), sum.Streams[0])
		}
		for _, shards := range []int{2, 3} {
			got, s := play(c.partitions, c.events, shards)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%d partitions, %d shards: %s", c.partitions, shards, diff)
			}
			if diff := cmp.Diff(sum, s); diff != "" {
				t.Errorf("%d partitions, %d shards: %s", c.partitions, shards, diff)
			}
		}
	}
}

// However a replay ends, nobody reads any more once it has returned, and readers are closed.
func TestReplayAheadStops(t *testing.T) {
	many := func(end string) *lines {
		l := &lines{partition: &cep.Partition{Stream: "auth", Name: end}}
		for i := range 5000 {
			l.text = append(l.text, jsonEvent(i, []string{"fail", "ok"}[i%2], "u"))
		}
		l.text = append(l.text, end)
		return l
	}
	full := errors.New("no more room")
	for name, c := range map[string]struct {
		change func(*engine.ReplayConfig, context.CancelFunc)
		want   error
	}{
		"the context ends": {func(cfg *engine.ReplayConfig, cancel context.CancelFunc) { cfg.Progress = func(uint64) { cancel() } }, context.Canceled},
		"alerts fail": {func(cfg *engine.ReplayConfig, _ context.CancelFunc) {
			cfg.Alert = func(*cep.Alert) error { return full }
		}, full},
		"a reader fails": {func(*engine.ReplayConfig, context.CancelFunc) {}, errBroken},
	} {
		a, b := many("BROKEN"), many("{}")
		cfg, _ := replayOf(t, []source.Reader{a, b})
		cfg.Shards = 2
		ctx, cancel := context.WithCancel(t.Context())
		c.change(&cfg, cancel)
		_, err := engine.Replay(ctx, cfg)
		cancel()
		if !errors.Is(err, c.want) || !a.closed || !b.closed {
			t.Errorf("%s: error %v, closed %v %v", name, err, a.closed, b.closed)
		}
		a.next, b.next = 0, 0 // the race detector would see a reader at work
	}
}
