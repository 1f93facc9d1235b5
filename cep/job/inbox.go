package job

import (
	"sync"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/source"
)

// inbox is where the sequencer is told of what others did. It never blocks who tells: what it holds is bounded by the number
// of partitions, sinks and requests.
type inbox struct {
	mu   sync.Mutex
	list []notice
	// wake is sent to when the list is no longer empty.
	wake chan struct{}
}

// notice is something that the sequencer is told. What other fields mean depends on the kind.
type notice struct {
	kind   noticeKind
	stream *stream
	input  *input
	reader source.Reader
	// beginning is where a partition begins that was found.
	beginning beginning
	err       error
	flight    *flight
	letter    *letter
	reply     chan<- answer
	epoch     cep.Epoch
	// request has the set of rules that it is about.
	request *request
	query   *OpenQuery
}

type noticeKind uint8

const (
	noticeChanged   noticeKind = iota // input has something to take, or has ended
	noticeFound                       // a partition of stream was found
	noticeListed                      // all partitions of stream that are there were found
	noticeOver                        // no partition of stream can appear any more
	noticeUnable                      // err keeps the job from going on
	noticeTrouble                     // err keeps the source of stream from being read; nil: no longer
	noticeCommitted                   // flight is durable
	noticeFailed                      // err keeps flight from being durable, for now
	noticeConfirmed                   // a sink has confirmed a position
	noticeLetter                      // letter wants to be in the next epoch; reply, once it is
	noticePublished                   // everything committed with epoch is published; err says of what that is not so
	noticeEpoch                       // somebody wants an epoch now
	noticeDrain                       // somebody wants an orderly end
	noticeStatus                      // somebody wants to know how things are
	noticeTold                        // the source of stream was told how far the job is; err says of what that is not so
	noticeSwap                        // the set of request wants to take over
	noticeOpen                        // somebody asks query
	noticePlan                        // somebody wants to know what would become of the rules if it did
)

// answer is what comes back for a notice.
type answer struct {
	epoch  cep.Epoch
	status *Status
	// changes tell what becomes of each rule, pause how long nothing went on for it.
	changes []RuleChange
	pause   time.Duration
	page    OpenPage
	err     error
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (b *inbox) put(n notice) {
	b.mu.Lock()
	b.list = append(b.list, n)
	b.mu.Unlock()
	b.nudge()
}

func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list) == 0
}

// nudge wakes the sequencer without telling it anything.
func (b *inbox) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what has come, in order. The list given is used for what comes next.
func (b *inbox) take(next []notice) []notice {
	clear(next)
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = next[:0]
	return list
}
