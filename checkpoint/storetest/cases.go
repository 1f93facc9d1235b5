package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/checkpoint"
)

// cases are the promises of the contract that a history would meet too seldom.
var cases = []struct {
	name string
	run  func(*process)
}{
	{"empty", empty},
	{"numbers", numbers},
	{"messages are numbered without gaps", gaps},
	{"a manifest names blobs that are there", blobs},
	{"limits", limits},
	{"cancelled", cancelled},
	{"closed", closed},
	{"one owner", oneOwner},
	{"caller fails", callerFails},
	{"rewind", rewind},
	{"retention", retention},
	{"nothing due", nothingDue},
	{"folded on demand", folded},
	{"all together", together},
}

// Commit returns the next commit behind epoch before: one record of a slot, one message for "out".
func commitOf(e cep.Epoch) *checkpoint.Commit {
	return &checkpoint.Commit{
		Manifest: checkpoint.Manifest{Epoch: e, Job: "job", Created: time.Unix(int64(e), 0).UTC()},
		Records:  []checkpoint.Record{{Slot: uint8(e), Key: []byte("k"), Value: fmt.Appendf(nil, "%d", e)}},
		Outbox:   []checkpoint.Outgoing{{Sink: "out", Sequence: uint64(e), Data: fmt.Appendf(nil, "m%d", e)}},
	}
}

func (p *process) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%v", err)
	}
}

func (p *process) refuses(err error, text string) {
	p.t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		p.t.Fatalf("got %v, want an error with %q", err, text)
	}
}

func empty(p *process) {
	s := p.open()
	defer p.end()
	if l, err := s.Epochs(ctx); err != nil || len(l) != 0 {
		p.t.Errorf("epochs: %v, %v", l, err)
	}
	for what, err := range map[string]error{
		"oldest":   second(s.Oldest(ctx)),
		"restore":  second(s.Restore(ctx, 1, nil)),
		"manifest": second(s.Manifest(ctx, 1)),
		"rewind":   s.Rewind(ctx, 1),
		"blob":     second(s.Blob(ctx, checkpoint.BlobHash(nil))),
	} {
		if !errors.Is(err, checkpoint.ErrMissing) {
			p.t.Errorf("%s: %v", what, err)
		}
	}
	if l, err := s.Outbox(ctx, "out", 1, 10, 10); err != nil || len(l) != 0 {
		p.t.Errorf("outbox: %v, %v", l, err)
	}
	if v, err := s.Noted(ctx, "n"); err != nil || v != nil {
		p.t.Errorf("noted: %q, %v", v, err)
	}
	p.must(s.Maintain(ctx))
}

func second[T any](_ T, err error) error { return err }

// folded moves the oldest epoch on by bases that are not due.
func folded(p *process) {
	s := p.open()
	defer p.end()
	p.must(s.Fold(ctx)) // of nothing
	const first, epochsMax = 4, 100
	for e := cep.Epoch(1); e <= epochsMax; e++ {
		p.must(s.Commit(ctx, commitOf(e)))
		if e < first {
			continue
		}
		p.must(s.Fold(ctx))
		p.must(s.Fold(ctx)) // of an epoch that is a base
		oldest, err := s.Oldest(ctx)
		p.must(err)
		if oldest.Epoch < first {
			continue
		}
		if oldest.Epoch > first {
			p.t.Errorf("the oldest epoch is %d behind a base of each since %d", oldest.Epoch, first)
		}
		infos, err := s.Epochs(ctx)
		p.must(err)
		for _, i := range infos {
			if !i.Base {
				p.t.Errorf("epoch %d is no base", i.Epoch)
			}
			_, err := s.Restore(ctx, i.Epoch, func(checkpoint.Record) error { return nil })
			p.must(err)
		}
		p.must(s.Check(ctx))
		return
	}
	p.t.Errorf("the oldest epoch never moved on")
}

