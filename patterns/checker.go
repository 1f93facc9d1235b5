package patterns

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/nfa"
	"github.com/cepd/cepd/patterns/expression"
)

// checker makes rules of syntax trees. What is common to the set stands here; one rule is checked by a ruleChecker.
type checker struct {
	*report
	options Options
	schema  *cep.Schema
	lists   map[string]*expression.List
	// listValues are the values of each list as they were written: a cell of a file is a text, whatever number it spells.
	listValues map[string][]cep.Value
	maps       map[string]*expression.Map
	macros     map[string]string
	// macroTexts and tableNames are where the names of the files' tables and macros stand.
	macroTexts map[string]*text
	tableNames map[string]*text
	// predicates are the conditions on the current event alone, by canonical text: equal ones are one.
	predicates map[string]*nfa.Pred
	count      int
	forms      nfa.Forms
}

// mark reports a mistake at a text.
func (c *checker) mark(rule string, t *text, code, hint, format string, args ...any) {
	c.add(Diagnostic{
		Pos: t.Pos, Length: t.width, Code: code, Hint: hint, Rule: rule,
		Message: fmt.Sprintf(format, args...), Excerpt: t.file.Line(t.Line),
	})
}

// ruleChecker checks one rule.
type ruleChecker struct {
	*checker
	// own is what the rule says itself, all what it says with the defaults of its document.
	own, all *ruleSyntax
	rule     *Rule
	// names are the indexes of steps and absences, keyParts those of the key's parts.
	names      map[string]int
	aggregates *expression.Aggregates
	// uses are the compiled expressions, for what the rule keeps and for warnings.
	uses   []use
	failed bool
	// trees are what the expressions were compiled from, for lint.
	trees *expression.Trees
	// nameTexts are where the names of steps, absences and entries of `without` stand.
	nameTexts map[string]*text
	// parts are the elements of the rule's sequence that could be read, leaves those of all nesting; none where the rule
	// has no sequence.
	parts, leaves []*part
	composites    int
	// common are the parts of the rule's own key.
	common []*expression.Expr
	// isAlone says that the rule is an absence alone: its two leaves were written as one.
	isAlone bool
}

// use is an expression of the rule, and where it stands. Title expressions stand inside their text.
type use struct {
	expr *expression.Expr
	text *text
	// offset is where the expression begins in the text.
	offset int
}

// fail reports an error of the rule at a text.
func (c *ruleChecker) fail(t *text, code, hint, format string, args ...any) {
	c.failed = true
	c.mark(c.rule.ID, t, code, hint, format, args...)
}

// failAt reports an error of the rule at a place that is no text. The line is shown where it stands in the rule's own file.
func (c *ruleChecker) failAt(pos Pos, code, hint, format string, args ...any) {
	c.failed = true
	d := Diagnostic{Pos: pos, Length: 1, Code: code, Hint: hint, Rule: c.rule.ID, Message: fmt.Sprintf(format, args...)}
	if own := c.own.id; pos.File == own.File {
		d.Excerpt = own.file.Line(pos.Line)
	}
	c.add(d)
}

// warn reports something that is probably not meant.
func (c *ruleChecker) warn(t *text, code, hint, format string, args ...any) {
	c.add(Diagnostic{
		Pos: t.Pos, Length: t.width, Code: code, Hint: hint, Rule: c.rule.ID, Warning: true,
		Message: fmt.Sprintf(format, args...), Excerpt: t.file.Line(t.Line),
	})
}

