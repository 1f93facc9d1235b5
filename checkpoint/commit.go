package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/cepd/cepd/cep"
)

// What a store takes. A job that comes near one of these has long run into a limit of its own; they keep a broken one from
// filling a disk, and decoders from allocating what a damaged length says.
const (
	// RecordMax is the size of a key and value of state together: 256 MiB hold a key with two million runs.
	RecordMax = 256 << 20
	// OutgoingMax is the size of a message: sixteen times the largest event, and far above what any destination takes.
	OutgoingMax = 16 << 20
	// BlobMax is the size of a rule file or list: a list of a million domain names has 20 MB.
	BlobMax = 256 << 20
	// NoteMax is the size of a note, which holds a position.
	NoteMax = 64 << 10
	// NameMax is the size of the name of a sink or note.
	NameMax = 1 << 10
)

// BlobHash returns the name of content.
func BlobHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Check says what is wrong with a commit that follows epoch newest, whatever the store holds: a mistake of the caller. Last
// returns the sequence of the last message of a sink, and whether any is still kept.
func (c *Commit) Check(newest cep.Epoch, last func(sink string) (sequence uint64, kept bool)) error {
	if c.Manifest.Epoch != newest+1 {
		return fmt.Errorf("epoch %d does not follow %d", c.Manifest.Epoch, newest)
	}
	for i := range c.Records {
		if r := &c.Records[i]; len(r.Key)+len(r.Value) > RecordMax {
			return fmt.Errorf("a record of slot %d has %d bytes, more than %d", r.Slot, len(r.Key)+len(r.Value), RecordMax)
		}
	}
	next := map[string]uint64{}
	for i := range c.Outbox {
		o := &c.Outbox[i]
		want, ok := next[o.Sink]
		if !ok {
			sequence, kept := last(o.Sink)
			want = sequence + 1
			if !kept && o.Sequence > want {
				want = o.Sequence // a new lineage may begin further on, when nothing is left of the old one
			}
		}
		switch {
		case o.Sink == "" || len(o.Sink) > NameMax:
			return fmt.Errorf("a message for a sink whose name has %d bytes", len(o.Sink))
		case o.Sequence != want:
			return fmt.Errorf("message %d of sink %s where %d comes next", o.Sequence, o.Sink, want)
		case len(o.Data) > OutgoingMax:
			return fmt.Errorf("message %d of sink %s has %d bytes, more than %d", o.Sequence, o.Sink, len(o.Data), OutgoingMax)
		}
		next[o.Sink] = o.Sequence + 1
	}
	for _, b := range c.Blobs {
		if len(b.Data) > BlobMax {
			return fmt.Errorf("blob %s has %d bytes, more than %d", b.Hash, len(b.Data), BlobMax)
		}
		if got := BlobHash(b.Data); got != b.Hash {
			return fmt.Errorf("a blob that is called %s has the hash %s", b.Hash, got)
		}
	}
	return nil
}

// CheckNote says what is wrong with a note.
func CheckNote(name string, value []byte) error {
	if name == "" || len(name) > NameMax || len(value) > NoteMax {
		return fmt.Errorf("note %.40q: a name has 1 to %d bytes, a value up to %d; these have %d and %d",
			name, NameMax, NoteMax, len(name), len(value))
	}
	return nil
}

// Hashes returns the hashes of the blobs that the manifest names, each once, ascending.
func (m *Manifest) Hashes() []string {
	var l []string
	for _, set := range m.Rules {
		for _, f := range set.Files {
			l = append(l, f.Hash)
		}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// Encode returns the stored form of the manifest.
func (m *Manifest) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest of epoch %d: %w", m.Epoch, err)
	}
	return data, nil
}

// DecodeManifest reads what Encode wrote.
func DecodeManifest(data []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("decode manifest: %w: %w", ErrDamaged, err)
	}
	return &m, nil
}

// Digest is equal for equal commits: by it a store knows one that it has already. 64 bits without a key will do: a commit is
// held against a repetition of itself, never against what somebody has made up.
func (c *Commit) Digest() (uint64, error) {
	manifest, err := c.Manifest.Encode()
	if err != nil {
		return 0, err
	}
	d := digest{xxhash.New()}
	d.bytes(manifest)
	d.number(uint64(len(c.Records)))
	for i := range c.Records {
		r := &c.Records[i]
		d.number(uint64(r.Slot))
		d.bytes(r.Key)
		if r.Value == nil {
			d.number(1<<64 - 1)
			continue
		}
		d.bytes(r.Value)
	}
	d.number(uint64(len(c.Outbox)))
	for i := range c.Outbox {
		o := &c.Outbox[i]
		d.bytes([]byte(o.Sink))
		d.number(o.Sequence)
		d.bytes(o.Data)
	}
	for _, sink := range slices.Sorted(maps.Keys(c.Forget)) {
		d.bytes([]byte(sink))
		d.number(c.Forget[sink])
	}
	hashes := make([]string, 0, len(c.Blobs))
	for _, b := range c.Blobs {
		hashes = append(hashes, b.Hash)
	}
	slices.Sort(hashes)
	for _, h := range slices.Compact(hashes) {
		d.bytes([]byte(h))
	}
	return d.Sum64(), nil
}

type digest struct{ *xxhash.Digest }

func (d digest) number(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	_, _ = d.Write(b[:]) // a hash never fails
}

func (d digest) bytes(b []byte) {
	d.number(uint64(len(b)))
	_, _ = d.Write(b)
}

// DamageError names what is damaged. It is [ErrDamaged].
type DamageError struct {
	// What is the piece: "delta of epoch 7, part 2".
	What string
	Why  string
}

// Error says what and why.
func (e *DamageError) Error() string { return e.What + " is damaged: " + e.Why }

// Unwrap returns ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }
