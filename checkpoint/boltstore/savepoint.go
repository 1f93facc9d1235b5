package boltstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// Export writes an epoch with the messages that wait as of it, and all notes, as a savepoint file.
func (s *Store) Export(ctx context.Context, e cep.Epoch, w io.Writer) error {
	k := s.snapshot()
	err := s.read(func(tx *bolt.Tx) error {
		if _, ok := k.find(e); !ok {
			return checkpoint.ErrMissing
		}
		en, err := readEpoch(tx.Bucket(bucketEpochs), e)
		if err != nil {
			return err
		}
		m, err := checkpoint.DecodeManifest(en.manifest)
		if err != nil {
			return err
		}
		p := newPlan(tx, k, e)
		if err := p.settle(ctx, 0, checkpoint.Slots); err != nil {
			return err
		}
		out := checkpoint.NewSavepointWriter(w, m)
		for _, hash := range m.Hashes() {
			data, err := readBlob(tx, hash)
			if err != nil {
				return err
			}
			out.Blob(data)
		}
		if err := exportSinks(ctx, tx, k, e, out); err != nil {
			return err
		}
		err = tx.Bucket(bucketNotes).ForEach(func(name, v []byte) error {
			body, err := unseal(kindNote, name, v, "note %s", name)
			if err == nil {
				out.Note(string(name), body)
			}
			return err
		})
		if err != nil {
			return err
		}
		changed := &changes{}
		for slot := range checkpoint.Slots {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := p.each(uint8(slot), changed, func(key, value []byte) error {
				out.Record(checkpoint.Record{Slot: uint8(slot), Key: key, Value: value})
				return nil
			})
			if err != nil {
				return err
			}
		}
		return out.Close()
	})
	if err != nil {
		s.noteDamage(e, err)
		return fmt.Errorf("export epoch %d: %w", e, err)
	}
	return nil
}

// exportSinks writes where the sinks stood at an epoch, and the messages up to there.
func exportSinks(ctx context.Context, tx *bolt.Tx, k *known, e cep.Epoch, out *checkpoint.SavepointWriter) error {
	last := map[string]uint64{}
	for sink, t := range k.sinks {
		last[sink] = t.last
	}
	for x := k.newest(); x > e; x-- {
		en, err := readEpoch(tx.Bucket(bucketEpochs), x)
		if err != nil {
			return fmt.Errorf("what came behind it is not known: %w; rewind or export the newest epoch that is sound", err)
		}
		for _, m := range en.marks {
			last[m.sink] = m.before
		}
	}
	for _, sink := range slices.Sorted(maps.Keys(last)) {
		out.Sink(sink, last[sink])
		t, err := readTallyOf(tx, sink)
		if err != nil {
			return err
		}
		box := tx.Bucket(bucketOutbox).Bucket([]byte(sink))
		for n := t.forgotten + 1; n <= last[sink]; n++ {
			if n%forgetStep == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			_, data, err := openLetter(sink, n, box.Get(sequenceKey(n)))
			if err != nil {
				return err
			}
			out.Outgoing(checkpoint.Outgoing{Sink: sink, Sequence: n, Data: data})
		}
	}
	return nil
}

// ImportOptions are the settings of an import.
type ImportOptions struct {
	// Savepoint marks that history begins anew at this epoch ([checkpoint.NoteSavepoint]). Without it the import takes over
	// from the process that was exported, which must not run any more.
	Savepoint bool
	// Failpoint is as in [Options].
	Failpoint func(point string)
}

