package httpsource

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// memoryMax is what all bodies that are being read or written take together: who comes when it is used up is asked to
	// come again. It lets 16 of the largest requests in at once, and thousands of small ones.
	memoryMax = 256 << 20
	// bodyStart is what is read of a body at first.
	bodyStart = 64 << 10
)

// budget is the memory that requests share.
type budget struct {
	mu   sync.Mutex
	free int
}

// take reports whether there were n bytes.
func (b *budget) take(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.free {
		return false
	}
	b.free -= n
	return true
}

func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
}

var (
	errBusy  = errors.New("too many requests are under way")
	errLarge = errors.New("the body is too large")
)

// The types of bodies.
var (
	documentTypes = []string{"application/json"}
	lineTypes     = []string{"application/x-ndjson", "application/jsonl", "application/x-jsonlines", "application/json-lines"}
)

// charsets are the names of UTF-8, of what is a part of it, and of none.
var charsets = []string{"", "utf-8", "utf8", "us-ascii"}

// kindOf says whether a body is lines.
func kindOf(r *http.Request) (lines bool, p *Problem) {
	accept := strings.Join(append(slices.Clone(documentTypes), lineTypes[:2]...), ", ")
	given := r.Header.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(given)
	charset := strings.ToLower(params["charset"])
	switch {
	case err != nil || !slices.Contains(documentTypes, kind) && !slices.Contains(lineTypes, kind):
		return false, problem(http.StatusUnsupportedMediaType,
			fmt.Sprintf("Content-Type is %s; send application/json (an object or a list of objects) or application/x-ndjson (an object a line)", quoted(given))).
			with("Accept-Post", accept)
	case !slices.Contains(charsets, charset):
		return false, problem(http.StatusUnsupportedMediaType, fmt.Sprintf("charset is %s; events are UTF-8", quoted(charset))).with("Accept-Post", accept)
	}
	return slices.Contains(lineTypes, kind), nil
}

// readBody reads the whole body. The caller gives taken back when it is done with it.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) (body []byte, taken int, p *Problem) {
	packed := false
	switch given := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ","))); given {
	case "", "identity":
	case "gzip", "x-gzip":
		packed = true
	default:
		return nil, 0, problem(http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Encoding is %s; gzip is understood", quoted(given))).with("Accept-Encoding", "gzip")
	}
	if r.ContentLength > int64(h.config.BodyMax) {
		return nil, 0, h.tooLarge()
	}
	control := http.NewResponseController(w)
	limited := control.SetReadDeadline(time.Now().Add(h.config.BodyTime)) == nil
	var in io.Reader = http.MaxBytesReader(w, r.Body, int64(h.config.BodyMax))
	if packed {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, 0, h.broken(fmt.Errorf("as gzip: %w", err))
		}
		in = z
	}
	start := bodyStart
	if !packed && r.ContentLength > 0 {
		start = int(r.ContentLength) + 1 // and one more, to see the end
	}
	body, taken, err := h.readAll(in, start)
	if err != nil {
		// The deadline stays: the server reads what is left of a body before it answers.
		return nil, taken, h.broken(err)
	}
	if limited {
		// What is behind the body is read while its events are made durable, and would end the request at the deadline. The next
		// request has its own.
		_ = control.SetReadDeadline(time.Time{})
	}
	return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), taken, nil
}

// readAll reads to the end, in memory from the budget.
func (h *Handler) readAll(in io.Reader, start int) (body []byte, taken int, err error) {
	grow := func(size int) bool {
		if !h.budget.take(size - taken) {
			return false
		}
		taken = size
		b := make([]byte, len(body), size)
		copy(b, body)
		body = b
		return true
	}
	if !grow(start) {
		return nil, taken, errBusy
	}
	for {
		if len(body) == cap(body) && !grow(2*cap(body)) {
			return nil, taken, errBusy
		}
		n, err := in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > h.config.BodyMax:
			return nil, taken, errLarge
		case errors.Is(err, io.EOF):
			return body, taken, nil
		case err != nil:
			return nil, taken, err
		}
	}
}

func (h *Handler) tooLarge() *Problem {
	return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("a request has %d bytes at most, uncompressed; send fewer events at once", h.config.BodyMax))
}

// broken says why a body could not be read.
func (h *Handler) broken(err error) *Problem {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large, errors.Is(err, errLarge):
		return h.tooLarge()
	case errors.Is(err, errBusy):
		return problem(http.StatusTooManyRequests, errBusy.Error()).after(busyRetry)
	case errors.Is(err, os.ErrDeadlineExceeded):
		// Not 400: shippers throw away what is answered by that.
		return problem(http.StatusRequestTimeout, fmt.Sprintf("the body has not come within %v, and nothing was taken; send fewer events at once", h.config.BodyTime)).after(busyRetry)
	}
	return problem(http.StatusBadRequest, fmt.Sprintf("read the body: %v", err))
}
