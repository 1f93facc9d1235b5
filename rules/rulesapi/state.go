package rulesapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cepd/cepd/cep"
)

const (
	// keyPartsMax is the number of parts of a key that a question may have: more than any rule has.
	keyPartsMax = 64
	// savepointStall is how long a client may take for a piece of a savepoint, while the store keeps what it reads.
	savepointStall = time.Minute
)

// listStarts answers with what is open of a rule.
func (a *API) listStarts(r *request) error {
	id, err := r.id()
	if err != nil {
		return err
	}
	limit, after, err := r.page()
	if err != nil {
		return err
	}
	key := r.query["key"]
	if len(key) > keyPartsMax {
		return kindBadRequest.problem("a key has at most %d parts", keyPartsMax)
	}
	rule := find(a.config.Daemon.Rules(), id)
	if rule == nil {
		return kindNotFound.problem("no rule %s is in force", id)
	}
	if key != nil && len(key) != len(rule.Key) {
		return kindBadRequest.problem("the key of %s has %d parts (%v), and %d were given: write key once for each, in that order", id, len(rule.Key), rule.Key, len(key))
	}
	page, err := a.config.Daemon.OpenStarts(r.Request().Context(), OpenQuery{Rule: id, Key: key, After: after, Limit: limit})
	if err != nil {
		return fmt.Errorf("list open starts: %w", err)
	}
	list := List[OpenStart]{Items: some(page.Starts), Next: page.Next}
	for i := range list.Items {
		s := &list.Items[i]
		s.Key, s.Taken, s.WaitsFor = some(s.Key), some(s.Taken), some(s.WaitsFor)
	}
	return r.respond(http.StatusOK, list)
}

// listStreams answers with all streams.
func (a *API) listStreams(r *request) error {
	return r.respond(http.StatusOK, List[Stream]{Items: a.streams()})
}

func (a *API) streams() []Stream {
	list := some(slices.Clone(a.config.Daemon.Streams()))
	for i := range list {
		list[i].Partitions = some(list[i].Partitions)
		if list[i].Bad == nil {
			list[i].Bad = map[string]uint64{}
		}
	}
	return list
}

// named finds the one of a list that the path names.
func named[T any](r *request, list []T, name func(T) string) error {
	want, err := r.name()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(t T) bool { return name(t) == want })
	if i < 0 {
		return kindNotFound.problem("there is no %.100q", want)
	}
	return r.respond(http.StatusOK, list[i])
}

// name returns the name in the path.
func (r *request) name() (string, error) {
	name, err := url.PathUnescape(r.Param("name"))
	if err != nil {
		return "", kindBadRequest.problem("the path: %v", err)
	}
	return name, nil
}

// getStream answers with a stream.
func (a *API) getStream(r *request) error {
	return named(r, a.streams(), func(s Stream) string { return s.Name })
}

// listSinks answers with all sinks.
func (a *API) listSinks(r *request) error {
	return r.respond(http.StatusOK, List[Sink]{Items: some(a.config.Daemon.Sinks())})
}

// getSink answers with a sink.
func (a *API) getSink(r *request) error {
	return named(r, a.config.Daemon.Sinks(), func(s Sink) string { return s.Name })
}

// listCheckpoints answers with the epochs that are kept, newest first.
func (a *API) listCheckpoints(r *request) error {
	limit, after, err := r.page()
	if err != nil {
		return err
	}
	before := ^uint64(0)
	if after != "" {
		if before, err = strconv.ParseUint(after, 10, 64); err != nil {
			return kindBadRequest.problem("after: %.100q is no cursor", after)
		}
	}
	kept, err := a.config.Daemon.Checkpoints(r.Request().Context())
	if err != nil {
		return fmt.Errorf("list checkpoints: %w", err)
	}
	i, _ := slices.BinarySearchFunc(kept, before, func(c Checkpoint, e uint64) int { return cmp.Compare(uint64(c.Epoch), e) })
	page := slices.Clone(kept[max(0, i-limit):i])
	slices.Reverse(page)
	list := List[Checkpoint]{Items: some(page)}
	if i > limit {
		list.Next = strconv.FormatUint(uint64(page[limit-1].Epoch), 10)
	}
	return r.respond(http.StatusOK, list)
}

// Made is a checkpoint that was made.
type Made struct {
	Epoch cep.Epoch `json:"epoch"`
}

// makeCheckpoint makes a checkpoint now.
func (a *API) makeCheckpoint(r *request) error {
	if err := a.ask(r.Request().Context(), r.by, Change{Action: "checkpoint"}); err != nil {
		return err
	}
	epoch, err := a.config.Daemon.MakeCheckpoint(r.Request().Context())
	a.tell(r.Request().Context(), r.by, Change{Action: "checkpoint", Subject: strconv.FormatUint(uint64(epoch), 10), Err: err})
	if err != nil {
		return fmt.Errorf("make a checkpoint: %w", err)
	}
	return r.respond(http.StatusCreated, Made{epoch})
}

// makeSavepoint answers with a savepoint: the whole state of an epoch that is kept, or of one that is made for it.
func (a *API) makeSavepoint(r *request) error {
	if err := a.ask(r.Request().Context(), r.by, Change{Action: "savepoint", Subject: r.param("epoch")}); err != nil {
		return err
	}
	epoch, err := a.savepointEpoch(r)
	if err != nil {
		return err
	}
	w := &savepointWriter{to: r.Response(), out: http.NewResponseController(r.Response()), begin: func() {
		h := r.Response().Header()
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="epoch-%d.savepoint"`, epoch))
		h.Set("Cepd-Epoch", strconv.FormatUint(uint64(epoch), 10))
	}}
	err = a.config.Daemon.Savepoint(r.Request().Context(), epoch, w)
	a.tell(r.Request().Context(), r.by, Change{Action: "savepoint", Subject: strconv.FormatUint(uint64(epoch), 10), Err: err})
	switch {
	case err == nil:
		return nil
	case w.begin == nil:
		// Part of it is on its way: the connection is cut, so that nobody takes it for the whole.
		a.log.Warn("a savepoint could not be written to its end", "epoch", epoch, "err", err)
		panic(http.ErrAbortHandler)
	default:
		return fmt.Errorf("write a savepoint: %w", err)
	}
}

// savepointEpoch is the epoch that is asked for.
func (a *API) savepointEpoch(r *request) (cep.Epoch, error) {
	if text := r.param("epoch"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return 0, kindBadRequest.problem("epoch is the number of a checkpoint")
		}
		return cep.Epoch(n), nil
	}
	epoch, err := a.config.Daemon.MakeCheckpoint(r.Request().Context())
	if err != nil {
		return 0, fmt.Errorf("make a checkpoint: %w", err)
	}
	return epoch, nil
}

// savepointWriter writes an answer that begins with the first byte, so that what fails before is a problem.
type savepointWriter struct {
	to    http.ResponseWriter
	out   *http.ResponseController
	begin func() // nil once it has
}

// Write writes.
func (w *savepointWriter) Write(b []byte) (int, error) {
	if w.begin != nil {
		w.begin()
		w.begin = nil
	}
	if err := w.out.SetWriteDeadline(time.Now().Add(savepointStall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, fmt.Errorf("send a savepoint: %w", err)
	}
	return w.to.Write(b)
}
