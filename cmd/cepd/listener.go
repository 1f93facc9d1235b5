package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// headerTimeout, requestTimeout and idleTimeout end connections that do nothing: a client sends its header at once and the
	// largest body within seconds.
	headerTimeout  = 10 * time.Second
	requestTimeout = 2 * time.Minute
	idleTimeout    = 2 * time.Minute
	// headerMax is the size of the largest header: proxies add some kilobytes.
	headerMax = 64 << 10
	// connectionsMax is how many connections are open at once; others wait to be accepted. A connection takes some 50 KiB, and
	// a process may have 1,024 files open where nobody has said otherwise, of which sources, sinks and the state need some.
	connectionsMax = 512
)

// listener answers HTTP.
type listener struct {
	net    net.Listener
	server *http.Server
	// handler answers; another one takes its place while requests come in.
	handler atomic.Pointer[http.Handler]
	done    chan struct{}
}

// listen takes the address, so that nothing has been changed yet where it is in use. setting is what chose it.
func listen(ctx context.Context, setting, address string) (*listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; choose another address (--set %[1]s=HOST:PORT, where port 0 is a free one), or none (--set %[1]s=off)", setting, err)
	}
	few := &fewConnections{Listener: l, free: make(chan struct{}, connectionsMax), closed: make(chan struct{})}
	return &listener{net: few, done: make(chan struct{})}, nil
}

// answer has a handler answer from now on.
func (l *listener) answer(h http.Handler) { l.handler.Store(&h) }

// serve answers requests until close; certificates are nil where TLS is not spoken.
func (l *listener) serve(h http.Handler, c *certificates, log *slog.Logger) {
	l.answer(h)
	l.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*l.handler.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerMax,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	run := func() error { return l.server.Serve(l.net) }
	if c != nil {
		l.server.TLSConfig = c.config()
		run = func() error { return l.server.ServeTLS(l.net, "", "") }
	}
	go func() {
		defer close(l.done)
		if err := run(); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTP listener has ended", "err", err)
		}
	}()
}

// close takes no more requests and waits for those that are being answered, until ctx ends.
func (l *listener) close(ctx context.Context) {
	if l == nil {
		return
	}
	if l.server == nil {
		_ = l.net.Close() // nobody has been served
		return
	}
	if err := l.server.Shutdown(ctx); err != nil {
		_ = l.server.Close() // what is left is cut off: its clients have no answer, and post again
	}
	<-l.done
}

// fewConnections accepts a connection only where there are fewer than free has room for.
type fewConnections struct {
	net.Listener
	free    chan struct{}
	closing sync.Once
	closed  chan struct{}
}

// Accept implements [net.Listener].
func (l *fewConnections) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &countedConnection{Conn: c, free: l.free}, nil
}

// Close implements [net.Listener].
func (l *fewConnections) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// countedConnection makes room when it is closed.
type countedConnection struct {
	net.Conn
	free   chan struct{}
	closed sync.Once
}

// Close implements [net.Conn].
func (c *countedConnection) Close() error {
	defer c.closed.Do(func() { <-c.free })
	return c.Conn.Close()
}

// profiles answers on the listener for administrators: what the process does and has in memory. Whoever is on the machine
// reaches it, and no page in a browser does.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	foreign := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		strictHeaders(w.Header(), false)
		if foreign.Check(r) != nil || !isLoopback(r.Host) {
			http.Error(w, "requests of other sites are refused", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a Host header names this machine.
func isLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}
