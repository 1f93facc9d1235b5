package kafkasink

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cepd/cepd/sinks"
)

// The position as docs/format/kafka.md draws it: one line of JSON, so that people can read it with the tools of Kafka.
const (
	magic   = "cepd kafka position"
	version = 1
)

// position is where a topic stands.
type position struct {
	Magic   string `json:"format"`
	Version int    `json:"version"`
	// Owner is the job and sink whose position it is.
	Owner    string `json:"owner"`
	Lineage  uint64 `json:"lineage"`
	Sequence uint64 `json:"sequence"`
	Chain    string `json:"chain"`
	// Topic and TopicID are what the messages up to Sequence were written to: a topic that is deleted and made again has the
	// same name and another id.
	Topic   string `json:"topic"`
	TopicID string `json:"topic_id"`
}

var (
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
	crcMember   = []byte(`,"crc":"`)
	errPosition = errors.New("no valid position")
)

func (p *position) progress() sinks.Progress {
	at := sinks.Progress{Lineage: p.Lineage, Sequence: p.Sequence}
	if b, err := hex.DecodeString(p.Chain); err == nil {
		copy(at.Chain[:], b)
	}
	return at
}

// append appends the position, with the checksum over all before it as its last member.
func (p *position) append(dst []byte) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return dst, fmt.Errorf("encode position: %w", err)
	}
	b = b[:len(b)-1]
	sum := crc32.Checksum(b, castagnoli)
	dst = append(dst, b...)
	return fmt.Appendf(append(dst, crcMember...), "%08x\"}", sum), nil
}

// readPosition reads what append made.
func readPosition(b []byte) (position, error) {
	i := bytes.LastIndex(b, crcMember)
	if i < 0 {
		return position{}, errPosition
	}
	if want := fmt.Appendf(nil, "%s%08x\"}", crcMember, crc32.Checksum(b[:i], castagnoli)); !bytes.Equal(b[i:], want) {
		return position{}, fmt.Errorf("%w: its checksum is wrong", errPosition)
	}
	var p position
	if err := json.Unmarshal(b, &p); err != nil || p.Magic != magic {
		return position{}, errPosition
	}
	if p.Version != version {
		return position{}, fmt.Errorf("the position has version %d, this program knows %d: use a newer one", p.Version, version)
	}
	if chain, err := hex.DecodeString(p.Chain); err != nil || len(chain) != len(sinks.Chain{}) || p.Lineage == 0 && p.Sequence > 0 {
		return position{}, errPosition
	}
	return p, nil
}
