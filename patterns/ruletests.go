package patterns

import (
	"slices"
)

// maxTestEvents bounds `times` of a test's event.
const maxTestEvents = 1_000_000

// tests checks the tests of the rule. They are data here; package ruletest runs them.
func (c *ruleChecker) tests() {
	for _, t := range c.all.tests {
		test := Test{Name: t.name.value, Pos: t.Pos, Lateness: c.duration(t.lateness, "lateness", true)}
		for _, s := range t.steps {
			test.Steps = append(test.Steps, c.testStep(s))
		}
		test.Expect = c.expect(t.expect)
		c.rule.Tests = append(c.rule.Tests, test)
	}
}

func (c *ruleChecker) testStep(s *testStepSyntax) TestStep {
	out := TestStep{Pos: s.Pos, Times: 1, Event: s.event}
	only := func(what string, keys map[string]*text) {
		for key, t := range keys {
			if t != nil {
				c.fail(t, codeTest, "", "%q belongs to an event, not to %s", key, what)
			}
		}
	}
	switch {
	case s.advance != nil:
		out.Times = 0
		out.Advance = c.duration(s.advance, "advance", false)
		only(`"advance"`, map[string]*text{"at": s.at, "times": s.times, "every": s.every, "from": s.from})
		return out
	case s.idle != nil:
		out.Times = 0
		out.Idle = c.duration(s.idle, "idle", false)
		only(`"idle"`, map[string]*text{"at": s.at, "times": s.times, "every": s.every, "from": s.from})
		return out
	case s.reload != nil:
		out.Times = 0
		out.Reload = s.reload.value
		c.findFile(s.reload)
		only(`"reload"`, map[string]*text{"at": s.at, "times": s.times, "every": s.every, "from": s.from})
		return out
	case s.restart != nil:
		out.Times = 0
		if out.Restart = c.bool(s.restart, "restart", true); !out.Restart {
			c.fail(s.restart, codeTest, "leave it out", `"restart: false" does nothing`)
		}
		only(`"restart"`, map[string]*text{"at": s.at, "times": s.times, "every": s.every, "from": s.from})
		return out
	case s.file != nil:
		out.Times = 0
		out.File = s.file.value
		c.findFile(s.file)
		only(`"file"`, map[string]*text{"at": s.at, "times": s.times, "every": s.every})
	default:
		if s.at == nil {
			c.failAt(s.Pos, codeMissing, "at: 0s", `an event of a test needs the key "at"`)
		}
		out.At = c.duration(s.at, "at", true)
		out.Every = c.duration(s.every, "every", true)
		out.Times = int(c.number(s.times, "times", 1, 1))
		if out.Times > maxTestEvents {
			c.fail(s.times, codeNumber, "", "an event of a test comes at most %d times", maxTestEvents)
		}
		if s.every != nil && s.times == nil {
			c.fail(s.every, codeTest, `add "times"`, `"every" says how far apart the events of "times" are`)
		}
	}
	streams := c.rule.Streams
	if s.from == nil {
		if len(c.all.from) > 0 {
			out.From = c.all.from[0].value
		} else if len(streams) > 0 {
			out.From = streams[0]
		}
		if out.From == alerts {
			c.failAt(s.Pos, codeTest, `add "from: NAME"`, "alerts come of the rules that are read: say which stream this event is of")
		}
		return out
	}
	out.From = s.from.value
	if slices.Contains(c.rule.Inputs(), alerts) {
		return out // it may be of a stream that a rule below reads
	}
	if all := c.rule.Inputs(); !slices.Contains(all, out.From) {
		c.warn(s.from, codeTestStream, c.didYouMean(c.own.File, out.From, all), "the rule does not read the stream %q", out.From)
	}
	return out
}

// findFile warns of a file that a test could not read. The rule runs without it: where only rules are deployed, tests are not.
func (c *ruleChecker) findFile(t *text) {
	if find := c.checker.options.FindFile; find != nil {
		if err := find(beside(t)); err != nil {
			c.warn(t, codeTestFile, "", "the test cannot be run: %v", err)
		}
	}
}

// kinds are those of the alerts that a test can expect.
var kinds = []string{"match", "timeout", "update", "reminder", "resolved"}

func (c *ruleChecker) expect(e *expectSyntax) Expect {
	if !e.given {
		return Expect{Count: int(c.number(e.count, "count", 0, 0))}
	}
	out := Expect{Count: -1, Alerts: []ExpectedAlert{}}
	fields := []string{}
	for _, f := range c.rule.Alert.Fields {
		fields = append(fields, f.Name)
	}
	for _, a := range e.alerts {
		alert := ExpectedAlert{
			Pos: a.Pos, At: c.duration(a.at, "at", true), HasAt: a.at != nil, Kind: c.word(a.kind, "kind", "", kinds...),
		}
		for _, f := range a.fields {
			if !slices.Contains(fields, f.name.value) {
				c.fail(f.name, codeTest, c.didYouMean(c.own.File, f.name.value, fields), "the alert has no field %q", f.name.value)
			}
			alert.Fields = append(alert.Fields, ExpectedField{Name: f.name.value, Value: f.value})
		}
		out.Alerts = append(out.Alerts, alert)
	}
	return out
}
