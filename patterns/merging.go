package patterns

import (
	"maps"
	"slices"
)

// textKeys and listKeys are the keys of a rule that are one text, or a list of texts.
func (r *ruleSyntax) textKeys() []**text {
	return []**text{
		&r.name, &r.description, &r.status, &r.revision, &r.enabled, &r.severity, &r.where, &r.within, &r.unbounded,
		&r.emit, &r.onTimeout, &r.onChange, &r.keep, &r.mode, &r.contiguity, &r.loop,
	}
}

func (r *ruleSyntax) listKeys() []*[]*text {
	return []*[]*text{&r.references, &r.authors, &r.falsePositives, &r.tags, &r.mitre, &r.from}
}

// filled returns a rule with the keys of another where it has none itself. Keys are taken whole.
func filled(rule, other *ruleSyntax) *ruleSyntax {
	all := *rule
	texts := other.textKeys()
	for i, t := range all.textKeys() {
		if *t == nil {
			*t = *texts[i]
		}
	}
	lists := other.listKeys()
	for i, l := range all.listKeys() {
		if *l == nil {
			*l = *lists[i]
		}
	}
	if all.startsPerKey == nil && all.eventsPerMatch == nil && all.onLimit == nil && all.keysMax == nil && all.stateBytes == nil {
		all.startsPerKey, all.eventsPerMatch, all.onLimit = other.startsPerKey, other.eventsPerMatch, other.onLimit
		all.keysMax, all.stateBytes = other.keysMax, other.stateBytes
	}
	if all.by == nil {
		all.by = other.by
	}
	if all.pattern == nil && all.sequence == nil {
		all.pattern, all.steps = other.pattern, other.steps
	}
	if all.sequence == nil && all.pattern == nil {
		all.sequence = other.sequence
	}
	if all.after == nil {
		all.after = other.after
	}
	if all.exceptions == nil {
		all.exceptions = other.exceptions
	}
	if all.without == nil {
		all.without = other.without
	}
	if all.keys == nil {
		all.keys = other.keys
	}
	if all.alert == nil {
		all.alert = other.alert
	}
	if all.tests == nil {
		all.tests = other.tests
	}
	return &all
}

// withDefaults returns the rule with the defaults of its document where it says nothing itself.
func withDefaults(own *ruleSyntax) *ruleSyntax {
	d := own.document.defaults
	if d == nil {
		return own
	}
	all := filled(own, d)
	// within and unbounded answer one question: what the rule says itself silences the default of the other.
	switch {
	case own.within != nil && own.unbounded == nil:
		all.unbounded = nil
	case own.unbounded != nil && own.within == nil && own.unbounded.value == "true":
		all.within = nil
	}
	return all
}

// overridden returns the rules of all documents with the overrides of all documents applied, and reports those that do
// not fit. An override names a rule in any file, and the order of files does not matter.
func (c *checker) overridden(documents []*document) []*ruleSyntax {
	var rules []*ruleSyntax
	at := map[string]int{}
	var ids []string
	for _, d := range documents {
		for _, r := range d.rules {
			if r.id == nil {
				continue // reported; without an id nothing can be said about a rule
			}
			if _, twice := at[r.id.value]; !twice {
				at[r.id.value] = len(rules)
				ids = append(ids, r.id.value)
			}
			rules = append(rules, r)
		}
	}
	type setting struct{ rule, key string }
	set := map[setting]Pos{}
	for _, d := range documents {
		for _, o := range d.overrides {
			i, ok := at[o.rule.value]
			if !ok {
				c.mark("", o.rule, codeOverride, c.didYouMean(o.File, o.rule.value, ids), "there is no rule %q to override", o.rule.value)
				continue
			}
			if o.set != nil {
				for _, key := range slices.Sorted(maps.Keys(o.set.given)) {
					this := setting{o.rule.value, key}
					if first, twice := set[this]; twice {
						c.mark(o.rule.value, o.rule, codeOverride, "", "%q of rule %q is set in %s already", key, o.rule.value, first)
					}
					set[this] = o.Pos
				}
				rules[i] = rules[i].set(o.set)
			}
			if o.add != nil {
				c.appendTo(o, &rules[i])
			}
		}
	}
	return rules
}

// set returns the rule with the keys of an override in place of its own.
func (r *ruleSyntax) set(o *ruleSyntax) *ruleSyntax {
	all := filled(o, r)
	all.Pos, all.document, all.id = r.Pos, r.document, r.id
	all.given = given{}
	for _, g := range []given{r.given, o.given} {
		for key := range g {
			all.given[key] = true
		}
	}
	return all
}

// appendTo puts the lists of an override behind those of the rule.
func (c *checker) appendTo(o *overrideSyntax, rule **ruleSyntax) {
	all := **rule
	lists := map[string]bool{}
	names := []string{"references", "authors", "falsepositives", "tags", "mitre", "from"}
	add := o.add.listKeys()
	for i, l := range all.listKeys() {
		lists[names[i]] = true
		*l = slices.Concat(*l, *add[i])
	}
	lists["exceptions"], lists["tests"], lists["without"] = true, true, true
	all.exceptions = slices.Concat(all.exceptions, o.add.exceptions)
	all.tests = slices.Concat(all.tests, o.add.tests)
	all.without = slices.Concat(all.without, o.add.without)
	for key := range o.add.given {
		if !lists[key] && key != "" {
			c.mark(o.rule.value, o.rule, codeOverride, `give it in "set"`, "%q is no list that can be appended to", key)
		}
	}
	*rule = &all
}
