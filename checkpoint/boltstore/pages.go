package boltstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"

	"github.com/cepd/cepd/checkpoint"
)

// bbolt maps its file into memory and believes what stands there: a page that was overwritten, or an end that was cut off,
// ends the process by a fault that nobody can recover from. So the pages are walked once before it opens the file, by plain
// reads: every page that a tree reaches must lie inside the file, be what its parent says it is, be reached once, and hold
// elements that lie inside it with keys that ascend. What the values say is not looked at: they have checksums of their own.
//
// The layout is that of bbolt's version 2, in the byte order of the machine:
//
//	page      = id (8), flags (2), count (2), overflow (4), elements, data
//	meta      = magic (4), version (4), page size (4), flags (4), root page (8), sequence (8), freelist page (8),
//	            high water (8), transaction (8), FNV-1a of it (8)                      in pages 0 and 1
//	branch    = position of the key (4), size of the key (4), page (8)                position: from the element
//	leaf      = flags (4), position (4), size of the key (4), size of the value (4)
//	bucket    = root page (8), or 0 where a page follows in the value; sequence (8)   value of a leaf with flag 1
const (
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	pageHead     = 16
	metaSize     = 64
	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFree     = 0x10
	leafBucket   = 0x01
	noFreelist   = 1<<64 - 1
	pageSizeMin  = 1 << 10
	pageSizeMax  = 64 << 10
	elementSize  = 16
	bucketHead   = 16
	treeDepthMax = 64 // trees of 2^64 pages are less deep, two children a page
)

var order = binary.NativeEndian

// meta is what a sound meta page says.
type meta struct {
	page                              uint64
	pageSize                          uint32
	root, freelist, high, transaction uint64
}

// pageFile is a file that is walked.
type pageFile struct {
	file io.ReaderAt
	size int64
	meta meta
	seen []uint64 // a bit for each page
}

// errPages is a file whose pages are not what bbolt needs.
type errPages struct{ why string }

func (e *errPages) Error() string { return e.why }
func (e *errPages) Unwrap() error { return checkpoint.ErrDamaged }

func badPages(format string, args ...any) error { return &errPages{fmt.Sprintf(format, args...)} }

// checkPages walks the file. stale is the meta page whose tree is broken while the other's, of the transaction before, is
// sound; -1 where the newest one is.
func checkPages(f io.ReaderAt, size int64) (m meta, stale int64, err error) {
	metas, err := readMetas(f, size)
	if err != nil {
		return meta{}, -1, err
	}
	var first error
	for i, m := range metas {
		p := &pageFile{file: f, size: size, meta: m}
		err := p.walk()
		if err == nil {
			if i > 0 {
				return m, int64(metas[0].page), nil
			}
			return m, -1, nil
		}
		if _, bad := errors.AsType[*errPages](err); !bad {
			return meta{}, -1, err
		}
		if first == nil {
			first = err
		}
	}
	return meta{}, -1, first
}

// readMetas returns the sound meta pages, the newer first.
func readMetas(f io.ReaderAt, size int64) ([]meta, error) {
	if size < 2*pageSizeMin {
		return nil, badPages("the file has %d bytes, less than its two first pages", size)
	}
	var l []meta
	read := func(page uint64, at int64) (bool, error) {
		var b [pageHead + metaSize]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return false, fmt.Errorf("read page %d: %w", page, err)
		}
		m, ok := decodeMeta(b[pageHead:])
		// The second one lies one page behind the first, whose size it knows itself.
		if !ok || page == 1 && int64(m.pageSize) != at {
			return false, nil
		}
		m.page = page
		l = append(l, m)
		return true, nil
	}
	if _, err := read(0, 0); err != nil {
		return nil, err
	}
	for at := int64(pageSizeMin); at <= pageSizeMax && at < size; at *= 2 {
		found, err := read(1, at)
		if err != nil {
			return nil, err
		}
		if found {
			break
		}
	}
	if len(l) == 0 {
		return nil, badPages("neither of its two first pages is one of bbolt's")
	}
	slices.SortFunc(l, func(a, b meta) int { return cmp.Compare(b.transaction, a.transaction) })
	return l, nil
}

