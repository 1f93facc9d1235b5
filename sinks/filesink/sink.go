package filesink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cepd/cepd/sinks"
)

const (
	// lockWait is how long a call waits for another instance that is in the middle of one: each takes two fsyncs, which a
	// busy disk may hold up for a second.
	lockWait = 2 * time.Second
	// lockPause is how often it looks.
	lockPause = 2 * time.Millisecond
	// chunk is how much is written at once: enough that the number of calls costs nothing.
	chunk = 64 << 10
	// fileMode is what files are created with: the umask decides who else may read alerts.
	fileMode = 0o644
)

// Failpoints are the points that [Config.Failpoint] is called at.
var Failpoints = []string{
	"filesink.locked",  // a call has begun, and nothing is changed
	"filesink.opened",  // the fence is taken
	"filesink.begun",   // a lineage has begun
	"filesink.partly",  // a part of the lines is written
	"filesink.written", // all lines are written, and not synced
	"filesink.synced",  // the lines are on the disk, the position does not know
	"filesink.slot",    // the position is written, and not synced
	"filesink.noted",   // the position is on the disk
	"filesink.left",    // a file that was moved away is finished, the new one is not there
	"filesink.created", // the new file is there, the position does not know
}

// Config is where and how to write.
type Config struct {
	// Path is the file. The position is kept beside it, in Path.position.
	Path string
	// Owner names the job and sink that the file belongs to, as "fraud/out": another one is refused.
	Owner string
	// Format and Source are how messages look.
	Format sinks.Format
	Source string
	Logger *slog.Logger
	// Failpoint is called at the [Failpoints]; nil in production.
	Failpoint func(point string)
}

// Sink appends messages to a file.
type Sink struct {
	c      Config
	token  string
	mu     sync.Mutex // Close may come while a call is about to end
	fence  uint64     // 0: never opened
	place  positionFile
	data   *os.File // the file at Path that position is about; nil until it is known
	unsure uint64   // the count of a position that was written, and perhaps not made durable; 0: none
	buf    []byte
	closed bool
}

var _ sinks.Sink = (*Sink)(nil)

// New checks the configuration. It touches no file.
func New(c Config) (*Sink, error) {
	if c.Path == "" || c.Owner == "" {
		return nil, errors.New("file sink: a path and an owner are needed")
	}
	if info, err := os.Stat(c.Path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("file sink: %s is no regular file; for standard output the path is \"-\"", c.Path)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) {}
	}
	s := &Sink{c: c, token: rand.Text(), place: positionFile{path: c.Path + suffix}}
	// The longest position that can be written must fit.
	if _, err := appendSlot(nil, &position{
		Magic: magic, Owner: c.Owner, Holder: holder(), Token: s.token, Chain: sinks.Chain{}.String(), Foot: foot(nil),
		Count: 1<<64 - 1, Fence: 1<<64 - 1, Lineage: 1<<64 - 1, Sequence: 1<<64 - 1, Length: 1<<63 - 1,
	}); err != nil {
		return nil, fmt.Errorf("file sink %.100s: %w", c.Owner, err)
	}
	return s, nil
}

// holder names this process, for people.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("process %d on %.100s", os.Getpid(), host)
}

// lock begins a call: nobody else works with the position before unlock. missing says that there is none.
func (s *Sink) lock(ctx context.Context) (p position, missing bool, err error) {
	if s.closed {
		return p, false, errClosed
	}
	for end := time.Now().Add(lockWait); ; {
		if err := ctx.Err(); err != nil {
			return p, false, err
		}
		if s.place.f == nil {
			if err := s.place.open(); errors.Is(err, fs.ErrNotExist) {
				return p, true, nil
			} else if err != nil {
				return p, false, err
			}
		}
		ok, err := tryLock(s.place.f)
		if err != nil {
			return p, false, fmt.Errorf("lock %s: %w", s.place.path, err)
		}
		if ok && s.place.current() {
			break
		}
		if ok { // it was removed, or replaced
			if err := s.place.close(); err != nil {
				return p, false, err
			}
			continue
		}
		if time.Now().After(end) {
			by := "another instance"
			if p, err := s.place.read(); err == nil {
				by = p.Holder
			}
			return p, false, fmt.Errorf("%s is locked by %s in the middle of a call", s.place.path, by)
		}
		time.Sleep(lockPause)
	}
	p, err = s.place.read()
	if err == nil && p.Owner != s.c.Owner {
		err = fmt.Errorf("%w: %s belongs to %q, this is %q: use another file", sinks.ErrStop, s.c.Path, p.Owner, s.c.Owner)
	}
	if err == nil && s.unsure == p.Count {
		// What is read may be in memory only, and a disk that has refused once may drop it: write it again, in its place.
		p.Count--
		err = s.note(&p)
	}
	if err != nil {
		return p, false, errors.Join(err, s.unlock())
	}
	s.c.Failpoint("filesink.locked")
	return p, false, nil
}

func (s *Sink) unlock() error {
	if s.place.f == nil {
		return nil
	}
	return unlock(s.place.f)
}

