//go:build unix

package kill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// feedRules give one alert for each event, and more for several. What they find does not depend on how events are divided into
// partitions, because no two events of a feed have one time and none comes late.
//
// held keeps the padding of events in its open starts, so that the state grows with what is read.
const feedRules = `version: 1
rules:
- {id: auth, from: auth, by: [user], where: kind != "end", alert: {fields: {n: event.n}, include_events: none}}
- {id: web, from: web, by: [user], where: kind != "end", alert: {fields: {n: event.n}, include_events: none}}
- {id: brute, from: auth, by: [user], within: 6h, sequence: [{step: fail, where: kind == "a", times: 2..}, {step: ok, where: kind == "b"}], alert: {fields: {n: len(fail)}}}
- {id: both, from: [auth, web], by: [user], within: 6h, sequence: [{step: a, from: auth, where: kind == "a"}, {step: b, from: web, where: kind == "b"}]}
- {id: held, from: auth, by: [user], within: 6h, sequence: [{step: a, where: kind == "a"}, {step: z, where: kind == "z" and pad == a.pad}]}
`

const (
	// feedBegin is the time of the first event in seconds, feedStep that between two events of a stream: time of events goes
	// so much faster than the clock that a stream which follows the clock for a while, because all of it was silent, does not
	// overtake them.
	feedBegin = 900_000_000
	feedStep  = 60
	// feedUsers is the number of keys.
	feedUsers = 20
)

// feed makes the events of a stream, without end.
type feed struct {
	stream string
	pad    string
	random *rand.Rand
	offset int // so that streams have no times in common
	n      int
	sent   bytes.Buffer // all lines
}

// newFeed returns the feed of a stream, whose events have so many bytes of padding.
func newFeed(stream string, pad int) *feed {
	f := &feed{stream: stream, pad: strings.Repeat("x", pad), random: rand.New(rand.NewPCG(7, uint64(len(stream))))}
	if stream != streams[0] {
		f.offset = feedStep / 2
	}
	return f
}

// next is the next event, a line.
func (f *feed) next() []byte {
	line := fmt.Appendf(nil, `{"t":%d,"n":%d,"kind":"%c","user":"u%d","pad":%q}`+"\n",
		feedBegin+f.n*feedStep+f.offset, f.n, "aaaabbccx"[f.random.IntN(9)], f.random.IntN(feedUsers), f.pad)
	f.n++
	f.sent.Write(line)
	return line
}

// end is an event far behind all others, which lets them out and is not let out itself.
func (f *feed) end() []byte {
	return fmt.Appendf(nil, `{"t":%d,"n":-1,"kind":"end","user":"u0"}`+"\n", feedBegin+f.n*feedStep+1_000_000)
}

// newFeedSite makes a job over feeds. What it has to find is known when they have ended.
func newFeedSite(t testing.TB, site func(*workload) *site) *site {
	t.Helper()
	w := prepare(t, t.TempDir())
	w.write(t, "rules/rules.yaml", []byte(feedRules))
	w.plain = withoutPlaces
	return site(w)
}

// ended finds out what has to come of feeds: what a replay finds in all that was sent, in one file for each stream.
func (w *workload) ended(t testing.TB, feeds ...*feed) {
	t.Helper()
	for _, name := range streams {
		w.write(t, filepath.Join(name, "sent.jsonl"), nil)
	}
	for _, f := range feeds {
		w.write(t, filepath.Join(f.stream, "sent.jsonl"), f.sent.Bytes())
	}
	w.golden(t)
}

// withoutPlaces drops from an alert what depends on where its events were read.
func withoutPlaces(line []byte) []byte {
	var a map[string]any
	if err := json.Unmarshal(line, &a); err != nil {
		return line
	}
	delete(a, "id")
	steps, _ := a["events"].(map[string]any)
	for _, step := range steps {
		events, _ := step.([]any)
		for _, e := range events {
			if event, ok := e.(map[string]any); ok {
				delete(event, "partition")
				delete(event, "offset")
			}
		}
	}
	out, err := json.Marshal(a)
	if err != nil {
		return line
	}
	return out
}
