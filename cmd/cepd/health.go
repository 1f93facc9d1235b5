package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/rules/rulesapi"
)

const (
	// aliveFor is how long the job may not answer before the process counts as stuck: it works off the largest burst, and makes
	// the largest epoch, in seconds.
	aliveFor = time.Minute
	// freshFor is how long what the job says of itself is good for others who ask: with ten thousand rules asking costs
	// 40 ms in which no event is worked on, and anybody may ask whether a process is ready.
	freshFor = time.Second
	// limitsFor is how long, at least, a limit counts as in use after it was.
	limitsFor = 5 * time.Minute
)

// The words of /healthz and /ready beside the phases of a daemon.
const (
	statusOK       = "ok"
	statusStuck    = "stuck"
	statusReady    = "ready"
	statusDegraded = "degraded"
)

// errStuck says that the job does not answer.
var errStuck = errors.New("the job has not answered for too long")

// condition is how a daemon is, as /ready tells it.
type condition struct {
	Status string `json:"status"`
	// Degraded is what is not as it should be, by name.
	Degraded []job.Degradation `json:"degraded,omitempty"`
	// Limits were in use some minutes ago or are now.
	Limits []limitUse `json:"limits,omitempty"`
}

// limitUse is a limit that held something back.
type limitUse struct {
	// Limit is the setting, Of what it is the limit of: rule ID, stream NAME, sink NAME.
	Limit string `json:"limit"`
	Of    string `json:"of"`
	// Times is how often it has held something back in the last minutes; 0: it does now.
	Times uint64 `json:"times,omitempty"`
}

func (c *condition) ready() bool { return c.Status == statusReady }

// recentStatus keeps what the job said last for others who ask.
type recentStatus struct {
	mu     sync.Mutex
	status wholeStatus
	at     time.Time
}

// recent is [daemon.status] of the last second.
func (d *daemon) recent() (wholeStatus, bool) {
	d.last.mu.Lock()
	defer d.last.mu.Unlock()
	if d.last.at.IsZero() || time.Since(d.last.at) >= freshFor {
		s, restored := d.status()
		if !restored {
			return s, false
		}
		d.last.status, d.last.at = s, time.Now()
	}
	return d.last.status, true
}

// alive says why the process should be started again; nil: it should not. A job that waits for a destination or a disk answers.
func (d *daemon) alive() error {
	s, restored := d.recent()
	if !restored || d.stopping.Load() {
		return nil
	}
	if since := time.Since(s.At); since > aliveFor {
		return fmt.Errorf("%w: %s", errStuck, since.Round(time.Second))
	}
	return nil
}

// condition says how the daemon is.
func (d *daemon) condition() condition {
	s, restored := d.recent()
	if !restored {
		return condition{Status: phaseStarting}
	}
	c := condition{Status: statusReady, Degraded: slices.Clone(s.Degraded), Limits: d.limits.inUse(limitsOf(&s, d.refusals()), time.Now())}
	for i := range c.Limits {
		if u := &c.Limits[i]; u.Limit == limitBrakes {
			c.Degraded = append(c.Degraded, job.Degradation{What: "limit", Name: u.Of, Reason: fmt.Sprintf("%s kept %s from beginning anything: alerts may be missing", u.Limit, plural(int(u.Times), "event"))})
		}
	}
	switch {
	case d.stopping.Load():
		c.Status = phaseStopping
	case len(c.Degraded) > 0:
		c.Status = statusDegraded
	}
	return c
}

// summary is one line for people.
func (d *daemon) summary() string {
	c := d.condition()
	s, _ := d.recent()
	parts := []string{c.Status, fmt.Sprintf("epoch %d, %s", s.Epoch.Committed, plural(int(s.Alerts.Alerts), "alert"))}
	for _, x := range c.Degraded {
		parts = append(parts, fmt.Sprintf("%s %s: %s", x.What, x.Name, x.Reason))
	}
	return bounded(strings.Join(parts, "; "))
}

// healthz says whether the process is alive: who starts it again because of anything else only makes it slower.
func (d *daemon) healthz(c echo.Context) error {
	if err := d.alive(); err != nil {
		return c.JSON(http.StatusServiceUnavailable, condition{Status: statusStuck})
	}
	return c.JSON(http.StatusOK, condition{Status: statusOK})
}

// ready says whether everything is as it should be. What is not is named to those who may see the status: names and reasons say
// where streams and sinks are.
func (d *daemon) ready(c echo.Context) error {
	answer := d.condition()
	if !maySee(c.Request().Context()) {
		answer = condition{Status: answer.Status}
	}
	code := http.StatusOK
	if !answer.ready() {
		code = http.StatusServiceUnavailable
	}
	return c.JSON(code, answer)
}

// maySee reports whether somebody asks who may see the status.
func maySee(ctx context.Context) bool {
	by, ok := rulesapi.CallerOf(ctx)
	return ok && by.Role >= rulesapi.Viewer
}

// limitBrakes are the limits whose use costs alerts.
const limitBrakes = "limits.keys_max or limits.state_bytes"

// limitCount is a limit and how often it has held something back since the job began to count; now says that it does.
type limitCount struct {
	limit, of string
	n         uint64
	now       bool
}

// limitsOf lists the limits that have held anything back.
func limitsOf(s *wholeStatus, r refusalCounts) []limitCount {
	var list []limitCount
	add := func(limit, of string, n uint64, now bool) {
		if n > 0 || now {
			list = append(list, limitCount{limit, of, n, now})
		}
	}
	for i := range s.Rules {
		x := &s.Rules[i]
		of := "rule " + x.ID
		add("limits.starts_per_key", of, x.Refused, false)
		add("limits.events_per_match", of, x.TooLong, false)
		add(limitBrakes, of, x.Braked, false)
		add("keys of an event", of, x.TooManyKeys, false)
	}
	for i := range s.Streams {
		add("buffer.ahead", "stream "+s.Streams[i].Name, 0, s.Streams[i].Paused)
	}
	for i := range s.Sinks {
		add("outbox", "sink "+s.Sinks[i].Name, 0, s.Sinks[i].Full)
	}
	for i := range s.Logs {
		add("log", "stream "+s.Logs[i].Stream, s.Logs[i].Full, false)
	}
	add("http.rate", "http", r.Limited, false)
	return list
}

// limitWatch tells which limits were used lately from counts that only grow.
type limitWatch struct {
	mu sync.Mutex
	// before and latest are what was counted some time ago: counts are held against the former, which is at least limitsFor old
	// once the process is.
	before, latest map[[2]string]uint64
	at             time.Time // of latest
}

// inUse returns the limits that are in use now or were lately, in order. What had been counted when it was asked first does not
// count.
func (w *limitWatch) inUse(list []limitCount, now time.Time) []limitUse {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.IsZero() || now.Sub(w.at) >= limitsFor {
		counts := map[[2]string]uint64{}
		for _, c := range list {
			counts[[2]string{c.limit, c.of}] = c.n
		}
		if w.before = w.latest; w.at.IsZero() {
			w.before = counts
		}
		w.latest, w.at = counts, now
	}
	var uses []limitUse
	for _, c := range list {
		before := w.before[[2]string{c.limit, c.of}]
		if before > c.n {
			before = 0 // it has begun to count anew
		}
		if c.now || c.n > before {
			uses = append(uses, limitUse{Limit: c.limit, Of: c.of, Times: c.n - before})
		}
	}
	slices.SortFunc(uses, func(a, b limitUse) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Limit, b.Limit)) })
	return uses
}