// note makes p the position.
func (s *Sink) note(p *position) error {
	s.unsure = p.Count + 1
	if err := s.place.write(p, s.c.Failpoint); err != nil {
		return fmt.Errorf("write %s: %w", s.place.path, err)
	}
	s.unsure = 0
	return nil
}

// Open implements [sinks.Sink].
func (s *Sink) Open(ctx context.Context) (at sinks.Progress, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, missing, err := s.lock(ctx)
	for tries := 0; err == nil && missing; tries++ {
		if tries == 10 { // somebody removes it as fast as it is made
			return at, fmt.Errorf("create %s: it does not stay", s.place.path)
		}
		if err := s.place.create(position{Owner: s.c.Owner, Holder: holder(), Foot: foot(nil)}); err != nil {
			return at, fmt.Errorf("create %s: %w", s.place.path, err)
		}
		p, missing, err = s.lock(ctx)
	}
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, s.unlock()) }()
	if p.Token != s.token {
		if s.fence > 0 && p.Fence >= s.fence {
			return at, s.fencedBy(&p)
		}
		p.Fence, p.Token, p.Holder = max(p.Fence, s.fence)+1, s.token, holder()
		if err := s.note(&p); err != nil {
			return at, err
		}
	}
	s.fence = p.Fence
	s.c.Failpoint("filesink.opened")
	return p.progress(), nil
}

// Peek implements [sinks.Sink]. It holds the lock for as long as reading takes: what it reads is whole, and an owner that is
// about to write waits for that instant only.
func (s *Sink) Peek(ctx context.Context) (at sinks.Progress, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, missing, err := s.lock(ctx)
	if err != nil || missing {
		return at, err
	}
	return p.progress(), s.unlock()
}

// fencedBy is the error of one whose place was taken.
func (s *Sink) fencedBy(p *position) error {
	return &sinks.FencedError{Owner: p.Holder, Forgotten: p.Fence < s.fence}
}

// mine begins a call that only the owner may make.
func (s *Sink) mine(ctx context.Context) (position, error) {
	p, missing, err := s.lock(ctx)
	switch {
	case err != nil:
		return p, err
	case missing:
		return p, &sinks.FencedError{Owner: "nobody: " + s.place.path + " is gone", Forgotten: true}
	case p.Token != s.token:
		return p, errors.Join(s.fencedBy(&p), s.unlock())
	}
	return p, nil
}

// Begin implements [sinks.Sink].
func (s *Sink) Begin(ctx context.Context, at sinks.Progress) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.mine(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.unlock()) }()
	switch {
	case p.Lineage > 0 && p.progress() == at:
		return nil
	case at.Lineage <= p.Lineage:
		return &sinks.StandsError{At: p.progress()}
	}
	if p.Lineage > 0 {
		if err := s.find(&p, nil); err != nil {
			return err
		}
	}
	if s.data == nil {
		err = s.adopt(&p)
	} else {
		err = s.cut(&p) // what was under way belongs to the old lineage, and may differ
	}
	if err != nil {
		return err
	}
	p.set(at)
	if err := s.note(&p); err != nil {
		return err
	}
	s.c.Failpoint("filesink.begun")
	return nil
}

// Publish implements [sinks.Sink].
func (s *Sink) Publish(ctx context.Context, b sinks.Batch) (ack sinks.Ack, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.mine(ctx)
	if err != nil {
		return ack, err
	}
	defer func() { err = errors.Join(err, s.unlock()) }()
	if p.Lineage == 0 {
		return ack, &sinks.FencedError{Owner: "nobody: the position is gone", Forgotten: true}
	}
	at, end := p.progress(), b.End()
	switch {
	case at == end && len(b.Messages) > 0: // it is there
		return sinks.Ack{Published: end, Acknowledged: end.Sequence}, nil
	case at == b.Base:
	case at.Lineage == b.Base.Lineage && (at.Sequence == b.Base.Sequence || at.Sequence == end.Sequence):
		return ack, &sinks.DivergedError{At: at, Detail: fmt.Sprintf("its chain there is %.16s", at.Chain)}
	default:
		return ack, &sinks.StandsError{At: at}
	}
	s.buf = s.buf[:0]
	for i := range b.Messages {
		s.buf = appendLine(s.buf, s.c.Format, s.c.Source, &b.Messages[i])
	}
	if len(b.Messages) == 0 {
		err = s.find(&p, nil)
	} else {
		err = s.find(&p, s.buf)
	}
	if err != nil {
		return ack, err
	}
	if len(b.Messages) > 0 {
		if err := s.append(&p, s.buf); err != nil {
			return ack, err
		}
		p.set(end)
		if err := s.note(&p); err != nil {
			return ack, err
		}
		s.c.Failpoint("filesink.noted")
	}
	return sinks.Ack{Published: end, Acknowledged: end.Sequence}, nil
}

// Close implements [sinks.Sink].
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.place.close()
	if s.data != nil {
		err = errors.Join(err, s.data.Close())
		s.data = nil
	}
	return err
}
