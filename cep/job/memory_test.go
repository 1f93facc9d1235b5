package job

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/sinks"
)

// TestKeptFormats: what version 1 has written is read for ever.
func TestKeptFormats(t *testing.T) {
	data, err := os.ReadFile("testdata/memory-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	m, state, err := unseal(data)
	if err != nil {
		t.Fatal(err)
	}
	want := memory{Streams: map[string]*streamMemory{
		"auth": {Listed: true, Passed: time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC), Starts: map[string]int64{"3f9a-812": 40960}}, "web": {},
	}}
	if d := cmp.Diff(want, m); d != "" || string(state) != `{"version":1,"streams":[]}` {
		t.Errorf("state %s, memory (-want +got):\n%s", state, d)
	}
	if data, err = os.ReadFile("testdata/note-v1.json"); err != nil {
		t.Fatal(err)
	}
	begun, sent, err := parseNote(data)
	if err != nil {
		t.Fatal(err)
	}
	if (begun != sinks.Progress{Lineage: 2, Sequence: 100, Chain: sinks.Chain{31: 0xff}}) || (sent != sinks.Progress{Sequence: 412, Chain: sinks.Chain{0: 0xff}}) {
		t.Errorf("begun %+v, sent %+v", begun, sent)
	}
}

func TestNewerFormats(t *testing.T) {
	if _, _, err := unseal([]byte(`{"version":2}`)); !errors.Is(err, checkpoint.ErrNewer) {
		t.Errorf("memory: %v", err)
	}
	if _, _, err := parseNote([]byte(`{"version":2}`)); !errors.Is(err, checkpoint.ErrNewer) {
		t.Errorf("note: %v", err)
	}
}

// FuzzMemory: whatever is read can be written, and is the same when read again.
func FuzzMemory(f *testing.F) {
	for _, seed := range []string{`{}`, `{"version":1,"job":{"streams":{"a":null}},"engine":null}`, `{"version":1,"job":{"streams":{"a":{"passed":"x"}}}}`} {
		f.Add([]byte(seed))
	}
	if data, err := os.ReadFile("testdata/memory-v1.json"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, state, err := unseal(data)
		if err != nil {
			return
		}
		_ = m.of("auth")
		sealed, err := seal(m, state)
		if err != nil {
			return // a time that JSON cannot write
		}
		again, state2, err := unseal(sealed)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Errorf("read again (-first +second):\n%s", d)
		}
		var a, b any
		if json.Unmarshal(state, &a) == nil && (json.Unmarshal(state2, &b) != nil || !cmp.Equal(a, b)) {
			t.Errorf("state %s, then %s", state, state2)
		}
	})
}

// FuzzNote is the same for the notes of sinks.
func FuzzNote(f *testing.F) {
	f.Add([]byte(`{"version":1,"begun":{"lineage":1,"chain":"00"}}`))
	if data, err := os.ReadFile("testdata/note-v1.json"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		begun, sent, err := parseNote(data)
		if err != nil {
			return
		}
		written, err := appendNote(begun, sent)
		if err != nil {
			t.Fatal(err)
		}
		begun2, sent2, err := parseNote(written)
		if err != nil || begun2 != begun || sent2 != sent {
			t.Errorf("%s: %+v %+v, then %+v %+v (%v)", written, begun, sent, begun2, sent2, err)
		}
	})
}
