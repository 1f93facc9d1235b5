package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// Proxy forwards connections to a server and loses what it is told to lose. Only calls of scripts are lost, so that a fault
// hits what is tested and not how a connection begins.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	target   string
	pairs    map[*pair]struct{}
	requests int // so many of the next calls are not forwarded
	answers  int // so many of the next answers are not forwarded
	part     int // so many bytes of the next call are forwarded, where it is not 0
	hold     bool
	stalled  chan struct{} // while it is not nil and open nothing is forwarded to the server
	calls    int
	closed   bool
}

// pair is a connection and the one to the server behind it.
type pair struct {
	client, server net.Conn
	mute           bool // the answer is lost, and the connection with it
}

// NewProxy starts a proxy to host:port.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, pairs: map[*pair]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Address is where clients connect.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Aim sends connections to another server from now on. Those that are open stay.
func (p *Proxy) Aim(target string) { p.set(func() { p.target = target }) }

// LoseRequests cuts the connection instead of forwarding a call, the next n times.
func (p *Proxy) LoseRequests(n int) { p.set(func() { p.requests = n }) }

// LoseAnswers forwards a call, and cuts the connection instead of forwarding the answer, the next n times.
func (p *Proxy) LoseAnswers(n int) { p.set(func() { p.answers = n }) }

// Truncate forwards so many bytes of the next call, and cuts the connection.
func (p *Proxy) Truncate(n int) { p.set(func() { p.part = n }) }

// Hold says whether answers are swallowed while the connections stay.
func (p *Proxy) Hold(on bool) { p.set(func() { p.hold = on }) }

// Stall says whether what clients send waits here, as if they had been stopped while they send.
func (p *Proxy) Stall(on bool) {
	p.set(func() {
		switch {
		case on && p.stalled == nil:
			p.stalled = make(chan struct{})
		case !on && p.stalled != nil:
			close(p.stalled)
			p.stalled = nil
		}
	})
}

// Heal forgets all faults that have not come yet, and lets everything through.
func (p *Proxy) Heal() {
	p.set(func() { p.requests, p.answers, p.part, p.hold = 0, 0, 0, false })
	p.Stall(false)
}

// Calls is the number of calls that clients have sent.
func (p *Proxy) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Cut cuts all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		_ = c.client.Close()
		_ = c.server.Close()
	}
}

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Proxy) close() {
	p.set(func() { p.closed = true })
	p.Stall(false)
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pair{client: client, server: server}
		p.mu.Lock()
		if p.closed {
			_ = client.Close()
			_ = server.Close()
		}
		p.pairs[c] = struct{}{}
		p.mu.Unlock()
		p.running.Go(func() { p.up(c) })
		p.running.Go(func() { p.down(c) })
	}
}

// end closes both sides; whoever comes second changes nothing.
func (p *Proxy) end(c *pair) {
	_ = c.client.Close()
	_ = c.server.Close()
	p.set(func() { delete(p.pairs, c) })
}

const bufferSize = 64 << 10

// up forwards what the client sends.
func (p *Proxy) up(c *pair) {
	defer p.end(c)
	b := make([]byte, bufferSize)
	for {
		n, err := c.client.Read(b)
		if n > 0 {
			p.mu.Lock()
			stalled := p.stalled
			p.mu.Unlock()
			if stalled != nil {
				<-stalled
			}
			send, last := p.request(c, b[:n])
			if _, werr := c.server.Write(send); werr != nil || last {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// request says what is forwarded of what was read, and whether the connection ends then.
func (p *Proxy) request(c *pair, b []byte) (send []byte, last bool) {
	if !isCall(b) {
		return b, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	switch {
	case p.requests > 0:
		p.requests--
		return nil, true
	case p.part > 0:
		n := min(p.part, len(b))
		p.part = 0
		return b[:n], true
	case p.answers > 0:
		p.answers--
		c.mute = true
	}
	return b, false
}

// isCall says whether a script is called.
func isCall(b []byte) bool {
	return bytes.Contains(b, []byte("\r\nevalsha\r\n")) || bytes.Contains(b, []byte("\r\neval\r\n"))
}

// down forwards what the server answers.
func (p *Proxy) down(c *pair) {
	defer p.end(c)
	b := make([]byte, bufferSize)
	for {
		n, err := c.server.Read(b)
		if n > 0 {
			p.mu.Lock()
			mute, hold := c.mute, p.hold
			p.mu.Unlock()
			if mute {
				return
			}
			if !hold {
				if _, werr := c.client.Write(b[:n]); werr != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}
