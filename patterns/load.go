package patterns

import (
	"cmp"
	"slices"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// Source is the text of a rule file.
type Source struct {
	// Name is how the user knows the file; positions show it.
	Name string
	Data []byte
}

// Options are what [Load] needs beside the files.
type Options struct {
	// ReadFile reads the files that lists and maps name. It is given the name joined to the directory of the rule file. Nil:
	// such files are refused.
	ReadFile func(name string) ([]byte, error)
	// FindFile says why a file that a test names, by a name like those, could not be read. Nil: nobody knows.
	FindFile func(name string) error
	// Before is the set that the new one takes the place of: fields keep their slots, so that what was kept of events stays
	// readable. Nil: there is none.
	Before *Set
	// Reading is told what each rule without mistakes asks of events. Nil: nobody wants to know.
	Reading func(Reading)
}

// Load reads, checks and compiles rule files together: the order of the files does not matter. All mistakes of all files
// come back at once, with warnings among them; the Set is nil if and only if one of them is an error.
func Load(sources []Source, o Options) (*Set, Diagnostics) {
	d := newReport()
	// Names of files decide what comes first where it matters at all, so that the order of arguments does not.
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b Source) int { return cmp.Compare(a.Name, b.Name) })
	var documents []*document
	for _, s := range sources {
		documents = append(documents, readFile(s, d)...)
	}
	c := &checker{
		report: d, options: o, schema: cep.NewSchema(),
		lists: map[string]*expression.List{}, listValues: map[string][]cep.Value{}, maps: map[string]*expression.Map{}, macros: map[string]string{},
		macroTexts: map[string]*text{}, tableNames: map[string]*text{}, predicates: map[string]*nfa.Pred{},
	}
	if o.Before != nil {
		for i := range o.Before.Schema.Len() {
			c.schema.Slot(o.Before.Schema.Path(i)...)
		}
	}
	c.tables(documents)
	set := &Set{Schema: c.schema, Lists: c.lists, Maps: c.maps}
	ids := map[string]Pos{}
	at := map[*Rule]*text{}
	for _, syntax := range c.overridden(documents) {
		id := syntax.id.value
		if !isID(id) {
			c.mark(id, syntax.id, codeID, "small letters, digits, ., _ and -, at most 128, no two dots in a row", "%q cannot be the id of a rule", id)
		} else if first, twice := ids[id]; twice {
			c.mark(id, syntax.id, codeDuplicateID, "", "the id %q is taken: it stands in %s", id, first)
		} else {
			ids[id] = syntax.id.Pos
		}
		if rule := c.checkRule(syntax); rule != nil {
			set.Rules = append(set.Rules, rule)
			at[rule] = syntax.id
		}
	}
	c.silences(documents, set, ids)
	if len(d.sorted().Errors()) == 0 {
		c.layers(set.Rules, at)
	}
	diagnostics := d.sorted()
	if len(diagnostics.Errors()) > 0 {
		return nil, diagnostics
	}
	slices.SortFunc(set.Rules, func(a, b *Rule) int { return cmp.Compare(a.ID, b.ID) })
	set.Predicates = c.count
	return set, diagnostics
}
