package rulesapi

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// revisionsMax is the number of revisions of a rule that are kept: at one a day, the last three months.
	revisionsMax = 100
	// historyBytesMax is the size of the log above which it is written anew without what is too much: 10,000 rules of 1 KiB
	// with three revisions each take half of it.
	historyBytesMax = 64 << 20
	historyFile     = "revisions.log"
	historyMagic    = "cepd revisions"
	historyVersion  = 1
	// lineMax is the longest line that is read: the text of a rule at its largest, each byte of it escaped.
	lineMax = 6*ruleBytesMax + 4096
)

// Revision is a text that a rule had.
type Revision struct {
	Rule string `json:"rule"`
	// Number counts the revisions of the rule from 1.
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	// By is who made it; "" where a file was edited by somebody.
	By     string `json:"by,omitempty"`
	Action string `json:"action"`
	// File is where the rule stands or stood.
	File string `json:"file"`
	// Old and New are hashes of the text before and of this one; "" where there was or is none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Text is the text itself, "" where the rule was deleted.
	Text string `json:"text,omitempty"`
}

// historyHead is the first line of the log.
type historyHead struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// place is where a revision stands in the log.
type place struct {
	offset int64
	length int
	number int
	hash   string // New
}

// history is the log of revisions. Its methods may be called from any goroutine.
type history struct {
	bytesMax int64

	mu    sync.Mutex
	path  string
	log   *os.File
	size  int64
	rules map[string][]place
	kept  int
	// damaged is the number of lines that could not be read, failed that of revisions that could not be written.
	damaged int
	failed  uint64
}

// openHistory opens the log in a directory, and begins one where there is none. A line that was being written when a process
// ended is cut off.
func openHistory(dir string, bytesMax int64) (*history, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("open the history of rules: %w", err)
	}
	h := &history{path: filepath.Join(dir, historyFile), bytesMax: bytesMax}
	if _, err := os.Stat(h.path); errors.Is(err, fs.ErrNotExist) {
		if err := h.replace(nil); err != nil {
			return nil, fmt.Errorf("begin the history of rules: %w", err)
		}
		return h, nil
	}
	f, err := os.OpenFile(h.path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the history of rules: %w", err)
	}
	h.log = f
	if err := h.scan(); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("open the history of rules: %s: %w", h.path, err)
	}
	return h, nil
}

// scan finds the revisions in the log.
func (h *history) scan() error {
	h.rules, h.size, h.damaged, h.kept = map[string][]place{}, 0, 0, 0
	if _, err := h.log.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(h.log, 64<<10)
	for first := true; ; first = false {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			break // what stands behind the last line end was being written
		}
		if err != nil {
			return err
		}
		if first {
			if err := checkHead(line); err != nil {
				return err
			}
		} else if rev, ok := decodeRevision(line); ok {
			h.note(rev, place{h.size, len(line), rev.Number, rev.New})
		} else {
			h.damaged++
		}
		h.size += int64(len(line))
	}
	if h.size == 0 {
		return h.restart()
	}
	return h.log.Truncate(h.size)
}

// restart writes the head into a log in which not even that is whole.
func (h *history) restart() error {
	head, err := sealed(historyHead{historyMagic, historyVersion})
	if err != nil {
		return err
	}
	if err := h.log.Truncate(0); err != nil {
		return err
	}
	if _, err := h.log.WriteAt(head, 0); err != nil {
		return err
	}
	h.size = int64(len(head))
	return h.log.Sync()
}

// readLine reads a line with its end; io.EOF where there is no end. Of a line that is too long to be one the beginning is
// returned piece by piece: no piece has a sound checksum.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) && len(line) < lineMax {
			continue
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return line, nil
		}
		return line, err
	}
}

// checkHead says what is wrong with the first line.
func checkHead(line []byte) error {
	body, ok := unseal(line)
	var head historyHead
	if !ok || json.Unmarshal(body, &head) != nil || head.Format != historyMagic {
		return errors.New("this is no history of rules, or its first line is damaged: move the file away, and a new one begins")
	}
	if head.Version != historyVersion {
		return fmt.Errorf("written by a newer version (%d, and %d is known): start the newer program", head.Version, historyVersion)
	}
	return nil
}

// decodeRevision reads a line of the log.
func decodeRevision(line []byte) (*Revision, bool) {
	body, ok := unseal(line)
	if !ok {
		return nil, false
	}
	var rev Revision
	if json.Unmarshal(body, &rev) != nil || !validID(rev.Rule) || rev.Number < 1 {
		return nil, false
	}
	return &rev, true
}

// note remembers where a revision is. Those beyond what is kept are forgotten here, and in the log when it is written anew.
func (h *history) note(rev *Revision, p place) {
	list := append(h.rules[rev.Rule], p)
	h.kept++
	if len(list) > revisionsMax {
		h.kept -= len(list) - revisionsMax
		list = slices.Clone(list[len(list)-revisionsMax:])
	}
	h.rules[rev.Rule] = list
}

// newest returns the hash of the newest text of a rule; "" where it was deleted. known is false where nothing is kept of it.
func (h *history) newest(rule string) (hash string, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newestLocked(rule)
}

