package filesource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cepd/cepd/cep/source"
)

const (
	// lookTime is how often the files that grow are looked at. Polling works on every file system, over the network too,
	// where notifications do not.
	lookTime = 250 * time.Millisecond
	// lookMax is how many files are looked at so often, for a stat each; where there are more, the silent ones are looked
	// at with the directories.
	lookMax = 256
	// scanTime is how often directories are read, or a tenth of the time is spent on it where that is longer: 10,000
	// files take some 20 ms from a local disk, and 10 s over a slow network.
	scanTime  = time.Second
	scanShare = 10
	// partitionsMax is how many files a stream may have: their heads take 100 MiB then.
	partitionsMax = 100_000
	// graceTime is how long what is usual while files are moved and packed is not worth a word: two files with one
	// beginning, half a compressed file.
	graceTime = 10 * time.Second
	// noteTime is how long something that happened once is reported.
	noteTime = 10 * time.Minute
	// troublesMax is how many troubles are spelt out.
	troublesMax = 10
)

// FollowerConfig says what a running job reads.
type FollowerConfig struct {
	// Stream is the stream that the files are partitions of.
	Stream string
	// Paths are files, directories and patterns as in [Config], but for Stdin. They need not be there yet.
	Paths []string
	// Partitions gives out the partitions; it knows Stream.
	Partitions *source.Partitions
	// Form is FormAuto where it is "".
	Form Form
	// MaxRecord is the limit of a record's size in bytes; source.MaxRecord where it is 0.
	MaxRecord int
	// Finite reads what is there and ends; else files are followed as they grow, and new ones are found.
	Finite bool
}

// Follower is the files of one stream, for a job that runs.
type Follower struct {
	config  FollowerConfig
	handles *handles
	buffers *sync.Pool
}

var _ source.Source = (*Follower)(nil)

// NewFollower checks the configuration. Nothing is opened yet.
func NewFollower(c FollowerConfig) (*Follower, error) {
	if c.MaxRecord == 0 {
		c.MaxRecord = source.MaxRecord
	}
	if c.Form == "" {
		c.Form = FormAuto
	}
	if err := c.Form.check(); err != nil {
		return nil, err
	}
	if len(c.Paths) == 0 {
		return nil, errors.New("no paths to follow")
	}
	if slices.Contains(c.Paths, Stdin) {
		return nil, errors.New("standard input is no file that can be read again: take the source stdin")
	}
	return &Follower{config: c, handles: newHandles(), buffers: &sync.Pool{New: func() any {
		b := make([]byte, readSize)
		return &b
	}}}, nil
}

// Close implements [source.Source].
func (f *Follower) Close() error {
	f.handles.closeAll()
	return nil
}

// Watch implements [source.Source].
func (f *Follower) Watch(ctx context.Context, known []string, d source.Discovery) error {
	w := &watch{
		Follower: f, discovery: d, known: map[string]bool{},
		sights: map[string]*sight{}, missing: map[string]time.Time{}, parts: map[string]*followed{}, full: map[string]*followed{}, short: map[*followed]bool{},
	}
	for _, name := range known {
		w.known[name] = true
	}
	early, next, err := w.scanAt(time.Now())
	if err != nil {
		return err
	}
	d.Ready()
	if f.config.Finite {
		return nil
	}
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			w.tellLast(time.Now())
			return ctx.Err()
		case <-tick.C:
		}
		now := time.Now()
		if w.look(now) && !now.Before(early) || !now.Before(next) {
			if early, next, err = w.scanAt(now); err != nil {
				return err
			}
		}
	}
}

// sight is what was seen at a path.
type sight struct {
	content content
	info    fs.FileInfo
	// part is the partition whose content is there; nil: none is known, and err says why.
	part *followed
	err  error
	// since is when err was first seen, or that part is somewhere else too.
	since time.Time
	// head is how much of the content the part was known by.
	head   int
	packed bool
	round  int
}

// watch is the state of the goroutine that looks after the files.
type watch struct {
	*Follower
	discovery source.Discovery
	known     map[string]bool // the names that beginnings of contents are held against
	round     int
	order     []*sight // of the last scan, in the order of the paths
	sights    map[string]*sight
	parts     map[string]*followed // by name
	full      map[string]*followed // those of which the whole head is known, by its name
	short     map[*followed]bool   // the others
	told      string
	// errs are those of the last scan, losses what contents that are gone have lost unless they are found.
	errs, losses []error
	notes        []note
	// missing says since when a path is wrong.
	missing map[string]time.Time
}

