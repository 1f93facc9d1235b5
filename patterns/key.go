package patterns

import (
	"slices"
	"strings"

	"github.com/cepd/cepd/patterns/expression"
)

// maxKeyParts bounds a key: each event is encoded by it.
const maxKeyParts = 16

// keysOfElements returns the keys that elements have of their own.
func (c *ruleChecker) keysOfElements() []*bySyntax {
	var keys []*bySyntax
	for _, e := range c.elements {
		keys = append(keys, e.by)
	}
	return keys
}

// key checks and compiles the keys of the rule and its elements (S1.3).
func (c *ruleChecker) key() {
	by := c.all.by
	for _, k := range append([]*bySyntax{by}, c.keysOfElements()...) {
		if k != nil && len(k.parts) > maxKeyParts {
			c.fail(k.parts[maxKeyParts].value, codeTooMany, "", "a key has at most %d parts", maxKeyParts)
			return
		}
	}
	givers := 0 // elements with a key of their own
	for _, e := range c.elements {
		if e.by != nil {
			givers++
		}
	}
	if givers > 0 && givers == len(c.elements) && c.own.by == nil {
		by = nil // a default that no element needs
	}
	if by == nil && givers == 0 {
		return
	}
	var common []*expression.Expr
	model := by
	if model == nil {
		model = c.elements[slices.IndexFunc(c.elements, func(e *elementSyntax) bool { return e.by != nil })].by
	}
	if by != nil {
		common = c.parts(by)
	}
	// The elements' parts are compiled before the names are known: a part has the last name of its path.
	own := make([][]*expression.Expr, len(c.elements))
	for i, e := range c.elements {
		if e.by != nil && (i == 0 || c.elements[i-1] != e) {
			own[i] = c.parts(e.by)
		} else if e.by != nil {
			own[i] = own[i-1] // the two halves of an absence alone
		}
	}
	modelParts := common
	if by == nil {
		modelParts = own[slices.IndexFunc(c.elements, func(e *elementSyntax) bool { return e.by == model })]
	}
	if c.failed && len(modelParts) != len(model.parts) {
		return
	}
	c.partNames(model, modelParts)
	for i := range c.rule.Elements {
		el := &c.rule.Elements[i]
		if i >= len(c.elements) || c.elements[i].by == nil {
			if by == nil {
				e := c.elements[i]
				c.fail(e.name, codeBy, `give it a "by", or the rule one for all`, "%q has no key, other elements of the rule have one", e.name.value)
			}
			el.By = common
			continue
		}
		el.By = c.fit(c.elements[i], own[i])
	}
}

// parts compiles the parts of a key, in written order.
func (c *ruleChecker) parts(by *bySyntax) []*expression.Expr {
	var parts []*expression.Expr
	for _, p := range by.parts {
		if e := c.compile(p.value, &expression.Place{Event: true}); e != nil {
			parts = append(parts, e)
		}
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
		case i < len(parts) && len(parts[i].Path) > 0:
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
func (c *ruleChecker) fit(e *elementSyntax, own []*expression.Expr) []*expression.Expr {
	key := c.rule.Key
	if len(own) != len(e.by.parts) {
		return nil // a part did not compile
	}
	if len(own) != len(key) {
		c.fail(e.by.parts[0].value, codeBy, "", "the key of %q has %s, that of the rule %s: %s", e.name.value, count(len(own), "part"), count(len(key), "part"), strings.Join(key, ", "))
		return nil
	}
	if !e.by.isMap {
		return own
	}
	fitted := make([]*expression.Expr, len(key))
	for i, p := range e.by.parts {
		at := slices.Index(key, p.name.value)
		if at < 0 {
			c.fail(p.name, codeBy, c.didYouMean(c.own.File, p.name.value, key), "the key of the rule has no part %q", p.name.value)
			return nil
		}
		fitted[at] = own[i]
	}
	return fitted
}