// Import makes a store of a savepoint file, in a directory without one. It appears whole or not at all.
func Import(ctx context.Context, dir string, r io.Reader, o ImportOptions) (*checkpoint.Manifest, error) {
	var m *checkpoint.Manifest
	fail := func(err error) error { return fmt.Errorf("import into %s: %w", dir, err) }
	if _, err := os.Stat(filepath.Join(dir, FileName)); err == nil {
		return nil, fail(fmt.Errorf("there are checkpoints already: move %s away first", FileName))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fail(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fail(err)
	}
	err := place(dir, purposeImport, func(db *bolt.DB) error {
		in := &importer{db: db, packed: &packer{}, sinks: map[string]tally{}, ends: map[string]uint64{}, begun: map[string]bool{}, next: map[string]uint64{}}
		cancellable := readerFunc(func(b []byte) (int, error) {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			return r.Read(b)
		})
		if err := in.read(cancellable, o.Savepoint); err != nil {
			return err
		}
		m = in.manifest
		if o.Failpoint != nil {
			o.Failpoint("store.import.written")
		}
		return nil
	}, true)
	if err != nil {
		return nil, fail(err)
	}
	return m, nil
}

// importer writes what it reads into a new file, a step at a time.
type importer struct {
	db       *bolt.DB
	manifest *checkpoint.Manifest
	fold     fold
	packed   *packer
	// size is that of what waits in packed or letters: all messages come before all records.
	size    int
	letters []checkpoint.Outgoing
	sinks   map[string]tally
	// ends are the last messages of the sinks; begun are those of which some are kept.
	ends  map[string]uint64
	begun map[string]bool
	next  map[string]uint64
}

func (in *importer) read(r io.Reader, savepoint bool) error {
	if err := in.db.Update(fill); err != nil {
		return err
	}
	if err := checkpoint.ReadSavepoint(r, in); err != nil {
		return err
	}
	if err := errors.Join(in.flushRecords(), in.flushLetters()); err != nil {
		return err
	}
	return in.db.Update(func(tx *bolt.Tx) error { return in.finish(tx, savepoint) })
}

// finish makes the epoch count.
func (in *importer) finish(tx *bolt.Tx, savepoint bool) error {
	e := in.manifest.Epoch
	if err := putBlobs(tx, nil, in.manifest.Hashes(), false); err != nil {
		return err
	}
	in.fold.complete, in.fold.next = true, checkpoint.Slots
	if err := putFold(tx, e, in.fold); err != nil {
		return err
	}
	manifest, err := in.manifest.Encode()
	if err != nil {
		return err
	}
	b, err := tx.Bucket(bucketEpochs).CreateBucket(epochKey(e))
	if err != nil {
		return err
	}
	nothing := &packer{} // the base holds all of it
	err = nothing.seal(segmentPlace(bucketEpochs, epochKey(e)), func(part uint32, segment []byte) error {
		return b.Put(partKey(part), segment)
	})
	if err != nil {
		return err
	}
	en := entry{rules: rulesHash(in.manifest.Hashes()), parts: 1, bytes: nothing.bytes + uint64(len(manifest)), manifest: manifest}
	if err := b.Put(keyEntry, seal(kindEntry, epochKey(e), en.append(nil))); err != nil {
		return err
	}
	touched := map[string]bool{}
	for sink, last := range in.ends {
		touched[sink] = true
		if !in.begun[sink] {
			in.sinks[sink] = tally{last: last, forgotten: last}
		}
		if got := in.sinks[sink].last; got != last {
			return in.bad("the last message of sink %s is %d and not %d", sink, got, last)
		}
	}
	if err := putTallies(tx, in.sinks, touched); err != nil {
		return err
	}
	if !savepoint {
		return nil
	}
	value, err := json.Marshal(checkpoint.Savepoint{Job: in.manifest.Job, Epoch: e})
	if err != nil {
		return err
	}
	return putNote(tx, checkpoint.NoteSavepoint, value)
}

func (in *importer) bad(format string, args ...any) error {
	return &checkpoint.DamageError{What: "the savepoint", Why: fmt.Sprintf(format, args...)}
}

func putNote(tx *bolt.Tx, name string, value []byte) error {
	return tx.Bucket(bucketNotes).Put([]byte(name), seal(kindNote, []byte(name), value))
}

// Manifest implements [checkpoint.SavepointReader].
func (in *importer) Manifest(m *checkpoint.Manifest) error {
	if m.Epoch == 0 {
		return &checkpoint.DamageError{What: "the manifest of the savepoint", Why: "it is of no epoch"}
	}
	in.manifest = m
	return nil
}

// Blob implements [checkpoint.SavepointReader].
func (in *importer) Blob(b checkpoint.Blob) error {
	return in.db.Update(func(tx *bolt.Tx) error { return putBlobs(tx, []checkpoint.Blob{b}, nil, true) })
}

// Sink implements [checkpoint.SavepointReader].
func (in *importer) Sink(name string, last uint64) error {
	if name == "" || len(name) > checkpoint.NameMax {
		return in.bad("it has a sink whose name has %d bytes", len(name))
	}
	in.ends[name] = last
	return nil
}

// Note implements [checkpoint.SavepointReader].
func (in *importer) Note(name string, value []byte) error {
	if err := checkpoint.CheckNote(name, value); err != nil {
		return err
	}
	return in.db.Update(func(tx *bolt.Tx) error { return putNote(tx, name, value) })
}

// Outgoing implements [checkpoint.SavepointReader].
func (in *importer) Outgoing(o checkpoint.Outgoing) error {
	last, named := in.ends[o.Sink]
	t := in.sinks[o.Sink]
	switch {
	case !named || o.Sequence == 0 || o.Sequence > last || in.begun[o.Sink] && o.Sequence != in.next[o.Sink]:
		return in.bad("message %d of sink %s is out of order", o.Sequence, o.Sink)
	case !in.begun[o.Sink]:
		t.last, t.forgotten = o.Sequence-1, o.Sequence-1
		in.sinks[o.Sink], in.begun[o.Sink] = t, true
	}
	in.next[o.Sink] = o.Sequence + 1
	in.letters = append(in.letters, o)
	in.size += len(o.Data)
	if in.size < foldStep {
		return nil
	}
	return in.flushLetters()
}

func (in *importer) flushLetters() error {
	if len(in.letters) == 0 {
		return nil
	}
	defer func() { in.letters, in.size = in.letters[:0], 0 }()
	return in.db.Update(func(tx *bolt.Tx) error {
		_, err := putLetters(tx, in.letters, in.sinks, &entry{})
		return err
	})
}

// Record implements [checkpoint.SavepointReader].
func (in *importer) Record(r checkpoint.Record) error {
	in.packed.add(r.Slot, r.Key, r.Value)
	in.size += len(r.Key) + len(r.Value)
	if in.size < foldStep {
		return nil
	}
	return in.flushRecords()
}

func (in *importer) flushRecords() error {
	return in.db.Update(func(tx *bolt.Tx) error {
		var err error
		in.fold, err = putStep(tx, in.manifest.Epoch, in.fold, in.packed, 0)
		in.packed, in.size = &packer{}, 0
		return err
	})
}

// readerFunc is a reader that is a function.
type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