func decodeMeta(b []byte) (meta, bool) {
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8])
	m := meta{
		pageSize: order.Uint32(b[8:]), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]),
		high: order.Uint64(b[40:]), transaction: order.Uint64(b[48:]),
	}
	ok := order.Uint32(b) == boltMagic && order.Uint32(b[4:]) == boltVersion && order.Uint64(b[56:]) == h.Sum64() &&
		m.pageSize >= pageSizeMin && m.pageSize <= pageSizeMax && m.pageSize&(m.pageSize-1) == 0
	return m, ok
}

func (p *pageFile) walk() error {
	m := p.meta
	pages := uint64(p.size) / uint64(m.pageSize)
	if m.high > pages {
		return badPages("the file is cut off: it has %d bytes of %d", p.size, m.high*uint64(m.pageSize))
	}
	p.seen = make([]uint64, m.high/64+1)
	p.seen[0] = 0b11
	if m.freelist != noFreelist {
		if err := p.freelist(m.freelist); err != nil {
			return err
		}
	}
	return p.tree(m.root, 0)
}

// read reads so many bytes at a place in a page and those that follow it.
func (p *pageFile) read(page uint64, at int64, n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := p.file.ReadAt(b, int64(page)*int64(p.meta.pageSize)+at); err != nil {
		return nil, fmt.Errorf("read page %d: %w", page, err)
	}
	return b, nil
}

// enter notes that a page is reached, and returns its head and its size with what follows it.
func (p *pageFile) enter(page uint64) (flags, count uint16, size int64, err error) {
	if page < 2 || page >= p.meta.high {
		return 0, 0, 0, badPages("page %d lies outside of %d pages", page, p.meta.high)
	}
	head, err := p.read(page, 0, pageHead)
	if err != nil {
		return 0, 0, 0, err
	}
	overflow := uint64(order.Uint32(head[12:]))
	if order.Uint64(head) != page || overflow >= p.meta.high-page {
		return 0, 0, 0, badPages("page %d is not what stands there", page)
	}
	for i := page; i <= page+overflow; i++ {
		if p.seen[i/64]&(1<<(i%64)) != 0 {
			return 0, 0, 0, badPages("page %d is used twice", i)
		}
		p.seen[i/64] |= 1 << (i % 64)
	}
	return order.Uint16(head[8:]), order.Uint16(head[10:]), int64(overflow+1) * int64(p.meta.pageSize), nil
}

func (p *pageFile) freelist(page uint64) error {
	flags, count, size, err := p.enter(page)
	if err != nil {
		return err
	}
	n, at := uint64(count), int64(pageHead)
	if count == 0xFFFF {
		b, err := p.read(page, at, 8)
		if err != nil {
			return err
		}
		n, at = order.Uint64(b), at+8
	}
	if flags != flagFree || n > uint64(size-at)/8 {
		return badPages("page %d is no list of free pages", page)
	}
	ids, err := p.read(page, at, int(n)*8)
	if err != nil {
		return err
	}
	before := uint64(1)
	for ; len(ids) > 0; ids = ids[8:] {
		id := order.Uint64(ids)
		if id <= before || id >= p.meta.high {
			return badPages("page %d lists page %d as free", page, id)
		}
		before = id
	}
	return nil
}

// tree walks a page and all below it.
func (p *pageFile) tree(page uint64, depth int) error {
	if depth > treeDepthMax {
		return badPages("page %d lies too deep", page)
	}
	flags, count, size, err := p.enter(page)
	if err != nil {
		return err
	}
	// Most pages are one page long and read whole; a value of a megabyte is not read for its key.
	whole := size == int64(p.meta.pageSize)
	n := pageHead + elementSize*int(count)
	if int64(n) > size {
		return badPages("page %d has %d elements, more than it can hold", page, count)
	}
	if whole {
		n = int(size)
	}
	b, err := p.read(page, 0, n)
	if err != nil {
		return err
	}
	at := func(offset int64, n int) ([]byte, error) {
		if whole {
			return b[offset : offset+int64(n)], nil
		}
		return p.read(page, offset, n)
	}
	switch flags {
	case flagBranch:
		return p.branch(page, b, int(count), size, at, depth)
	case flagLeaf:
		return p.leaf(page, b, int(count), size, at, depth)
	}
	return badPages("page %d is no page of a tree", page)
}

