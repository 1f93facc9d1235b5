package patterns

import (
	"unicode/utf8"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/internal/yamlnode"
)

// The syntax tree keeps what people wrote: texts are not interpreted yet, a nil text or list was not written, and each
// node has its place. The checker makes a [Rule] of it.

// text is a scalar.
type text struct {
	Pos
	value string
	// width is the number of runes to mark.
	width int
	file  *yamlnode.File
	node  *yamlnode.Node
	// spots are the places of the runes and of the end, found when the first mistake in the text is reported.
	spots []yamlnode.Spot
}

// at makes a diagnostic of runes of the text, with nothing but their place.
func (t *text) at(offset, length int) Diagnostic {
	if t.spots == nil {
		t.spots = t.file.Spots(t.node)
		// A text ends where its last line does, whatever empty ones stand behind.
		for n := len(t.spots); n > 1 && t.spots[n-2].Width == 0; n-- {
			t.spots = t.spots[:n-1]
		}
	}
	last := len(t.spots) - 1
	from := t.spots[min(offset, last)]
	to := t.spots[max(min(offset+length-1, last), 0)]
	d := Diagnostic{Pos: Pos{File: t.File, Line: from.Line, Column: from.Column}, Excerpt: t.file.Line(from.Line)}
	if to.Line > from.Line {
		d.Length = utf8.RuneCountInString(d.Excerpt) - from.Column + 1
		d.EndLine, d.EndColumn = to.Line, to.End()
	} else {
		d.Length = to.End() - from.Column
	}
	d.Length = max(1, d.Length)
	return d
}

// named is a text that has a name: a part of a key, a field of an alert.
type named struct {
	name, value *text
}

type document struct {
	lists, maps []*table
	macros      []named
	defaults    *ruleSyntax
	rules       []*ruleSyntax
	overrides   []*overrideSyntax
	silences    []*silenceSyntax
}

// table is a list or a map, inline or in a file.
type table struct {
	name *text
	// pairs are the entries of an inline list (key nil) or map.
	pairs []tablePair
	// file, and the columns: a list has one (value), a map two.
	file, key, value *text
}

type tablePair struct{ key, value *yamlnode.Node }

type ruleSyntax struct {
	Pos
	// document holds the defaults.
	document *document
	given    given

	id, name, description, status       *text
	references, authors, falsePositives []*text
	revision, enabled, severity         *text
	tags, mitre, from                   []*text
	where                               *text
	by                                  *bySyntax
	within, unbounded                   *text
	sequence                            *sequenceSyntax
	pattern                             *text
	steps                               []*elementSyntax // of the pattern
	after                               *afterSyntax
	emit, onTimeout, onChange           *text
	exceptions                          []*exceptionSyntax
	without                             []*withoutSyntax
	keep, mode, onLimit                 *text
	keys                                *keysSyntax
	startsPerKey, eventsPerMatch        *text
	keysMax, stateBytes                 *text
	alert                               *alertSyntax
	tests                               []*testSyntax
	contiguity, loop                    *text // defaults only
}

// bySyntax is a key: a list, whose parts have no names, or a map.
type bySyntax struct {
	Pos
	parts []named
	isMap bool
}

type sequenceSyntax struct {
	Pos
	elements []*elementSyntax
}

// elementSyntax is an element of a sequence. Which keys it can have says [elementKeys].
type elementSyntax struct {
	Pos
	kind elementKind
	// name is that of a step, absence or hold; of a composite it is the word that it begins with.
	name  *text
	from  []*text
	where *text
	by    *bySyntax

	times, contiguity, loop, within, loopWithin, optional *text
	hold, fromStart                                       *text // hold is `for`
	until, having, distinct, greedy, atLeast              *text
	firstSeen                                             *firstSeenSyntax
	// elements are those of a group, or the members of an all_of.
	elements []*elementSyntax
	// alternatives are those of an any_of.
	alternatives [][]*elementSyntax
}

type firstSeenSyntax struct {
	Pos
	by              []*text
	hold, fromStart *text // hold is `for`
}

type afterSyntax struct {
	word *text
	// target is the step of to_first and to_last.
	target *text
}

// withoutSyntax is an entry of `without`.
type withoutSyntax struct {
	Pos
	name, where *text
	from        []*text
	by          *bySyntax
}

// keysSyntax are the keys that count as present from the beginning: a list by name, or keys written out.
type keysSyntax struct {
	Pos
	list *text
	// keys are the parts of each.
	keys [][]*text
}

type exceptionSyntax struct {
	Pos
	name, where, expires *text
	steps                []*text
}

type alertSyntax struct {
	title, severity, include *text
	fields                   []named
	to                       []*text
	suppress                 *suppressSyntax
	resolve                  *resolveSyntax
	whileOpen, repeat        *text
}

type suppressSyntax struct {
	Pos
	by   []*text
	hold *text // `for`
	max  *text
}

type resolveSyntax struct {
	Pos
	where, quiet *text
	from         []*text
	by           *bySyntax
}

// overrideSyntax changes a rule of another file.
type overrideSyntax struct {
	Pos
	rule *text
	// set replaces keys of the rule, add goes behind its lists.
	set, add *ruleSyntax
}

// silenceSyntax is an entry of `silences`.
type silenceSyntax struct {
	Pos
	id, from, until, comment *text
	rules                    []*text
	key                      []named
}

type testSyntax struct {
	Pos
	name, lateness *text
	steps          []*testStepSyntax
	expect         *expectSyntax
}

type testStepSyntax struct {
	Pos
	at, times, every, from, file, advance, idle, reload, restart *text
	// event is the event as JSON text.
	event []byte
	// node is the event as it was written.
	node *yamlnode.Node
}

type expectSyntax struct {
	Pos
	count  *text
	alerts []*expectedSyntax
	// given says that alerts were written, be it as [].
	given bool
}

type expectedSyntax struct {
	Pos
	at, kind *text
	fields   []expectedField
}

type expectedField struct {
	name  *text
	value cep.Value
}
