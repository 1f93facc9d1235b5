package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// The file. docs/format/checkpoint.md draws it.
//
//	format            "format" -> sealed magic and version of the file
//	epochs / epoch    "m" -> sealed entry; part -> segment of what changed
//	folds             epoch of a base -> sealed fold
//	bases / epoch, step   part -> segment of the base
//	sinks             name -> sealed tally
//	outbox / name     sequence -> sealed letter
//	notes             name -> sealed value
//	blobs             SHA-256 in hex -> content
//
// An epoch, and a step of a base, have a bucket each: what is appended dirties the pages of that bucket and the tail of the
// bucket above, which holds no more than 16 bytes an entry, and never rewrites a megabyte that happens to lie beside it. It
// is dropped whole, by its pages.
var (
	bucketFormat = []byte("format")
	bucketEpochs = []byte("epochs")
	bucketFolds  = []byte("folds")
	bucketBases  = []byte("bases")
	bucketSinks  = []byte("sinks")
	bucketOutbox = []byte("outbox")
	bucketNotes  = []byte("notes")
	bucketBlobs  = []byte("blobs")

	buckets = [][]byte{bucketFormat, bucketEpochs, bucketFolds, bucketBases, bucketSinks, bucketOutbox, bucketNotes, bucketBlobs}

	keyFormat = []byte("format")
	keyEntry  = []byte("m")
)

const (
	fileMagic = "cepd-checkpoint"
	// version is that of the file and of everything in it.
	version = 1
)

// The kinds of sealed values.
const (
	kindFormat  = 'f'
	kindEntry   = 'e'
	kindFold    = 'b'
	kindTally   = 't'
	kindLetter  = 'l'
	kindNote    = 'n'
	kindSegment = 's'
	kindBlob    = 'd'
)

const sealSize = 1 + 1 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns a stored value: kind, version, CRC-32C, body. The checksum is also over the place where the value stands, so
// that a value under another key is no good one.
func seal(kind byte, place, body []byte) []byte {
	v := make([]byte, sealSize, sealSize+len(body))
	v[0], v[1] = kind, version
	v = append(v, body...)
	binary.BigEndian.PutUint32(v[2:], sealSum(v, place))
	return v
}

func sealSum(v, place []byte) uint32 {
	sum := crc32.Update(0, castagnoli, v[:2])
	sum = crc32.Update(sum, castagnoli, binary.AppendUvarint(nil, uint64(len(place))))
	sum = crc32.Update(sum, castagnoli, place)
	return crc32.Update(sum, castagnoli, v[sealSize:])
}

// unseal returns the body of a stored value. A sound value of a newer version is [checkpoint.ErrNewer].
func unseal(kind byte, place, v []byte, what string, args ...any) ([]byte, error) {
	fail := func(why string) error { return &checkpoint.DamageError{What: fmt.Sprintf(what, args...), Why: why} }
	switch {
	case v == nil:
		return nil, fail("it is missing")
	case len(v) < sealSize:
		return nil, fail("it is cut short")
	case binary.BigEndian.Uint32(v[2:]) != sealSum(v, place):
		return nil, fail("its checksum does not fit")
	case v[1] > version:
		return nil, fmt.Errorf("%s: %w (version %d, known is %d)", fmt.Sprintf(what, args...), checkpoint.ErrNewer, v[1], version)
	case v[0] != kind || v[1] == 0:
		return nil, fail("it is something else")
	}
	return v[sealSize:], nil
}

// epochKey is the key of an epoch.
func epochKey(e cep.Epoch) []byte { return binary.BigEndian.AppendUint64(nil, uint64(e)) }

func epochOf(key []byte) (cep.Epoch, bool) {
	if len(key) != 8 {
		return 0, false
	}
	return cep.Epoch(binary.BigEndian.Uint64(key)), true
}

// stepKey is the key of a step of a base.
func stepKey(base cep.Epoch, step uint32) []byte {
	return binary.BigEndian.AppendUint32(epochKey(base), step)
}

func partKey(part uint32) []byte { return binary.BigEndian.AppendUint32(nil, part) }

func sequenceKey(sequence uint64) []byte { return binary.BigEndian.AppendUint64(nil, sequence) }

// letterPlace is the place of a letter: its sink and its sequence.
func letterPlace(sink string, sequence uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(sink), sequence)
}

// entry is what an epoch says of itself.
type entry struct {
	// digest is that of the commit, 0 where the epoch was imported; rules a hash over the hashes of the manifest's blobs.
	digest, rules uint64
	// parts is the number of segments, records that of records in them.
	parts, records uint64
	// bytes is all that the epoch added: segments, manifest, messages.
	bytes    uint64
	marks    []mark
	manifest []byte
}