// checkRule returns the rule of a syntax tree; nil where it has errors.
func (c *checker) checkRule(own *ruleSyntax) *Rule {
	r := &ruleChecker{
		checker: c, own: own, all: withDefaults(own), aggregates: &expression.Aggregates{}, names: map[string]int{},
		nameTexts: map[string]*text{}, trees: &expression.Trees{},
		rule: &Rule{Pos: own.id.Pos},
	}
	r.rule.ID = own.id.value
	r.meta()
	r.shape()
	r.streams()
	r.key()
	r.conditions()
	r.options()
	r.windows()
	r.alert()
	r.resolve()
	r.newest()
	r.keys()
	r.tests()
	if r.failed {
		return nil
	}
	r.rule.Aggregates = r.aggregates.All()
	r.lower()
	if r.failed {
		return nil
	}
	r.rule.Fingerprint = fingerprint(r.rule)
	r.lint()
	if c.options.Reading != nil {
		c.options.Reading(r.reading())
	}
	return r.rule
}

func (c *ruleChecker) meta() {
	m := &c.rule.Meta
	m.Name, m.Description = c.value(c.all.name), c.value(c.all.description)
	m.Status = c.word(c.all.status, "status", "", statuses...)
	m.References, m.Authors = values(c.all.references), values(c.all.authors)
	m.FalsePositives, m.Tags = values(c.all.falsePositives), values(c.all.tags)
	m.Revision = c.number(c.all.revision, "revision", 1, 1)
	m.Enabled = c.bool(c.all.enabled, "enabled", true)
	m.Shadow = c.word(c.all.mode, "mode", "alert", "alert", "shadow") == "shadow"
	m.Severity = c.word(c.all.severity, "severity", severities[0], severities...)
	for _, t := range c.all.mitre {
		if !mitreShape.MatchString(t.value) {
			c.fail(t, codeMitre, "techniques look like T1110 or T1110.001, tactics like TA0006", "%q is no MITRE ATT&CK id", t.value)
		}
		m.Mitre = append(m.Mitre, t.value)
	}
}

// options checks the words and numbers that say how the rule matches.
func (c *ruleChecker) options() {
	r := c.rule
	r.Ordered = c.word(c.all.emit, "emit", "eager", "eager", "ordered") == "ordered"
	r.Timeouts = c.word(c.all.onTimeout, "on_timeout", "drop", "drop", "emit") == "emit"
	r.DropOnChange = c.word(c.all.onChange, "on_change", "drain", "drain", "drop") == "drop"
	r.Limits.StartsPerKey = int(c.number(c.all.startsPerKey, "starts_per_key", defaultStarts, 1))
	r.Limits.DropOldest = c.word(c.all.onLimit, "on_limit", "refuse", "refuse", "drop_oldest") == "drop_oldest"
	r.Newest = c.word(c.all.keep, "keep", "all", "all", "newest") == "newest"
	r.Limits.EventsPerMatch = int(c.number(c.all.eventsPerMatch, "events_per_match", defaultEvents, 1))
	r.Limits.KeysMax = int(c.number(c.all.keysMax, "keys_max", 0, keysMaxLeast))
	r.Limits.StateBytes = c.size(c.all.stateBytes, "state_bytes", stateBytesLeast)
	r.After = nfa.SkipPastLast
	if after := c.all.after; after != nil {
		c.after(after)
	}
	if r.Pattern != nil {
		c.rowOptions()
	}
}

// The defaults of `limits` (S5.8): ten thousand of each is far above what rules need, and bounds a key at some megabytes.
const (
	defaultStarts = 10_000
	defaultEvents = 10_000
	// The brakes are spread over 256 slots (nfa): less than a key, or some starts, a slot would brake at random.
	keysMaxLeast    = 256
	stateBytesLeast = 1 << 20
)

func (c *ruleChecker) after(after *afterSyntax) {
	words := map[string]nfa.AfterMatch{
		"past_last": nfa.SkipPastLast, "to_next": nfa.SkipToNext, "none": nfa.SkipNone,
		"to_first": nfa.SkipToFirst, "to_last": nfa.SkipToLast,
	}
	if after.target == nil {
		if after.word.value == "to_first" || after.word.value == "to_last" {
			c.fail(after.word, codeWord, "write after_match: {"+after.word.value+": step}", "%q needs the name of a step", after.word.value)
			return
		}
		word := c.word(after.word, "after_match", "past_last", "past_last", "to_next", "none")
		c.rule.After = words[word]
		return
	}
	name := after.target.value
	i, ok := c.names[name]
	switch {
	case ok:
		c.rule.After, c.rule.Target = words[after.word.value], i
	case c.own.after != nil: // otherwise a default whose step this rule does not have
		c.fail(after.target, codeAfter, c.didYouMean(c.own.File, name, c.stepNames()), "the rule has no step %q", name)
	}
}

