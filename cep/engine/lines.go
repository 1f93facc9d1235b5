package engine

import (
	"fmt"
	"sync"
)

// lineMax is the number of packets that wait in one line: enough that a shard with much to do holds up nobody at once, few
// enough that what waits stays within some thousand events and the alerts of a barrier within milliseconds.
const lineMax = 8

// packetMax is the number of events that wait for a packet while nothing is released, as when a source is read again.
const packetMax = 4096

// lines connect the goroutines of a Core. Packets come to each shard and to the back in one order, and each shard tells the
// back of each packet, so the back knows whom to listen to and nobody waits in a circle.
type lines struct {
	// packets lead from the front, which alone sends and closes, to the shards, the last one to the back.
	packets []chan *packet
	// yields lead from the shards, of which each alone sends and closes its own, to the back.
	yields []chan yield
	done   sync.WaitGroup
	// broken is closed when a goroutine has panicked: all others end then, and err says why.
	broken chan struct{}
	once   sync.Once
	err    error
}

// run starts the goroutines of [Options.Parallel].
func (c *Core) run() {
	if !c.options.Parallel {
		for _, s := range c.shards {
			s.reuse = true
		}
		return
	}
	n := len(c.shards)
	l := &lines{broken: make(chan struct{})}
	returned := make(chan []*entry, n*lineMax)
	c.spare.returned = returned
	for _, s := range c.shards {
		s.separate(&pool{returned: returned})
	}
	c.back.shard.separate(&pool{returned: returned})
	c.back.spread.spare = c.back.shard.spare
	for range n {
		l.packets = append(l.packets, make(chan *packet, lineMax))
		l.yields = append(l.yields, make(chan yield, lineMax))
	}
	l.packets = append(l.packets, make(chan *packet, lineMax))
	c.lines = l
	for i, s := range c.shards {
		l.start(fmt.Sprintf("shard %d", i), func() { l.runShard(s) })
	}
	l.start("back", func() { l.runBack(c.back) })
}

// start runs a goroutine, whose panic breaks the Core and not the process.
func (l *lines) start(name string, f func()) {
	l.done.Go(func() {
		defer func() {
			if cause := recover(); cause != nil {
				l.fail(fmt.Errorf("%s of the engine: panic: %v", name, cause))
			}
		}()
		f()
	})
}

func (l *lines) fail(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.broken)
	})
}

func (l *lines) runShard(s *shard) {
	out := l.yields[s.index]
	defer close(out)
	for p := range l.packets[s.index] {
		s.begin(p)
		for last := false; !last; {
			y := s.step()
			last = y.last
			select {
			case out <- y:
			case <-l.broken:
				return
			}
		}
	}
}

func (l *lines) runBack(b *back) {
	for p := range l.packets[len(l.yields)] {
		b.handle(p)
		select {
		case <-l.broken:
			return
		default:
		}
	}
}

// next is what a shard has to tell.
func (c *Core) next(shard int) yield {
	if c.lines == nil {
		return c.shards[shard].step()
	}
	select {
	case y, ok := <-c.lines.yields[shard]:
		if ok {
			return y
		}
		// It ended before it had told all: it is broken, and says so in a moment.
		<-c.lines.broken
	case <-c.lines.broken:
	}
	panic("a shard is broken")
}

// flush sends what has gathered on its way, with what is asked at the end of it.
func (c *Core) flush(ask *barrier) {
	if ask == nil && len(c.releases) == 0 && len(c.fresh) == 0 && !c.full() {
		return
	}
	for _, p := range c.packets {
		p.clocks, p.releases, p.barrier = c.fresh, c.releases, ask
	}
	c.fresh = nil
	if c.lines != nil {
		for i, p := range c.packets {
			select {
			case c.lines.packets[i] <- p:
			case <-c.lines.broken:
			}
			c.packets[i] = &packet{}
		}
		c.releases = nil
		return
	}
	for i, s := range c.shards {
		s.begin(c.packets[i])
	}
	c.back.handle(c.packets[len(c.shards)])
	for _, p := range c.packets {
		clear(p.entries)
		*p = packet{entries: p.entries[:0]}
	}
	clear(c.releases)
	c.releases = c.releases[:0]
}

// pause waits until all that was pushed has been worked off: then shards and back wait for the next packet, and may be looked
// at.
func (c *Core) pause() {
	if len(c.fresh) > 0 {
		c.flush(nil)
	}
	if c.lines == nil || c.lines.packets == nil {
		return
	}
	idle := make(chan struct{})
	c.flush(&barrier{idle: idle})
	select {
	case <-idle:
	case <-c.lines.broken:
	}
}

// full says that what gathered must not wait for a release.
func (c *Core) full() bool {
	for _, p := range c.packets {
		if len(p.entries) >= packetMax {
			return true
		}
	}
	return false
}

// rest waits until the goroutines have done all that they were handed, and ends them.
func (c *Core) rest() {
	if c.lines == nil {
		return
	}
	for _, line := range c.lines.packets {
		close(line)
	}
	c.lines.done.Wait()
	c.lines.packets = nil
}

// Close ends the goroutines of [Options.Parallel] and waits for them: what was pushed is worked off, or left alone if the Core
// is broken. Nothing may be called afterwards but Close, Err and Broken.
func (c *Core) Close() {
	if c.lines != nil && c.lines.packets != nil {
		c.rest()
	}
}

// Broken is closed when a goroutine of the Core has panicked outside of a rule: it hands out nothing any more. Nil, which is
// never closed, without [Options.Parallel]: the panic is that of the call then.
func (c *Core) Broken() <-chan struct{} {
	if c.lines == nil {
		return nil
	}
	return c.lines.broken
}

// Err says what broke the Core; nil while nothing has.
func (c *Core) Err() error {
	select {
	case <-c.Broken():
		return c.lines.err
	default:
		return nil
	}
}
