package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/cep/source"
)

// lines is a reader of lines in memory. "ERROR" is a record beyond reading, "BROKEN" the end of the reader.
type lines struct {
	partition *cep.Partition
	text      []string
	next      int
	closed    bool
}

func (l *lines) Partition() *cep.Partition { return l.partition }
func (l *lines) Name() string              { return l.partition.Stream + "/" + l.partition.Name }
func (l *lines) Format() source.Format     { return source.Format{} }
func (l *lines) SeekTo(offset int64) error { l.next = int(offset); return nil }
func (l *lines) Progress() (int64, int64)  { return int64(l.next), int64(len(l.text)) }
func (l *lines) Close() error              { l.closed = true; return nil }

var errBroken = errors.New("disk on fire")

func (l *lines) Next(ctx context.Context) (source.Record, error) {
	if err := ctx.Err(); err != nil {
		return source.Record{}, err
	}
	if l.next == len(l.text) {
		return source.Record{}, io.EOF
	}
	text, offset := l.text[l.next], int64(l.next)
	if text == "BROKEN" {
		return source.Record{}, errBroken
	}
	l.next++
	if text == "ERROR" {
		return source.Record{}, &source.RecordError{Position: cep.Position{Partition: l.partition, Offset: offset}, Err: source.ErrTooLarge}
	}
	return source.Record{Data: []byte(text), Offset: offset}, nil
}

func jsonEvent(t int, kind, user string) string {
	return fmt.Sprintf(`{"t":%d,"kind":%q,"user":%q,"more":{"kind":"fail"}}`, t, kind, user)
}

func replayOf(t testing.TB, readers []source.Reader) (engine.ReplayConfig, *[]string) {
	spec, err := codec.ParseTime("t,unix")
	if err != nil {
		t.Fatal(err)
	}
	var alerts []string
	return engine.ReplayConfig{
		Rules:   setOf(rule("r", 1000*cep.Duration(cep.Second), element{from: "auth", kind: "fail"}, element{from: "auth", kind: "ok"})),
		Streams: []engine.Stream{{Name: "auth", Lateness: 5 * cep.Duration(cep.Second)}},
		Readers: readers,
		Time:    spec,
		Alert: func(a *cep.Alert) error {
			alerts = append(alerts, line(a))
			return nil
		},
	}, &alerts
}

