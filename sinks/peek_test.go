package sinks_test

import (
	"errors"
	"testing"

	"github.com/cepd/cepd/sinks"
	"github.com/cepd/cepd/sinks/memsink"
	"github.com/cepd/cepd/sinks/sinktest"
)

// TestPeekSaysWhatOpenWould: the same refusal, of the same kind, before the destination has another owner; and nothing has
// changed behind it, here or there.
func TestPeekSaysWhatOpenWould(t *testing.T) {
	lost, diverged := is[*sinks.LostError], is[*sinks.DivergedError]
	for _, c := range []struct {
		name string
		// sent is how many messages the owner sends, and salt what they are of; the outbox of the other one has committed ten,
		// has sent as many of them, and keeps those behind forgotten.
		sent, committed, forgotten uint64
		salt                       string
		change                     func(*sinks.PublisherConfig)
		want                       func(error) bool // nil: none
	}{
		{name: "nothing on either side"},
		{name: "the same", sent: 10, committed: 10, salt: "a"},
		{name: "a part", sent: 4, committed: 10, salt: "a"},
		{name: "ahead", sent: 10, committed: 4, salt: "a"},
		{name: "a first start", sent: 10, salt: "a"},
		{name: "lost", committed: 10, forgotten: 5, want: lost},
		{name: "lost, in part", sent: 3, committed: 10, forgotten: 5, salt: "a", want: lost},
		{name: "lost, as accepted", committed: 10, forgotten: 5, change: func(c *sinks.PublisherConfig) { c.AcceptGap = true }},
		{name: "other messages", sent: 7, committed: 10, salt: "b", want: diverged},
		{name: "other messages, as accepted", sent: 7, committed: 10, salt: "b", change: func(c *sinks.PublisherConfig) { c.AcceptRepeat = true }},
		{name: "a savepoint", sent: 7, committed: 10, salt: "a", change: func(c *sinks.PublisherConfig) { c.NewLineage = true }},
		{name: "a savepoint of others", sent: 7, committed: 10, salt: "b", want: diverged, change: func(c *sinks.PublisherConfig) { c.NewLineage = true }},
		{name: "not exactly once", sent: 7, committed: 10, salt: "b", change: func(c *sinks.PublisherConfig) { c.Guarantee = sinks.AtLeastOnce }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == nil {
				c.want = none
			}
			server := memsink.NewServer(memsink.Options{})
			owner := server.Sink()
			if _, err := owner.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			at := sinks.Progress{}
			if c.sent > 0 {
				at.Lineage = 1
				if err := owner.Begin(t.Context(), at); err != nil {
					t.Fatal(err)
				}
				b := sinks.Batch{Base: at, Messages: sinktest.Messages(at, int(c.sent), c.salt)}
				if _, err := owner.Publish(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				at = b.End()
			}
			o := &sinktest.Outbox{}
			o.Commit(sinktest.Messages(sinks.Progress{}, int(c.committed), "a")...)
			if last := o.Range().Last; c.committed > 0 {
				if err := o.Begin(t.Context(), sinks.Progress{Lineage: 1}); err != nil {
					t.Fatal(err)
				}
				last.Lineage = 1
				if err := o.Confirm(last, c.forgotten); err != nil {
					t.Fatal(err)
				}
			}
			before := o.Range()
			config := sinks.PublisherConfig{Name: "out", Sink: server.Sink(), Outbox: o}
			if c.change != nil {
				c.change(&config)
			}
			p := sinks.NewPublisher(config)
			for range 2 {
				found, err := p.Peek(t.Context())
				if !c.want(err) {
					t.Fatalf("peek: %v", err)
				}
				if err == nil && found != at && config.Guarantee == sinks.ExactlyOnce {
					t.Fatalf("found %+v, want %+v", found, at)
				}
			}
			if o.Range() != before {
				t.Errorf("the outbox has changed: %+v, before %+v", o.Range(), before)
			}
			if s := p.Status(); s.Opened != 0 || s.Found != nil || s.Lineages != 0 {
				t.Errorf("%+v", s)
			}
			if now, _ := server.At(); now != at {
				t.Errorf("the destination stands at %+v, before %+v", now, at)
			}
			if c.sent > 0 {
				if _, err := owner.Publish(t.Context(), sinks.Batch{Base: at}); err != nil {
					t.Errorf("the owner is disturbed: %v", err)
				}
			}
			if err := p.Open(t.Context()); !c.want(err) {
				t.Errorf("open: %v, which the peek did not say", err)
			}
		})
	}
}

// none and is say which error is expected.
func none(err error) bool { return err == nil }

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// TestPeekHasNoAnswer: what may pass is told as such.
func TestPeekHasNoAnswer(t *testing.T) {
	server := memsink.NewServer(memsink.Options{Fault: func(c memsink.Call, _ *sinks.Batch) memsink.Fault {
		return memsink.Fault{LoseReply: c == memsink.Peek}
	}})
	p := sinks.NewPublisher(sinks.PublisherConfig{Name: "out", Sink: server.Sink(), Outbox: &sinktest.Outbox{}})
	if at, err := p.Peek(t.Context()); err == nil || sinks.Permanent(err) {
		t.Fatalf("%+v, %v, want an error that may pass", at, err)
	}
	if err := p.Open(t.Context()); err != nil {
		t.Fatalf("open behind it: %v", err)
	}
}