// isStep reports whether a name is that of a step, which takes events.
func (c *ruleChecker) isStep(name int) bool {
	return slices.ContainsFunc(c.rule.Leaves(), func(e *Element) bool { return e.Name == name && !e.Absent })
}

// stepNames returns the names of the steps, without absences.
func (c *ruleChecker) stepNames() []string {
	var names []string
	for i, n := range c.rule.Names {
		if c.isStep(i) {
			names = append(names, n)
		}
	}
	return names
}

// value returns a text that is used as it is.
func (c *ruleChecker) value(t *text) string {
	if t == nil {
		return ""
	}
	return t.value
}

func values(list []*text) []string {
	var s []string
	for _, t := range list {
		s = append(s, t.value)
	}
	return s
}

// word checks that a text is one of some words.
func (c *ruleChecker) word(t *text, key, otherwise string, words ...string) string {
	if t == nil {
		return otherwise
	}
	if !slices.Contains(words, t.value) {
		c.fail(t, codeWord, c.didYouMean(c.own.File, t.value, words), "%q is %s, not %q", key, oneOf(words), t.value)
		return otherwise
	}
	return t.value
}

func (c *ruleChecker) bool(t *text, key string, otherwise bool) bool {
	switch {
	case t == nil:
		return otherwise
	case t.value == "true":
		return true
	case t.value == "false":
		return false
	}
	hint := map[string]string{"yes": "write true", "on": "write true", "no": "write false", "off": "write false"}[strings.ToLower(t.value)]
	c.fail(t, codeBool, hint, "%q is true or false, not %q", key, t.value)
	return otherwise
}

// number checks a whole number with a lower bound; the upper one is that of int32, so that it fits everywhere.
func (c *ruleChecker) number(t *text, key string, otherwise, least int64) int64 {
	if t == nil {
		return otherwise
	}
	n, err := strconv.ParseInt(t.value, 10, 64)
	switch {
	case err != nil:
		c.fail(t, codeNumber, "", "%q is a whole number, not %q", key, t.value)
	case n < least, n > 1<<31-1:
		c.fail(t, codeNumber, "", "%q is a number from %d to %d, not %d", key, least, 1<<31-1, n)
	default:
		return n
	}
	return otherwise
}

// size checks a number of bytes, which may have a unit; 0 where there is none.
func (c *ruleChecker) size(t *text, key string, least int64) int64 {
	if t == nil {
		return 0
	}
	digits := strings.TrimRight(t.value, "BKMGTikmgt ")
	unit, known := sizeUnits[strings.TrimSpace(t.value[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || !known:
		c.fail(t, codeNumber, "write 64MiB, or a number of bytes", "%q is a size, not %q", key, t.value)
	case n > math.MaxInt64/unit || n*unit < least:
		c.fail(t, codeNumber, "", "%q is at least %d bytes, not %s", key, least, t.value)
	default:
		return n * unit
	}
	return 0
}

var sizeUnits = map[string]int64{
	"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// duration checks a duration; 0 where there is none. zero says that 0 may be written.
func (c *ruleChecker) duration(t *text, key string, zero bool) cep.Duration {
	if t == nil {
		return 0
	}
	d, err := ParseDuration(t.value)
	switch {
	case err != nil:
		c.fail(t, codeDuration, err.Error(), "%q is a duration, not %q", key, t.value)
		return 0
	case d == 0 && !zero:
		c.fail(t, codeDuration, "", "%q must be longer than 0", key)
	}
	return d
}
