package patterns

import (
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
}

// at returns the place of the rune at an offset of the text.
func (t *text) at(offset int) Pos {
	line, column := t.file.Place(t.node, offset)
	return Pos{File: t.File, Line: line, Column: column}
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
	after                               *afterSyntax
	emit, onTimeout, onChange           *text
	exceptions                          []*exceptionSyntax
	startsPerKey, eventsPerMatch        *text
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

// elementSyntax is a step, a loop or an absence.
type elementSyntax struct {
	Pos
	name     *text
	isAbsent bool
	from     []*text
	where    *text
	by       *bySyntax

	times, contiguity, loop, within, loopWithin, optional *text // steps; contiguity on absences too
	hold, fromStart                                       *text // absences; hold is `for`
}

type afterSyntax struct {
	word *text
	// target is the step of to_first and to_last.
	target *text
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
}

type suppressSyntax struct {
	Pos
	by   []*text
	hold *text // `for`
	max  *text
}

type testSyntax struct {
	Pos
	name, lateness *text
	steps          []*testStepSyntax
	expect         *expectSyntax
}

type testStepSyntax struct {
	Pos
	at, times, every, from, file, advance *text
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
