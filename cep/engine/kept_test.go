package engine_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/checkpoint"
)

var update = flag.Bool("update", false, "write the golden files anew")

// keptLife is a job of which everything that a state holds is there: open starts, alerts and spans, alerts that nobody has read,
// events that came back too late, records that are none, an older version of a rule.
func keptLife(t testing.TB) *life {
	parts()
	l := newLife(t, layeredRules(), engine.Options{Batch: 1}, metamorphicStreams...)
	for _, p := range partitions() {
		l.Open(p)
	}
	feed := func(from, to int) {
		for i := from; i < to; i++ {
			for j, p := range partitions() {
				in := ev(p, cep.Time(i+j), []string{"a", "b", "c", "x", "a"}[(i+2*j)%5], []string{"u", "v", "w"}[i%3])
				in.values = append(in.values, cep.Int(int64(i%2)))
				in.offset = int64(i)
				l.take(j, in)
			}
		}
	}
	feed(0, 20)
	set := editedSet(layeredRules(), 0)
	l.swap(set, engine.Options{Batch: 1})
	l.Idle(auth1)
	for i := range 5 {
		in := ev(auth0, cep.Time(30+i), "a", "u")
		in.offset = int64(20 + i)
		l.take(0, in)
	}
	for i, kind := range []string{"c", "x", "c", "x"} { // ahead of auth
		in := ev(web0, cep.Time(40+4*i), kind, "v")
		in.offset = int64(20 + i)
		l.take(2, in)
	}
	late := ev(auth1, 21, "a", "u")
	late.offset = 20
	l.take(1, late)
	return l
}

// keptSet is the set that the kept state belongs to.
func keptSet(l *life) {
	l.set = editedSet(layeredRules(), 0)
	l.disk.sets[layeredRules().ID()] = layeredRules()
}

// A state of every version that was ever released restores, and what comes of it is what came of it then.
func TestKeptStates(t *testing.T) {
	for _, v := range []string{"state-v1", newestState} {
		t.Run(v, func(t *testing.T) { testKeptState(t, filepath.Join("testdata", v), *update && v == newestState) })
	}
}

// newestState is the one that is written anew: those before it stay as they were released. The second has counters that know
// of silences.
const newestState = "state-v2"

func testKeptState(t *testing.T, dir string, update bool) {
	after := func(l *life) []string {
		l.alerts = nil
		for i := 25; i < 60; i++ {
			for j, p := range partitions() {
				in := ev(p, cep.Time(i+j), []string{"a", "b", "c", "x", "a"}[(i+2*j)%5], []string{"u", "v", "w"}[i%3])
				in.offset = int64(i)
				l.take(j, in)
			}
		}
		l.Finish(engine.ToEnd)
		l.barrier()
		var lines []string
		for _, o := range l.alerts {
			lines = append(lines, fmt.Sprintf("%x %s", o.Alert.ID[:4], line(o.Alert)))
		}
		return lines
	}
	if update {
		l := keptLife(t)
		l.barrier()
		write := func(name string, data []byte) {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write("object.json", l.disk.state)
		write("records.bin", packRecords(l.disk.records))
		write("alerts.txt", joined(after(l)))
	}
	l := keptLife(t) // what was read is read again
	state, err := os.ReadFile(filepath.Join(dir, "object.json"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(filepath.Join(dir, "records.bin"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "alerts.txt"))
	if err != nil {
		t.Fatal(err)
	}
	l.barrier()
	l.disk.state, l.disk.records = state, unpackRecords(t, packed)
	keptSet(l)
	kinds := map[byte]int{}
	for _, r := range l.disk.records {
		_, n := binary.Uvarint(r.Key)
		kinds[r.Key[n]]++
	}
	if len(kinds) != 5 {
		t.Errorf("records of the kinds %v: not all are there", kinds)
	}
	l.crash(engine.Options{Batch: 1, Shards: 3}, [3]int{len(l.read[0]), len(l.read[1]), len(l.read[2])})
	if diff := cmp.Diff(string(want), string(joined(after(l)))); diff != "" {
		t.Errorf("alerts (-kept +now):\n%s", diff)
	}
}

func joined(lines []string) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		fmt.Fprintln(&b, l)
	}
	return b.Bytes()
}

// packRecords writes records as the tests keep them: slot, key and value, in order.
func packRecords(records map[string]checkpoint.Record) []byte {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(records)) {
		r := records[k]
		b = cep.AppendText(cep.AppendText(append(b, r.Slot), r.Key), r.Value)
	}
	return b
}

func unpackRecords(t testing.TB, data []byte) map[string]checkpoint.Record {
	in := cep.NewReader(data)
	records := map[string]checkpoint.Record{}
	for in.Left() > 0 {
		r := checkpoint.Record{Slot: in.Byte(), Key: []byte(in.Text()), Value: []byte(in.Text())}
		records[string(append([]byte{r.Slot}, r.Key...))] = r
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return records
}

// Bytes that no engine has written are refused, or give an engine: never a panic, and no more memory than they are worth.
func FuzzRestore(f *testing.F) {
	l := keptLife(f)
	l.barrier()
	keptSet(l)
	f.Add([]byte(l.disk.state), packRecords(l.disk.records))
	f.Add([]byte(`{"version":1}`), []byte{})
	f.Add([]byte(`{"version":1,"streams":[{"name":"auth","partitions":[{"name":"0","offset":5}]}]}`), []byte("\x00\x03\x00p\x01\x02\x01\x00"))
	f.Fuzz(func(t *testing.T, state, packed []byte) {
		in := cep.NewReader(packed)
		var records []checkpoint.Record
		for in.Left() > 0 {
			r := checkpoint.Record{Slot: in.Byte(), Key: []byte(in.Text()), Value: []byte(in.Text())}
			if in.Err() == nil {
				records = append(records, r)
			}
		}
		saved := &engine.Saved{State: state, Older: l.disk.saved().Older, Records: func(each func(checkpoint.Record) error) error {
			for _, r := range records {
				if err := each(r); err != nil {
					return err
				}
			}
			return nil
		}}
		// What it says of times may take for ever to pass, so it is not let go on.
		if core, err := engine.Restore(l.set, l.streams, parts(), engine.Options{PerClock: true, Shards: 2}, saved); err == nil {
			core.Summary()
			core.Lagging()
		}
	})
}
