package rulesapi

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cepd/cepd/cep"
)

const (
	// alertsMax and alertBytesMax are what is kept of the newest alerts: some hours of a quiet job, and what a client that was
	// away for a minute has missed of a busy one.
	alertsMax     = 10_000
	alertBytesMax = 64 << 20
)

// Feed has the newest alerts of a job, for those who ask and those who listen. It is made before the job, which tells it of
// each durable epoch. Its methods may be called from any goroutine.
type Feed struct {
	encode func(dst []byte, a *cep.Alert) []byte
	max    int

	mu sync.Mutex
	// list are the newest alerts, oldest first. first is the number of list[0]: alerts are numbered from 0 since the start.
	list  []fedAlert
	first uint64
	bytes int
	// from is the place behind which all alerts are there; newest is the newest epoch.
	from   mark
	newest cep.Epoch
	// more is closed, and made anew, when alerts come.
	more chan struct{}
}

// fedAlert is an alert that is kept.
type fedAlert struct {
	mark mark
	rule string
	id   cep.AlertID
	time cep.Time
	json []byte
}

// mark is a place among the alerts of a job: the epoch that one became true with, and its number in it, from 1; number 0 is
// before the first of the epoch, and so behind all of those before. It is the same for every process that runs the job.
type mark struct {
	epoch cep.Epoch
	n     int
}

func (m mark) String() string { return fmt.Sprintf("%d.%d", m.epoch, m.n) }

func (m mark) compare(o mark) int {
	return cmp.Or(cmp.Compare(m.epoch, o.epoch), cmp.Compare(m.n, o.n))
}

// parseMark reads a mark as it was given out.
func parseMark(s string) (mark, error) {
	epoch, n, ok := strings.Cut(s, ".")
	e, err := strconv.ParseUint(epoch, 10, 63)
	if ok && err == nil {
		var i uint64
		if i, err = strconv.ParseUint(n, 10, 31); err == nil {
			return mark{cep.Epoch(e), int(i)}, nil
		}
	}
	return mark{}, kindBadRequest.problem("%.100q is no cursor: write the id of an alert as it came, like 12.3", s)
}

// NewFeed returns a feed that begins behind an epoch: the newest durable one, 0 where there is none. encode appends an alert as
// JSON, without a line end.
func NewFeed(epoch cep.Epoch, encode func(dst []byte, a *cep.Alert) []byte) *Feed {
	return &Feed{encode: encode, max: alertsMax, from: mark{epoch + 1, 0}, newest: epoch, more: make(chan struct{})}
}

// Committed adds the alerts of an epoch. The job calls it in the order of epochs; it does not block.
func (f *Feed) Committed(epoch cep.Epoch, alerts []*cep.Alert) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newest = epoch
	if len(alerts) == 0 {
		return
	}
	skip := max(0, len(alerts)-f.max) // they would go again at once
	if skip > 0 {
		f.drop(len(f.list))
		f.first += uint64(skip)
		f.from = mark{epoch, skip}
	}
	for i, a := range alerts[skip:] {
		e := fedAlert{mark: mark{epoch, skip + i + 1}, rule: a.Rule, id: a.ID, time: a.Time, json: f.encode(nil, a)}
		f.list = append(f.list, e)
		f.bytes += len(e.json)
		over := max(0, len(f.list)-f.max)
		for rest := f.bytes; over < len(f.list) && rest > alertBytesMax; over++ {
			rest -= len(f.list[over].json)
		}
		f.drop(over)
	}
	close(f.more)
	f.more = make(chan struct{})
}

// drop forgets the oldest alerts.
func (f *Feed) drop(n int) {
	for _, e := range f.list[:n] {
		f.bytes -= len(e.json)
		f.from = e.mark
	}
	clear(f.list[:n])
	f.list = f.list[n:]
	f.first += uint64(n)
}

// newestFirst returns alerts before a mark, newest first, at most so many. next says that there are more.
func (f *Feed) newestFirst(before mark, limit int, admits func(*fedAlert) bool) (list []fedAlert, next bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.list) - 1; i >= 0; i-- {
		e := &f.list[i]
		if before != (mark{}) && e.mark.compare(before) >= 0 || !admits(e) {
			continue
		}
		if len(list) == limit {
			return list, true
		}
		list = append(list, *e)
	}
	return list, false
}

// find returns an alert by its id.
func (f *Feed) find(id string) (fedAlert, bool) {
	var want cep.AlertID
	if b, err := hex.DecodeString(id); err != nil || len(b) != len(want) || copy(want[:], b) == 0 {
		return fedAlert{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.list, func(e fedAlert) bool { return e.id == want })
	if i < 0 {
		return fedAlert{}, false
	}
	return f.list[i], true
}

// behind returns the number of the first alert behind a mark. gap says that alerts behind it may have been that are not kept.
func (f *Feed) behind(m mark) (number uint64, gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, found := slices.BinarySearchFunc(f.list, m, func(e fedAlert, m mark) int { return e.mark.compare(m) })
	if found {
		return f.first + uint64(i) + 1, false
	}
	return f.first + uint64(i), m.compare(f.from) < 0 || m.compare(mark{f.newest + 1, 0}) > 0
}

// end returns the number behind the newest alert.
func (f *Feed) end() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first + uint64(len(f.list))
}

// tail is what a listener is handed.
type tail struct {
	list []fedAlert
	// at is the place behind the list. more is closed when there are alerts behind it; nil: there are already.
	at   mark
	more <-chan struct{}
	// lost says that alerts have gone that the listener has not seen.
	lost bool
}

// since returns alerts from a number on, at most so many.
func (f *Feed) since(number uint64, limit int) tail {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number < f.first {
		return tail{lost: true}
	}
	rest := f.list[min(int(number-f.first), len(f.list)):]
	if len(rest) > limit {
		return tail{list: slices.Clone(rest[:limit]), at: rest[limit-1].mark}
	}
	return tail{list: slices.Clone(rest), at: mark{f.newest + 1, 0}, more: f.more}
}