func numbers(p *process) {
	s := p.open()
	defer p.end()
	p.refuses(s.Commit(ctx, commitOf(2)), "epoch 2 does not follow 0")
	p.must(s.Commit(ctx, commitOf(1)))
	c := commitOf(3)
	p.refuses(s.Commit(ctx, c), "epoch 3 does not follow 1")
	c = commitOf(1)
	p.must(s.Commit(ctx, c))
	c.Manifest.Created = c.Manifest.Created.Add(time.Second)
	p.refuses(s.Commit(ctx, c), "epoch 1 does not follow 1")
	p.must(s.Commit(ctx, commitOf(2)))
	p.refuses(s.Commit(ctx, commitOf(1)), "epoch 1 does not follow 2")
	// Of several records of a key in one commit the last counts.
	c = commitOf(3)
	c.Records = []checkpoint.Record{
		{Slot: 9, Key: []byte("a"), Value: []byte("1")},
		{Slot: 9, Key: []byte("b"), Value: []byte("1")},
		{Slot: 9, Key: []byte("a"), Value: nil},
		{Slot: 9, Key: []byte("b"), Value: []byte{}},
		{Slot: 9, Key: []byte("c"), Value: nil},
	}
	p.must(s.Commit(ctx, c))
	got, _, err := restore(s, 3)
	p.must(err)
	if v, ok := got[place{9, "b"}]; len(got) != 3 || !ok || v != "" {
		p.t.Errorf("restored %v", got)
	}
}

func gaps(p *process) {
	s := p.open()
	defer p.end()
	letters := func(e cep.Epoch, forget uint64, sequences ...uint64) error {
		c := commitOf(e)
		c.Outbox, c.Forget = nil, map[string]uint64{"out": forget}
		for _, n := range sequences {
			c.Outbox = append(c.Outbox, checkpoint.Outgoing{Sink: "out", Sequence: n, Data: []byte("x")})
		}
		return s.Commit(ctx, c)
	}
	p.must(letters(1, 0, 1, 2, 3))
	p.refuses(letters(2, 0, 5), "message 5 of sink out where 4 comes next")
	p.refuses(letters(2, 0, 3), "message 3 of sink out where 4 comes next")
	p.refuses(letters(2, 0, 4, 6), "message 6 of sink out where 5 comes next")
	p.must(letters(2, 2, 4))
	p.refuses(letters(3, 4, 9), "message 9 of sink out where 5 comes next")
	p.must(letters(3, 4))
	p.refuses(letters(4, 0, 4), "message 4 of sink out where 5 comes next")
	// Nothing is kept: a lineage that begins further on is no gap.
	p.must(letters(4, 0, 9, 10))
	if n, size := s.OutboxSize("out"); n != 2 || size != 2 {
		p.t.Errorf("%d messages of %d bytes", n, size)
	}
	p.must(s.Rewind(ctx, 3))
	p.must(letters(4, 0, 5))
	p.must(letters(5, 100)) // what was never sent cannot be forgotten before it comes
	p.must(letters(6, 0, 6))
	if l, err := s.Outbox(ctx, "out", 0, 9, 9); err != nil || len(l) != 1 || l[0].Sequence != 6 {
		p.t.Errorf("outbox: %v, %v", l, err)
	}
}

func blobs(p *process) {
	s := p.open()
	defer p.end()
	named := func(e cep.Epoch, text string, with bool) *checkpoint.Commit {
		c := commitOf(e)
		b := checkpoint.Blob{Hash: checkpoint.BlobHash([]byte(text)), Data: []byte(text)}
		c.Manifest.Rules = []checkpoint.RuleSet{{ID: "r", Files: []checkpoint.RuleFile{{Name: "a", Hash: b.Hash}}}}
		if with {
			c.Blobs = append(c.Blobs, b)
		}
		return c
	}
	if err := s.Commit(ctx, named(1, "a", false)); !errors.Is(err, checkpoint.ErrMissing) {
		p.t.Errorf("a blob that is nowhere: %v", err)
	}
	p.must(s.Commit(ctx, named(1, "a", true)))
	p.must(s.Commit(ctx, named(2, "a", false)))
	p.must(s.Commit(ctx, named(3, "", true)))
	p.must(s.Commit(ctx, named(4, "a", true)))
	if data, err := s.Blob(ctx, checkpoint.BlobHash(nil)); err != nil || data == nil || len(data) != 0 {
		p.t.Errorf("an empty blob: %q, %v", data, err)
	}
	bad := named(5, "b", true)
	bad.Blobs[0].Data = []byte("c")
	p.refuses(s.Commit(ctx, bad), "a blob that is called")
}

