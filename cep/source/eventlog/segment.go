package eventlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	extension = ".log"
	// unfinished is behind the name of a file that is being written and has another name then.
	unfinished = ".new"
)

// segment is a file of the log.
type segment struct {
	path string
	head header
	// end is the offset behind its last record: in the last segment of those that are durable.
	end int64
	// bytes is what it takes on disk.
	bytes int64
}

// segmentName makes files sort by their offsets.
func segmentName(base int64) string { return fmt.Sprintf("%020d%s", base, extension) }

// found is a file that is called as a segment is.
type found struct {
	path string
	base int64
	size int64
	head header
	bad  error
}

// findSegments reads the headers of all segments of a directory, in their order.
func findSegments(dir string) ([]found, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []found
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), unfinished) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		name, ok := strings.CutSuffix(e.Name(), extension)
		base, err := strconv.ParseInt(name, 10, 64)
		if !ok || err != nil || e.Name() != segmentName(base) {
			continue
		}
		f := found{path: filepath.Join(dir, e.Name()), base: base}
		if f.head, f.size, f.bad, err = headerOf(f.path); err != nil {
			return nil, err
		}
		if f.bad == nil && f.head.base != base {
			f.bad = errHeader
		}
		if errors.Is(f.bad, errNewer) {
			return nil, fmt.Errorf("%s: %w", f.path, f.bad)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// headerOf reads the header of a segment; bad says what is wrong with it, err what keeps it from being read.
func headerOf(path string) (h header, size int64, bad, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, 0, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return h, 0, nil, err
	}
	b := make([]byte, headerSize)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return h, 0, nil, err
	}
	h, bad = readHeader(b[:n])
	return h, info.Size(), bad, nil
}

// mend makes headers for segments that have lost theirs: the name of the file has the base, the neighbours the rest.
func mend(all []found) error {
	sound := slices.IndexFunc(all, func(f found) bool { return f.bad == nil })
	if sound < 0 && len(all) > 0 {
		return fmt.Errorf("%s: %w, and there is no other segment to learn it from: move the log away, which loses its events", all[0].path, errHeader)
	}
	for i := range all {
		f := &all[i]
		if f.bad == nil {
			continue
		}
		f.head = header{name: all[sound].head.name, base: f.base, before: f.base, salt: all[sound].head.salt}
	}
	return nil
}

// scan reads a whole segment, up to a limit that is the end of the file where it is not known, and hands out its records
// and gaps. It returns the offset behind the last record.
func (s *segment) scan(limit int64, each func(record), hole func(*gap)) (end int64, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	sc := scanner{file: f, head: s.head, at: s.head.base, limit: limit}
	end = s.head.base
	for {
		r, err := sc.next()
		g, isGap := errors.AsType[*gap](err)
		switch {
		case errors.Is(err, io.EOF):
			return end, nil
		case isGap:
			hole(g)
		case err != nil:
			return 0, fmt.Errorf("%s: %w", s.path, err)
		default:
			each(r)
			end = r.next
		}
	}
}

// makeDir makes a directory with those above it, durably.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := makeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(above)
}

// syncDir makes durable which files a directory has.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
