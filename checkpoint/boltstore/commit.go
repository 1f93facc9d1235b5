package boltstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

const (
	// forgetStep is the number of messages that one transaction removes: a few milliseconds of work. What is left is
	// removed by Maintain; it is not counted and not read any more.
	forgetStep = 4096
	// rewindStep is the number of epochs that one transaction removes.
	rewindStep = 64
)

// Commit implements [checkpoint.Store].
func (s *Store) Commit(ctx context.Context, c *checkpoint.Commit) error {
	digest, err := c.Digest()
	if err != nil {
		return err
	}
	e := c.Manifest.Epoch
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	k := s.known
	newest := k.newest()
	there := e == newest && e > 0 && k.epochs[len(k.epochs)-1].damage == "" && k.epochs[len(k.epochs)-1].digest == digest
	rules := uint64(0)
	if newest > 0 {
		rules = k.epochs[len(k.epochs)-1].rules
	}
	sinks := maps.Clone(k.sinks)
	s.mu.Unlock()
	if there {
		return s.failure()
	}
	err = c.Check(newest, func(sink string) (uint64, bool) {
		t := sinks[sink]
		return t.last, t.last > t.forgotten
	})
	if err != nil {
		return fmt.Errorf("commit epoch %d: %w", e, err)
	}
	manifest, err := c.Manifest.Encode()
	if err != nil {
		return err
	}
	hashes := c.Manifest.Hashes()
	en := entry{digest: digest, rules: rulesHash(hashes), records: uint64(len(c.Records)), manifest: manifest}
	same := newest > 0 && en.rules == rules // the epoch before named the same ones
	packed := packRecords(c.Records)
	s.point("store.commit.before")
	stale := false
	err = s.write(ctx, func(tx *bolt.Tx) error {
		if err := putBlobs(tx, c.Blobs, hashes, same); err != nil {
			return err
		}
		b, err := tx.Bucket(bucketEpochs).CreateBucket(epochKey(e))
		if err != nil {
			return err
		}
		b.FillPercent = 1 // written once
		err = packed.seal(segmentPlace(bucketEpochs, epochKey(e)), func(part uint32, segment []byte) error {
			return b.Put(partKey(part), segment)
		})
		if err != nil {
			return err
		}
		letters, err := putLetters(tx, c.Outbox, sinks, &en)
		if err != nil {
			return err
		}
		en.parts, en.bytes = uint64(len(packed.parts)), packed.bytes+letters+uint64(len(manifest))
		if err := b.Put(keyEntry, seal(kindEntry, epochKey(e), en.append(nil))); err != nil {
			return err
		}
		touched := map[string]bool{}
		for _, m := range en.marks {
			touched[m.sink] = true
		}
		for _, sink := range slices.Sorted(maps.Keys(c.Forget)) {
			t, changed := forget(tx, sink, sinks[sink], c.Forget[sink])
			if !changed {
				continue
			}
			sinks[sink], touched[sink] = t, true
			more, err := removeLetters(tx, sink, t.forgotten, forgetStep)
			if err != nil {
				return err
			}
			stale = stale || more
		}
		return putTallies(tx, sinks, touched)
	}, func(k *known) {
		k.epochs = append(k.epochs, epochInfo{epoch: e, bytes: int64(en.bytes), digest: en.digest, rules: en.rules})
		k.sinks, k.lost = sinks, ""
		if stale {
			k.stale++
		}
	})
	if err != nil {
		return fmt.Errorf("commit epoch %d: %w", e, err)
	}
	s.point("store.commit.after")
	return nil
}

// rulesHash tells whether two manifests name the same blobs.
func rulesHash(hashes []string) uint64 {
	sum := sha256.Sum256([]byte(strings.Join(hashes, "\n")))
	return binary.BigEndian.Uint64(sum[:])
}

// segmentPlace is the place of the segments in a bucket.
func segmentPlace(bucket, key []byte) []byte { return slices.Concat(bucket, []byte{'/'}, key) }

// putBlobs stores the blobs that are new, and makes sure that all which the manifest names are there; known: they are.
func putBlobs(tx *bolt.Tx, blobs []checkpoint.Blob, hashes []string, known bool) error {
	b := tx.Bucket(bucketBlobs)
	for _, blob := range blobs {
		if b.Get([]byte(blob.Hash)) != nil {
			continue
		}
		if err := b.Put([]byte(blob.Hash), append([]byte{kindBlob}, blob.Data...)); err != nil {
			return err
		}
	}
	if known {
		return nil
	}
	for _, hash := range hashes {
		if b.Get([]byte(hash)) == nil {
			return fmt.Errorf("the manifest names blob %s: %w", hash, checkpoint.ErrMissing)
		}
	}
	return nil
}

