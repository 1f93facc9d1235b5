package kafkasink

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cepd/cepd/sinks"
)

var update = flag.Bool("update", false, "write the kept position anew")

func TestPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := position{
			Magic: magic, Version: version, Owner: rapid.String().Draw(t, "owner"), Lineage: rapid.Uint64Min(1).Draw(t, "lineage"),
			Sequence: rapid.Uint64().Draw(t, "sequence"),
			Chain:    sinks.Chain(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "chain")).String(),
			Topic:    rapid.String().Draw(t, "topic"), TopicID: "0123",
		}
		data, err := want.append(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readPosition(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		if at := got.progress(); at.Lineage != want.Lineage || at.Sequence != want.Sequence || at.Chain.String() != want.Chain {
			t.Fatalf("progress %+v of %+v", at, want)
		}
		i := rapid.IntRange(0, len(data)-1).Draw(t, "damaged")
		if _, err := readPosition(data[:i]); err == nil {
			t.Fatalf("read %d of %d bytes", i, len(data))
		}
		data[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := readPosition(data); err == nil {
			t.Fatalf("read %s", data)
		}
	})
}

// TestPositionFixture: what version 1 has written is read for ever.
func TestPositionFixture(t *testing.T) {
	const name = "testdata/position-1.json"
	want := position{Magic: magic, Version: version, Owner: "fraud/bus", Lineage: 2, Sequence: 4711, Chain: sinks.Chain{1, 2, 3}.String(), Topic: "alerts", TopicID: "00112233445566778899aabbccddeeff"}
	if *update {
		data, err := want.append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readPosition(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	want.Version++
	data, err = want.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readPosition(data); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a newer version: %v", err)
	}
}

func FuzzReadPosition(f *testing.F) {
	p := position{Magic: magic, Version: version, Owner: "a/b", Lineage: 1, Chain: sinks.Chain{}.String()}
	data, err := p.append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"format":"cepd kafka position","crc":"00000000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := readPosition(data)
		if err != nil {
			return
		}
		b, err := p.append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := readPosition(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p, again); d != "" {
			t.Fatalf("(-first +again):\n%s", d)
		}
	})
}
