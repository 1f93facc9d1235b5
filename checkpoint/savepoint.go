package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A savepoint file is one epoch by itself, with the messages that wait. docs/format/checkpoint.md draws it.
//
//	savepoint = "cepd-savepoint", version, blocks
//	block     = kind (1), length of the payload (4), payload, CRC-32C (4) over the number of the block (8) and all before
//	payload   = 'm': the manifest in JSON, always first
//	          | 'd': a blob
//	          | 's': string sink, uvarint sequence of the last message
//	          | 'n': string name, value of a note
//	          | 'l': string sink, uvarint sequence, a message
//	          | 'r': slot (1), records: uvarint length of the key, key, uvarint length of the value, value; slots ascend
//	          | 'z': uvarint number of records, always last
//
// Integers are big endian.
const (
	savepointMagic   = "cepd-savepoint"
	savepointVersion = 1
	// blockFull is the size at which a block of records is written.
	blockFull = 1 << 20
	// blockMax is the size above which a block is refused: the largest record, and room for its lengths.
	blockMax = RecordMax + 1<<10
)

const (
	blockManifest = 'm'
	blockBlob     = 'd'
	blockSink     = 's'
	blockNote     = 'n'
	blockOutgoing = 'l'
	blockRecords  = 'r'
	blockEnd      = 'z'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SavepointWriter writes a savepoint file. The first error stands for all that follow, and Close returns it.
type SavepointWriter struct {
	w       *bufio.Writer
	number  uint64
	block   []byte // records that wait, behind their slot
	records uint64
	err     error
}

// NewSavepointWriter begins a file with the manifest.
func NewSavepointWriter(w io.Writer, m *Manifest) *SavepointWriter {
	s := &SavepointWriter{w: bufio.NewWriterSize(w, 1<<16)}
	data, err := m.Encode()
	if err != nil {
		s.err = err
		return s
	}
	s.write([]byte(savepointMagic))
	s.write([]byte{savepointVersion})
	s.put(blockManifest, data)
	return s
}

func (s *SavepointWriter) write(b []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

func (s *SavepointWriter) put(kind byte, payload ...[]byte) {
	size := 0
	for _, p := range payload {
		size += len(p)
	}
	if size > blockMax && s.err == nil {
		s.err = fmt.Errorf("a block of %d bytes, more than %d", size, blockMax)
		return
	}
	head := blockHead(kind, size)
	sum := blockSum(s.number, head[:], payload...)
	s.number++
	s.write(head[:])
	for _, p := range payload {
		s.write(p)
	}
	s.write(binary.BigEndian.AppendUint32(nil, sum))
}

func blockHead(kind byte, size int) (head [5]byte) {
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(size))
	return head
}

func blockSum(number uint64, head []byte, payload ...[]byte) uint32 {
	sum := crc32.Checksum(binary.BigEndian.AppendUint64(nil, number), castagnoli)
	sum = crc32.Update(sum, castagnoli, head)
	for _, p := range payload {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return sum
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Blob adds content that the manifest names.
func (s *SavepointWriter) Blob(data []byte) { s.put(blockBlob, data) }

// Sink says which message of a sink was the last one, whether it is kept or not.
func (s *SavepointWriter) Sink(name string, last uint64) {
	s.put(blockSink, binary.AppendUvarint(appendText(nil, name), last))
}

// Note adds a note.
func (s *SavepointWriter) Note(name string, value []byte) {
	s.put(blockNote, appendText(nil, name), value)
}

// Outgoing adds a message that waits. Those of a sink ascend, behind [SavepointWriter.Sink].
func (s *SavepointWriter) Outgoing(o Outgoing) {
	s.put(blockOutgoing, binary.AppendUvarint(appendText(nil, o.Sink), o.Sequence), o.Data)
}

// Record adds a record. Slots ascend.
func (s *SavepointWriter) Record(r Record) {
	if len(s.block) > 0 && (s.block[0] != r.Slot || len(s.block) >= blockFull) {
		s.flush()
	}
	if len(s.block) == 0 {
		s.block = append(s.block, r.Slot)
	}
	s.block = append(binary.AppendUvarint(s.block, uint64(len(r.Key))), r.Key...)
	s.block = append(binary.AppendUvarint(s.block, uint64(len(r.Value))), r.Value...)
	s.records++
}

func (s *SavepointWriter) flush() {
	if len(s.block) > 0 {
		s.put(blockRecords, s.block)
	}
	s.block = s.block[:0]
}

// Close ends the file. Without it the file is refused.
func (s *SavepointWriter) Close() error {
	s.flush()
	s.put(blockEnd, binary.AppendUvarint(nil, s.records))
	if s.err == nil {
		s.err = s.w.Flush()
	}
	return s.err
}

// SavepointReader is told what a savepoint file holds, in the order of the file. What it is given is its own, but for
// records, which are valid during the call.
type SavepointReader interface {
	Manifest(m *Manifest) error
	Blob(b Blob) error
	Sink(name string, last uint64) error
	Note(name string, value []byte) error
	Outgoing(o Outgoing) error
	Record(r Record) error
}

// ReadSavepoint reads a file to its end. An error may come behind much that was told: nothing of it counts then.
func ReadSavepoint(r io.Reader, to SavepointReader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	head := make([]byte, len(savepointMagic)+1)
	if _, err := io.ReadFull(in, head); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if string(head[:len(savepointMagic)]) != savepointMagic {
		return errors.New("it is no savepoint of cepd: `cepd checkpoint export` writes one")
	}
	if v := head[len(savepointMagic)]; v != savepointVersion {
		if v > savepointVersion {
			return fmt.Errorf("%w (version %d, known is %d)", ErrNewer, v, savepointVersion)
		}
		return savepointDamage(0, "its version is not known")
	}
	p := savepointParser{to: to}
	var payload bytes.Buffer
	for number := uint64(0); !p.ended; number++ {
		if err := readBlock(in, number, &payload); err != nil {
			return err
		}
		if err := p.block(number, payload.Bytes()); err != nil {
			return err
		}
	}
	if _, err := in.ReadByte(); err == nil {
		return savepointDamage(0, "it has bytes behind its end")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func savepointDamage(number uint64, why string) error {
	return &DamageError{What: fmt.Sprintf("block %d of the savepoint", number), Why: why}
}

// readBlock reads the kind and the payload of a block. Its length is not believed before it was read: memory grows with what
// comes.
func readBlock(in *bufio.Reader, number uint64, payload *bytes.Buffer) error {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return cutShort(number, err)
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	if size > blockMax {
		return savepointDamage(number, "its length is none that is written")
	}
	payload.Reset()
	payload.WriteByte(head[0])
	if _, err := io.CopyN(payload, in, size); err != nil {
		return cutShort(number, err)
	}
	var sum [4]byte
	if _, err := io.ReadFull(in, sum[:]); err != nil {
		return cutShort(number, err)
	}
	if binary.BigEndian.Uint32(sum[:]) != blockSum(number, head[:], payload.Bytes()[1:]) {
		return savepointDamage(number, "its checksum does not fit")
	}
	return nil
}

func cutShort(number uint64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return savepointDamage(number, "the file is cut short")
	}
	return err
}

// savepointParser holds the order of the blocks.
type savepointParser struct {
	to      SavepointReader
	slot    int
	records uint64
	ended   bool
}

// block reads a block: its kind, then its payload.
func (p *savepointParser) block(number uint64, b []byte) error {
	kind, b := b[0], b[1:]
	if (kind == blockManifest) != (number == 0) {
		return savepointDamage(number, "the manifest is not the first one")
	}
	bad := savepointDamage(number, "it cannot be read")
	switch kind {
	case blockManifest:
		m, err := DecodeManifest(b)
		if err != nil {
			return err
		}
		return p.to.Manifest(m)
	case blockBlob:
		data := bytes.Clone(b)
		return p.to.Blob(Blob{Hash: BlobHash(data), Data: data})
	case blockSink:
		name, rest, ok := readText(b)
		last, n := binary.Uvarint(rest)
		if !ok || n <= 0 || n != len(rest) {
			return bad
		}
		return p.to.Sink(name, last)
	case blockNote:
		name, rest, ok := readText(b)
		if !ok {
			return bad
		}
		return p.to.Note(name, append([]byte{}, rest...))
	case blockOutgoing:
		name, rest, ok := readText(b)
		sequence, n := binary.Uvarint(rest)
		if !ok || n <= 0 {
			return bad
		}
		return p.to.Outgoing(Outgoing{Sink: name, Sequence: sequence, Data: bytes.Clone(rest[n:])})
	case blockRecords:
		return p.readRecords(b, bad)
	case blockEnd:
		n, size := binary.Uvarint(b)
		if size <= 0 || size != len(b) || n != p.records {
			return bad
		}
		p.ended = true
		return nil
	}
	return bad
}

func readText(b []byte) (text string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	return string(b[size : size+int(n)]), b[size+int(n):], true
}

func (p *savepointParser) readRecords(b []byte, bad error) error {
	if len(b) == 0 || int(b[0]) < p.slot || p.records == math.MaxUint64 {
		return bad
	}
	p.slot = int(b[0])
	take := func() ([]byte, bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, false
		}
		v := b[size : size+int(n) : size+int(n)]
		b = b[size+int(n):]
		return v, true
	}
	for b = b[1:]; len(b) > 0; p.records++ {
		key, ok := take()
		if !ok {
			return bad
		}
		value, ok := take()
		if !ok {
			return bad
		}
		if err := p.to.Record(Record{Slot: uint8(p.slot), Key: key, Value: value}); err != nil {
			return err
		}
	}
	return nil
}