func limits(p *process) {
	s := p.open()
	defer p.end()
	c := commitOf(1)
	c.Outbox[0].Sink = ""
	p.refuses(s.Commit(ctx, c), "a message for a sink whose name has 0 bytes")
	c.Outbox[0].Sink = strings.Repeat("x", checkpoint.NameMax+1)
	p.refuses(s.Commit(ctx, c), "a message for a sink whose name has 1025 bytes")
	c.Outbox[0].Sink = "out"
	c.Outbox[0].Data = make([]byte, checkpoint.OutgoingMax+1)
	p.refuses(s.Commit(ctx, c), "more than")
	p.refuses(s.Note(ctx, "", nil), "a name has 1 to")
	p.refuses(s.Note(ctx, "n", make([]byte, checkpoint.NoteMax+1)), "a value up to")
	p.must(s.Note(ctx, "n", make([]byte, checkpoint.NoteMax)))
	p.must(s.Note(ctx, "e", []byte{}))
	if v, err := s.Noted(ctx, "e"); err != nil || v == nil {
		p.t.Errorf("an empty note: %v, %v", v, err)
	}
	// A record larger than what a store packs together.
	c = commitOf(1)
	c.Records[0].Value = bytes.Repeat([]byte{7}, 5<<20)
	p.must(s.Commit(ctx, c))
	got, _, err := restore(s, 1)
	p.must(err)
	if len(got[place{1, "k"}]) != 5<<20 {
		p.t.Errorf("restored %d bytes", len(got[place{1, "k"}]))
	}
}

func cancelled(p *process) {
	s := p.open()
	defer p.end()
	p.must(s.Commit(ctx, commitOf(1)))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for what, err := range map[string]error{
		"commit":   s.Commit(ended, commitOf(2)),
		"note":     s.Note(ended, "n", nil),
		"epochs":   second(s.Epochs(ended)),
		"manifest": second(s.Manifest(ended, 1)),
		"restore":  second(s.Restore(ended, 1, func(checkpoint.Record) error { return nil })),
		"blob":     second(s.Blob(ended, checkpoint.BlobHash(nil))),
		"outbox":   second(s.Outbox(ended, "out", 1, 1, 1)),
		"oldest":   second(s.Oldest(ended)),
	} {
		if !errors.Is(err, context.Canceled) {
			p.t.Errorf("%s: %v", what, err)
		}
	}
	p.must(s.Commit(ctx, commitOf(2)))
}

func closed(p *process) {
	s := p.open()
	p.must(s.Commit(ctx, commitOf(1)))
	p.must(s.Close())
	p.must(s.Close())
	for what, err := range map[string]error{
		"commit": s.Commit(ctx, commitOf(2)), "epochs": second(s.Epochs(ctx)), "check": s.Check(ctx), "maintain": s.Maintain(ctx),
		"restore": second(s.Restore(ctx, 1, nil)), "outbox": second(s.Outbox(ctx, "out", 1, 1, 1)), "noted": second(s.Noted(ctx, "n")),
	} {
		if err == nil {
			p.t.Errorf("%s works on a store that is closed", what)
		}
	}
	p.open()
	p.end()
}

func oneOwner(p *process) {
	s := p.open()
	if _, err := p.world.Open(ctx); !errors.Is(err, checkpoint.ErrLocked) {
		p.t.Errorf("a second owner: %v", err)
	}
	p.must(s.Commit(ctx, commitOf(1)))
	p.must(p.world.Crash())
	s = p.open()
	defer p.end()
	p.must(s.Commit(ctx, commitOf(2)))
}

// callerFails holds that an error of the caller's function comes back, and that the store lives on.
func callerFails(p *process) {
	s := p.open()
	defer p.end()
	p.must(s.Commit(ctx, commitOf(1)))
	why := errors.New("the caller's reason")
	if _, err := s.Restore(ctx, 1, func(checkpoint.Record) error { return why }); !errors.Is(err, why) {
		p.t.Errorf("restore: %v", err)
	}
	p.must(s.Commit(ctx, commitOf(2)))
}

func rewind(p *process) {
	s := p.open()
	defer func() { p.end() }()
	for e := range cep.Epoch(200) {
		p.must(s.Commit(ctx, commitOf(e+1)))
	}
	if err := s.Rewind(ctx, 201); !errors.Is(err, checkpoint.ErrMissing) {
		p.t.Errorf("an epoch that never was: %v", err)
	}
	p.must(s.Rewind(ctx, 200))
	p.must(s.Rewind(ctx, 20))
	if l, err := s.Outbox(ctx, "out", 20, 9, 99); err != nil || len(l) != 1 || l[0].Sequence != 20 {
		p.t.Errorf("outbox: %v, %v", l, err)
	}
	p.must(p.world.Crash())
	s = p.open()
	p.must(s.Commit(ctx, commitOf(21)))
	got, _, err := restore(s, 21)
	p.must(err)
	if len(got) != 21 {
		p.t.Errorf("restored %d records", len(got))
	}
}