func (h *history) newestLocked(rule string) (hash string, known bool) {
	list := h.rules[rule]
	if len(list) == 0 {
		return "", false
	}
	return list[len(list)-1].hash, true
}

// living returns the ids of the rules whose newest text is one.
func (h *history) living() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for id := range h.rules {
		if hash, _ := h.newestLocked(id); hash != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// append writes revisions, and gives them their numbers. Those that say nothing new are left out. Behind an error none of them
// is there.
func (h *history) append(revs []Revision) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var data []byte
	var places []place
	var kept []*Revision
	newest := map[string]place{} // of the rules that these revisions are of
	for i := range revs {
		rev := &revs[i]
		last, known := newest[rev.Rule]
		if list := h.rules[rev.Rule]; !known && len(list) > 0 {
			last, known = list[len(list)-1], true
		}
		if last.hash == rev.New && (known || rev.New == "") {
			continue
		}
		rev.Old, rev.Number = last.hash, last.number+1
		line, err := sealed(rev)
		if err != nil {
			return err
		}
		at := place{h.size + int64(len(data)), len(line), rev.Number, rev.New}
		newest[rev.Rule] = at
		places, kept = append(places, at), append(kept, rev)
		data = append(data, line...)
	}
	if len(kept) == 0 {
		return nil
	}
	if err := h.write(data); err != nil {
		h.failed += uint64(len(kept))
		return fmt.Errorf("write the history of rules: %w", err)
	}
	for i, rev := range kept {
		h.note(rev, places[i])
	}
	if h.size > h.bytesMax {
		return h.compact()
	}
	return nil
}

// write appends to the log and makes it durable. What was half written is overwritten by the next call.
func (h *history) write(data []byte) error {
	if h.log == nil {
		return errors.New("it is closed")
	}
	if _, err := h.log.WriteAt(data, h.size); err != nil {
		return err
	}
	if err := h.log.Sync(); err != nil {
		return err
	}
	h.size += int64(len(data))
	return nil
}

// compact writes the log anew: of each rule as many of the newest revisions as leave room for as much again, and of rules that
// are gone none where one of each would be too much.
func (h *history) compact() error {
	each := revisionsMax
	for ; each > 1 && h.sizeOf(each) > h.bytesMax/2; each /= 2 {
	}
	var lines [][]byte
	for _, id := range slices.Sorted(maps.Keys(h.rules)) {
		list := h.rules[id]
		if each == 1 && list[len(list)-1].hash == "" {
			continue
		}
		for _, p := range list[max(0, len(list)-each):] {
			line, err := h.line(p)
			if err != nil {
				return fmt.Errorf("write the history of rules anew: %w", err)
			}
			lines = append(lines, line)
		}
	}
	if err := h.replace(lines); err != nil {
		return fmt.Errorf("write the history of rules anew: %w", err)
	}
	return nil
}

// sizeOf is how large the log would be with so many revisions of each rule.
func (h *history) sizeOf(each int) int64 {
	var n int64
	for _, list := range h.rules {
		for _, p := range list[max(0, len(list)-each):] {
			n += int64(p.length)
		}
	}
	return n
}

// replace makes a log of lines, and uses it.
func (h *history) replace(lines [][]byte) error {
	head, err := sealed(historyHead{historyMagic, historyVersion})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(h.path), ".new-*")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	_, err = w.Write(head)
	for _, line := range lines {
		if err == nil {
			_, err = w.Write(line)
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), h.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(h.path))
	}
	if err != nil {
		_, _ = f.Close(), os.Remove(f.Name()) // the error is told
		return err
	}
	old := h.log
	h.log = f
	if old != nil {
		_ = old.Close() // it has no name any more
	}
	return h.scan()
}

// line reads a line of the log.
func (h *history) line(p place) ([]byte, error) {
	if h.log == nil {
		return nil, errors.New("it is closed")
	}
	b := make([]byte, p.length)
	if _, err := h.log.ReadAt(b, p.offset); err != nil {
		return nil, err
	}
	return b, nil
}

// numbers returns the numbers of the revisions of a rule that are kept, oldest first.
func (h *history) numbers(rule string) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]int, len(h.rules[rule]))
	for i, p := range h.rules[rule] {
		out[i] = p.number
	}
	return out
}

// get returns a revision; nil where it is not kept.
func (h *history) get(rule string, number int) (*Revision, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.rules[rule]
	i, ok := slices.BinarySearchFunc(list, number, func(p place, n int) int { return cmp.Compare(p.number, n) })
	if !ok {
		return nil, nil
	}
	line, err := h.line(list[i])
	if err != nil {
		return nil, fmt.Errorf("read a revision: %w", err)
	}
	rev, ok := decodeRevision(line)
	if !ok {
		return nil, fmt.Errorf("read a revision: line at %d of %s is damaged", list[i].offset, h.path)
	}
	return rev, nil
}

// counts returns how many revisions are kept, and how many could not be written.
func (h *history) counts() (kept int, failed uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept, h.failed
}

// close ends the use of the log.
func (h *history) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.log == nil {
		return nil
	}
	err := h.log.Close()
	h.log = nil
	return err
}
