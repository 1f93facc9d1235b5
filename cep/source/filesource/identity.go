package filesource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/cepd/cepd/cep/source"
)

// identity is what a content is known by.
type identity struct {
	head   []byte // its first headSize bytes, or all that there are
	format source.Format
	body   int64 // where records begin
	packed bool  // compressed, or in an archive: it cannot grow
}

var (
	// errUnfinished says that too little of a content is there to know it by: no line end, half a header.
	errUnfinished = errors.New("too little of it is there yet")
	// errHalf says so of what is compressed.
	errHalf  = errors.New("what it unpacks to ends in the middle of its first bytes")
	errZeros = errors.New("it begins with zero bytes: its writer goes on at its old place after the file was truncated; " +
		"let it open the file for appending")
)

// identify reads the head of a content. One that grows is known as soon as a record of it is there, by all that is there
// then.
func identify(c content, form Form, maxRecord int, grows bool) (*identity, error) {
	r := &reader{content: c, cut: newCutter(source.Format{}, maxRecord)}
	err := r.readHead(form)
	id := &identity{head: r.head, format: r.cut.format, body: r.body}
	if err == nil {
		id.packed = r.stream.file == nil
		if grows && !id.packed && (len(id.head) < headSize || id.format.Delimited()) {
			err = r.hasRecord() // a header alone is that of many files
		}
	}
	switch {
	case len(id.head) > 0 && id.head[0] == 0:
		err = errZeros
	case grows && errors.Is(err, io.ErrUnexpectedEOF):
		err = errHalf
	case grows && len(id.head) > 0 && errors.Is(err, io.EOF):
		err = errUnfinished // of the header
	}
	return id, errors.Join(err, r.release())
}

// hasRecord reports by errUnfinished that no record with its end is there.
func (r *reader) hasRecord() error {
	for {
		_, _, err := r.cut.next(false)
		switch {
		case err == nil, errors.Is(err, source.ErrTooLarge):
			return nil
		case r.atEnd:
			return errUnfinished
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

// compatible reports whether two heads can be those of one content that has grown.
func compatible(a, b []byte) bool {
	n := min(len(a), len(b))
	return bytes.Equal(a[:n], b[:n])
}

// nameAmong returns the longest name in known that some beginning of the head has, and the length of that beginning. A
// content that was named when it was short is found by it.
func nameAmong(head []byte, known map[string]bool) (name string, length int) {
	if len(known) == 0 {
		return "", 0
	}
	if name = nameOf(head); known[name] {
		return name, len(head)
	}
	name = ""
	h := sha256.New()
	var sum [sha256.Size]byte
	for i := range len(head) - 1 {
		h.Write(head[i : i+1])
		h.Sum(sum[:0])
		var text [2 * nameSize]byte
		hex.Encode(text[:], sum[:nameSize])
		if known[string(text[:])] {
			name, length = string(text[:]), i+1
		}
	}
	return name, length
}
