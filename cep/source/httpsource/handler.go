package httpsource

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/eventlog"
)

// Prefix is the path under which a Handler is to be mounted; it looks at the whole path itself.
const Prefix = "/v1/streams/"

const (
	// DefaultBodyMax is the limit of a request's body: shippers send 1 to 10 MiB at once.
	DefaultBodyMax = 16 << 20
	// DefaultBodyTime is how long a body may take to come: the largest one in it needs 5 Mbit/s. A sender that is slower holds
	// memory that others could use.
	DefaultBodyTime = 30 * time.Second
	// keyMax is the length of an Idempotency-Key in bytes; a UUID has 36.
	keyMax = 200
	// busyRetry is after how many seconds to come again where there are too many requests, which take milliseconds each.
	busyRetry = 1
	// fullRetry is the same where the log is full: it has room again some epochs later.
	fullRetry = 5
)

// Stream is a stream that takes events.
type Stream struct {
	Log *eventlog.Log
	// ID is the path of the member of an event that is its id, as rules write it: an event with an id that the log remembers is
	// not taken again. "": events have none.
	ID string
}

// Config says what is taken. Limits that are 0 are the defaults.
type Config struct {
	Streams map[string]Stream
	// EventMax is the size in bytes above which an event is refused; source.MaxRecord.
	EventMax int
	// BodyMax is the size in bytes above which a request is refused, as sent and uncompressed; DefaultBodyMax.
	BodyMax int
	// BodyTime is how long a body may take to come; DefaultBodyTime.
	BodyTime time.Duration
}

