package filesource

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// openMax is how many files a follower holds open: a quarter of the 1,024 descriptors that a process may have where
	// nobody asked for more. Directories hold thousands of files, of which a few grow.
	openMax = 256
	// packedMax is how many of them may be compressed: each has a window of memory, 8 MiB for zstd as a rule, and one that
	// is closed is unpacked again up to where it was.
	packedMax = 32
	// silentMax is how long an open file may be silent before it is closed: long enough that one which is deleted right
	// behind its last line is still open.
	silentMax = time.Minute
)

// handle is an open content, and belongs to one partition.
type handle struct {
	stream *stream
	// at is the offset that a packed stream gives next.
	at int64
	// read and total count bytes of the file.
	read, total atomic.Int64
	// pinned says that its file may be gone: what is closed then cannot be opened again.
	pinned bool
	used   time.Time
}

func (h *handle) packed() bool { return h.stream.file == nil }

// handles lends open contents. One that is lent is in nobody else's hands; it is lent for one read, never while its
// partition waits for anything else.
type handles struct {
	mu   sync.Mutex
	free map[*followed]*handle
	// open counts all, packed those among them that are.
	open, packed int
	// freed is closed and made anew whenever a handle comes back.
	freed  chan struct{}
	closed bool // nothing is kept any more
}

func newHandles() *handles {
	return &handles{free: map[*followed]*handle{}, freed: make(chan struct{})}
}

// take lends the partition's own handle; nil: it has none, and may open one, which counts from here on.
func (p *handles) take(ctx context.Context, owner *followed) (*handle, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if h := p.free[owner]; h != nil {
			delete(p.free, owner)
			return h, nil
		}
		if p.open < openMax || p.evict(func(*handle) bool { return true }) {
			p.open++
			return nil, nil
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
			p.mu.Lock()
		case <-ctx.Done():
			p.mu.Lock()
			return nil, ctx.Err()
		}
	}
}

// evict closes the handle that was not used for the longest time among those that which admits, pinned ones last.
func (p *handles) evict(which func(*handle) bool) bool {
	var owner *followed
	for o, h := range p.free {
		if !which(h) {
			continue
		}
		if b := p.free[owner]; owner == nil || b.pinned != h.pinned && b.pinned || b.pinned == h.pinned && h.used.Before(b.used) {
			owner = o
		}
	}
	if owner == nil {
		return false
	}
	p.close(owner)
	return true
}

// close closes a handle that is free.
func (p *handles) close(owner *followed) {
	h := p.free[owner]
	delete(p.free, owner)
	p.open--
	if h.packed() {
		p.packed--
	}
	_ = h.stream.close() // it was only read
}

// opened says that a handle was opened where take gave none.
func (p *handles) opened(h *handle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.packed() {
		p.packed++
		if p.packed > packedMax {
			p.evict((*handle).packed)
		}
	}
}

// swap puts one handle that is lent in the place of another.
func (p *handles) swap(old, h *handle) {
	p.mu.Lock()
	if old.packed() {
		p.packed--
	}
	p.mu.Unlock()
	_ = old.stream.close() // it was only read
	p.opened(h)
}

// give takes a handle back.
func (p *handles) give(owner *followed, h *handle, pinned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.used, h.pinned = time.Now(), pinned
	p.free[owner] = h
	if p.closed {
		p.close(owner)
	}
	p.signal()
}

// drop gives up a handle that was lent; nil: one that could not be opened.
func (p *handles) drop(h *handle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if h != nil {
		if h.packed() {
			p.packed--
		}
		_ = h.stream.close() // it was only read
	}
	p.signal()
}

func (p *handles) signal() {
	close(p.freed)
	p.freed = make(chan struct{})
}

// leave closes what the partition has open.
func (p *handles) leave(owner *followed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free[owner] != nil {
		p.close(owner)
		p.signal()
	}
}

// closeAll closes everything that is not lent, and what is when it comes back.
func (p *handles) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for owner := range p.free {
		p.close(owner)
	}
}

// sweep closes what has been silent for long.
func (p *handles) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for owner, h := range p.free {
		if !h.pinned && now.Sub(h.used) >= silentMax {
			p.close(owner)
			p.signal()
		}
	}
}
