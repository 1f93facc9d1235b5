package main

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/codec"
	"github.com/cepd/cepd/cep/source"
	"github.com/cepd/cepd/cep/source/kafkasource"
)

const (
	// flushEvery is how long a line that is followed may stay in memory: what a person who looks on does not mind.
	flushEvery = time.Second
	// partitionWord stands for a partition in the name of a file.
	partitionWord = "{partition}"
)

// recording writes records as lines. But for follow it is used by one goroutine.
type recording struct {
	stream, out string
	stdout      io.Writer
	begun       int64 // offsets there were to read

	mu      sync.Mutex
	files   map[string]*recordFile // by name
	text    bytes.Buffer           // of a value
	line    []byte
	records int
	// noObject, tombstones and large are records that are no events.
	noObject, tombstones, large int
}

// newRecording makes the files, before anything is read: they must not be there.
func newRecording(stream, out string, stdout io.Writer, readers []source.Reader) (*recording, error) {
	r := &recording{stream: stream, out: out, stdout: stdout, files: map[string]*recordFile{}, begun: leftOf(readers)}
	for _, reader := range readers {
		name := r.fileOf(reader)
		if r.files[name] != nil {
			continue
		}
		f, err := createRecord(name, stdout)
		if err != nil {
			_ = r.close() // the error above is the one to tell
			return nil, err
		}
		r.files[name] = f
	}
	return r, nil
}

// fileOf is the name of the file of a partition.
func (r *recording) fileOf(reader source.Reader) string {
	return strings.ReplaceAll(r.out, partitionWord, strings.ReplaceAll(reader.Name(), "/", "-"))
}

// take records what the readers hold up to their ends: the first record of each, then the others in the order of their
// times. A replay has then heard of every partition before time moves, and waits for each.
func (r *recording) take(ctx context.Context, readers []source.Reader, bar *progress) error {
	defer bar.hide()
	var waiting pending
	for i, reader := range readers {
		h := &head{reader: reader, file: r.files[r.fileOf(reader)], number: i}
		if more, err := r.next(ctx, h); err != nil {
			return err
		} else if more {
			waiting = append(waiting, h)
		}
	}
	heap.Init(&waiting)
	var others pending
	for len(waiting) > 0 {
		h := heap.Pop(&waiting).(*head)
		if more, err := r.advance(ctx, h); err != nil {
			return err
		} else if more {
			others = append(others, h)
		}
	}
	heap.Init(&others)
	for len(others) > 0 {
		if more, err := r.advance(ctx, others[0]); err != nil {
			return err
		} else if more {
			heap.Fix(&others, 0)
		} else {
			heap.Pop(&others)
		}
		bar.show()
	}
	return nil
}

// advance writes the record of a partition and reads the next one.
func (r *recording) advance(ctx context.Context, h *head) (more bool, err error) {
	if err := r.write(h); err != nil {
		return false, err
	}
	return r.next(ctx, h)
}

// next reads the next record of a partition; more is false at its end.
func (r *recording) next(ctx context.Context, h *head) (more bool, err error) {
	for {
		h.record, err = h.reader.Next(ctx)
		switch _, bad := errors.AsType[*source.RecordError](err); {
		case bad:
			r.mu.Lock()
			r.large++
			r.mu.Unlock()
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("record %s: %w", h.reader.Name(), err)
		case !h.record.Nothing:
			return true, nil
		}
	}
}

