package filesource

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// content is something that can be opened and read from its start: a file, a member of an archive, standard input.
type content struct {
	path   string
	member string // in a zip archive; "" for the file itself
	// once is what can be read one time only: standard input, a pipe.
	once io.Reader
}

func (c content) name() string {
	if c.member != "" {
		return c.path + ":" + c.member
	}
	return c.path
}

// The bytes that compressed files begin with. Zstandard may also begin with a frame to be skipped, 0x184D2A50 to 5F.
var (
	magicGzip = []byte{0x1f, 0x8b}
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
	magicZip  = []byte("PK\x03\x04")
	magicSkip = []byte{0x2a, 0x4d, 0x18}
)

// zstdWindow is the memory that a zstd frame may ask for; `zstd --long` takes 128 MiB, and by default 8.
const zstdWindow = 128 << 20

var errZip = errors.New("a zip archive can only be read from a file of its own: unpack it")

// list returns the contents of a file: its members if it is a zip archive, else itself.
func list(name string, stdin io.Reader) ([]content, error) {
	if name == Stdin {
		if stdin == nil {
			return nil, errors.New("standard input is not there")
		}
		return []content{{path: Stdin, once: stdin}}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return []content{{path: name, once: f}}, nil
	}
	defer func() { _ = f.Close() }() // it was only read
	head := make([]byte, len(magicZip))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head, magicZip) {
		return []content{{path: name}}, nil // what cannot be read says so when its head is read
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = z.Close() }()
	var members []content
	for _, m := range z.File {
		base := path.Base(m.Name)
		// __MACOSX holds what the Finder adds to archives.
		if m.FileInfo().IsDir() || strings.HasPrefix(base, ".") || strings.HasPrefix(m.Name, "__MACOSX/") {
			continue
		}
		members = append(members, content{path: name, member: m.Name})
	}
	// The order in which an archive was packed means nothing.
	slices.SortFunc(members, func(a, b content) int { return strings.Compare(a.member, b.member) })
	return members, nil
}

// stream is an open content, uncompressed.
type stream struct {
	io.Reader
	closers []func() error
	// file is set where the bytes are the file's own, so that it can be sought in.
	file *os.File
}

func (s *stream) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// open opens the content from its start. read counts the bytes taken from the file; total is set where it is known how
// many there are.
func (c content) open(read, total *atomic.Int64) (_ *stream, err error) {
	s := &stream{}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	read.Store(0)
	raw := c.once
	switch {
	case c.once != nil:
		if f, ok := raw.(io.Closer); ok && c.path != Stdin {
			s.closers = append(s.closers, f.Close)
		}
	case c.member != "":
		z, err := zip.OpenReader(c.path)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, z.Close)
		m, err := z.Open(c.member)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, m.Close)
		if info, err := m.Stat(); err == nil {
			total.Store(info.Size())
		}
		raw = m
	default:
		f, err := os.Open(c.path)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, f.Close)
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		total.Store(info.Size())
		s.file = f
		raw = f
	}
	counted := &counter{raw, read}
	head := make([]byte, len(magicZip))
	n, err := io.ReadFull(counted, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head = head[:n]
	all := io.MultiReader(bytes.NewReader(head), counted)
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(bufio.NewReaderSize(all, readSize))
		if err != nil {
			return nil, err
		}
		s.Reader, s.file = z, nil
		s.closers = append(s.closers, z.Close)
	case bytes.HasPrefix(head, magicZstd), n == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], magicSkip):
		// One thread: many files may be open side by side.
		z, err := zstd.NewReader(all, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		s.Reader, s.file = z, nil
		s.closers = append(s.closers, func() error { z.Close(); return nil })
	case bytes.HasPrefix(head, magicZip):
		return nil, errZip
	default:
		s.Reader = all
	}
	return s, nil
}

// counter counts what is read from a file.
type counter struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
