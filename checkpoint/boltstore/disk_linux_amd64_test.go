package boltstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
	"github.com/cepd/cepd/checkpoint/boltstore"
)

// The disk that is modelled: a write becomes durable at some moment between itself and the next sync that returns; the order
// is free; a sector of 512 bytes is whole or not at all; what a sync has returned for stays. A crash therefore leaves what was
// synced, and any of the sectors that were written since.
const sector = 512

// diskEpochs is how many epochs the recorded process commits, with bases, drops and a rewind among them.
const diskEpochs = 45

// recorded is the process whose writes are recorded. Each line says what has been acknowledged.
func recorded(t *testing.T, dir string) {
	s := open(t, dir, boltstore.Options{FoldMin: 8_000})
	say := func(e cep.Epoch) { fmt.Printf("acknowledged %d\n", e) }
	for e := cep.Epoch(1); e <= diskEpochs; e++ {
		history(t, s, e, e)
		say(e)
		if e%5 == 0 {
			if err := s.Maintain(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Note(ctx, "sink/out", []byte("begun")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCrashStates records the writes and syncs of a process and replays what a crash may leave at each of them: every prefix of
// what was not synced, all of it but one write, one write alone, some at random, and writes of which some sectors are
// missing. Each must open to the epoch that was acknowledged last, or the next one, with every epoch as it was.
//
// Then the same for a disk that lies, which says of four syncs in five that they were done: whatever is left of the last ones,
// nothing that is read may be wrong.
func TestCrashStates(t *testing.T) {
	if dir := os.Getenv("CEPD_TEST_RECORD"); dir != "" {
		recorded(t, dir)
		return
	}
	ops, first := recordHistory(t)
	dir := scratch(t)
	honest := &crasher{dir: dir, durable: image{bytes.Clone(first), len(first)}, rng: rand.New(rand.NewPCG(3, 4)), most: 14}
	honest.play(t, ops)
	t.Logf("an honest disk: %d writes and syncs, %d states, all sound", len(ops), honest.states)
	if honest.states < 1000 || honest.acknowledged != diskEpochs {
		t.Errorf("%d states up to epoch %d: the recorder is blind", honest.states, honest.acknowledged)
	}
	liar := &crasher{dir: dir, durable: image{bytes.Clone(first), len(first)}, rng: rand.New(rand.NewPCG(5, 6)), lies: true, most: 4, fates: map[string]int{}}
	liar.play(t, ops)
	t.Logf("a disk that lies: %d states: %v", liar.states, liar.fates)
	if liar.fates["sound"] == 0 || liar.fates["older"] == 0 {
		t.Errorf("the lies do not show: %v", liar.fates)
	}
}

// recordHistory runs the process, and returns what it did and the file as it was before.
func recordHistory(t *testing.T) ([]written, []byte) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, boltstore.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, boltstore.FileName)
	first, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashStates$")
	cmd.Env = append(os.Environ(), "CEPD_TEST_RECORD="+dir)
	ops, err := record(cmd, name)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			t.Skipf("no right to trace processes (%v): allow ptrace, in a container by CAP_SYS_PTRACE", err)
		}
		t.Fatal(err)
	}
	// What was recorded must make the file that is there, or something was missed.
	c := &crasher{durable: image{bytes.Clone(first), len(first)}}
	for _, op := range ops {
		c.durable.apply(op)
	}
	last, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if made := resize(c.durable.data, c.durable.size); !bytes.Equal(made, last) {
		t.Fatalf("the recorded writes make another file than the process did: %d bytes, %d bytes", len(made), len(last))
	}
	return ops, first
}

// image is a file: what was written, and behind it nothing up to its size. Files grow by 16 MiB at a time.
type image struct {
	data []byte
	size int
}

func (i *image) apply(op written) {
	switch {
	case op.size >= 0:
		i.size = int(op.size)
		i.data = i.data[:min(len(i.data), i.size)]
	case op.data != nil:
		if end := int(op.offset) + len(op.data); end > len(i.data) {
			i.data = resize(i.data, end)
			i.size = max(i.size, end)
		}
		copy(i.data[op.offset:], op.data)
	}
}

func (i *image) write(name string) error {
	return errors.Join(os.WriteFile(name, i.data, 0o600), os.Truncate(name, int64(i.size)))
}

// crasher replays a recording.
type crasher struct {
	dir     string
	durable image
	pending []written
	// acknowledged is the last epoch of which the process said that it was durable.
	acknowledged cep.Epoch
	rng          *rand.Rand
	// most is the number of states at each sync that are tried of each kind.
	most   int
	states int
	// lies: most syncs do nothing.
	lies  bool
	syncs int
	fates map[string]int
	// expect is what the epochs hold, from 0 on.
	expect []map[string]string
}

func resize(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	return append(b, make([]byte, size-len(b))...)
}

func (c *crasher) play(t *testing.T, ops []written) {
	t.Helper()
	for _, op := range ops {
		switch {
		case op.line != "":
			var e cep.Epoch
			if _, err := fmt.Sscanf(op.line, "acknowledged %d", &e); err == nil {
				c.acknowledged = e
			}
		case op.sync:
			c.syncs++
			if c.lies && c.syncs%5 != 0 {
				continue
			}
			c.crash(t)
			for _, op := range c.pending {
				c.durable.apply(op)
			}
			c.pending = c.pending[:0]
		default:
			c.pending = append(c.pending, op)
		}
		if t.Failed() {
			return
		}
	}
}

// crash tries what may be left before the sync that comes now.
func (c *crasher) crash(t *testing.T) {
	t.Helper()
	p := c.pending
	some := func(n int) []int { // of n, all or some at random
		l := c.rng.Perm(n)
		return l[:min(n, c.most)]
	}
	for _, i := range some(len(p) + 1) {
		c.try(t, fmt.Sprintf("the first %d of %d writes", i, len(p)), p[:i])
	}
	for _, i := range some(len(p)) {
		c.try(t, fmt.Sprintf("all of %d writes but %d", len(p), i), append(append([]written{}, p[:i]...), p[i+1:]...))
		c.try(t, fmt.Sprintf("of %d writes %d alone", len(p), i), p[i:i+1])
		torn := append(append([]written{}, p[:i]...), c.tear(p[i])...)
		c.try(t, fmt.Sprintf("of %d writes %d is torn", len(p), i), append(torn, p[i+1:]...))
	}
	for range min(len(p), c.most/2) {
		var l []written
		for _, op := range p {
			if c.rng.IntN(2) == 0 {
				l = append(l, op)
			}
		}
		c.try(t, fmt.Sprintf("%d of %d writes", len(l), len(p)), l)
	}
}

// tear returns some sectors of a write.
func (c *crasher) tear(op written) []written {
	if op.size >= 0 {
		return []written{op}
	}
	var l []written
	for at := 0; at < len(op.data); at += sector {
		if c.rng.IntN(2) == 0 {
			l = append(l, written{offset: op.offset + int64(at), data: op.data[at:min(at+sector, len(op.data))], size: -1})
		}
	}
	return l
}

// try opens what a crash has left.
func (c *crasher) try(t *testing.T, what string, left []written) {
	t.Helper()
	c.states++
	file := image{bytes.Clone(c.durable.data), c.durable.size}
	for _, op := range left {
		file.apply(op)
	}
	if err := file.write(filepath.Join(c.dir, boltstore.FileName)); err != nil {
		t.Fatal(err)
	}
	fate, err := c.judge()
	if err != nil {
		t.Errorf("behind epoch %d, %s: %v", c.acknowledged, what, err)
	}
	if c.lies {
		c.fates[fate]++
	}
}

// judge holds a file against what the process was told.
func (c *crasher) judge() (fate string, err error) {
	s, err := boltstore.Open(ctx, c.dir, boltstore.Options{FoldMin: 8_000})
	if err != nil {
		if c.lies {
			return "refused", nil
		}
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	infos, err := s.Epochs(ctx)
	if err != nil {
		return "", err
	}
	newest, sound := cep.Epoch(0), true
	for n, i := range infos {
		if n < len(infos)-3 && n%7 != c.states%7 {
			continue // the newest ones, and some of those before
		}
		got := map[string]string{}
		_, err := s.Restore(ctx, i.Epoch, func(r checkpoint.Record) error {
			got[fmt.Sprintf("%d/%s", r.Slot, r.Key)] = string(r.Value)
			return nil
		})
		switch {
		case err == nil && !maps.Equal(got, c.history(i.Epoch)):
			return "", fmt.Errorf("epoch %d is another one", i.Epoch)
		case err == nil:
			newest = i.Epoch
		case !c.lies:
			return "", err
		default:
			sound = false
		}
	}
	if newest > c.acknowledged+1 {
		return "", fmt.Errorf("epoch %d comes from nowhere", newest)
	}
	if c.lies {
		if newest < c.acknowledged || !sound {
			return "older", nil
		}
		return "sound", nil
	}
	if newest < c.acknowledged {
		return "", fmt.Errorf("epoch %d is the newest", newest)
	}
	if n, _ := s.OutboxSize("out"); newest > 0 && n != 2*int(newest) {
		return "", fmt.Errorf("epoch %d has %d messages", newest, n)
	}
	if c.states%4 == 0 { // it takes longer than all the rest
		if err := s.Check(ctx); err != nil {
			return "", err
		}
		if err := errors.Join(s.Commit(ctx, plain(newest+1)), s.Maintain(ctx), s.Check(ctx)); err != nil {
			return "", fmt.Errorf("and then: %w", err)
		}
	}
	return "sound", nil
}

// history is what was committed at an epoch.
func (c *crasher) history(e cep.Epoch) map[string]string {
	for len(c.expect) <= int(e) {
		e, state := cep.Epoch(len(c.expect)), map[string]string{}
		if e == 0 {
			c.expect = append(c.expect, state)
			continue
		}
		maps.Copy(state, c.expect[e-1])
		for i := range 40 {
			key := fmt.Sprintf("%d/k%d", uint8(i*7), i%13)
			if (uint64(e)+uint64(i))%5 == 0 {
				delete(state, key)
			} else {
				state[key] = fmt.Sprintf("%d of %d", i, e)
			}
		}
		c.expect = append(c.expect, state)
	}
	return c.expect[e]
}
