package patterns

import (
	"slices"
	"strings"

	"github.com/cepd/cepd/patterns/expression"
)

// maxKeyParts bounds a key: each event is encoded by it.
const maxKeyParts = 16

// key checks and compiles the keys of the rule and its elements (S1.3).
func (c *ruleChecker) key() {
	compiled := map[*bySyntax][]*expression.Expr{} // nil for a key with mistakes
	all := c.keyed()
	var own []*bySyntax // of elements
	for _, t := range all {
		if t.by != nil {
			own = append(own, t.by)
		}
	}
	common := c.all.by
	if len(own) > 0 && len(own) == len(all) && c.own.by == nil {
		common = nil // a default that no element needs
	}
	if common != nil {
		own = append([]*bySyntax{common}, own...)
	}
	if len(own) == 0 {
		return
	}
	for _, by := range own {
		if _, done := compiled[by]; !done { // the two halves of an absence alone have one key
			compiled[by] = c.keyParts(by)
		}
	}
	// The rule's key names the parts, else the first that an element has.
	if compiled[own[0]] == nil {
		return
	}
	c.partNames(own[0], compiled[own[0]])
	for _, t := range all {
		switch {
		case t.by != nil:
			*t.key = c.fit(t.name, t.by, compiled[t.by])
		case common != nil:
			*t.key = compiled[common]
		default:
			c.fail(t.name, codeBy, `give it a "by", or the rule one for all`, "%q has no key, other elements of the rule have one", t.name.value)
		}
	}
	c.common = compiled[common]
}

// keyed is what yields keys from events: a leaf, or an entry of `without`.
type keyed struct {
	name *text
	by   *bySyntax
	// key is where the parts go.
	key *[]*expression.Expr
}

func (c *ruleChecker) keyed() []keyed {
	var list []keyed
	for _, p := range c.leaves {
		list = append(list, keyed{p.syntax.name, p.syntax.by, &p.el.By})
	}
	if c.stepless() {
		list = append(list, keyed{c.own.id, nil, &c.rule.Elements[0].By})
	}
	for i, w := range c.all.without {
		list = append(list, keyed{w.name, w.by, &c.rule.Without[i].By})
	}
	return list
}

// keyParts compiles the parts of a key, in written order; nil where one has mistakes.
func (c *ruleChecker) keyParts(by *bySyntax) []*expression.Expr {
	if len(by.parts) > maxKeyParts {
		c.fail(by.parts[maxKeyParts].value, codeTooMany, "", "a key has at most %d parts", maxKeyParts)
		return nil
	}
	parts := make([]*expression.Expr, len(by.parts))
	whole := true
	for i, p := range by.parts {
		parts[i] = c.compile(p.value, &expression.Place{Event: true})
		whole = whole && parts[i] != nil
	}
	if !whole {
		return nil
	}
	return parts
}

// partNames names the parts of the key: a map names them, in a list the last element of a path does. What is no path has
// its text as its name, and $key cannot mean it.
func (c *ruleChecker) partNames(model *bySyntax, parts []*expression.Expr) {
	for i, p := range model.parts {
		name, at := "", p.value
		switch {
		case p.name != nil:
			name, at = p.name.value, p.name
			if !nameShape.MatchString(name) {
				c.fail(p.name, codeName, "letters, digits and _, not beginning with a digit", "%q cannot be the name of a key part", name)
			}
		case len(parts[i].Path) > 0:
			name = parts[i].Path[len(parts[i].Path)-1]
		default:
			name = strings.TrimSpace(p.value.value)
		}
		if slices.Contains(c.rule.Key, name) {
			c.fail(at, codeBy, "name the parts: by: {name: "+p.value.value+", ...}", "two parts of the key are named %q", name)
		}
		if t, clash := c.tableNames[name]; clash {
			c.fail(at, codeDuplicate, "", "%q is also the name of the list, map or macro in %s", name, t.Pos)
		}
		c.rule.Key = append(c.rule.Key, name)
	}
}

// fit puts the parts of an element's own key in the order of the rule's.
func (c *ruleChecker) fit(name *text, by *bySyntax, own []*expression.Expr) []*expression.Expr {
	key := c.rule.Key
	if own == nil {
		return nil // reported
	}
	if len(own) != len(key) {
		c.fail(by.parts[0].value, codeBy, "", "the key of %q has %s, that of the rule %s: %s", name.value, count(len(own), "part"), count(len(key), "part"), strings.Join(key, ", "))
		return nil
	}
	if !by.isMap {
		return own
	}
	fitted := make([]*expression.Expr, len(key))
	for i, p := range by.parts {
		at := slices.Index(key, p.name.value)
		if at < 0 {
			c.fail(p.name, codeBy, c.didYouMean(c.own.File, p.name.value, key), "the key of the rule has no part %q", p.name.value)
			return nil
		}
		fitted[at] = own[i]
	}
	return fitted
}
