package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cepd/cepd/patterns"
)

// alertStream is the stream of the rules' own alerts.
const alertStream = "alerts"

// CheckRules holds rules against the configuration: the streams that they read, the sinks that they name. sources are the
// texts of the rules, for the excerpts.
func (c *Config) CheckRules(rules []*patterns.Rule, sources []patterns.Source) patterns.Diagnostics {
	var list patterns.Diagnostics
	lines := map[string][]string{}
	at := func(r *patterns.Rule, code, hint, format string, args ...any) {
		if lines[r.Pos.File] == nil {
			for _, s := range sources {
				if s.Name == r.Pos.File {
					lines[s.Name] = strings.Split(string(s.Data), "\n")
				}
			}
		}
		d := patterns.Diagnostic{Pos: r.Pos, Length: len(r.ID), Code: code, Hint: hint, Message: fmt.Sprintf(format, args...), Rule: r.ID}
		if l := lines[r.Pos.File]; r.Pos.Line <= len(l) && r.Pos.Line > 0 {
			d.Excerpt = strings.TrimSuffix(l[r.Pos.Line-1], "\r")
		}
		list = append(list, d)
	}
	var streams, names []string
	for _, s := range c.Streams {
		streams = append(streams, s.Name)
	}
	takers := false
	for _, s := range c.Sinks {
		names = append(names, s.Name)
		takers = takers || s.Alerts == AllAlerts
	}
	read := map[string]bool{}
	for _, r := range rules {
		if !r.Enabled {
			continue
		}
		for _, s := range r.Inputs() {
			read[s] = true
			if s != alertStream && !slices.Contains(streams, s) {
				at(r, codeNoStream, hintOf(s, streams, "streams"), "the rule %q reads the stream %q, which the configuration does not have", r.ID, s)
			}
		}
		for _, s := range r.Alert.To {
			if !slices.Contains(names, s) {
				at(r, codeTo, hintOf(s, names, "sinks"), "the rule %q sends to %q, and there is no such sink", r.ID, s)
			}
		}
		if len(r.Alert.To) == 0 && !takers && !r.Shadow && !fed(r, rules) {
			at(r, codeNoAlerts, "name a sink in its `to`, or give a sink alerts: all", "the alerts of %q go nowhere", r.ID)
			list[len(list)-1].Warning = true
		}
	}
	for _, s := range c.Streams {
		if !read[s.Name] {
			p := c.places["streams."+s.Name]
			list = append(list, patterns.Diagnostic{
				Pos: p.pos, Length: p.length, Excerpt: p.excerpt, Code: codeUnread,
				Message: fmt.Sprintf("no rule reads the stream %q", s.Name), Warning: true,
			})
		}
	}
	slices.SortStableFunc(list, func(a, b patterns.Diagnostic) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return list
}

// hintOf proposes a name.
func hintOf(wrong string, names []string, what string) string {
	if near := nearest(wrong, names); near != "" || len(names) == 0 {
		return near
	}
	return "the " + what + " are " + orList(names)
}

// fed reports whether another rule reads the alerts of a rule, which are then of use without a sink.
func fed(r *patterns.Rule, rules []*patterns.Rule) bool {
	return slices.ContainsFunc(rules, func(o *patterns.Rule) bool { return o.Enabled && slices.Contains(o.Reads, r.ID) })
}

// CannotRead is the diagnostic of a setting whose file cannot be read.
func (c *Config) CannotRead(path string, err error) patterns.Diagnostic {
	return c.at(path, codeFile, path+": "+err.Error())
}

// Refused is the diagnostic of a source or sink that cannot be made, by the path of its settings.
func (c *Config) Refused(path string, err error) patterns.Diagnostic {
	return c.at(path, codeRefused, err.Error())
}

// at is a diagnostic at a setting, or at the start of the file where that is a default.
func (c *Config) at(path, code, message string) patterns.Diagnostic {
	p, ok := c.places[path]
	if !ok {
		p = c.places["version"]
		p.pos.Column, p.length = 1, 1
	}
	return patterns.Diagnostic{Pos: p.pos, Length: max(1, p.length), Excerpt: p.excerpt, Code: code, Message: message}
}
