package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/cep/job"
	"github.com/cepd/cepd/cep/source/httpsource"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/cmd/cepd/config"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
	"github.com/cepd/cepd/rules/watch"
)

const (
	// drainTimeout is how long an end in good order may take: container runtimes kill 30 seconds after SIGTERM, and some
	// seconds are left for closing and for their clocks.
	drainTimeout = 24 * time.Second
	// lastRequests is how long requests that are being answered may take of it.
	lastRequests = 3 * time.Second
)

// The phases of a daemon beside those of its job.
const (
	phaseStarting = "starting" // the job is being restored
	phaseStopping = "stopping"
)

// daemon is a job, and everything that is told to it and asked of it while it runs. It listens before the job has been
// restored, which may take a while.
type daemon struct {
	config *config.Config
	log    *slog.Logger
	begun  time.Time
	guard  *guard // nil without a listener
	audit  *audit

	listener, admin *listener // nil where there is none

	// push takes posted events; nil until their logs are open.
	push atomic.Pointer[http.Handler]
	// running is nil until the job has been restored.
	running  atomic.Pointer[running]
	stopping atomic.Bool

	metrics *metrics
	systemd systemd
	last    recentStatus
	limits  limitWatch
}

// running is what there is once the job has been restored.
type running struct {
	job      *job.Job
	logs     []*streamLog
	reloader *reloader
	api      *rulesapi.API // nil without a listener
}

func newDaemon(c *config.Config, log *slog.Logger) *daemon {
	d := &daemon{config: c, log: log, begun: time.Now(), audit: &audit{path: c.HTTP.Audit}}
	d.metrics = newMetrics(d)
	return d
}

// serve runs a job until it ends by itself or stop ends.
func serve(stop context.Context, c *config.Config, set *rules.Set, f runFlags, stdin io.Reader, stdout io.Writer, log *slog.Logger) error {
	log.Info("starting", "job", c.Job, "config", f.file, "version", version, "pid", os.Getpid())
	d := newDaemon(c, log)
	d.systemd.failed = func(err error) { log.Warn("systemd cannot be told how the job is", "err", err) }
	restored := d.systemd.starting()
	defer restored()
	// Asked for before anything is open: whoever sends one too early does not end the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	// A signal while all is opened gives the start up; from then on it asks for an end in good order, and the job itself goes
	// on meanwhile.
	if err := d.listen(stop, f.once); err != nil {
		return err
	}
	defer d.admin.close(stop)
	defer d.listener.close(stop)
	a, err := assemble(stop, c, set, f, stdin, stdout, log)
	if err != nil {
		return err
	}
	defer a.close(log)
	d.push.Store(&a.push)
	feed, err := newFeed(stop, a.job.Store)
	if err != nil {
		return err
	}
	a.job.Committed, a.job.Observe = feed.Committed, d.metrics.observe(a.job.Store)
	tuneCollector(restorePercent)
	j, err := job.New(stop, a.job)
	tuneCollector(collectorPercent)
	if err != nil {
		return err
	}
	if err := d.restored(j, a, feed); err != nil {
		j.Close()
		return err
	}
	restored()
	logStart(log, c, set, j.Status())
	return d.run(stop, hangups)
}

// listen takes the addresses and answers on them: what needs the job is refused until there is one. Where another one has the
// address, a job that runs once does without a listener that nobody has asked for. One that runs on would be watched by nobody,
// and its metrics would be those of the other one.
func (d *daemon) listen(ctx context.Context, once bool) error {
	h := d.config.HTTP
	if h.Admin != "off" {
		l, err := listen(ctx, "http.admin", h.Admin)
		if err != nil {
			return err
		}
		d.admin = l
		l.serve(profiles(), nil, d.log)
		d.log.Info("profiles are served", "address", l.net.Addr().String())
	}
	if h.Listen == "off" {
		return nil
	}
	l, err := listen(ctx, "http.listen", h.Listen)
	if err != nil && once && !d.config.SaysListener() {
		d.log.Warn("the job runs without a listener: its address cannot be had, and with --once nothing needs it", "address", h.Listen, "err", err)
		return nil
	}
	if err == nil {
		d.guard, err = newGuard(h, d.log)
	}
	if err != nil {
		l.close(ctx)
		d.admin.close(ctx)
		return err
	}
	d.listener = l
	l.serve(d.router(nil), d.guard.tls, d.log)
	if d.guard.file == "" && !h.Loopback() {
		d.log.Warn("nobody is asked who they are, and others reach the listener", "address", l.net.Addr().String())
	}
	d.log.Info("listening", "address", l.net.Addr().String(), "tls", d.guard.tls != nil, "tokens", d.guard.file != "")
	return nil
}