// follow goes on behind the ends of the readers, until ctx ends.
func (r *recording) follow(ctx context.Context, readers []source.Reader) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, reader := range readers {
		reader.(*kafkasource.Reader).Follow()
		group.Go(func() error {
			h := &head{reader: reader, file: r.files[r.fileOf(reader)]}
			for {
				if _, err := r.next(ctx, h); err != nil {
					return err
				}
				if err := r.write(h); err != nil {
					return err
				}
			}
		})
	}
	group.Go(func() error {
		tick := time.NewTicker(flushEvery)
		defer tick.Stop()
		for {
			if err := r.flush(); err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return group.Wait()
}

// write writes a record, if it is an event.
func (r *recording) write(h *head) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := &h.record
	if rec.Data == nil {
		r.tombstones++
		return nil
	}
	r.text.Reset()
	if err := json.Compact(&r.text, rec.Data); err != nil || r.text.Bytes()[0] != '{' {
		r.noObject++
		return nil //nolint:nilerr // what is no JSON is no event
	}
	r.line = r.appendLine(r.line[:0], r.text.Bytes(), h.reader.Partition().Name, rec)
	if _, err := h.file.Write(r.line); err != nil {
		return fmt.Errorf("write %s: %w", h.file.name, err)
	}
	r.records++
	return nil
}

// appendLine appends the value with where it stands: behind all else, where the last one of two members counts.
func (r *recording) appendLine(b, value []byte, partition string, rec *source.Record) []byte {
	if b = append(b, value[:len(value)-1]...); len(b) > 1 {
		b = append(b, ',')
	}
	b = append(b, `"_cepd":{"stream":`...)
	b = cep.AppendJSONString(b, r.stream)
	b = append(b, `,"partition":`...)
	b = cep.AppendJSONString(b, partition)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, rec.Offset, 10)
	if rec.Meta != nil {
		b = append(b, `,"kafka":`...)
		b = cep.AppendJSON(b, codec.MetaValue(rec.Meta))
	}
	return append(b, "}}\n"...)
}

func (r *recording) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.files {
		if err := f.flush(); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

// close closes the files.
func (r *recording) close() error {
	var errs []error
	for _, f := range r.files {
		if err := f.close(); err != nil {
			errs = append(errs, fmt.Errorf("write %s: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// summary says what was recorded, and what was not.
func (r *recording) summary(p *printer, partitions int) {
	p.printf("recorded %s of %s\n", plural(r.records, "event"), plural(partitions, "partition"))
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.noObject, "no JSON object"}, {r.tombstones, "a key without a value"}, {r.large, "larger than an event may be"},
	} {
		if c.n > 0 {
			p.printf("%s left out: %s\n", plural(c.n, "record"), c.what)
		}
	}
}

// head is the next record of a partition.
type head struct {
	reader source.Reader
	file   *recordFile
	record source.Record
	number int
}

// pending is a heap of them, by the records' times.
type pending []*head

func (p pending) Len() int { return len(p) }
func (p pending) Less(i, j int) bool {
	a, b := p[i], p[j]
	if a.record.Meta.Time != b.record.Meta.Time {
		return a.record.Meta.Time < b.record.Meta.Time
	}
	return a.number < b.number
}
func (p pending) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push implements [heap.Interface].
func (p *pending) Push(x any) { *p = append(*p, x.(*head)) }

// Pop implements [heap.Interface].
func (p *pending) Pop() any {
	last := len(*p) - 1
	h := (*p)[last]
	*p = (*p)[:last]
	return h
}

// recordFile is a file of lines, compressed as its name says.
type recordFile struct {
	name string
	*bufio.Writer
	// flushes and closers stand in the order in which they are called.
	flushes []func() error
	closers []func() error
}

// createRecord makes a file, which must not be there.
func createRecord(name string, stdout io.Writer) (*recordFile, error) {
	f := &recordFile{name: name}
	to := stdout
	if name != "-" {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		switch {
		case errors.Is(err, os.ErrExist):
			return nil, fmt.Errorf("%s is there already: name another file, or remove it", name)
		case err != nil:
			return nil, plainPath(err)
		}
		to = file
		f.closers = append(f.closers, file.Sync, file.Close)
	}
	switch {
	case strings.HasSuffix(name, ".gz"):
		z := gzip.NewWriter(to)
		to = z
		f.flushes, f.closers = []func() error{z.Flush}, append([]func() error{z.Close}, f.closers...)
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewWriter(to)
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		to = z
		f.flushes, f.closers = []func() error{z.Flush}, append([]func() error{z.Close}, f.closers...)
	}
	f.Writer = bufio.NewWriterSize(to, 64<<10)
	f.flushes = append([]func() error{f.Flush}, f.flushes...)
	f.closers = append([]func() error{f.Flush}, f.closers...)
	return f, nil
}

func (f *recordFile) flush() error {
	for _, flush := range f.flushes {
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// close closes all, whatever fails.
func (f *recordFile) close() error {
	var errs []error
	for _, close := range f.closers {
		errs = append(errs, close())
	}
	return errors.Join(errs...)
}