// note is something that happened once.
type note struct {
	err   error
	until time.Time
}

// look looks at the files that grow, and reports whether everything has to be looked at.
func (w *watch) look(now time.Time) (scan bool) {
	for _, p := range w.parts {
		p.mu.Lock()
		place, last, lost := p.place, p.info, p.lost
		gone := !p.gone.IsZero()
		idle := p.ended || gone || place.member != ""
		p.mu.Unlock()
		if lost && !gone {
			scan = true
		}
		if idle || len(w.parts) > lookMax && now.Sub(last.ModTime()) > silentMax {
			continue
		}
		info, err := os.Stat(place.path)
		if err != nil || !os.SameFile(last, info) || info.Size() < last.Size() {
			scan = true
			continue
		}
		p.seen(info)
	}
	return scan
}

// seen notes the size of the partition's file, and wakes its reader if it has changed.
func (r *followed) seen(info fs.FileInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn(info)
}

func (r *followed) learn(info fs.FileInfo) {
	if r.info.Size() != info.Size() || !r.info.ModTime().Equal(info.ModTime()) {
		r.rouse()
	}
	if r.info = info; !r.lost {
		r.size = info.Size()
	}
}

// rouse wakes the reader.
func (r *followed) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // it has not noticed the last time yet
	}
}

// scanAt looks at everything, tells what has changed, and returns when to do it again: early if there is a reason.
func (w *watch) scanAt(now time.Time) (early, next time.Time, err error) {
	errs := w.scan(now)
	if w.config.Finite && len(errs) > 0 {
		return now, now, errors.Join(errs...)
	}
	w.handles.sweep(now)
	w.errs = errs
	w.tell(now)
	end := time.Now()
	return end.Add(end.Sub(now)), end.Add(max(scanTime, scanShare*end.Sub(now))), nil
}

// scan finds what is there. The errors are those of paths; what is wrong with single files is in their sights.
func (w *watch) scan(now time.Time) []error {
	w.round++
	w.order = w.order[:0]
	paths, errs := expand(w.config.Paths)
	var changed []*sight
	for _, path := range paths {
		contents, err := w.contents(path)
		if err != nil && !went(path, err) {
			errs = append(errs, err)
		}
		for _, c := range contents {
			s, again, err := w.see(c)
			switch {
			case errors.Is(err, fs.ErrNotExist): // it went meanwhile
			case err != nil:
				errs = append(errs, err)
			default:
				w.order = append(w.order, s)
				if again {
					changed = append(changed, s)
				}
			}
		}
	}
	for name, s := range w.sights {
		if s.round != w.round {
			delete(w.sights, name)
		}
	}
	found, err := w.identify(changed, now)
	if err != nil {
		errs = append(errs, err)
	}
	w.settle(now)
	for _, s := range w.order {
		if found[s.part] {
			delete(found, s.part)
			w.discovery.Found(s.part)
		}
		switch {
		case !w.config.Finite:
		case s.err != nil && !errors.Is(s.err, errEmpty):
			errs = append(errs, fmt.Errorf("%s: %w", s.content.name(), s.err))
		case s.part != nil && s.part.place != s.content && !os.SameFile(s.part.info, s.info):
			errs = append(errs, fmt.Errorf("%s and %s begin with the same bytes: they are one partition, leave one of them out",
				s.part.place.name(), s.content.name()))
		}
	}
	return errs
}

// contents returns what is in a file: only what does not grow can be an archive.
func (w *watch) contents(path string) ([]content, error) {
	if !w.config.Finite {
		return []content{{path: path}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file that can be read again: take the source stdin", path)
	}
	return list(path, nil)
}

// see looks at one content, and reports whether it has to be identified.
func (w *watch) see(c content) (s *sight, again bool, err error) {
	info, err := os.Stat(c.path)
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%s is no file that can be read again: take the source stdin", c.path)
	}
	s = w.sights[c.name()]
	switch {
	case s == nil:
		s = &sight{content: c}
		w.sights[c.name()] = s
		again = true
	case !os.SameFile(s.info, info) || info.Size() < s.info.Size():
		again = true
	case s.part == nil:
		again = s.err == nil || !waits(s.err) || info.Size() != s.info.Size()
	default:
		s.part.mu.Lock()
		here := s.part.place == c
		again = here && s.part.lost || !here && s.head < headSize || s.part.ended && info.Size() != s.info.Size()
		s.part.mu.Unlock()
	}
	s.info, s.round = info, w.round
	return s, again, nil
}