// newFeed returns the feed of alerts, which begins behind the newest epoch.
func newFeed(ctx context.Context, store checkpoint.Store) (*rulesapi.Feed, error) {
	infos, err := store.Epochs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the epochs: %w", err)
	}
	newest := cep.Epoch(0)
	if n := len(infos); n > 0 {
		newest = infos[n-1].Epoch
	}
	return rulesapi.NewFeed(newest, alert.AppendJSON), nil
}

// restored has everything answered that needs the job.
func (d *daemon) restored(j *job.Job, a *assembly, feed *rulesapi.Feed) error {
	r := &running{job: j, logs: a.logs, reloader: newReloader(d.config, j, d.guard, d.audit, d.log)}
	if d.listener != nil {
		var err error
		r.api, err = rulesapi.New(rulesapi.Config{
			Daemon: &control{d.config, j, a.job.Store, r.reloader, d.available}, ManagedDir: managedDir(d.config.Rules),
			HistoryDir: filepath.Join(d.config.Checkpoint.Path, "revisions"), Feed: feed, Changing: d.changing, Changed: d.changed, Logger: d.log,
		})
		if err != nil {
			return err
		}
		r.api.Observe(j.Rules())
		r.reloader.observe = r.api.Observe
	}
	d.metrics.begin(j.Status())
	d.running.Store(r)
	if d.listener != nil {
		d.listener.answer(d.router(r.api))
	}
	return nil
}

// managedDir is where rules of the API lie: below the first directory that rules are read from.
func managedDir(paths []string) string {
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			return path.Join(filepath.ToSlash(path.Clean(p)), "managed")
		}
	}
	return ""
}

// run runs the job that was restored, and what stands beside it.
func (d *daemon) run(stop context.Context, hangups <-chan os.Signal) error {
	r := d.running.Load()
	running, abandon := context.WithCancel(context.WithoutCancel(stop))
	defer abandon()
	ended := make(chan error, 1)
	first := r.job.Status() // what the state knew already
	go func() { ended <- r.job.Run(running) }()
	beside, end := context.WithCancel(running)
	defer end()
	var group sync.WaitGroup
	if r.api != nil {
		// Silences that have ended are its own changes, one after the other.
		group.Go(func() { r.api.Run(context.WithValue(beside, noteKey{}, new(string))) })
		group.Go(func() { r.reloader.watchSecrets(beside) })
	}
	group.Go(func() { d.systemd.running(beside, d.alive, d.summary) })
	group.Go(func() { d.obeyHangups(beside, r.reloader, hangups) })
	if d.config.Reload.Watch {
		group.Go(func() { d.watchRules(beside, r.reloader) })
	}
	var err error
	select {
	case err = <-ended:
	case <-stop.Done():
		err = d.drain(running, r, end, ended)
	}
	d.stopping.Store(true)
	d.lastAnswers(running)
	end()
	group.Wait()
	if r.api != nil {
		if failed := r.api.Close(); failed != nil {
			d.log.Warn("closing failed", "what", "history of the rules", "err", failed)
		}
	}
	if err != nil {
		return err
	}
	last := r.job.Status()
	was, is := countEvents(&first), countEvents(&last)
	d.log.Info("stopped", "epoch", last.Epoch.Committed, "alerts", last.Alerts.Alerts, "events", is.events-was.events, "late", is.late-was.late,
		"returned", is.returned-was.returned, "refused", is.refused-was.refused, "future", is.future-was.future)
	return nil
}

// eventCounts is what became of the events of all streams.
type eventCounts struct{ events, late, returned, refused, future uint64 }

func countEvents(s *job.Status) eventCounts {
	var c eventCounts
	for i := range s.Streams {
		st := &s.Streams[i]
		c.events, c.late, c.returned, c.future = c.events+st.Events, c.late+st.Late, c.returned+st.Returned, c.future+st.Future
		for _, n := range st.Bad {
			c.refused += n
		}
	}
	return c
}

// obeyHangups loads the rules again at each SIGHUP.
func (d *daemon) obeyHangups(ctx context.Context, r *reloader, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		answer, err := r.reload(ctx, auditEntry{Who: bySignal}, false) // it has said what was wrong
		if err == nil && answer.Unchanged {
			d.log.Info("the rules are those in force already", "by", bySignal, "set", shortID(answer.Set))
		}
	}
}

