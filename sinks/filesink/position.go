package filesink

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/cepd/cepd/sinks"
)

// The position file, which docs/format/filesink.md draws: two slots of one page, each a line of JSON filled up with blanks.
// The valid one with the higher count is the position; the other one is written next.
const (
	magic    = "cepd file position"
	version  = 1
	slotSize = 4096
	slots    = 2
	// suffix is what the position file is called beside its file.
	suffix = ".position"
)

// position is where the file stands.
type position struct {
	Magic   string `json:"format"`
	Version int    `json:"version"`
	// Owner is the job and sink that the file belongs to; Holder the process that opened it last, for people.
	Owner  string `json:"owner"`
	Holder string `json:"holder"`
	// Count grows with each write of a slot.
	Count uint64 `json:"count"`
	Fence uint64 `json:"fence"`
	Token string `json:"token"`
	// Lineage is 0 before the first Begin.
	Lineage  uint64 `json:"lineage"`
	Sequence uint64 `json:"sequence"`
	Chain    string `json:"chain"`
	// Length is the size of the file behind message Sequence; Foot the checksum of up to footSize bytes before it.
	Length int64  `json:"length"`
	Foot   string `json:"foot"`
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	crcMember  = []byte(`,"crc":"`)
	errSlot    = errors.New("no valid position")
)

func (p *position) progress() sinks.Progress {
	at := sinks.Progress{Lineage: p.Lineage, Sequence: p.Sequence}
	b, err := hex.DecodeString(p.Chain)
	if err == nil {
		copy(at.Chain[:], b)
	}
	return at
}

func (p *position) set(at sinks.Progress) {
	p.Lineage, p.Sequence, p.Chain = at.Lineage, at.Sequence, at.Chain.String()
}

// appendSlot appends the slot: JSON, the checksum over all before it as its last member, blanks, and a line end.
func appendSlot(dst []byte, p *position) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return dst, err
	}
	b = b[:len(b)-1]
	sum := crc32.Checksum(b, castagnoli)
	b = fmt.Appendf(append(b, crcMember...), "%08x\"}", sum)
	if len(b) >= slotSize {
		return dst, fmt.Errorf("the position takes %d bytes of %d: use shorter names", len(b), slotSize)
	}
	dst = append(dst, b...)
	dst = append(dst, bytes.Repeat([]byte(" "), slotSize-1-len(b))...)
	return append(dst, '\n'), nil
}

// readSlot reads a slot.
func readSlot(b []byte) (position, error) {
	b = bytes.TrimRight(b, " \n\x00")
	i := bytes.LastIndex(b, crcMember)
	if i < 0 {
		return position{}, errSlot
	}
	if want := fmt.Appendf(nil, "%s%08x\"}", crcMember, crc32.Checksum(b[:i], castagnoli)); !bytes.Equal(b[i:], want) {
		return position{}, errSlot
	}
	var p position
	if err := json.Unmarshal(b, &p); err != nil || p.Magic != magic {
		return position{}, errSlot
	}
	if p.Version > version {
		return position{}, fmt.Errorf("%w: the position has version %d, this program knows %d: use a newer one", sinks.ErrStop, p.Version, version)
	}
	if chain, err := hex.DecodeString(p.Chain); err != nil || len(chain) != len(sinks.Chain{}) || p.Length < 0 || p.Version < 1 {
		return position{}, errSlot
	}
	return p, nil
}

// readPosition reads the position out of both slots.
func readPosition(b []byte) (position, error) {
	var newest position
	for len(b) > 0 {
		slot := b[:min(slotSize, len(b))]
		b = b[len(slot):]
		p, err := readSlot(slot)
		if errors.Is(err, sinks.ErrStop) {
			return position{}, err
		}
		if err == nil && p.Count > newest.Count {
			newest = p
		}
	}
	if newest.Count == 0 {
		return position{}, errSlot
	}
	return newest, nil
}

// positionFile is the open position file. It is locked while somebody works with it.
type positionFile struct {
	path string
	f    *os.File
}

// open opens the file; fs.ErrNotExist where there is none.
func (q *positionFile) open() error {
	f, err := os.OpenFile(q.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	q.f = f
	return nil
}

// create makes the file with a first position, whole or not at all. It is no error that somebody else was faster.
func (q *positionFile) create(p position) error {
	p.Magic, p.Version, p.Count = magic, version, 1
	p.Chain = sinks.Chain{}.String()
	b, err := appendSlot(nil, &p)
	if err != nil {
		return err
	}
	b = append(b, bytes.Repeat([]byte(" "), slotSize-1)...) // the second slot, so that no write ever needs room
	b = append(b, '\n')
	f, err := os.CreateTemp(filepath.Dir(q.path), filepath.Base(q.path)+".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // its content has another name by then, or is of no use
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(fileMode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	// A link and no rename: it does not replace what another process has made meanwhile, and may have locked.
	if err := os.Link(f.Name(), q.path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncFolder(q.path)
}

// current reports whether the open file is still the one at the path.
func (q *positionFile) current() bool {
	if q.f == nil {
		return false
	}
	mine, err := q.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(q.path)
	return err == nil && os.SameFile(mine, there)
}

func (q *positionFile) read() (position, error) {
	b := make([]byte, slots*slotSize)
	n, err := q.f.ReadAt(b, 0)
	if n == 0 && err != nil {
		return position{}, err
	}
	p, err := readPosition(b[:n])
	if errors.Is(err, errSlot) {
		return p, fmt.Errorf("%w: %s is damaged: move it away to begin anew, and see docs/sinks.md for what that means", sinks.ErrStop, q.path)
	}
	return p, err
}

// write makes p, which read has returned, the position. The slot that held it stays as it is.
func (q *positionFile) write(p *position, reached func(string)) error {
	p.Magic, p.Version, p.Count = magic, version, p.Count+1
	b, err := appendSlot(nil, p)
	if err != nil {
		return err
	}
	// Count 1 is in the first slot.
	if _, err := q.f.WriteAt(b, int64((p.Count-1)%slots)*slotSize); err != nil {
		return err
	}
	reached("filesink.slot")
	return q.f.Sync()
}

func (q *positionFile) close() error {
	if q.f == nil {
		return nil
	}
	err := q.f.Close()
	q.f = nil
	return err
}

// syncFolder makes the names in the folder of a path durable.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
