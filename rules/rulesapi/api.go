package rulesapi

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/cepd/cepd/rules"
)

const (
	// swapMax is how long a change may take once its files are written. A client that goes away does not end it: a swap waits
	// for an epoch, and those for a disk that may be busy. Servers let requests take two minutes.
	swapMax = 100 * time.Second
	// compilesMax is how many sets are compiled at once for those who only ask: each takes a processor for up to a second.
	compilesMax = 2
	// sweepEvery is how often silences are looked through that have ended.
	sweepEvery = time.Hour
)

// Config is what an API is made of.
type Config struct {
	// Daemon is the service that it speaks for.
	Daemon Daemon
	// ManagedDir is the directory of the files that the API writes, as sources of the rules are named: the directory `managed`
	// below the first one that rules are read from. "": rules are read from single files, and the API changes none.
	ManagedDir string
	// HistoryDir is where revisions are kept.
	HistoryDir string
	// Feed has the newest alerts.
	Feed *Feed
	// Changing is told of each change when all is checked and nothing has been changed yet. Its error is why it is not made:
	// something that has to be noted could not be. nil: nobody is.
	Changing func(ctx context.Context, c Change) error
	// Changed is told of each change, done or failed, in the goroutine of the request, before it is answered; nil: nobody is.
	Changed func(ctx context.Context, c Change)
	// Logger is told of what goes wrong beside requests; nil: nobody is.
	Logger *slog.Logger
}

// Change is something that somebody did by the API, or tried to.
type Change struct {
	At time.Time `json:"at"`
	By Caller    `json:"by"`
	// Action is create, update, delete, enable, disable, shadow, alert, patch, replace, silence, unsilence, checkpoint or
	// savepoint; Subject the id of the rule or silence, or the epoch.
	Action  string `json:"action"`
	Subject string `json:"subject"`
	// Old and New are hashes of the text before and behind; "" where there was or is none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Err is why it was not done; nil where it was.
	Err error `json:"-"`
}

// errNoDaemon is a Config without what it needs.
var errNoDaemon = errors.New("an API needs a daemon, a feed and a directory for its history")

// Stats are counters of an API since its start.
type Stats struct {
	// Streams are the live streams of alerts that are open now; Sent the alerts that went out on all of them.
	Streams int
	Sent    uint64
	// Cut counts the streams that the server ended or refused, by reason: slow, closing, full.
	Cut map[string]uint64
	// Changes counts what was done, ChangesFailed what was not.
	Changes, ChangesFailed uint64
	// Revisions is the number that is kept, RevisionErrors that of revisions that could not be written.
	Revisions      int
	RevisionErrors uint64
}

// API answers requests about rules and what they find. It is made by [New]; [API.Register] mounts it.
type API struct {
	config  Config
	log     *slog.Logger
	managed managedFiles
	history *history
	page    []byte // the readable description
	// compiling has an element for each set that is being compiled to answer a question.
	compiling chan struct{}
	// closing is closed when live streams are to end.
	closing   chan struct{}
	closeOnce sync.Once

	textsMu sync.Mutex
	texts   *ruleTexts

	statsMu sync.Mutex
	stats   Stats
}

// New returns an API. It opens the history of revisions, which [API.Close] closes.
func New(c Config) (*API, error) {
	if c.Daemon == nil || c.Feed == nil || c.HistoryDir == "" {
		return nil, errNoDaemon
	}
	page, err := renderPage()
	if err != nil {
		return nil, err
	}
	h, err := openHistory(c.HistoryDir, historyBytesMax)
	if err != nil {
		return nil, err
	}
	a := &API{
		config: c, log: c.Logger, managed: managedFiles{dir: c.ManagedDir}, history: h, page: page,
		compiling: make(chan struct{}, compilesMax), closing: make(chan struct{}),
		stats: Stats{Cut: map[string]uint64{}},
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if h.damaged > 0 {
		a.log.Warn("lines of the history of rules are damaged and left out", "lines", h.damaged, "file", h.path)
	}
	return a, nil
}

// Run does the housekeeping until ctx ends: silences that have ended are taken out of their file.
func (a *API) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := a.sweepSilences(ctx); err != nil && ctx.Err() == nil {
				a.log.Warn("silences that have ended stay in their file", "err", err)
			}
		}
	}
}

// EndStreams ends the live streams, so that a server can be shut down. Other requests are still answered.
func (a *API) EndStreams() { a.closeOnce.Do(func() { close(a.closing) }) }

// Close ends the live streams and closes the history: what changes rules behind it is not remembered.
func (a *API) Close() error {
	a.EndStreams()
	return a.history.close()
}

// Stats returns the counters.
func (a *API) Stats() Stats {
	a.statsMu.Lock()
	s := a.stats
	s.Cut = maps.Clone(s.Cut)
	a.statsMu.Unlock()
	s.Revisions, s.RevisionErrors = a.history.counts()
	return s
}

// count changes the counters.
func (a *API) count(f func(*Stats)) {
	a.statsMu.Lock()
	defer a.statsMu.Unlock()
	f(&a.stats)
}

// ask says why a change may not be made.
func (a *API) ask(ctx context.Context, by Caller, c Change) error {
	if a.config.Changing == nil {
		return nil
	}
	c.At, c.By = time.Now().UTC(), by
	if err := a.config.Changing(ctx, c); err != nil {
		return kindNotNow.problem("%v", err)
	}
	return nil
}

// tell tells of a change that was done or failed.
func (a *API) tell(ctx context.Context, by Caller, c Change) {
	a.count(func(s *Stats) {
		if c.Err == nil {
			s.Changes++
		} else {
			s.ChangesFailed++
		}
	})
	if a.config.Changed != nil {
		c.At, c.By = time.Now().UTC(), by
		a.config.Changed(ctx, c)
	}
}

// Observe notes the texts of a set that is in force now as revisions, where they differ from those that are known: at the start
// and after each reload. Nobody is known to have made them.
func (a *API) Observe(set *rules.Set) { a.observe(set, nil, "", "load") }

// observe notes revisions: those of some rules are by somebody, those of others were made by whoever edits files.
func (a *API) observe(set *rules.Set, ids map[string]bool, by, action string) {
	texts, now := a.textsOf(set), time.Now().UTC()
	var revs []Revision
	add := func(id, file, hash, text string) {
		rev := Revision{Rule: id, At: now, Action: "load", File: file, New: hash, Text: text}
		if ids[id] {
			rev.By, rev.Action = by, action
		}
		revs = append(revs, rev)
	}
	for _, r := range set.Rules {
		text := texts.rules[r.ID]
		if hash, known := a.history.newest(r.ID); !known || hash != text.hash {
			add(r.ID, r.Pos.File, text.hash, text.text)
		}
	}
	for _, id := range a.history.living() {
		if find(set, id) == nil {
			add(id, "", "", "")
		}
	}
	if err := a.history.append(revs); err != nil {
		a.log.Error("revisions of rules are not remembered", "revisions", len(revs), "err", err)
	}
}
