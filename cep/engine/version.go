package engine

import (
	"slices"
	"sync/atomic"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/rules"
)

// version is a rule at work: the newest one of its id, or an older one that runs on for the starts that it has open. Its parts
// in the shards share nothing else; the back has an [issuer] for it.
type version struct {
	// What is asked for each event, or each release, stands first and together.

	place int       // among the versions of its clock
	slots nfa.Slots // of the rule's keys
	// counted says that an event that is read again has been counted by a Core before this one.
	counted bool
	// over says that nothing can come of the version any more: it was disabled, or its last start has ended. The back says
	// so; it takes nothing from the output who hears of it late.
	over atomic.Bool
	// after is the time up to which the rule has seen everything, or from which on it exists: what lies at or below it and
	// is read again is not for it. until is how far the time of an older version may go.
	after, until cep.Time
	// heir is the version that took over from this one, which opens no starts any more; drains are the older versions that
	// this one took over from, on the same clock, oldest first.
	heir *version
	rule *rules.Rule
	// set is the one that the rule belongs to.
	set    *rules.Set
	clock  *clock
	drains []*version
	// number and book name the records of its machines and of its issuer, in every process.
	number, book uint64
	_            [16]byte // two lines of the cache
}

func newVersion(r *rules.Rule, set *rules.Set) *version {
	return &version{rule: r, set: set, slots: nfa.SlotsOf(r.ID), after: cep.BeforeAll, until: cep.AfterAll}
}

// all returns the older versions, then the newest.
func (v *version) all() []*version { return append(slices.Clip(v.drains), v) }

// slot is the one of [checkpoint.Slots] parts in which a key's state lies.
func (v *version) slot(key []byte) uint8 { return v.slots.Of(key) }