func TestReplay(t *testing.T) {
	a := &lines{partition: auth0, text: []string{
		jsonEvent(10, "fail", "u"), "{", "ERROR", `{"kind":"fail"}`, `{"t":"soon"}`, jsonEvent(9, "other", "u"), jsonEvent(30, "ok", "v"), jsonEvent(20, "ok", "v"),
	}}
	b := &lines{partition: auth1, text: []string{jsonEvent(5, "fail", "v"), jsonEvent(15, "ok", "u")}}
	cfg, alerts := replayOf(t, []source.Reader{a, b})
	records := uint64(0)
	cfg.Progress = func(n uint64) { records = n }
	s, err := engine.Replay(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	const sec = 1_000_000_000
	want := []string{
		fmt.Sprintf("r %d u fail=auth/0/0@%d ok=auth/1/1@%d", 15*sec, 10*sec, 15*sec),
		fmt.Sprintf("r %d v fail=auth/1/0@%d ok=auth/0/6@%d", 30*sec, 5*sec, 30*sec),
	}
	if diff := cmp.Diff(want, *alerts); diff != "" {
		t.Error(diff)
	}
	st := s.Streams[0]
	if diff := cmp.Diff(map[string]uint64{"bad json": 1, "too large": 1, "no time": 1, "bad time": 1}, st.Bad); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(st.FirstBad, "auth/0 at offset 1") {
		t.Errorf("first bad record: %s", st.FirstBad)
	}
	if st.Events != 6 || st.Late != 1 || records != 10 || !a.closed || !b.closed {
		t.Errorf("%d records, closed %v %v, stream %+v", records, a.closed, b.closed, st)
	}
}

// However many goroutines run the rules, the same alerts come in the same order, and the counters agree.
func TestReplayInShards(t *testing.T) {
	play := func(shards int) ([]string, engine.Summary) {
		random := rand.New(rand.NewPCG(1, 2))
		var readers []source.Reader
		for _, p := range []*cep.Partition{auth0, auth1} {
			l := &lines{partition: p}
			for i := range 3000 {
				l.text = append(l.text, jsonEvent(i/4, []string{"fail", "ok", "other"}[random.IntN(3)], fmt.Sprint(random.IntN(40))))
			}
			readers = append(readers, l)
		}
		cfg, alerts := replayOf(t, readers)
		cfg.Shards = shards
		s, err := engine.Replay(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return *alerts, s
	}
	want, sum := play(1)
	if len(want) < 100 {
		t.Fatalf("%d alerts", len(want))
	}
	for _, shards := range []int{2, 5} {
		got, s := play(shards)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d shards: %s", shards, diff)
		}
		if diff := cmp.Diff(sum, s); diff != "" {
			t.Errorf("%d shards: %s", shards, diff)
		}
	}
}

func TestReplayStops(t *testing.T) {
	many := func() source.Reader {
		l := &lines{partition: auth0}
		for i := range 2000 {
			l.text = append(l.text, jsonEvent(i, []string{"fail", "ok"}[i%2], "u"))
		}
		return l
	}
	cfg, _ := replayOf(t, []source.Reader{many()})
	full := errors.New("no more room")
	n := 0
	cfg.Alert = func(*cep.Alert) error {
		n++
		return full
	}
	if s, err := engine.Replay(t.Context(), cfg); !errors.Is(err, full) || n != 1 || s.Streams[0].Events >= 2000 {
		t.Errorf("error %v after %d alerts, %+v", err, n, s.Streams)
	}

	// The error ends a replay in goroutines too, if a little later.
	cfg, _ = replayOf(t, []source.Reader{many()})
	cfg.Shards, n = 3, 0
	cfg.Alert = func(*cep.Alert) error {
		n++
		return full
	}
	if _, err := engine.Replay(t.Context(), cfg); !errors.Is(err, full) || n != 1 {
		t.Errorf("error %v after %d alerts", err, n)
	}

	cfg, _ = replayOf(t, []source.Reader{many()})
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Progress = func(uint64) { cancel() }
	if s, err := engine.Replay(ctx, cfg); !errors.Is(err, context.Canceled) || s.Streams[0].Events == 0 || s.Streams[0].Events >= 2000 {
		t.Errorf("error %v, %+v", err, s.Streams)
	}

	cfg, alerts := replayOf(t, []source.Reader{&lines{partition: auth0, text: []string{jsonEvent(1, "fail", "u"), "BROKEN"}}})
	if _, err := engine.Replay(t.Context(), cfg); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "auth/0") || len(*alerts) != 0 {
		t.Errorf("error %v", err)
	}

	for name, readers := range map[string][]source.Reader{
		"the same partition": {&lines{partition: auth0}, &lines{partition: auth0}},
		`stream "web"`:       {&lines{partition: web0}},
	} {
		cfg, _ := replayOf(t, readers)
		if _, err := engine.Replay(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// benchmarkReplay is one in ten events relevant, in order but for a few seconds.
func BenchmarkReplay(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]string, 200_000)
	size := 0
	for i := range text {
		kind := fmt.Sprintf("type%d", random.IntN(90))
		if random.IntN(10) == 0 {
			kind = []string{"fail", "fail", "fail", "ok"}[random.IntN(4)]
		}
		text[i] = fmt.Sprintf(`{"t":%d,"kind":%q,"user":"10.0.%d.%d","host":"web-%d","amount":%d.5,"country":"DE","session":"%016x","path":"/index.html"}`,
			1_700_000_000+i/100-random.IntN(3), kind, random.IntN(40), random.IntN(256), random.IntN(9), random.IntN(1000), random.Uint64())
		size += len(text[i])
	}
	b.SetBytes(int64(size / len(text)))
	b.ReportAllocs()
	for b.Loop() {
		cfg, alerts := replayOf(b, []source.Reader{&lines{partition: auth0, text: text}})
		s, err := engine.Replay(b.Context(), cfg)
		if err != nil || len(*alerts) == 0 {
			b.Fatal(err, len(*alerts))
		}
		_ = s
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(text)), "ns/event")
}
