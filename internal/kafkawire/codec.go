package kafkawire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress/lz4"
)

const (
	// maxBatch bounds a batch when it is not compressed any more: a hundred times the 1 MiB that brokers accept by
	// default, which no log compresses to. A bomb of a few bytes claims more.
	maxBatch = 128 << 20
	// keepPlain is the largest buffer that a cursor keeps for the next batch: what producers usually send, a few times.
	keepPlain = 4 << 20
)

// The codecs of attributes (KIP-110 added zstd).
const (
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4
)

var errBomb = fmt.Errorf("the batch is larger than %d bytes when it is not compressed", maxBatch)

// codecs decompress, and never to more than maxBatch. kafka-go's readers of snappy and zstd allocate what the input claims.
type codecs struct {
	gzip sync.Pool // *gzip.Reader
	lz4  lz4.Codec
	zstd func() (*zstd.Decoder, error)
	max  int
}

func newCodecs() *codecs {
	return &codecs{max: maxBatch, zstd: sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBatch), zstd.WithDecoderConcurrency(0))
	})}
}

// decompress appends to dst, which is empty.
func (c *codecs) decompress(codec uint16, b, dst []byte) ([]byte, error) {
	switch codec {
	case codecGzip:
		z, _ := c.gzip.Get().(*gzip.Reader)
		if z == nil {
			z = new(gzip.Reader)
		}
		defer c.gzip.Put(z)
		if err := z.Reset(bytes.NewReader(b)); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return c.readAll("gzip", z, dst)
	case codecSnappy:
		return c.snappy(b, dst)
	case codecLZ4:
		z := c.lz4.NewReader(bytes.NewReader(b))
		defer func() { _ = z.Close() }() // It reads from memory.
		return c.readAll("lz4", z, dst)
	case codecZstd:
		z, err := c.zstd()
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		dst, err = z.DecodeAll(b, dst)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) || len(dst) > c.max {
			return nil, errBomb
		}
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return dst, nil
	default:
		return nil, fmt.Errorf("unknown codec %d", codec)
	}
}

func (c *codecs) readAll(name string, r io.Reader, dst []byte) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	n, err := buf.ReadFrom(io.LimitReader(r, int64(c.max)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if n > int64(c.max) {
		return nil, errBomb
	}
	return buf.Bytes(), nil
}

// xerial is how Java's snappy begins: blocks with their lengths follow. Others write one raw block.
var xerial = []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16 // the magic, a version i32 and the oldest compatible one i32

func (c *codecs) snappy(b, dst []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, xerial) {
		return c.block(b, dst)
	}
	if len(b) < xerialHeader {
		return nil, errors.New("snappy: the header is cut off")
	}
	var err error
	for b = b[xerialHeader:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, errors.New("snappy: a block is cut off")
		}
		n := int64(binary.BigEndian.Uint32(b))
		if b = b[4:]; n > int64(len(b)) {
			return nil, errors.New("snappy: a block is cut off")
		}
		if dst, err = c.block(b[:n], dst); err != nil {
			return nil, err
		}
		b = b[n:]
	}
	return dst, nil
}

// block appends one block of snappy. Its length is checked before anything is allocated: snappy makes at most 64 bytes
// of 3, so a short block that claims more lies.
func (c *codecs) block(b, dst []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(b)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	if n > c.max-len(dst) {
		return nil, errBomb
	}
	if int64(n) > 22*int64(len(b)) {
		return nil, errors.New("snappy: a block claims more than it can hold")
	}
	dst = append(dst, make([]byte, n)...)
	if _, err := snappy.Decode(dst[len(dst)-n:], b); err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	return dst, nil
}
