package layout

// kind says what a token is.
type kind uint8

const (
	scalar  kind = iota
	mark         // - : , { } [ ]
	comment      // # to the end of the line
	line         // a line that stands as it is: ---, ..., %YAML
)

// token is a piece of the text that stays together.
type token struct {
	kind kind
	// text is what stands in the token's line: all of it, or the first line of a scalar.
	text string
	// rest are the further lines of a scalar, without what indents them.
	rest []string
	// column is where the token begins if it is the first of its line; restColumn is where the further lines do.
	column, restColumn int
	// breaks are the ends of lines before the token: 0, 1, or 2 where lines are left empty.
	breaks int
}

func (t *token) is(text string) bool { return t.kind == mark && t.text == text }

// opens and closes report whether the token begins or ends a flow collection.
func (t *token) opens() bool  { return t.is("{") || t.is("[") }
func (t *token) closes() bool { return t.is("}") || t.is("]") }