// putLetters appends messages to the outboxes, and notes in the entry what it brought.
func putLetters(tx *bolt.Tx, letters []checkpoint.Outgoing, sinks map[string]tally, en *entry) (bytes uint64, err error) {
	boxes := map[string]*bolt.Bucket{}
	marks := map[string]*mark{}
	for i := range letters {
		o := &letters[i]
		t := sinks[o.Sink]
		m := marks[o.Sink]
		if m == nil {
			m = &mark{sink: o.Sink, before: t.last, first: o.Sequence}
			marks[o.Sink] = m
			if o.Sequence > t.last+1 {
				// Nothing of what was before is kept: the numbers go on further above.
				t.forgotten, t.forgottenTotal = o.Sequence-1, t.total
			}
			b, err := tx.Bucket(bucketOutbox).CreateBucketIfNotExists([]byte(o.Sink))
			if err != nil {
				return 0, err
			}
			b.FillPercent = 1 // appended to, in order
			boxes[o.Sink] = b
		}
		m.last = o.Sequence
		t.last, t.total = o.Sequence, t.total+uint64(len(o.Data))
		sinks[o.Sink] = t
		bytes += uint64(len(o.Data))
		v := seal(kindLetter, letterPlace(o.Sink, o.Sequence), appendLetter(nil, t.total, o.Data))
		if err := boxes[o.Sink].Put(sequenceKey(o.Sequence), v); err != nil {
			return 0, err
		}
	}
	for _, sink := range slices.Sorted(maps.Keys(marks)) {
		en.marks = append(en.marks, *marks[sink])
	}
	return bytes, nil
}

func putTallies(tx *bolt.Tx, sinks map[string]tally, touched map[string]bool) error {
	for _, sink := range slices.Sorted(maps.Keys(touched)) {
		t := sinks[sink]
		if err := tx.Bucket(bucketSinks).Put([]byte(sink), seal(kindTally, []byte(sink), t.append(nil))); err != nil {
			return err
		}
	}
	return nil
}

// forget moves what counts as forgotten up to a sequence.
func forget(tx *bolt.Tx, sink string, t tally, upTo uint64) (tally, bool) {
	upTo = min(upTo, t.last)
	if upTo <= t.forgotten {
		return t, false
	}
	t.forgotten, t.forgottenTotal = upTo, t.total
	if upTo == t.last {
		return t, true
	}
	// The bytes up to the last one that is forgotten stand in it; where it is damaged, in the next that is not.
	box := tx.Bucket(bucketOutbox).Bucket([]byte(sink))
	if box == nil {
		return t, true
	}
	c := box.Cursor()
	for key, v := c.Seek(sequenceKey(upTo)); len(key) == 8; key, v = c.Next() {
		if total, data, err := openLetter(sink, order64(key), v); err == nil {
			if order64(key) > upTo {
				total -= uint64(len(data))
			}
			t.forgottenTotal = total
			break
		}
	}
	return t, true
}

// removeLetters removes messages up to a sequence, so many at most, and reports whether more are left.
func removeLetters(tx *bolt.Tx, sink string, upTo uint64, most int) (more bool, err error) {
	box := tx.Bucket(bucketOutbox).Bucket([]byte(sink))
	if box == nil {
		return false, nil
	}
	var keys [][]byte
	c := box.Cursor()
	for key, _ := c.First(); len(key) == 8 && order64(key) <= upTo; key, _ = c.Next() {
		if len(keys) == most {
			more = true
			break
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		if err := box.Delete(slices.Clone(key)); err != nil {
			return false, err
		}
	}
	return more, nil
}

func order64(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

func openLetter(sink string, sequence uint64, v []byte) (total uint64, data []byte, err error) {
	body, err := unseal(kindLetter, letterPlace(sink, sequence), v, "message %d of sink %s", sequence, sink)
	if err != nil {
		return 0, nil, err
	}
	total, data, ok := readLetter(body)
	if !ok {
		return 0, nil, &checkpoint.DamageError{What: fmt.Sprintf("message %d of sink %s", sequence, sink), Why: "it cannot be read"}
	}
	return total, data, nil
}

// Rewind implements [checkpoint.Store].
func (s *Store) Rewind(ctx context.Context, e cep.Epoch) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		left, err := s.rewind(ctx, e)
		if err != nil {
			return fmt.Errorf("rewind to epoch %d: %w", e, err)
		}
		if !left {
			return nil
		}
		s.point("store.rewind.step")
	}
}

