//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filesink_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/filesink"
	"github.com/cepd/cepd/sinks/sinktest"
)

// sector is what is written whole or not at all. Disks write 512 bytes or more, into which a position fits: with less it can be torn.
const sector = 64

// disk is what both files may hold after a loss of power: what was synced, and of what was written since any sectors.
type disk struct {
	data, position []byte // as they are now
	syncedData     []byte
	syncedPosition []byte
	random         *rand.Rand
}

// lose returns a state that is legal: sectors of what is now over sectors of what was synced, and any length between both, the rest
// blank where it was never written.
func (d *disk) lose(synced, now []byte) []byte {
	size := len(synced)
	if len(now) > size {
		size += d.random.IntN(len(now) - size + 1)
	}
	b := make([]byte, size)
	copy(b, synced)
	for at := 0; at < size; at += sector {
		if d.random.IntN(2) == 0 {
			end := min(at+sector, size)
			if at < len(now) {
				copy(b[at:end], now[at:min(end, len(now))])
			}
		}
	}
	return b
}

// TestCrashStates: the power fails at each point of each call; whatever of the unsynced writes is on the disk, the next process
// publishes what is missing, once, and nothing that an fsync has acknowledged is lost.
func TestCrashStates(t *testing.T) {
	const total, each = 48, 6
	all := sinktest.Messages(sinks.Progress{}, total, "a")
	random := rand.New(rand.NewPCG(8, 9))
	states, torn := 0, 0
	path := filepath.Join(t.TempDir(), "alerts.jsonl")
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return b
	}
	d := &disk{random: random}
	var acked sinks.Progress
	judge := func() {
		states++
		folder := t.TempDir()
		copied := filepath.Join(folder, "alerts.jsonl")
		data, position := d.lose(d.syncedData, d.data), d.lose(d.syncedPosition, d.position)
		if string(position) != string(d.syncedPosition) && string(position) != string(d.position) {
			torn++
		}
		for name, b := range map[string][]byte{copied: data, copied + ".position": position} {
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		f := &file{t: t, path: copied}
		f.k = newSink(t, copied)
		at, err := f.k.Open(t.Context())
		if err != nil {
			t.Fatalf("%v, behind %d", err, acked.Sequence)
		}
		if at.Sequence < acked.Sequence || at.Lineage < acked.Lineage {
			t.Fatalf("it stands at %+v, and %+v was acknowledged", at, acked)
		}
		if f.at = at; at.Lineage == 0 {
			f.at.Lineage = 1
			if err := f.k.Begin(t.Context(), f.at); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.try(all[at.Sequence:]); err != nil {
			t.Fatalf("%v, behind %d", err, acked.Sequence)
		}
		f.want(copied, all)
	}
	k, err := filesink.New(filesink.Config{Path: path, Owner: "job/out", Failpoint: func(point string) {
		d.data, d.position = read(path), read(path+".position")
		switch point {
		case "filesink.synced":
			d.syncedData = d.data
		case "filesink.opened", "filesink.begun", "filesink.noted":
			d.syncedPosition = d.position // the sync was before
		case "filesink.created":
			d.syncedData = d.data
		}
		if len(d.syncedPosition) == 0 {
			return // before the first Open has ended there is nothing that could be lost
		}
		for range 3 {
			judge()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	if _, err := k.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := sinks.Progress{Lineage: 1}
	if err := k.Begin(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	acked = at
	for rest := all; len(rest) > 0; rest = rest[each:] {
		b := sinks.Batch{Base: at, Messages: rest[:each]}
		if _, err := k.Publish(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		at = b.End()
		acked = at
	}
	t.Logf("%d states, %d of them with a torn position", states, torn)
	if states < 100 || torn == 0 {
		t.Errorf("%d states, %d of them with a torn position: the test is blind", states, torn)
	}
}
