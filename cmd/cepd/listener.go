package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep/source/httpsource"
)

const (
	// headerTimeout, requestTimeout and idleTimeout end connections that do nothing: a client on the same machine sends its
	// header at once and the largest body within seconds.
	headerTimeout  = 10 * time.Second
	requestTimeout = 2 * time.Minute
	idleTimeout    = 2 * time.Minute
	// headerMax is the size of the largest header: proxies add some kilobytes.
	headerMax = 64 << 10
)

// listener answers HTTP: pushed events, health and status.
type listener struct {
	net    net.Listener
	server *http.Server
	done   chan struct{}
}

// listen takes the address, so that nothing has been changed yet where it is in use.
func listen(ctx context.Context, address string) (*listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w; choose another address, or write off", err)
	}
	return &listener{net: l, done: make(chan struct{})}, nil
}

// health is what /healthz answers.
type health struct {
	Status string `json:"status"`
	// Degraded names each part that is not as it should be, and why.
	Degraded []string `json:"degraded,omitempty"`
}

// serve answers requests until close. status returns what /status shows, degraded what is wrong.
func (l *listener) serve(push http.Handler, status func() any, degraded func() []string, log *slog.Logger) {
	e := echo.New()
	e.HTTPErrorHandler = problem
	e.Use(refuseBrowsers)
	e.Any(httpsource.Prefix+"*", echo.WrapHandler(push))
	e.GET("/healthz", func(c echo.Context) error {
		h, code := health{Status: "ok"}, http.StatusOK
		if h.Degraded = degraded(); len(h.Degraded) > 0 {
			h.Status, code = "degraded", http.StatusServiceUnavailable
		}
		return c.JSON(code, h)
	})
	e.GET("/status", func(c echo.Context) error { return c.JSONPretty(http.StatusOK, status(), "  ") })
	l.server = &http.Server{
		Handler: e, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerMax,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(l.done)
		if err := l.server.Serve(l.net); !errors.Is(err, http.ErrServerClosed) {
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

// problem answers with an error as RFC 9457 has it.
func problem(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	code, title := http.StatusInternalServerError, "internal error"
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		code, title = he.Code, fmt.Sprint(he.Message)
	}
	c.Response().Header().Set(echo.HeaderContentType, "application/problem+json")
	// The client is gone where this fails.
	_ = c.JSON(code, struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
	}{title, code})
}

// refuseBrowsers keeps pages of other sites from reaching the listener through the browser of somebody on this machine: by
// a request of their own, or under a name that they have made point here.
func refuseBrowsers(next echo.HandlerFunc) echo.HandlerFunc {
	foreign := http.NewCrossOriginProtection()
	return func(c echo.Context) error {
		r := c.Request()
		if err := foreign.Check(r); err != nil {
			return echo.NewHTTPError(http.StatusForbidden, "requests of other sites are refused")
		}
		browser := r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
		if browser && !isLoopback(r.Host) {
			return echo.NewHTTPError(http.StatusForbidden, "the address must be a loopback address")
		}
		return next(c)
	}
}

// isLoopback reports whether a Host header names this machine.
func isLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}
