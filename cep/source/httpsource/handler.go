package httpsource

import (
	"net/http"

	"github.com/cepd/cepd/cep/source/eventlog"
)

// Stream is a stream that takes events.
type Stream struct {
	Log *eventlog.Log
	// ID names the member of an event that is its id: an event with an id that the log remembers is not taken again. "":
	// events have none.
	ID string
}

// Config says what is taken. Limits that are 0 are the defaults.
type Config struct {
	Streams map[string]Stream
	// EventMax is the size in bytes above which an event is refused; source.MaxRecord.
	EventMax int
	// BodyMax is the size in bytes above which a request is refused, as sent and uncompressed; DefaultBodyMax.
	BodyMax int
}

// DefaultBodyMax is the limit of a request's body.
const DefaultBodyMax = 16 << 20

// Prefix is the path under which a Handler is to be mounted; it looks at the whole path itself.
const Prefix = "/v1/streams/"

// Handler answers `POST /v1/streams/{name}/events`.
type Handler struct{ config Config }

var _ http.Handler = (*Handler)(nil)

// New returns a handler.
func New(c Config) *Handler { return &Handler{config: c} }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotImplemented)
}
