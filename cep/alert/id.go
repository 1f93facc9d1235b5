package alert

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/cepd/cepd/cep"
)

// idDomain begins what is hashed, so that no other hash of ours can be the same. Its number changes with the layout.
const idDomain = "cepd alert id 1\n"

// MatchID returns the id of the alert for a match or timeout. The hash is SHA-256 over
//
//	domain  rule  fingerprint  key  kind  n  n * (name  m  m * (stream  partition  offset))  [time]
//
// where texts are a uvarint length and bytes, n is the number of steps and absences in written order, m that of the events
// each took, as uvarints; an offset is 8 bytes, big endian; and the time, 8 bytes too, is there only where no event was
// taken. docs/format/alert.md draws it.
func MatchID(p *Plan, key cep.Key, kind cep.AlertKind, at cep.Time, h cep.History) cep.AlertID {
	b := appendHead(make([]byte, 0, 512), p, key, kind)
	total := h.Total()
	byStep := make([][]cep.Position, len(p.Steps))
	for i := range total {
		t := h.Nth(i)
		byStep[t.Step()] = append(byStep[t.Step()], t.Position())
	}
	for i, s := range p.Steps {
		b = appendText(b, s.Name)
		b = binary.AppendUvarint(b, uint64(len(byStep[i])))
		for _, pos := range byStep[i] {
			b = appendText(b, pos.Partition.Stream)
			b = appendText(b, pos.Partition.Name)
			b = binary.BigEndian.AppendUint64(b, uint64(pos.Offset))
		}
	}
	if total == 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(at))
	}
	return sha256.Sum256(b)
}

// followID returns the id of an alert that follows another: no step took anything, so behind the steps stand the time, and
// the id that it follows.
func followID(p *Plan, key cep.Key, kind cep.AlertKind, follows cep.AlertID, at cep.Time) cep.AlertID {
	b := appendHead(make([]byte, 0, 512), p, key, kind)
	for _, s := range p.Steps {
		b = appendText(b, s.Name)
		b = binary.AppendUvarint(b, 0)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	return sha256.Sum256(append(b, follows[:]...))
}

// appendHead appends what all ids begin with, up to the number of steps.
func appendHead(b []byte, p *Plan, key cep.Key, kind cep.AlertKind) []byte {
	b = append(b, idDomain...)
	b = appendText(b, p.Rule)
	b = appendText(b, p.Fingerprint)
	b = appendText(b, string(key))
	b = appendText(b, kind.String())
	return binary.AppendUvarint(b, uint64(len(p.Steps)))
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
