package eventlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	idsMagic   = "cepd-ids"
	idsVersion = 2
	idsName    = "ids"
	idsHeader  = 20
	idsEntry   = 32
	// idsEntry1 is an entry of version 1, which does not know what the data was.
	idsEntry1 = 24
)

// idHash stands for an id: 128 bits, so that a million ids have no two alike.
type idHash [16]byte

func hashOf(id string) (h idHash) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

// identity is what an event with an id is known by.
type identity struct {
	id idHash
	// data is the beginning of the hash of its data: another one says that the data is another. 0: nobody knows.
	data uint64
}

func identify(id string, data []byte) identity {
	sum := sha256.Sum256(data)
	return identity{hashOf(id), binary.BigEndian.Uint64(sum[:])}
}

// seenID is an id in the order of arrival.
type seenID struct {
	hash    idHash
	arrived int64
}

// memory is of one id.
type memory struct {
	arrived int64
	data    uint64 // as in its identity
	// group is the one that makes it durable; nil: it is.
	group *group
}

// ids remembers the ids of events for a while.
type ids struct {
	window time.Duration
	max    int
	known  map[idHash]memory
	queue  []seenID // in order; entries of what failed are still there
	// forgotten counts those that were forgotten early as there were too many.
	forgotten uint64
}

func newIDs(window time.Duration, limit int) *ids {
	return &ids{window: window, max: limit, known: map[idHash]memory{}}
}

// add remembers an event with an id. One that stands in the file and in a segment is one.
func (s *ids) add(k identity, arrived int64, g *group) {
	m, ok := s.known[k.id]
	s.known[k.id] = memory{arrived, k.data, g}
	if !ok || m.arrived != arrived {
		s.queue = append(s.queue, seenID{k.id, arrived})
	}
}

// differs reports whether the data of an event is another than that of the one that is remembered with its id.
func (m *memory) differs(k identity) bool { return m.data != 0 && m.data != k.data }

// expire forgets what is too old or too much.
func (s *ids) expire(now int64) {
	n := 0
	for ; n < len(s.queue); n++ {
		q := s.queue[n]
		old := q.arrived < now-int64(s.window)
		if !old && len(s.known) <= s.max {
			break
		}
		m, ok := s.known[q.hash]
		if !ok || m.arrived != q.arrived {
			continue // it failed, or came again later
		}
		if m.group != nil {
			break // it is being written just now
		}
		if !old {
			s.forgotten++
		}
		delete(s.known, q.hash)
	}
	if s.queue = s.queue[n:]; len(s.queue) == 0 {
		s.queue = nil
	}
}

// drop forgets ids of events that were not taken after all.
func (s *ids) drop(g *group) {
	for _, h := range g.ids {
		if s.known[h].group == g {
			delete(s.known, h)
		}
	}
}

// settle says that the ids of a group are durable.
func (s *ids) settle(g *group) {
	for _, h := range g.ids {
		if m := s.known[h]; m.group == g {
			m.group = nil
			s.known[h] = m
		}
	}
}

// append encodes what is remembered and durable.
func (s *ids) append(b []byte) []byte {
	n := len(b)
	b = append(b, idsMagic...)
	b = append(b, idsVersion, 0, 0, 0)
	b = append(b, make([]byte, 8)...)
	count := uint64(0)
	for _, q := range s.queue {
		if m, ok := s.known[q.hash]; ok && m.arrived == q.arrived && m.group == nil {
			b = append(b, q.hash[:]...)
			b = binary.BigEndian.AppendUint64(b, uint64(q.arrived))
			b = binary.BigEndian.AppendUint64(b, m.data)
			count++
		}
	}
	binary.BigEndian.PutUint64(b[n+12:], count)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

// read takes over what append has written.
func (s *ids) read(b []byte) error {
	if len(b) < idsHeader+4 || string(b[:len(idsMagic)]) != idsMagic {
		return errHeader
	}
	if b[8] > idsVersion {
		return fmt.Errorf("%w (format %d; this one knows %d)", errNewer, b[8], idsVersion)
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[len(body):]) {
		return ErrDamaged
	}
	entry := idsEntry
	if b[8] == 1 {
		entry = idsEntry1
	}
	count := binary.BigEndian.Uint64(b[12:])
	body = body[idsHeader:]
	if count != uint64(len(body)/entry) || len(body)%entry != 0 {
		return ErrDamaged
	}
	for ; len(body) > 0; body = body[entry:] {
		k := identity{id: idHash(body[:16])}
		if entry == idsEntry {
			k.data = binary.BigEndian.Uint64(body[24:])
		}
		s.add(k, int64(binary.BigEndian.Uint64(body[16:])), nil)
	}
	return nil
}

// save puts the ids beside the segments, before some of these go.
func (l *Log) save(b []byte) error {
	path := filepath.Join(l.config.Dir, idsName)
	if err := writeFile(path+unfinished, b); err != nil {
		return err
	}
	l.failpoint("log.ids.written")
	if err := os.Rename(path+unfinished, path); err != nil {
		return err
	}
	l.failpoint("log.ids.renamed")
	return syncDir(l.config.Dir)
}

// load reads what save has written; no such file is nothing to remember.
func (s *ids) load(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, idsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.read(b)
	}
	return err
}

// writeFile makes a file with this content durable, but for its name.
func writeFile(path string, b []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
