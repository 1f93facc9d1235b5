package eventlog

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
)

// frames are sealed records from an offset on.
func frames(salt uint64, offset int64, data ...string) (b []byte) {
	for i, d := range data {
		id := ""
		if i%2 == 1 {
			id = "id"
		}
		b = appendFrame(b, int64(1000+i), kind(i%int(kinds)), id, []byte(d))
	}
	seal(b, salt, offset, 7)
	return b
}

// Records and gaps tile whatever is there, and a record is exactly what was sealed at its place.
func FuzzScanner(f *testing.F) {
	const salt, base = 0x5a17, 1 << 40
	whole := frames(salt, base, "{}", `{"a":1}`, "", "\xce\xff\xce\xff\x00\x00\x00\x14", string(bytes.Repeat([]byte("x"), 70_000)))
	f.Add(whole, uint16(0))
	f.Add(whole[:100], uint16(3))
	f.Add(append(slices.Clone(whole), 0xce), uint16(1))
	f.Add(whole[40:], uint16(0))
	for _, i := range []int{0, 3, 7, 12, 20, 30, 31, 33, 80} {
		b := slices.Clone(whole)
		b[i] ^= 0x10
		f.Add(b, uint16(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, skip uint16) {
		// The reader begins anywhere.
		at := int64(base) + min(int64(skip), int64(len(b)))
		file := bytes.NewReader(append(make([]byte, headerSize), b...))
		s := scanner{file: file, head: header{base: base, salt: salt}, at: at, limit: base + int64(len(b))}
		for {
			r, err := s.next()
			g, isGap := errors.AsType[*gap](err)
			switch {
			case errors.Is(err, io.EOF):
				if at != s.limit {
					t.Fatalf("the end is at %d of %d", at-base, len(b))
				}
				return
			case isGap:
				if g.from != at || g.to <= at || g.to > s.limit {
					t.Fatalf("gap %v at %d", g, at)
				}
				at = g.to
			case err != nil:
				t.Fatal(err)
			default:
				again := appendFrame(nil, r.arrived, r.kind, string(r.id), r.data)
				seal(again, salt, r.offset, r.number)
				if r.offset != at || r.next != at+int64(len(again)) || !bytes.Equal(again, b[at-base:r.next-base]) {
					t.Fatalf("record %+v at %d", r, at)
				}
				at = r.next
			}
		}
	})
}

// A header is read as it was written, and every byte of it counts.
func TestHeader(t *testing.T) {
	h := header{name: 3, base: 1 << 40, before: 1<<40 - 5, number: 99, salt: 0xdeadbeef}
	b := h.append([]byte("x"))[1:]
	if got, err := readHeader(b); got != h || err != nil || len(b) != headerSize {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b {
		c := slices.Clone(b)
		c[i] ^= 1
		if _, err := readHeader(c); err == nil {
			t.Errorf("byte %d says nothing", i)
		}
		if _, err := readHeader(b[:i]); err == nil {
			t.Errorf("%d bytes are enough", i)
		}
	}
}