// watchRules loads the rules again when their files have changed.
func (d *daemon) watchRules(ctx context.Context, r *reloader) {
	o := watch.Options{Debounce: d.config.Reload.Debounce, Rehash: d.config.Reload.Rehash, Named: r.named, Logger: d.log}
	_ = watch.Watch(ctx, d.config.Rules, o, func() { // its error is that of ctx
		_, _ = r.reload(ctx, auditEntry{Who: byFiles}, false) // it has said what was wrong
	})
}

// drain ends a job in good order: no more requests, no more rules, no more reading, the last epoch, what waits is published. What
// cannot be published in time is kept, and the next start publishes it.
func (d *daemon) drain(ctx context.Context, r *running, endBeside func(), ended <-chan error) error {
	d.stopping.Store(true)
	d.systemd.stopping()
	d.log.Info("stopping: nothing more is read; a second signal ends the process at once")
	end, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	d.lastAnswers(end)
	endBeside()
	drained := r.job.Drain(end)
	err := <-ended
	unsent, isUnsent := errors.AsType[*job.UnsentError](drained)
	switch {
	case isUnsent:
		d.log.Warn("not all could be published in time; it is kept, and the next start publishes it", "sinks", strings.Join(unsent.Sinks, ", "))
		return nil
	case errors.Is(drained, job.ErrAbandoned):
		return fmt.Errorf("the last epoch was not written within %s: %w; nothing is lost, the next start reads again from epoch %d",
			drainTimeout, drained, r.job.Status().Epoch.Committed)
	}
	return err
}

// lastAnswers closes the listeners, once requests that are being answered have their answer. Those that would be answered for
// ever end.
func (d *daemon) lastAnswers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastRequests)
	defer cancel()
	if r := d.running.Load(); r.api != nil {
		r.api.EndStreams()
	}
	d.listener.close(ctx)
	d.admin.close(ctx)
}

// job is the job, nil while it is being restored.
func (d *daemon) job() *job.Job {
	if r := d.running.Load(); r != nil {
		return r.job
	}
	return nil
}

// available says why nothing can be changed; nil where it can.
func (d *daemon) available() error {
	if d.stopping.Load() {
		return fmt.Errorf("%w: cepd is stopping", rulesapi.ErrUnavailable)
	}
	return nil
}

// status describes the job and its logs; false while the job is being restored.
func (d *daemon) status() (wholeStatus, bool) {
	r := d.running.Load()
	if r == nil {
		return wholeStatus{Status: job.Status{Job: d.config.Job, Phase: phaseStarting, Started: d.begun}}, false
	}
	s := statusOf(r.job, r.logs)
	if r.reloader != nil {
		last := r.reloader.status()
		s.Reload = &last
	}
	return s, true
}

// reloads is how the last change of the rules went; false while there can be none.
func (d *daemon) reloads() (reloadStatus, bool) {
	if r := d.running.Load(); r != nil {
		return r.reloader.status(), true
	}
	return reloadStatus{}, false
}

// refusals are the requests that were not answered.
func (d *daemon) refusals() refusalCounts {
	if d.guard == nil {
		return refusalCounts{}
	}
	return d.guard.refusals()
}

// route is something that can be asked for.
type route struct {
	method, path string
	need         need
	handler      echo.HandlerFunc
}

// pushPath is where events are posted to. A route of its own in echo's tree, so that what else may be asked of a stream does
// not take its path for a name.
const pushPath = httpsource.Prefix + ":name/events"

// routes are those beside the API's.
func (d *daemon) routes() []route {
	viewer, editor := need{role: rulesapi.Viewer}, need{role: rulesapi.Editor}
	return []route{
		{http.MethodGet, "/healthz", need{public: true, unlimited: true}, d.healthz},
		{http.MethodGet, "/ready", need{public: true}, d.ready},
		// Balancers ask with HEAD, too.
		{http.MethodHead, "/healthz", need{public: true, unlimited: true}, d.healthz},
		{http.MethodHead, "/ready", need{public: true}, d.ready},
		{http.MethodGet, "/metrics", viewer, d.showMetrics},
		{http.MethodGet, "/status", viewer, d.showStatus},
		{http.MethodGet, "/-/reload", viewer, d.showReload},
		{http.MethodPost, "/-/reload", editor, d.reload},
		{http.MethodPost, pushPath, need{push: true}, d.takeEvents},
	}
}

