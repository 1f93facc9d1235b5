package boltstore

import (
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// known is what the file holds, as far as it is needed at every commit. It changes when a transaction is durable.
type known struct {
	epochs []epochInfo // ascending, without gaps
	folds  map[cep.Epoch]fold
	sinks  map[string]tally
	// stale counts what left something in the file that no longer counts, cleaned how much of it Maintain has removed.
	stale, cleaned uint64
	// lost says what Open had to set aside, "" for nothing.
	lost string
}

// epochInfo is what is known of an epoch without reading it.
type epochInfo struct {
	epoch         cep.Epoch
	bytes         int64
	digest, rules uint64
	damage        string
	// imported says that nothing but its base tells the epoch, as [entry.imported] has it.
	imported bool
}

// load reads what is known without reading all.
func (s *Store) load() (known, error) {
	k := known{folds: map[cep.Epoch]fold{}, sinks: map[string]tally{}}
	err := s.read(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketFormat)
		if b == nil {
			return checkFormat(nil)
		}
		if err := checkFormat(b.Get(keyFormat)); err != nil {
			return err
		}
		for _, name := range buckets {
			if tx.Bucket(name) == nil {
				return &checkpoint.DamageError{What: fmt.Sprintf("bucket %s", name), Why: "it is missing"}
			}
		}
		if err := k.loadFolds(tx); err != nil {
			return err
		}
		if err := k.loadEpochs(tx); err != nil {
			return err
		}
		// Steps of bases that are none any more show only when they are looked for.
		k.stale++
		return k.loadSinks(tx)
	})
	return k, err
}

func (k *known) loadFolds(tx *bolt.Tx) error {
	return tx.Bucket(bucketFolds).ForEach(func(key, v []byte) error {
		e, ok := epochOf(key)
		if !ok {
			return nil // Check says so
		}
		f, err := decodeFold(e, v)
		if errors.Is(err, checkpoint.ErrNewer) {
			return err
		}
		if err == nil {
			k.folds[e] = f
		}
		return nil
	})
}

func decodeFold(e cep.Epoch, v []byte) (fold, error) {
	body, err := unseal(kindFold, epochKey(e), v, "the record of the base of epoch %d", e)
	if err != nil {
		return fold{}, err
	}
	f, ok := readFold(body)
	if !ok {
		return fold{}, &checkpoint.DamageError{What: fmt.Sprintf("the record of the base of epoch %d", e), Why: "it cannot be read"}
	}
	return f, nil
}

func (k *known) loadEpochs(tx *bolt.Tx) error {
	oldest := k.oldest()
	epochs := tx.Bucket(bucketEpochs)
	first, err := readEpoch(epochs, 1)
	whole := err == nil && !first.imported() || err != nil && epochs.Bucket(epochKey(1)) != nil // all is there from the beginning
	return epochs.ForEachBucket(func(key []byte) error {
		e, ok := epochOf(key)
		if !ok {
			return nil
		}
		if e < oldest && !whole {
			k.stale++
			return nil
		}
		if n := len(k.epochs); n > 0 && k.epochs[n-1].epoch+1 != e {
			for missing := k.epochs[n-1].epoch + 1; missing < e; missing++ {
				if missing-k.epochs[n-1].epoch > foldEpochs {
					return &checkpoint.DamageError{What: fmt.Sprintf("epoch %d", missing), Why: "it is missing, as are more behind it"}
				}
				k.epochs = append(k.epochs, epochInfo{epoch: missing, damage: "it is missing"})
				n++
			}
		}
		i := epochInfo{epoch: e}
		en, err := readEpoch(epochs, e)
		switch {
		case errors.Is(err, checkpoint.ErrNewer):
			return err
		case err != nil:
			i.damage = err.Error()
		default:
			i.bytes, i.digest, i.rules, i.imported = int64(en.bytes), en.digest, en.rules, en.imported()
		}
		k.epochs = append(k.epochs, i)
		return nil
	})
}

// readEpoch returns what an epoch says of itself. Its manifest is valid during the transaction.
func readEpoch(epochs *bolt.Bucket, e cep.Epoch) (entry, error) {
	b := epochs.Bucket(epochKey(e))
	if b == nil {
		return entry{}, fmt.Errorf("epoch %d: %w", e, checkpoint.ErrMissing)
	}
	body, err := unseal(kindEntry, epochKey(e), b.Get(keyEntry), "the manifest of epoch %d", e)
	if err != nil {
		return entry{}, err
	}
	en, ok := readEntry(body)
	if !ok {
		return entry{}, &checkpoint.DamageError{What: fmt.Sprintf("the manifest of epoch %d", e), Why: "it cannot be read"}
	}
	return en, nil
}

func (k *known) loadSinks(tx *bolt.Tx) error {
	return tx.Bucket(bucketSinks).ForEach(func(name, v []byte) error {
		t, err := decodeTally(string(name), v)
		if err != nil {
			return err // without it the next message could get a number that was used
		}
		k.sinks[string(name)] = t
		if box := tx.Bucket(bucketOutbox).Bucket(name); box != nil {
			first, _ := box.Cursor().First()
			if len(first) == 8 && order64(first) <= t.forgotten {
				k.stale++
			}
		}
		return nil
	})
}

func decodeTally(sink string, v []byte) (tally, error) {
	body, err := unseal(kindTally, []byte(sink), v, "the count of messages for sink %s", sink)
	if err != nil {
		return tally{}, err
	}
	t, ok := readTally(body)
	if !ok {
		return tally{}, &checkpoint.DamageError{What: "the count of messages for sink " + sink, Why: "it cannot be read"}
	}
	return t, nil
}

// newest returns the newest epoch, 0 where there is none.
func (k *known) newest() cep.Epoch {
	if n := len(k.epochs); n > 0 {
		return k.epochs[n-1].epoch
	}
	return 0
}

// bases returns the complete bases, ascending.
func (k *known) bases() []cep.Epoch {
	var l []cep.Epoch
	for e, f := range k.folds {
		if f.complete {
			l = append(l, e)
		}
	}
	slices.Sort(l)
	return l
}

// standing returns the bases and, where all is there from the beginning, 0 for the empty state that the first epoch follows.
func (k *known) standing() []cep.Epoch {
	if len(k.epochs) > 0 && k.epochs[0].epoch == 1 && !k.epochs[0].imported {
		return append([]cep.Epoch{0}, k.bases()...)
	}
	return k.bases()
}

// oldest returns the oldest base, 0 where there is none: everything below it counts no longer.
func (k *known) oldest() cep.Epoch {
	if b := k.bases(); len(b) > 0 {
		return b[0]
	}
	return 0
}

// find returns the place of an epoch in the list.
func (k *known) find(e cep.Epoch) (int, bool) {
	return slices.BinarySearchFunc(k.epochs, e, func(i epochInfo, e cep.Epoch) int {
		switch {
		case i.epoch < e:
			return -1
		case i.epoch > e:
			return 1
		}
		return 0
	})
}
