package rulesapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

const (
	// liveMax is the number of live streams at once: every person of a team, and some programs. Each is a goroutine and a
	// connection.
	liveMax = 100
	// liveBatch is the number of alerts that are written at once.
	liveBatch = 256
	// heartbeat is the longest silence of a live stream: proxies give up after 30 seconds or more.
	heartbeat = 15 * time.Second
	// writeMax is how long a client may take for what it was sent. One that takes longer is cut: it comes back, and says what it
	// has seen.
	writeMax = 10 * time.Second
	// retryAfter is when clients come back, in milliseconds.
	retryAfter = 2000
)

// Why the server ends or refuses a live stream.
const (
	cutSlow    = "slow"
	cutClosing = "closing"
	cutFull    = "full"
)

// liveAlerts sends alerts as they become true, as server-sent events, until the client goes.
func (a *API) liveAlerts(r *request) error {
	rule, err := r.ruleParam()
	if err != nil {
		return err
	}
	from, gap, err := a.liveFrom(r)
	if err != nil {
		return err
	}
	if !a.enter() {
		return kindFull.problem("%d live streams are open", liveMax)
	}
	defer a.count(func(s *Stats) { s.Streams-- })
	h := r.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // or proxies keep events until they have many
	l := &liveStream{api: a, rule: rule, number: from, out: http.NewResponseController(r.Response()), to: r.Response()}
	r.Response().WriteHeader(http.StatusOK)
	fmt.Fprintf(&l.buffer, "retry: %d\n\n", retryAfter)
	if gap {
		l.buffer.WriteString("event: gap\ndata: {\"detail\":\"alerts may have been sent before these that are not kept any more\"}\n\n")
	}
	reason := l.run(r.Request().Context().Done())
	if reason != "" {
		a.count(func(s *Stats) { s.Cut[reason]++ })
		l.end(reason)
	}
	return nil
}

// liveFrom finds where a stream begins: behind what the client has seen, or now.
func (a *API) liveFrom(r *request) (number uint64, gap bool, err error) {
	seen := r.Request().Header.Get("Last-Event-ID")
	if seen == "" {
		seen = r.param("after")
	}
	if seen == "" {
		return a.config.Feed.end(), false, nil
	}
	m, err := parseMark(seen)
	if err != nil {
		return 0, false, err
	}
	number, gap = a.config.Feed.behind(m)
	return number, gap, nil
}

// enter counts a live stream; false: there are too many.
func (a *API) enter() bool {
	a.statsMu.Lock()
	defer a.statsMu.Unlock()
	if a.stats.Streams >= liveMax {
		a.stats.Cut[cutFull]++
		return false
	}
	a.stats.Streams++
	return true
}

// liveStream is a client that listens. It has no queue of its own: it follows the feed, and is cut when that has gone on so far
// that it forgets what the client has not seen.
type liveStream struct {
	api    *API
	rule   string
	number uint64
	to     http.ResponseWriter
	out    *http.ResponseController
	buffer bytes.Buffer
}

// run sends what comes until the client goes, which is "", or the server ends it, and says why.
func (l *liveStream) run(gone <-chan struct{}) string {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		t := l.api.config.Feed.since(l.number, liveBatch)
		if t.lost {
			return cutSlow
		}
		sent := l.add(t)
		if err := l.flush(); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return cutSlow
			}
			return ""
		}
		l.api.count(func(s *Stats) { s.Sent += uint64(sent) })
		if t.more == nil {
			continue
		}
		select {
		case <-t.more:
		case <-beat.C:
			l.buffer.WriteString(": still here\n\n")
		case <-gone:
			return ""
		case <-l.api.closing:
			return cutClosing
		}
	}
}

// add writes alerts into the buffer, and behind them where the stream stands: a client that comes back says that.
func (l *liveStream) add(t tail) (sent int) {
	for _, e := range t.list {
		if l.rule == "" || e.rule == l.rule {
			fmt.Fprintf(&l.buffer, "id: %s\nevent: alert\ndata: %s\n\n", e.mark, e.json)
			sent++
		}
	}
	l.number += uint64(len(t.list))
	if l.buffer.Len() > 0 {
		fmt.Fprintf(&l.buffer, "id: %s\n\n", t.at) // an event without data sets the id and is not shown
	}
	return sent
}

// flush sends the buffer.
func (l *liveStream) flush() error {
	if l.buffer.Len() == 0 {
		return nil
	}
	// A writer without deadlines is one of a test, or of a server that has its own.
	_ = l.out.SetWriteDeadline(time.Now().Add(writeMax))
	_, err := l.to.Write(l.buffer.Bytes())
	if err == nil {
		err = l.out.Flush()
	}
	l.buffer.Reset()
	return err
}

// end says why the stream ends, if the client can still hear it.
func (l *liveStream) end(reason string) {
	l.buffer.Reset()
	fmt.Fprintf(&l.buffer, "event: end\ndata: {\"reason\":%q}\n\n", reason)
	_ = l.flush() // it may be gone
}