func (p *pageFile) branch(page uint64, b []byte, count int, size int64, at func(int64, int) ([]byte, error), depth int) error {
	if count == 0 {
		return badPages("page %d has no children", page)
	}
	var before []byte
	for i := range count {
		e := b[pageHead+elementSize*i:]
		pos, keySize := int64(pageHead+elementSize*i)+int64(order.Uint32(e)), int64(order.Uint32(e[4:]))
		if pos > size || keySize > size-pos {
			return badPages("page %d has an element outside of it", page)
		}
		key, err := at(pos, int(keySize))
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(before, key) >= 0 {
			return badPages("page %d has keys that do not ascend", page)
		}
		before = key
		if err := p.tree(order.Uint64(e[8:]), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (p *pageFile) leaf(page uint64, b []byte, count int, size int64, at func(int64, int) ([]byte, error), depth int) error {
	var before []byte
	for i := range count {
		e := b[pageHead+elementSize*i:]
		flags := order.Uint32(e)
		pos, keySize, valueSize := int64(pageHead+elementSize*i)+int64(order.Uint32(e[4:])), int64(order.Uint32(e[8:])), int64(order.Uint32(e[12:]))
		if pos > size || keySize > size-pos || valueSize > size-pos-keySize || flags > leafBucket {
			return badPages("page %d has an element outside of it", page)
		}
		key, err := at(pos, int(keySize))
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(before, key) >= 0 {
			return badPages("page %d has keys that do not ascend", page)
		}
		before = key
		if flags&leafBucket == 0 {
			continue
		}
		if valueSize < bucketHead {
			return badPages("page %d has a bucket that is cut short", page)
		}
		value, err := at(pos+keySize, int(valueSize))
		if err != nil {
			return err
		}
		if root := order.Uint64(value); root != 0 {
			if err := p.tree(root, depth+1); err != nil {
				return err
			}
			continue
		}
		if err := inlineBucket(value[bucketHead:]); err != nil {
			return fmt.Errorf("page %d: %w", page, err)
		}
	}
	return nil
}

// inlineBucket checks a leaf that lies in the value of its bucket. It holds no buckets.
func inlineBucket(b []byte) error {
	if len(b) < pageHead || order.Uint16(b[8:]) != flagLeaf {
		return badPages("a bucket in it has no page")
	}
	count := int(order.Uint16(b[10:]))
	if pageHead+elementSize*count > len(b) {
		return badPages("a bucket in it is cut short")
	}
	var before []byte
	for i := range count {
		base := pageHead + elementSize*i
		e := b[base:]
		pos, keySize, valueSize := int64(base)+int64(order.Uint32(e[4:])), int64(order.Uint32(e[8:])), int64(order.Uint32(e[12:]))
		if order.Uint32(e) != 0 || pos > int64(len(b)) || keySize > int64(len(b))-pos || valueSize > int64(len(b))-pos-keySize {
			return badPages("a bucket in it has an element outside of it")
		}
		key := b[pos : pos+keySize]
		if i > 0 && bytes.Compare(before, key) >= 0 {
			return badPages("a bucket in it has keys that do not ascend")
		}
		before = key
	}
	return nil
}

// dropMeta makes bbolt take the other meta page: the transaction before the last one.
func dropMeta(f *os.File, m meta, page int64) error {
	if _, err := f.WriteAt(make([]byte, pageHead+metaSize), page*int64(m.pageSize)); err != nil {
		return err
	}
	return f.Sync()
}
