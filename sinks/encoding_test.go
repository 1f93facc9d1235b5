package sinks_test

import (
	"crypto/sha256"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/sinktest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func anyMessage(t *rapid.T) sinks.Message {
	text := rapid.StringN(0, 20, 60)
	return sinks.Message{
		Sequence: rapid.Uint64().Draw(t, "sequence"),
		Chain:    sinks.Chain(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "chain")),
		ID:       cep.AlertID(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "id")),
		Kind:     sinks.Kind(rapid.IntRange(0, 3).Draw(t, "kind")),
		Rule:     text.Draw(t, "rule"), What: text.Draw(t, "what"), Severity: text.Draw(t, "severity"),
		Key:  cep.Key(rapid.SliceOf(rapid.Byte()).Draw(t, "key")),
		Time: cep.Time(rapid.Int64().Draw(t, "time")),
		Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
	}
}

func TestStoredMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyMessage(t)
		data := sinks.AppendMessage([]byte("before"), &want)[len("before"):]
		got, err := sinks.ReadMessage(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if _, err := sinks.ReadMessage(data[:cut]); err == nil {
			t.Fatalf("read %d of %d bytes", cut, len(data))
		}
		if _, err := sinks.ReadMessage(append(slices.Clip(data), 0)); err == nil {
			t.Fatal("read a byte too many")
		}
	})
}

// TestMessageFixture: what version 1 has written is read for ever.
func TestMessageFixture(t *testing.T) {
	const name = "testdata/message-1.bin"
	m := sinktest.Messages(sinks.Progress{}, 3, "fixture")[2]
	m.Kind = sinks.KindLate
	if *update {
		if err := os.WriteFile(name, sinks.AppendMessage(nil, &m), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sinks.ReadMessage(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	data[0]++
	if _, err := sinks.ReadMessage(data); err == nil {
		t.Error("read a version that nobody knows")
	}
}

func FuzzReadMessage(f *testing.F) {
	for _, m := range sinktest.Messages(sinks.Progress{}, 2, "seed") {
		f.Add(sinks.AppendMessage(nil, &m))
	}
	f.Add([]byte{1, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := sinks.ReadMessage(data)
		if err != nil {
			return
		}
		again, err := sinks.ReadMessage(sinks.AppendMessage(nil, &m))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Fatalf("(-first +again):\n%s", d)
		}
	})
}

// TestChain: the chain is a format too, since destinations keep it.
func TestChain(t *testing.T) {
	a, b := cep.AlertID{1}, cep.AlertID{2}
	first := sha256.Sum256(append(make([]byte, 32), a[:]...))
	want := sha256.Sum256(append(first[:], b[:]...))
	if got := (sinks.Chain{}).Next(a).Next(b); got != want {
		t.Errorf("chain %s, want %x", got, want)
	}
}