// Handler answers `POST /v1/streams/{name}/events`.
type Handler struct {
	config  Config
	budget  budget
	refused map[string]*tally // by stream
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler.
func New(c Config) *Handler {
	if c.EventMax == 0 {
		c.EventMax = source.MaxRecord
	}
	c.EventMax = min(c.EventMax, eventlog.RecordMax)
	if c.BodyMax == 0 {
		c.BodyMax = DefaultBodyMax
	}
	if c.BodyTime == 0 {
		c.BodyTime = DefaultBodyTime
	}
	h := &Handler{config: c, budget: budget{free: max(memoryMax, 2*c.BodyMax)}, refused: map[string]*tally{}}
	for name := range c.Streams {
		h.refused[name] = &tally{n: map[Reason]uint64{}}
	}
	return h
}

// Refused says how many events that were posted to a stream have been refused for what they are.
func (h *Handler) Refused(stream string) map[Reason]uint64 {
	t := h.refused[stream]
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}

// tally counts the events of a stream that were refused.
type tally struct {
	mu sync.Mutex
	n  map[Reason]uint64
}

func (t *tally) add(reasons map[Reason]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r, n := range reasons {
		t.n[r] += uint64(n)
	}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, p := h.serve(w, r)
	if p != nil {
		p.write(w)
		return
	}
	writeJSON(w, "application/json", http.StatusOK, answer)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (*Answer, *Problem) {
	name, p := h.stream(r)
	if p != nil {
		return nil, p
	}
	stream := h.config.Streams[name]
	key, p := keyOf(r)
	if p != nil {
		return nil, p
	}
	lines, p := kindOf(r)
	if p != nil {
		return nil, p
	}
	body, taken, p := h.readBody(w, r)
	defer h.budget.give(taken)
	if p != nil {
		return nil, p
	}
	c := cut{body: body, eventMax: h.config.EventMax, id: stream.ID, key: key}
	if p := c.all(lines); p != nil {
		return nil, p
	}
	if c.refused > 0 {
		h.refused[name].add(c.reasons)
		if !lenient(r) {
			return nil, c.problem()
		}
		w.Header().Set("Preference-Applied", "handling=lenient")
	}
	return h.append(r, stream, &c)
}

// stream returns the name of the stream that the request is for.
func (h *Handler) stream(r *http.Request) (string, *Problem) {
	rest, _ := strings.CutPrefix(r.URL.Path, Prefix)
	name, events := strings.CutSuffix(rest, "/events")
	_, ok := h.config.Streams[name]
	switch {
	case !events || rest == r.URL.Path:
		return "", problem(http.StatusNotFound, "events go to "+Prefix+"{name}/events")
	case !ok:
		return "", problem(http.StatusNotFound, fmt.Sprintf("no stream %s takes events over HTTP", quoted(name)))
	case r.Method != http.MethodPost:
		return "", problem(http.StatusMethodNotAllowed, "events are sent by POST").with("Allow", http.MethodPost)
	}
	return name, nil
}

// quotedMax is how many bytes of what a client wrote are written back to it.
const quotedMax = 100

// quoted is what a client wrote, for a message.
func quoted(text string) string {
	if len(text) > quotedMax {
		return fmt.Sprintf("%q...", text[:quotedMax])
	}
	return fmt.Sprintf("%q", text)
}

// keyOf returns the name that the client gave the request.
func keyOf(r *http.Request) (string, *Problem) {
	given := r.Header.Values("Idempotency-Key")
	if len(given) == 0 {
		return "", nil
	}
	key := strings.TrimSpace(given[0])
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	switch {
	case len(given) > 1:
		return "", problem(http.StatusBadRequest, fmt.Sprintf("Idempotency-Key stands there %d times", len(given)))
	case key == "":
		// Who sends it believes that the request can be repeated.
		return "", problem(http.StatusBadRequest, "Idempotency-Key is empty: send a key for each body, or no such header")
	case len(key) > keyMax:
		return "", problem(http.StatusBadRequest, fmt.Sprintf("Idempotency-Key has %d bytes; the limit is %d", len(key), keyMax))
	}
	return key, nil
}

// lenient reports whether the client would rather have a part taken than nothing.
func lenient(r *http.Request) bool {
	for _, v := range r.Header.Values("Prefer") {
		for p := range strings.SplitSeq(v, ",") {
			p, _, _ = strings.Cut(p, ";")
			name, value, _ := strings.Cut(p, "=")
			if strings.EqualFold(strings.TrimSpace(name), "handling") && strings.EqualFold(strings.Trim(value, ` "`), "lenient") {
				return true
			}
		}
	}
	return false
}

// all cuts the body into events.
func (c *cut) all(lines bool) *Problem {
	err := error(nil)
	if lines {
		err = c.lines()
	} else {
		err = c.document()
	}
	switch {
	case errors.Is(err, errMany):
		return problem(http.StatusRequestEntityTooLarge, err.Error())
	case err != nil:
		return problem(http.StatusBadRequest, fmt.Sprintf("the body is no JSON object and no list of them: %v", err))
	}
	return nil
}

// problem is the answer to a request of which events are refused.
func (c *cut) problem() *Problem {
	status := http.StatusUnprocessableEntity
	if c.reasons[TooLarge] == c.refused {
		status = http.StatusRequestEntityTooLarge
	}
	detail := fmt.Sprintf("%d of %d events are refused, and none was taken", c.refused, c.index)
	if c.refused < c.index {
		detail += "; `Prefer: handling=lenient` takes the others"
	}
	p := problem(status, detail)
	p.Refused, p.Refusals = c.refused, c.refusals
	return p
}

// append makes the events durable.
func (h *Handler) append(r *http.Request, stream Stream, c *cut) (*Answer, *Problem) {
	a, err := stream.Log.Append(r.Context(), c.events)
	switch {
	case err == nil:
		return &Answer{Accepted: a.Accepted, Duplicates: a.Duplicates, Differing: a.Differing, Refused: c.refused, Refusals: c.refusals}, nil
	case errors.Is(err, eventlog.ErrReused):
		return nil, problem(http.StatusUnprocessableEntity, fmt.Sprintf(
			"Idempotency-Key %q came before with another body, and nothing was taken; a repetition has the same body, and another body needs a key of its own", c.key))
	case errors.Is(err, eventlog.ErrFull):
		return nil, problem(http.StatusTooManyRequests, "the stream has more events waiting than it may; nothing was taken").after(fullRetry)
	case errors.Is(err, eventlog.ErrEnded):
		return nil, problem(http.StatusServiceUnavailable, "cepd is stopping; nothing was taken").after(fullRetry)
	case errors.Is(err, source.ErrTooLarge):
		return nil, problem(http.StatusRequestEntityTooLarge, "the request is larger than half of what the stream may have waiting; send fewer events at once")
	case r.Context().Err() != nil:
		return nil, problem(http.StatusServiceUnavailable, "the request was given up; whether it was taken is not known")
	}
	return nil, problem(http.StatusServiceUnavailable, "the events could not be made durable; whether they were taken is not known").after(fullRetry)
}