// router answers all routes; without an API those of the API are refused until there is one.
func (d *daemon) router(api *rulesapi.API) http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = handleError
	e.IPExtractor = extractor(d.config.HTTP)
	needs := map[string]need{}
	e.Use(d.whole, d.guard.protect(needs))
	for _, r := range d.routes() {
		needs[r.method+" "+r.path] = r.need
		e.Add(r.method, r.path, r.handler)
	}
	for _, r := range rulesapi.Routes() {
		needs[r.Method+" "+r.Path] = need{role: r.Role, body: r.BodyMax}
		if api == nil {
			e.Add(r.Method, r.Path, notYet)
		}
	}
	if api != nil {
		api.Register(e.Group(rulesapi.Prefix))
	}
	return e
}

// handleError answers with an error. Who posts to a path near that for events is told the right one.
func handleError(err error, c echo.Context) {
	r := c.Request()
	if e, ok := errors.AsType[*echo.HTTPError](err); ok && (e.Code == http.StatusNotFound || e.Code == http.StatusMethodNotAllowed) &&
		r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, strings.TrimSuffix(httpsource.Prefix, "/")) {
		err = e.WithInternal(errors.New("events go to " + httpsource.Prefix + "{name}/events"))
	}
	rulesapi.HandleError(err, c)
}

// extractor finds out where a request comes from: a proxy's word counts only where the proxy is trusted.
func extractor(h config.HTTP) echo.IPExtractor {
	if len(h.TrustedProxies) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range h.TrustedProxies {
		trust = append(trust, echo.TrustIPRange(&net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}

// whole keeps what goes wrong in one request from the others.
func (d *daemon) whole(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch cause := recover(); cause {
			case nil:
			case http.ErrAbortHandler:
				panic(cause) // a handler's way to cut its answer off
			default:
				d.log.Error("a request ended in a panic; please report it", "method", bounded(c.Request().Method), "path", bounded(c.Path()), "panic", bounded(fmt.Sprint(cause)), "stack", string(debug.Stack()))
				err = echo.ErrInternalServerError
			}
		}()
		return next(c)
	}
}

// notYet refuses what needs the job.
func notYet(c echo.Context) error {
	c.Response().Header().Set("Retry-After", "1")
	return echo.NewHTTPError(http.StatusServiceUnavailable, "the job is being restored; come again later")
}

// takeEvents takes posted events.
func (d *daemon) takeEvents(c echo.Context) error {
	push := d.push.Load()
	if push == nil {
		return notYet(c)
	}
	(*push).ServeHTTP(c.Response(), c.Request())
	return nil
}

func (d *daemon) showStatus(c echo.Context) error {
	s, _ := d.status()
	return c.JSONPretty(http.StatusOK, s, "  ")
}

func (d *daemon) showReload(c echo.Context) error {
	s, ok := d.reloads()
	if !ok {
		return notYet(c)
	}
	return c.JSONPretty(http.StatusOK, s, "  ")
}

// reload loads the rules again.
func (d *daemon) reload(c echo.Context) error {
	r := d.running.Load()
	if r == nil {
		return notYet(c)
	}
	if err := d.available(); err != nil {
		return err
	}
	dry := false
	switch v := c.QueryParam("dry_run"); v {
	case "", "false":
	case "true":
		dry = true
	default:
		return echo.NewHTTPError(http.StatusBadRequest, "dry_run is true or false")
	}
	answer, err := r.reloader.reload(c.Request().Context(), entryOf(c.Request().Context()), dry)
	if err != nil {
		return orStopping(err)
	}
	return c.JSONPretty(http.StatusOK, answer, "  ")
}

// entryOf says in the audit log who asks.
func entryOf(ctx context.Context) auditEntry {
	by, _ := rulesapi.CallerOf(ctx)
	return auditEntry{Who: by.Name, Role: by.Role.String(), From: by.From}
}

// noteKey is the key in a request's context of what the change that it makes was noted with.
type noteKey struct{}

// changing notes that the API is about to change something. Where it cannot be noted it is not done.
func (d *daemon) changing(ctx context.Context, c rulesapi.Change) error {
	id, err := d.audit.begin(auditEntry{
		Who: c.By.Name, Role: c.By.Role.String(), From: c.By.From, Action: c.Action, Subject: c.Subject, Old: c.Old, New: c.New,
	})
	if note, ok := ctx.Value(noteKey{}).(*string); ok {
		*note = id
	}
	return err
}

// changed notes what became of it.
func (d *daemon) changed(ctx context.Context, c rulesapi.Change) {
	note, ok := ctx.Value(noteKey{}).(*string)
	if !ok || *note == "" {
		return // nothing was about to be changed
	}
	if err := d.audit.end(*note, c.Err); err != nil {
		d.log.Error("a change was made and its end could not be noted", "change", *note, "err", err)
	}
	*note = ""
}