// mark says which messages an epoch brought to a sink, and which was the last one before them.
type mark struct {
	sink                string
	before, first, last uint64
}

// imported says that the epoch was not committed here. What it changed is not known then: only its base says what it holds.
func (e *entry) imported() bool { return e.digest == 0 }

func (e *entry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, e.digest)
	b = binary.BigEndian.AppendUint64(b, e.rules)
	for _, n := range []uint64{e.parts, e.records, e.bytes, uint64(len(e.marks))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, m := range e.marks {
		b = binary.AppendUvarint(b, uint64(len(m.sink)))
		b = append(b, m.sink...)
		for _, n := range []uint64{m.before, m.first, m.last} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return append(b, e.manifest...)
}

// reader takes numbers and texts from a body; ok is false from the first one on that is not there.
type reader struct {
	b  []byte
	ok bool
}

func (r *reader) take(n uint64) []byte {
	if !r.ok || n > uint64(len(r.b)) {
		r.ok = false
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) fixed() uint64 {
	v := r.take(8)
	if !r.ok {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if !r.ok || size <= 0 {
		r.ok = false
		return 0
	}
	r.b = r.b[size:]
	return n
}

func readEntry(body []byte) (entry, bool) {
	r := reader{b: body, ok: true}
	e := entry{digest: r.fixed(), rules: r.fixed(), parts: r.number(), records: r.number(), bytes: r.number()}
	for range r.number() {
		if !r.ok {
			break
		}
		e.marks = append(e.marks, mark{string(r.take(r.number())), r.number(), r.number(), r.number()})
	}
	e.manifest = r.b
	return e, r.ok
}

// fold is a base, as far as it was written.
type fold struct {
	// complete says that all slots are there: it stands for its epoch.
	complete bool
	// next is the first slot that is missing.
	next uint64
	// steps is the number of buckets, records and bytes what they hold.
	steps, records, bytes uint64
}

func (f *fold) append(b []byte) []byte {
	flag := byte(0)
	if f.complete {
		flag = 1
	}
	b = append(b, flag)
	for _, n := range []uint64{f.next, f.steps, f.records, f.bytes} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func readFold(body []byte) (fold, bool) {
	r := reader{b: body, ok: true}
	flag := r.take(1)
	f := fold{complete: r.ok && flag[0] == 1, next: r.number(), steps: r.number(), records: r.number(), bytes: r.number()}
	return f, r.ok && len(r.b) == 0 && flag[0] <= 1 && f.next <= checkpoint.Slots && (!f.complete || f.next == checkpoint.Slots)
}

// tally counts the messages of a sink. Those from forgotten+1 to last are kept; their bytes are total-forgottenTotal.
type tally struct {
	last, total               uint64
	forgotten, forgottenTotal uint64
}

func (t *tally) append(b []byte) []byte {
	for _, n := range []uint64{t.last, t.total, t.forgotten, t.forgottenTotal} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func readTally(body []byte) (tally, bool) {
	r := reader{b: body, ok: true}
	t := tally{last: r.number(), total: r.number(), forgotten: r.number(), forgottenTotal: r.number()}
	return t, r.ok && len(r.b) == 0 && t.forgotten <= t.last && t.forgottenTotal <= t.total
}

// letter is a message with the number of bytes up to and with it, so that the size of any range is a subtraction.
func appendLetter(b []byte, total uint64, data []byte) []byte {
	return append(binary.AppendUvarint(b, total), data...)
}

func readLetter(body []byte) (total uint64, data []byte, ok bool) {
	r := reader{b: body, ok: true}
	total = r.number()
	return total, r.b, r.ok && total >= uint64(len(r.b))
}

// formatBody says which file this is.
func formatBody() []byte { return append([]byte(fileMagic), version) }

// checkFormat refuses a file of somebody else, and one of a newer version.
func checkFormat(v []byte) error {
	if v == nil {
		return fmt.Errorf("it holds no checkpoints of cepd")
	}
	body, err := unseal(kindFormat, keyFormat, v, "the format record")
	if err != nil {
		return err
	}
	magic, ok := bytes.CutPrefix(body, []byte(fileMagic))
	switch {
	case !ok || len(magic) != 1:
		return fmt.Errorf("it holds no checkpoints of cepd")
	case magic[0] > version:
		return fmt.Errorf("the file: %w (version %d, known is %d)", checkpoint.ErrNewer, magic[0], version)
	}
	return nil
}
