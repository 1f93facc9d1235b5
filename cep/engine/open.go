package engine

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
)

// ErrNoRule says that no rule of that id runs.
var ErrNoRule = errors.New("no rule of that id runs")

// OpenPlace is a place in the list of a rule's open starts, which stand in the order of version, key, and first event. It stays
// what it is over swaps and restarts.
type OpenPlace struct {
	// Version is a number that no other version of any rule has, 0 before the first.
	Version uint64
	Key     cep.Key
	Seq     uint64
}

// OpenStart is an open start of a rule.
type OpenStart struct {
	nfa.OpenStart
	Place OpenPlace
	// Fingerprint is that of the version of the rule, Draining that it is an older one. Names are those that runs name by
	// number, KeyNames those of the parts of the key.
	Fingerprint     string
	Draining        bool
	Names, KeyNames []string
}

// OpenStarts calls yield for the open starts of a rule behind a place, the zero place being before all, until it returns false.
// It holds up the Core meanwhile, and costs a look at every key of the rule for each openKeys of them; that of the keys named
// alone, where there are any, costs no more than their starts.
func (c *Core) OpenStarts(rule string, after OpenPlace, only []cep.Key, limits nfa.OpenLimits, yield func(OpenStart) bool) error {
	c.pause()
	if err := c.Err(); err != nil {
		return err
	}
	e := c.enlisted(rule)
	if e == nil {
		return ErrNoRule
	}
	var versions []*version
	for _, v := range e.versions {
		versions = append(versions, v.all()...)
	}
	slices.SortFunc(versions, func(a, b *version) int { return cmp.Compare(a.number, b.number) })
	for _, v := range versions {
		if v.number < after.Version {
			continue
		}
		from := OpenPlace{Version: v.number}
		if v.number == after.Version {
			from = after
		}
		if !c.openOf(v, from, only, limits, yield) {
			return nil
		}
	}
	return nil
}

// openKeys is the number of keys that are looked for at a time: going over a million of them takes some ten milliseconds.
const openKeys = 1024

// openOf calls yield for the open starts of a version behind a place.
func (c *Core) openOf(v *version, after OpenPlace, only []cep.Key, limits nfa.OpenLimits, yield func(OpenStart) bool) bool {
	parts := slices.DeleteFunc(c.parts(v), func(p *part) bool { return p.gone || p.stopped })
	tell := func(key string) bool {
		goesOn := true
		for _, p := range parts {
			p.machine.Open(key, limits, func(s nfa.OpenStart) bool {
				if cep.Key(key) == after.Key && s.Seq <= after.Seq && after != (OpenPlace{Version: v.number}) {
					return true
				}
				s.Until = min(s.Until, v.until)
				goesOn = yield(OpenStart{
					OpenStart: s, Place: OpenPlace{v.number, cep.Key(key), s.Seq}, Fingerprint: v.rule.Fingerprint,
					Draining: v.heir != nil, Names: v.rule.Names, KeyNames: v.rule.Key,
				})
				return goesOn
			})
		}
		return goesOn
	}
	if only != nil {
		for _, key := range only {
			if key >= after.Key && !tell(string(key)) {
				return false
			}
		}
		return true
	}
	last, first := string(after.Key), after == OpenPlace{Version: v.number}
	if !first && !tell(last) { // what is left of that key
		return false
	}
	for {
		var keys []string
		for _, p := range parts {
			keys = append(keys, p.machine.OpenKeys(last, first, openKeys)...)
		}
		slices.Sort(keys)
		for _, key := range keys[:min(len(keys), openKeys)] {
			if !tell(key) {
				return false
			}
		}
		if len(keys) < openKeys {
			return true
		}
		last, first = keys[openKeys-1], false
	}
}
