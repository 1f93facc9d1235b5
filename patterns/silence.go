package patterns

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cepd/cepd/cep"
)

// maxSilences bounds the silences of a set. A pattern of ids is held against each rule, and each alert against the silences
// of its rule: with ten thousand rules that is half a second when rules are loaded. Who needs more wants an exception with a
// list.
const maxSilences = 1_000

// Silence keeps alerts from being sent for a time (S7.1).
type Silence struct {
	ID  string
	Pos Pos
	// Rules are ids of rules, or patterns of such, as they are written.
	Rules []string
	// Key are the parts of the key that an alert must have; none: every alert of the rules.
	Key []SilencedPart
	// From and Until are event time: alerts of a time from From on and before Until are silenced. Without a beginning From is
	// cep.BeforeAll.
	From, Until cep.Time
	Comment     string
}

// SilencedPart is a value that a part of the key must have.
type SilencedPart struct {
	Name  string
	Value cep.Value
}

// Over reports whether a silence can silence nothing more when event time has come to a point.
func (s *Silence) Over(now cep.Time) bool { return s.Until <= now }

// ruleGlob is a pattern of rule ids: * stands for any characters, ? for one.
var ruleGlob = regexp.MustCompile(`^[a-z0-9._*?-]{1,128}$`)

func isGlob(s string) bool { return strings.ContainsAny(s, "*?") }

// silences checks the silences of all documents and gives each rule those that concern it. ids are those of all rules, also
// such that have mistakes.
func (c *checker) silences(documents []*document, set *Set, ids map[string]Pos) {
	byID := make(map[string]*Rule, len(set.Rules))
	for _, r := range set.Rules {
		byID[r.ID] = r
	}
	seen := map[string]Pos{}
	for _, d := range documents {
		for _, x := range d.silences {
			if len(set.Silences) == maxSilences {
				c.mark("", x.id, codeTooMany, "remove those that are over, or give a rule an exception with a list", "there are more than %d silences", maxSilences)
				return
			}
			if first, twice := seen[x.id.value]; twice {
				c.mark("", x.id, codeDuplicate, "", "two silences have the id %q: the other stands in %s", x.id.value, first)
				continue
			}
			seen[x.id.value] = x.id.Pos
			if s := c.silence(x); s != nil {
				set.Silences = append(set.Silences, s)
				c.spread(x, s, set.Rules, byID, ids)
			}
		}
	}
	slices.SortFunc(set.Silences, func(a, b *Silence) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range set.Rules {
		slices.SortFunc(r.Silences, func(a, b *Silence) int { return cmp.Compare(a.ID, b.ID) })
	}
}

// silence checks what a silence says by itself; nil where it has mistakes.
func (c *checker) silence(x *silenceSyntax) *Silence {
	s := &Silence{ID: x.id.value, Pos: x.id.Pos, From: cep.BeforeAll}
	ok := true
	fail := func(t *text, code, hint, format string, args ...any) {
		ok = false
		c.mark("", t, code, hint, format, args...)
	}
	if !isID(s.ID) {
		fail(x.id, codeID, "small letters, digits, ., _ and -, at most 128, no two dots in a row", "%q cannot be the id of a silence", s.ID)
	}
	for _, t := range x.rules {
		if !ruleGlob.MatchString(t.value) {
			fail(t, codeSilence, "* stands for any characters, ? for one", "%q is no id of a rule, nor a pattern of ids", t.value)
		}
		s.Rules = append(s.Rules, t.value)
	}
	if len(x.rules) == 0 {
		fail(x.id, codeSilence, `write rule: "*" for all rules`, "the silence %q is for no rule", s.ID)
	}
	for _, p := range x.key {
		v, known := scalarValue(p.value.node)
		if !known {
			fail(p.value, codeTableValue, "put it in quotes if it is a text", "%q is no number that JSON knows", p.value.value)
		}
		s.Key = append(s.Key, SilencedPart{Name: p.name.value, Value: v})
	}
	moment := func(t *text, otherwise cep.Time) cep.Time {
		if t == nil {
			return otherwise
		}
		at, known := parseMoment(t.value)
		if !known {
			fail(t, codeTime, "write a date, or a time with a zone: 2027-06-30, 2027-06-30T12:00:00Z", "%q is no date or time", t.value)
		}
		return at
	}
	s.From, s.Until = moment(x.from, s.From), moment(x.until, cep.AfterAll)
	if ok && s.Until <= s.From {
		fail(x.until, codeSilence, "", "the silence %q ends before it begins", s.ID)
	}
	if x.comment != nil {
		s.Comment = x.comment.value
	}
	if !ok {
		return nil
	}
	return s
}

// spread gives a silence to the rules that it concerns.
func (c *checker) spread(x *silenceSyntax, s *Silence, all []*Rule, byID map[string]*Rule, ids map[string]Pos) {
	concerns := false
	give := func(r *Rule) {
		concerns = true
		if !slices.Contains(r.Silences, s) { // it may be named, and fit a pattern
			r.Silences = append(r.Silences, s)
		}
	}
	for _, t := range x.rules {
		if isGlob(t.value) {
			for _, r := range all {
				if fits, _ := path.Match(t.value, r.ID); fits && s.missing(r) < 0 {
					give(r)
				}
			}
			continue
		}
		r := byID[t.value]
		if r == nil {
			continue
		}
		if i := s.missing(r); i >= 0 {
			hint := fmt.Sprintf("its key is %s", oneOf(r.Key))
			if len(r.Key) == 0 {
				hint = "it has no key"
			}
			c.mark("", x.key[i].name, codeSilence, hint, "the key of rule %q has no part %q", r.ID, s.Key[i].Name)
			concerns = true
			continue
		}
		give(r)
	}
	if concerns || len(byID) < len(ids) { // rules with mistakes may be those that were meant
		return
	}
	hint := ""
	if len(x.rules) == 1 && !isGlob(x.rules[0].value) {
		known := make([]string, 0, len(ids))
		for id := range ids {
			known = append(known, id)
		}
		slices.Sort(known)
		hint = c.didYouMean(x.File, x.rules[0].value, known)
	}
	at := x.rules[0]
	c.add(Diagnostic{
		Pos: at.Pos, Length: at.width, Code: codeSilenceless, Hint: hint, Warning: true, Excerpt: at.file.Line(at.Line),
		Message: fmt.Sprintf("the silence %q is for no rule that there is, or for none with such a key", s.ID),
	})
}

// missing is the first part that the key of a rule does not have; -1: it has all.
func (s *Silence) missing(r *Rule) int {
	return slices.IndexFunc(s.Key, func(p SilencedPart) bool { return !slices.Contains(r.Key, p.Name) })
}
