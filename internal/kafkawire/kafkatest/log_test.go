package kafkatest_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

// line is a record as a test shows it.
func line(r *kgo.Record) string {
	v := string(r.Value)
	if len(v) > 20 {
		v = fmt.Sprintf("%d bytes %x", len(v), v[:8])
	}
	s := fmt.Sprintf("%d %q=%q nil=%v,%v %d", r.Offset, r.Key, v, r.Key == nil, r.Value == nil, r.Timestamp.UnixMilli())
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %s:%q", h.Key, h.Value)
	}
	return s
}

func lines(l []*kgo.Record) []string {
	var s []string
	for _, r := range l {
		s = append(s, line(r))
	}
	return s
}

// settled checks that franz-go reads what the log says.
func settled(t *testing.T, c *kafkatest.Cluster, l *kafkatest.Log) {
	t.Helper()
	if d := cmp.Diff(lines(l.Records), lines(c.Read(t, l.Topic, l.Start, l.Stable))); d != "" {
		t.Errorf("franz-go reads other records than the log has (-log +franz-go):\n%s", d)
	}
	if len(l.Records) == 0 {
		t.Error("there are no records")
	}
	if l.ID == [16]byte{} {
		t.Error("there is no topic id")
	}
	next := l.Start
	for _, b := range l.Batches {
		if b.First < next && b.First > l.Start || b.Last < b.First {
			t.Errorf("batch %d-%d comes behind %d", b.First, b.Last, next)
		}
		next = b.Last + 1
	}
	if next != l.End {
		t.Errorf("the batches end at %d, the log at %d", next, l.End)
	}
}

func TestLogs(t *testing.T) {
	for name, log := range map[string]func(*testing.T, *kafkatest.Cluster) *kafkatest.Log{
		"aborted":    func(t *testing.T, c *kafkatest.Cluster) *kafkatest.Log { return kafkatest.Aborted(t, c) },
		"interleave": func(t *testing.T, c *kafkatest.Cluster) *kafkatest.Log { return kafkatest.Interleaved(t, c, 1, 30) },
		"codecs":     func(t *testing.T, c *kafkatest.Cluster) *kafkatest.Log { return kafkatest.Codecs(t, c) },
		"big":        func(t *testing.T, c *kafkatest.Cluster) *kafkatest.Log { return kafkatest.Big(t, c) },
	} {
		t.Run(name, func(t *testing.T) {
			kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
				l := log(t, c)
				settled(t, c, l)
				var data, markers int
				codecs := map[int]bool{}
				for _, b := range l.Batches {
					if b.Control {
						markers++
						continue
					}
					data += b.Records
					codecs[b.Codec] = true
				}
				switch name {
				case "aborted", "interleave":
					if data <= len(l.Records) || markers == 0 {
						t.Errorf("%d records and %d markers are kept, %d read: nothing was aborted", data, markers, len(l.Records))
					}
				case "codecs":
					if len(codecs) != 5 {
						t.Errorf("the batches have the codecs %v", codecs)
					}
				case "big":
					if len(l.Batches) != 3 || l.Batches[1].Size < 3<<20 {
						t.Errorf("the batches are %v", l.Batches)
					}
				}
			})
		})
	}
}

// A fetch that goes on at the end of a segment begins at a marker.
func TestMarkersBeginSegments(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		l := kafkatest.Markers(t, c)
		settled(t, c, l)
		if !c.Real() {
			return
		}
		n := 0
		for _, b := range l.Batches {
			if b.Begins && b.Control {
				n++
			}
		}
		if n < 4 {
			t.Errorf("%d segments begin with a marker: %+v", n, l.Batches)
		}
	})
}

func TestOpenHoldsBack(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		for _, commit := range []bool{true, false} {
			l, end := kafkatest.Open(t, c)
			settledOpen := c.Read(t, l.Topic, l.Start, l.Stable)
			if d := cmp.Diff(lines(l.Records), lines(settledOpen)); d != "" {
				t.Errorf("(-log +franz-go):\n%s", d)
			}
			if l.Stable >= l.End {
				t.Errorf("stable to %d of %d", l.Stable, l.End)
			}
			after := end(commit)
			settled(t, c, after)
			if got, want := len(after.Records)-len(l.Records), map[bool]int{true: 3, false: 1}[commit]; got != want {
				t.Errorf("%d records came when the transaction ended, not %d", got, want)
			}
		}
	})
}

func TestAppendTimeIsTheBrokers(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		l := kafkatest.AppendTime(t, c)
		settled(t, c, l)
		for _, r := range l.Records {
			if old := time.Since(r.Timestamp) > time.Hour; old == c.Real() {
				t.Errorf("a record has the time %s", r.Timestamp)
			}
		}
	})
}

func TestCompactedHasHoles(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		l, newest := kafkatest.Compacted(t, c)
		settled(t, c, l)
		got := map[string][]byte{}
		for _, r := range l.Records {
			got[string(r.Key)] = r.Value
		}
		for k, v := range newest {
			if have, ok := got[k]; !bytes.Equal(have, v) || v != nil && !ok {
				t.Errorf("the newest of %s is %q, not %q", k, have, v)
			}
		}
		holes, empty := 0, map[bool]int{}
		next := l.Start
		for _, b := range l.Batches {
			if b.First > next || !b.Control && int64(b.Records) < b.Last-b.First+1 {
				holes++
			}
			if b.Records == 0 {
				empty[b.Control]++
			}
			next = b.Last + 1
		}
		if holes == 0 || c.Real() && (empty[true] == 0 || empty[false] == 0) {
			t.Errorf("%d holes, %d empty batches and %d empty markers: %+v", holes, empty[false], empty[true], l.Batches)
		}
	})
}

func TestTrimmedBeginsInABatch(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		l := kafkatest.Trimmed(t, c)
		settled(t, c, l)
		if l.Start != 10 || l.Records[0].Offset != 10 {
			t.Errorf("the log begins at %d, its records at %d", l.Start, l.Records[0].Offset)
		}
	})
}

func TestRemadeIsAnother(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, c *kafkatest.Cluster) {
		old, l := kafkatest.Remade(t, c)
		settled(t, c, l)
		if old.Topic != l.Topic || old.ID == l.ID {
			t.Errorf("%s with %x was made again as %s with %x", old.Topic, old.ID, l.Topic, l.ID)
		}
		if old.End >= l.End {
			t.Errorf("it had %d records and has %d: a reader that goes on would notice", old.End, l.End)
		}
	})
}
