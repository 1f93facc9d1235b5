package rules

import "github.com/cepd/cepd/patterns"

// What runs rules sees them through this package: it needs the compiled form, not the language.
type (
	// Rule is a compiled rule.
	Rule = patterns.Rule
	// Silence keeps alerts of rules from being sent for a time.
	Silence = patterns.Silence
	// Router decides which keys of a rule an event belongs to.
	Router = patterns.Router
	// Routers are those of many rules.
	Routers = patterns.Routers
	// Delivery is what routers say of an event.
	Delivery = patterns.Delivery
	// Index finds the rules that an event may touch.
	Index = patterns.Index
)

// How much of the events an alert carries.
const (
	IncludeNone      = patterns.IncludeNone
	IncludeIDs       = patterns.IncludeIDs
	IncludeFirstLast = patterns.IncludeFirstLast
	IncludeAll       = patterns.IncludeAll
)

// What a match does while an alert is open.
const (
	OpenCount  = patterns.OpenCount
	OpenUpdate = patterns.OpenUpdate
	OpenNew    = patterns.OpenNew
)

// NewRouter returns a router for the rule.
func NewRouter(r *Rule) *Router { return patterns.NewRouter(r) }

// NewRouters returns routers for rules, for one goroutine.
func NewRouters(list []*Rule) *Routers { return patterns.NewRouters(list) }

// NewIndex returns an index over the rules.
func NewIndex(list []*Rule) *Index { return patterns.NewIndex(list) }