// waits reports whether an error is over only when the file has more.
func waits(err error) bool {
	return errors.Is(err, errEmpty) || errors.Is(err, errUnfinished) || errors.Is(err, errHalf) || errors.Is(err, errZeros)
}

// identify finds out whose contents were seen, and returns the partitions that are new.
//
// The oldest file comes first: of several that begin as one did which was named when it was short, that one was there
// before the others.
func (w *watch) identify(changed []*sight, now time.Time) (found map[*followed]bool, err error) {
	slices.SortStableFunc(changed, func(a, b *sight) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	found = map[*followed]bool{}
	for _, s := range changed {
		id, e := identify(s.content, w.config.Form, w.config.MaxRecord, !w.config.Finite)
		if went(s.content.path, e) {
			delete(w.sights, s.content.name())
			w.order = slices.DeleteFunc(w.order, func(o *sight) bool { return o == s })
			continue
		}
		before := s.part
		if s.part = nil; e == nil {
			s.head, s.packed = len(id.head), id.packed
			s.part, e = w.assign(s, id, found)
		}
		if (e == nil) != (s.err == nil) || s.part != before {
			s.since = now
		}
		if s.err = e; errors.Is(e, errTooMany) {
			err, s.err = e, errEmpty
		}
	}
	return found, err
}

// went reports whether an error is that of a file which is gone, as after a rotation between the listing and the look into
// it. A link that leads nowhere is there.
func went(path string, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	info, err := os.Lstat(path)
	return err != nil || info.Mode()&fs.ModeSymlink == 0
}

var errTooMany = fmt.Errorf("there are more than %d files: the others are not read", partitionsMax)

// assign returns the partition that a content is, an old one or a new one.
func (w *watch) assign(s *sight, id *identity, found map[*followed]bool) (*followed, error) {
	p := w.whose(id.head)
	if p == nil {
		name, named := nameAmong(id.head, w.known)
		if named == 0 {
			name, named = nameOf(id.head), len(id.head)
		} else if w.parts[name] != nil { // it is another's, who is not like this one
			name, named = nameOf(id.head), len(id.head)
		}
		return w.add(s, id, name, named, found)
	}
	p.mu.Lock()
	again := p.ended && (!os.SameFile(p.info, s.info) || p.info.Size() != s.info.Size())
	switch {
	case len(id.head) < p.named:
		p.mu.Unlock()
		return nil, errUnfinished // it may become a copy of what p is, or something else
	case len(id.head) > len(p.head) && !again:
		p.head = id.head
	}
	if p.place == s.content {
		p.lost, p.truncated = false, false
	}
	p.mu.Unlock()
	if again {
		return w.add(s, id, p.partition.Name, p.named, found)
	}
	w.learn(p)
	return p, nil
}

// whose returns the partition that begins like this; nil: none.
func (w *watch) whose(head []byte) (p *followed) {
	for q := range w.short {
		q.mu.Lock()
		if compatible(q.head, head) && (p == nil || q.named > p.named) {
			p = q
		}
		q.mu.Unlock()
	}
	if p != nil {
		return p
	}
	if len(head) == headSize {
		return w.full[nameOf(head)]
	}
	for _, q := range w.full {
		q.mu.Lock()
		if compatible(q.head, head) {
			p = q
		}
		q.mu.Unlock()
	}
	return p
}

// learn sorts a partition by what is known of its head.
func (w *watch) learn(p *followed) {
	if !w.short[p] {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.head) == headSize {
		delete(w.short, p)
		w.full[nameOf(p.head)] = p
	}
}

// add makes a partition.
func (w *watch) add(s *sight, id *identity, name string, named int, found map[*followed]bool) (*followed, error) {
	if len(w.parts) >= partitionsMax {
		return nil, errTooMany
	}
	q := w.config.Partitions.Get(w.config.Stream, name)
	if q == nil {
		return nil, fmt.Errorf("stream %q is not configured", w.config.Stream)
	}
	p := &followed{
		partition: q, format: id.format, body: id.body, finite: w.config.Finite, named: named,
		handles: w.handles, buffers: w.buffers, cut: newCutter(id.format, w.config.MaxRecord), wake: make(chan struct{}, 1),
		head: id.head, place: s.content, packed: id.packed, info: s.info, size: s.info.Size(),
	}
	if old := w.parts[name]; old != nil {
		delete(w.short, old)
	}
	w.parts[name], w.short[p] = p, true
	if named < headSize {
		w.known[name] = true // so that it is found again by its beginning
	}
	w.learn(p)
	found[p] = true
	return p, nil
}

// settle says for each partition where it is.
func (w *watch) settle(now time.Time) {
	at := make(map[*followed][]*sight, len(w.parts))
	for _, s := range w.order {
		if s.part != nil {
			at[s.part] = append(at[s.part], s)
		}
	}
	w.losses = w.losses[:0]
	for name, p := range w.parts {
		w.learn(p)
		p.mu.Lock()
		w.place(p, at[p], now)
		w.keep(p, now, p.truncated && !p.gone.IsZero())
		if p.ended && !p.gone.IsZero() && now.Sub(p.gone) > noteTime {
			delete(w.parts, name)
			delete(w.short, p)
			if full := nameOf(p.head); w.full[full] == p {
				delete(w.full, full)
			}
		}
		p.mu.Unlock()
	}
}

// place chooses among the places of a partition's content: where it was, else one that can grow, else the first.
func (w *watch) place(p *followed, at []*sight, now time.Time) {
	if len(at) == 0 {
		if p.gone.IsZero() {
			p.gone = now
			p.rouse()
		}
		p.lost = false
		return
	}
	best := at[0]
	for _, s := range at {
		if s.content == p.place {
			best = s
			break
		}
	}
	if best.content != p.place || !p.gone.IsZero() || p.lost {
		if best.content != p.place {
			p.place = best.content
			p.moves++
		}
		p.gone, p.lost, p.truncated = time.Time{}, false, false
		p.rouse()
	}
	p.learn(best.info)
}

// keep takes what the reader has noted. lost says that what has not been read is lost, unless the content is found.
func (w *watch) keep(p *followed, now time.Time, lost bool) {
	for _, err := range p.notes {
		w.notes = append(w.notes, note{err, now.Add(noteTime)})
	}
	p.notes = nil
	if !lost || p.finished {
		return
	}
	if err := p.loss(); err != nil {
		w.losses = append(w.losses, err)
	}
}

// tellLast tells what is wrong when nobody looks any more. Contents that are gone might have been read on from for a while, or found:
// what of them was not read is lost now, and the next follower does not know how much there was.
func (w *watch) tellLast(now time.Time) {
	w.losses = w.losses[:0]
	for _, p := range w.parts {
		p.mu.Lock()
		w.keep(p, now, p.lost || !p.gone.IsZero())
		p.mu.Unlock()
	}
	w.tell(now)
}

// lasting returns the errors of paths that were there at the start, or have lasted.
func (w *watch) lasting(now time.Time, errs []error) (last []error) {
	missing := map[string]time.Time{}
	for _, err := range errs {
		text := err.Error()
		since, ok := w.missing[text]
		if !ok && w.round > 1 {
			since = now
		}
		if missing[text] = since; now.Sub(since) >= graceTime {
			last = append(last, err)
		}
	}
	w.missing = missing
	return last
}

// tell reports what is wrong, if that has changed.
func (w *watch) tell(now time.Time) {
	errs := append(w.lasting(now, w.errs), w.losses...)
	w.notes = slices.DeleteFunc(w.notes, func(n note) bool { return !now.Before(n.until) })
	for _, n := range w.notes {
		errs = append(errs, n.err)
	}
	for _, s := range w.order {
		late := now.Sub(s.since) >= graceTime
		switch {
		case s.err != nil:
			if !waits(s.err) || errors.Is(s.err, errZeros) || late && errors.Is(s.err, errHalf) {
				errs = append(errs, fmt.Errorf("%s: %w", s.content.name(), s.err))
			}
		case s.part != nil:
			if err := w.trouble(s, now, late); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if w.config.Finite {
		return
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	errs = slices.CompactFunc(errs, func(a, b error) bool { return a.Error() == b.Error() })
	if n := len(errs); n > troublesMax {
		errs = append(errs[:troublesMax:troublesMax], fmt.Errorf("and %d more", n-troublesMax))
	}
	err := errors.Join(errs...)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != w.told {
		w.told = text
		w.discovery.Trouble(err)
	}
}

// trouble is what is wrong with a content that is known.
func (w *watch) trouble(s *sight, now time.Time, late bool) error {
	p := s.part
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.place == s.content {
		if p.trouble != nil && (!broken(p.trouble) || now.Sub(p.troubleAt) >= graceTime) {
			return p.trouble
		}
		return nil
	}
	other := w.sights[p.place.name()]
	if !late || p.ended || p.packed || other == nil || os.SameFile(other.info, s.info) || s.packed {
		return nil // one file under two names, or packed copies of what is read
	}
	return fmt.Errorf("%s and %s begin with the same bytes: they are one partition, of which %s is read", p.place.name(), s.content.name(), p.place.name())
}
