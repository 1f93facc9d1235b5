package main

import (
	lru "container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// clientsMax is how many clients the limiter remembers: an entry takes some 300 bytes, so that all of them are 3 MB. Of
	// more the one that has been silent for the longest is forgotten, which only gives it a full bucket.
	clientsMax = 10_000
	// burstFactor is how many seconds of its rate a client may spend at once: a page that is opened asks for some things
	// together.
	burstFactor = 2
	// networkBits is how much of an IPv6 address names a client: its owner has all addresses below.
	networkBits = 64
)

// limiter bounds how often a client does something.
type limiter struct {
	rate  rate.Limit // requests a second; 0: as many as they like
	burst int

	mu      sync.Mutex
	clients map[string]*lru.Element
	order   *lru.List // of *client, the one that was seen last at the front
}

// client is one that was seen.
type client struct {
	name   string
	bucket *rate.Limiter
}

func newLimiter(perSecond rate.Limit, burst int) *limiter {
	return &limiter{rate: perSecond, burst: burst, clients: map[string]*lru.Element{}, order: lru.New()}
}

// admit takes one request of a client; otherwise it says when to come again.
func (l *limiter) admit(name string, now time.Time) (after time.Duration, ok bool) {
	if l.rate == 0 {
		return 0, true
	}
	b := l.bucket(name)
	if b.AllowN(now, 1) {
		return 0, true
	}
	r := b.ReserveN(now, 1)
	defer r.CancelAt(now)
	return r.DelayFrom(now), false
}

// bucket returns what is left to a client.
func (l *limiter) bucket(name string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, known := l.clients[name]; known {
		l.order.MoveToFront(e)
		return e.Value.(*client).bucket
	}
	if l.order.Len() >= clientsMax {
		oldest := l.order.Back()
		l.order.Remove(oldest)
		delete(l.clients, oldest.Value.(*client).name)
	}
	c := &client{name: name, bucket: rate.NewLimiter(l.rate, l.burst)}
	l.clients[name] = l.order.PushFront(c)
	return c.bucket
}

// network is what an address counts as: whoever has one IPv6 address has the whole network that it lies in.
func network(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(networkBits)
	if err != nil {
		return ip
	}
	return p.String()
}
