package filesink

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cepd/cepd/sinks"
)

const (
	// footSize is how much of a file's end tells it from others: a line of ours holds an id of 64 digits, and the shortest
	// alert is longer than 200 bytes.
	footSize = 512
	// tailRead is how much of what stands behind the recorded length is compared at once.
	tailRead = 64 << 10
)

// foot is the checksum of the last bytes before the recorded length.
func foot(b []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli))
}

// footAt reads the foot of a file before a length.
func footAt(f *os.File, length int64) (string, error) {
	b := make([]byte, min(length, footSize))
	if _, err := f.ReadAt(b, length-int64(len(b))); err != nil {
		return "", err
	}
	return foot(b), nil
}

// matches reports whether f is the file that p is about, and its size.
func matches(f *os.File, p *position) (ok bool, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, 0, err
	}
	if size = info.Size(); size < p.Length {
		return false, size, nil
	}
	got, err := footAt(f, p.Length)
	return got == p.Foot, size, err
}

// find makes s.data the file at the path, and p a position in it, so that lines can be appended there. A file that was moved
// away is left behind whole, and a new one begun.
//
// Without lines it does what needs no knowledge of them, and s.data may stay nil.
func (s *Sink) find(p *position, lines []byte) error {
	if s.data != nil {
		return s.still(p, lines)
	}
	if p.Length == 0 && p.Sequence > 0 && lines != nil {
		if err := s.leaveBegun(lines); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(s.c.Path, os.O_RDWR, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var ok bool
	var size int64
	why := "it is gone"
	if err == nil {
		ok, size, err = matches(f, p)
		if err == nil && ok {
			s.data = f
			return nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		why = "it was emptied"
	}
	if lines == nil {
		return nil
	}
	moved, err := s.moved(p, lines)
	switch {
	case err != nil:
		return err
	case moved:
		return s.begin(p, wasMoved)
	case size == 0:
		return s.begin(p, why)
	}
	return s.strange(p, size)
}

// still is find for a file that is open.
func (s *Sink) still(p *position, lines []byte) error {
	mine, err := s.data.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(s.c.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(mine, there) {
		if lines == nil && mine.Size() > p.Length {
			return nil
		}
		if err := leave(s.data, p, lines); err != nil {
			return err
		}
		return s.begin(p, wasMoved)
	}
	ok, size, err := matches(s.data, p)
	switch {
	case err != nil || ok:
		return err
	case size == 0: // copytruncate: what was in it is elsewhere
		return s.begin(p, "it was emptied")
	}
	return s.strange(p, size)
}

// wasMoved is what became of a file that log rotation renamed.
const wasMoved = "it was moved away"

// strange stops: the file is not what this job has left.
func (s *Sink) strange(p *position, size int64) error {
	return &sinks.DivergedError{At: p.progress(), Detail: fmt.Sprintf("%s holds %d bytes, of which this job has written %d that are not there any more; "+
		"move it away, and a new one is begun", s.c.Path, size, p.Length)}
}

// moved looks for the file that p is about among those whose name begins alike, and leaves it whole.
func (s *Sink) moved(p *position, lines []byte) (bool, error) {
	if p.Length == 0 {
		return false, nil // nothing tells it from others: see leaveBegun
	}
	names, err := s.alike()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		found, err := leaveIfMoved(name, p, lines)
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// alike are the files whose name begins as that of ours, but for ours and its position: "alerts" finds alerts.jsonl.1 and
// alerts-20260101.jsonl.
func (s *Sink) alike() ([]string, error) {
	folder, base := filepath.Split(s.c.Path)
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	if folder == "" {
		folder = "."
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), stem) && e.Name() != base && !strings.Contains(e.Name(), suffix) {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	return names, nil
}

// leaveBegun empties a file that was begun behind a rotation, and moved away when it held nothing but what a call had under
// way: lines of which the position does not know. It is known by them alone, so it must hold nothing else, and a job that
// begins at its first alert looks for none: what somebody put aside begins with those lines too.
func (s *Sink) leaveBegun(lines []byte) error {
	names, err := s.alike()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := emptyIfBegun(name, lines); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func emptyIfBegun(path string, lines []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil // not ours to write
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	common, _, err := compare(io.NewSectionReader(f, 0, info.Size()), lines)
	if err == nil && common > 0 && common == info.Size() {
		err = errors.Join(f.Truncate(0), f.Sync())
	}
	return errors.Join(err, f.Close())
}

func leaveIfMoved(path string, p *position, lines []byte) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, nil // not ours to write
	}
	ok, _, err := matches(f, p)
	if err == nil && ok {
		err = leave(f, p, lines)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return ok, nil
}

// leave cuts off what a call had under way in a file that was moved away: the lines go into the new one, whole. What somebody
// else has written there stays.
func leave(f *os.File, p *position, lines []byte) error {
	ok, size, err := matches(f, p)
	if err != nil || !ok || size == p.Length {
		return err
	}
	tail := io.NewSectionReader(f, p.Length, size-p.Length)
	common, blank, err := compare(tail, lines)
	if err != nil || !blank && common < min(tail.Size(), int64(len(lines))) {
		return err
	}
	return errors.Join(f.Truncate(p.Length), f.Sync())
}

// begin begins a new file at the path and notes it. why says what became of the old one.
func (s *Sink) begin(p *position, why string) error {
	s.c.Failpoint("filesink.left")
	if err := s.adopt(p); err != nil {
		return err
	}
	if err := s.note(p); err != nil {
		return err
	}
	s.c.Logger.Info("a new file is begun", "path", s.c.Path, "old", why, "behind", p.Sequence)
	return nil
}

// adopt makes the file at the path, creates it if there is none, and sets p to its end: what is in it stays.
func (s *Sink) adopt(p *position) error {
	f, err := os.OpenFile(s.c.Path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	if err := s.adoptFile(f, p); err != nil {
		return errors.Join(err, f.Close())
	}
	if s.data != nil {
		err = s.data.Close() // whatever it says: all of it was synced
		if err != nil {
			s.c.Logger.Warn("close of the file that was left", "err", err)
		}
	}
	s.data = f
	return nil
}

func (s *Sink) adoptFile(f *os.File, p *position) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	length := info.Size()
	if length > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], length-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			if _, err := f.WriteAt([]byte("\n"), length); err != nil {
				return err
			}
			length++
		}
	}
	if err := errors.Join(f.Sync(), syncFolder(s.c.Path)); err != nil {
		return err
	}
	s.c.Failpoint("filesink.created")
	p.Length = length
	p.Foot, err = footAt(f, length)
	return err
}

// append writes lines behind the recorded length and makes them durable.
func (s *Sink) append(p *position, lines []byte) error {
	if err := s.clear(p, lines); err != nil {
		return err
	}
	// What stands there already is written again: after an fsync that failed it may be in memory only.
	for at := 0; at < len(lines); at += chunk {
		if at > 0 {
			s.c.Failpoint("filesink.partly")
		}
		part := lines[at:min(at+chunk, len(lines))]
		if _, err := s.data.WriteAt(part, p.Length+int64(at)); err != nil {
			return err
		}
	}
	s.c.Failpoint("filesink.written")
	if err := s.data.Sync(); err != nil {
		return err
	}
	s.c.Failpoint("filesink.synced")
	length := p.Length + int64(len(lines))
	f, err := footAt(s.data, length)
	if err != nil {
		return err
	}
	p.Length, p.Foot = length, f
	return nil
}

// clear judges what stands behind the recorded length. The beginning of the lines, or more than them, is what a crash or a full
// disk left of a call like this one: it stays, since a reader may have seen it. Blank space is what a loss of power left: it
// is cut. Anything else is somebody else's.
func (s *Sink) clear(p *position, lines []byte) error {
	info, err := s.data.Stat()
	if err != nil || info.Size() == p.Length {
		return err
	}
	tail := io.NewSectionReader(s.data, p.Length, info.Size()-p.Length)
	common, blank, err := compare(tail, lines)
	switch {
	case err != nil:
		return err
	case common == min(tail.Size(), int64(len(lines))):
		return nil
	case blank:
		return s.data.Truncate(p.Length + common)
	case p.Length == 0: // somebody's before anything of ours
		s.c.Logger.Info("the new file was not empty", "path", s.c.Path, "bytes", tail.Size())
		return s.adoptFile(s.data, p)
	}
	return &sinks.DivergedError{At: p.progress(), Detail: fmt.Sprintf("somebody else has written %d bytes to %s, behind the %d of this job (or this job has, before an older "+
		"state was restored): move the file away, and a new one is begun", tail.Size(), s.c.Path, p.Length)}
}

// compare returns how much of tail is the beginning of lines, and whether the rest of it holds a NUL, which JSON never does.
func compare(tail *io.SectionReader, lines []byte) (common int64, blank bool, err error) {
	b := make([]byte, tailRead)
	equal := true
	for at := int64(0); at < tail.Size(); {
		n, err := tail.ReadAt(b[:min(tailRead, tail.Size()-at)], at)
		if n == 0 {
			return common, false, err
		}
		at += int64(n)
		part := b[:n]
		if equal {
			k := prefix(part, lines[common:])
			common += int64(k)
			part = part[k:]
			equal = len(part) == 0
		}
		if bytes.IndexByte(part, 0) >= 0 {
			return common, true, nil
		}
	}
	return common, false, nil
}

// prefix is the length of what a and b begin with alike.
func prefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// cut cuts off what stands behind the recorded length.
func (s *Sink) cut(p *position) error {
	info, err := s.data.Stat()
	if err != nil || info.Size() == p.Length {
		return err
	}
	if p.Length == 0 {
		return s.adoptFile(s.data, p) // it may be anybody's
	}
	return errors.Join(s.data.Truncate(p.Length), s.data.Sync())
}