// retention holds that old epochs go, that what they alone named goes with them, and that enough stays.
func retention(p *process) {
	s := p.open()
	defer p.end()
	text := []byte("an old rule")
	hash := checkpoint.BlobHash(text)
	const epochs = 300
	for e := cep.Epoch(1); e <= epochs; e++ {
		c := commitOf(e)
		// All of it changes each time, so that what changed outgrows any base.
		c.Records = nil
		for i := range 64 {
			c.Records = append(c.Records, checkpoint.Record{Slot: uint8(i), Key: []byte("k"), Value: bytes.Repeat([]byte{byte(e)}, 2000)})
		}
		c.Forget = map[string]uint64{"out": uint64(e) - 1}
		if e == 1 {
			c.Manifest.Rules = []checkpoint.RuleSet{{ID: "old", Files: []checkpoint.RuleFile{{Name: "r", Hash: hash}}}}
			c.Blobs = []checkpoint.Blob{{Hash: hash, Data: text}}
		}
		p.must(s.Commit(ctx, c))
		p.must(s.Maintain(ctx))
		if e == 1 {
			if data, err := s.Blob(ctx, hash); err != nil || !bytes.Equal(data, text) {
				p.t.Errorf("blob: %q, %v", data, err)
			}
		}
	}
	infos, err := s.Epochs(ctx)
	p.must(err)
	bases := 0
	for _, i := range infos {
		if i.Base {
			bases++
		}
	}
	if infos[0].Epoch == 1 || bases != 3 {
		p.t.Errorf("%d epochs with %d bases are kept from epoch %d on", len(infos), bases, infos[0].Epoch)
	}
	if _, err := s.Blob(ctx, hash); !errors.Is(err, checkpoint.ErrMissing) {
		p.t.Errorf("a blob that no epoch names: %v", err)
	}
	for _, err := range []error{second(s.Restore(ctx, infos[0].Epoch-1, nil)), second(s.Manifest(ctx, infos[0].Epoch-1))} {
		if !errors.Is(err, checkpoint.ErrMissing) {
			p.t.Errorf("an epoch that is not kept: %v", err)
		}
	}
	for _, i := range infos {
		got, _, err := restore(s, i.Epoch)
		p.must(err)
		if len(got) != 64 || got[place{5, "k"}] != strings.Repeat(string([]byte{byte(i.Epoch)}), 2000) {
			p.t.Errorf("epoch %d has %d records", i.Epoch, len(got))
		}
	}
}

func nothingDue(p *process) {
	s := p.open()
	defer p.end()
	p.must(s.Commit(ctx, commitOf(1)))
	for range 3 {
		p.must(s.Maintain(ctx))
	}
	if l, err := s.Epochs(ctx); err != nil || len(l) != 1 {
		p.t.Errorf("epochs: %v, %v", l, err)
	}
}

// together has one committer, and readers and housekeeping beside it.
func together(p *process) {
	s := p.open()
	defer p.end()
	const epochs = 150
	var wg sync.WaitGroup
	done, errs := make(chan struct{}), make(chan error, 4)
	loop := func(f func() error) {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(); err != nil {
					select {
					case errs <- err:
					default:
					}
					return
				}
			}
		})
	}
	loop(func() error { return s.Maintain(ctx) })
	loop(func() error {
		next := uint64(1)
		l, err := s.Outbox(ctx, "out", next, 20, 1<<20)
		for i, o := range l {
			if o.Sequence != l[0].Sequence+uint64(i) || string(o.Data) != fmt.Sprintf("m%d", o.Sequence) {
				return fmt.Errorf("message %d is %q", o.Sequence, o.Data)
			}
		}
		s.OutboxSize("out")
		return err
	})
	loop(func() error {
		infos, err := s.Epochs(ctx)
		if err != nil || len(infos) == 0 {
			return err
		}
		e := infos[len(infos)-1].Epoch
		got, m, err := restore(s, e)
		if errors.Is(err, checkpoint.ErrMissing) {
			return nil // dropped meanwhile
		}
		if err == nil && (m.Epoch != e || len(got) != min(int(e), 256)) {
			err = fmt.Errorf("epoch %d has %d records", e, len(got))
		}
		return err
	})
	loop(func() error { return s.Note(ctx, "n", []byte("value")) })
	for e := range cep.Epoch(epochs) {
		c := commitOf(e + 1)
		c.Records[0].Value = bytes.Repeat([]byte{1}, 10_000)
		c.Forget = map[string]uint64{"out": uint64(e) / 2}
		if err := s.Commit(ctx, c); err != nil {
			p.t.Errorf("commit: %v", err)
			break
		}
	}
	close(done)
	wg.Wait()
	select {
	case err := <-errs:
		p.t.Errorf("beside the commits: %v", err)
	default:
	}
}