// rewind removes some epochs, the newest first: whatever comes in between, what is left is a store whose newest epoch is a
// lower one.
func (s *Store) rewind(ctx context.Context, e cep.Epoch) (left bool, err error) {
	s.mu.Lock()
	_, kept := s.known.find(e)
	newest := s.known.newest()
	sinks := maps.Clone(s.known.sinks)
	s.mu.Unlock()
	if !kept {
		return false, checkpoint.ErrMissing
	}
	if newest == e {
		s.mu.Lock()
		s.known.lost = ""
		s.mu.Unlock()
		return false, nil
	}
	low := max(e, newest-min(newest, rewindStep))
	err = s.write(ctx, func(tx *bolt.Tx) error {
		touched := map[string]bool{}
		epochs := tx.Bucket(bucketEpochs)
		for x := newest; x > low; x-- {
			en, err := readEpoch(epochs, x)
			if err != nil {
				// What it brought is not known. The epochs above are gone already, so these messages are the last ones of
				// their sinks, and the manifest below says where those begin.
				if err := s.unsend(tx, x-1, sinks, touched); err != nil {
					return err
				}
			}
			for _, m := range en.marks {
				if err := withdraw(tx, m, sinks, touched); err != nil {
					return err
				}
			}
			if epochs.Bucket(epochKey(x)) != nil {
				if err := epochs.DeleteBucket(epochKey(x)); err != nil {
					return err
				}
			}
			if err := tx.Bucket(bucketFolds).Delete(epochKey(x)); err != nil {
				return err
			}
		}
		return putTallies(tx, sinks, touched)
	}, func(k *known) {
		i, _ := k.find(low)
		k.epochs = slices.Clone(k.epochs[:i+1])
		k.folds = maps.Clone(k.folds)
		maps.DeleteFunc(k.folds, func(b cep.Epoch, _ fold) bool { return b > low })
		k.sinks, k.lost = sinks, ""
		k.stale++
	})
	return low > e, err
}

// withdraw removes the messages that an epoch brought to a sink.
func withdraw(tx *bolt.Tx, m mark, sinks map[string]tally, touched map[string]bool) error {
	t := sinks[m.sink]
	box := tx.Bucket(bucketOutbox).Bucket([]byte(m.sink))
	if box == nil {
		return nil
	}
	total, known := uint64(0), false
	var keys [][]byte
	c := box.Cursor()
	for key, v := c.Seek(sequenceKey(m.first)); len(key) == 8; key, v = c.Next() {
		if n, data, err := openLetter(m.sink, order64(key), v); err == nil && !known {
			total, known = n-uint64(len(data)), true // up to the first that can be read: what is damaged counts as nothing
		}
		keys = append(keys, slices.Clone(key))
	}
	for _, key := range keys {
		if err := box.Delete(key); err != nil {
			return err
		}
	}
	t.last = m.before
	if known {
		t.total = total
	}
	if t.forgotten >= t.last {
		t.forgotten, t.forgottenTotal = t.last, t.total
	}
	t.total = max(t.total, t.forgottenTotal)
	sinks[m.sink], touched[m.sink] = t, true
	return nil
}

// unsend withdraws the messages above those that the manifest of an epoch has committed.
func (s *Store) unsend(tx *bolt.Tx, e cep.Epoch, sinks map[string]tally, touched map[string]bool) error {
	en, err := readEpoch(tx.Bucket(bucketEpochs), e)
	if err != nil {
		return nil //nolint:nilerr // it is damaged as well: the next one below says it
	}
	m, err := checkpoint.DecodeManifest(en.manifest)
	if err != nil {
		return err
	}
	for _, p := range m.Sinks {
		if t := sinks[p.Name]; t.last > p.Sequence {
			if err := withdraw(tx, mark{sink: p.Name, before: p.Sequence, first: p.Sequence + 1}, sinks, touched); err != nil {
				return err
			}
		}
	}
	return nil
}
