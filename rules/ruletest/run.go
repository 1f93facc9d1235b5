package ruletest

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
	"github.com/cepd/cepd/cep/engine"
	"github.com/cepd/cepd/patterns"
	"github.com/cepd/cepd/rules"
)

// Zero is the time that `at` counts from: the beginning of a year, of a day, and a Thursday.
var Zero = cep.Time(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())

// TimeFields are where the events of a recorded file keep their time: the first that an event has, RFC 3339.
var TimeFields = []string{"@timestamp", "timestamp", "time", "ts"}

const (
	// maxAhead and idleAfter are those of a stream without settings of its own.
	maxAhead  = time.Hour
	idleAfter = 30 * time.Second
	// maxEvents bounds the events of one test, so that `times: 1000000000` is an error and not a hang. A million takes
	// some seconds.
	maxEvents = 1_000_000
)

var errEvents = fmt.Errorf("more than %d events in one test", maxEvents)

// Result is what came of one test.
type Result struct {
	Rule *patterns.Rule
	Test *patterns.Test
	// Alerts are those that the rule let out.
	Alerts []*cep.Alert
	// Summary counts what the rule did.
	Summary engine.RuleSummary
	// Failure says what differs, line by line; it is empty where the test passed.
	Failure []string
	// Err is why the test could not be run to its end: a file that is not there. Failure says so too.
	Err error
}

// Passed reports whether all was as the test expects.
func (r *Result) Passed() bool { return len(r.Failure) == 0 }

// Name is the rule's id and the test's name: what a filter is matched with.
func (r *Result) Name() string { return name(r.Rule, r.Test) }

func name(r *patterns.Rule, t *patterns.Test) string { return r.ID + "/" + t.Name }

// Run runs the tests whose names the filter matches, all where it is nil, in the order of rules and tests. Tests of
// disabled rules run too. A test that cannot be run has failed, and keeps no other from running.
func Run(set *rules.Set, filter *regexp.Regexp) []Result {
	var results []Result
	for _, r := range set.Rules {
		for i := range r.Tests {
			t := &r.Tests[i]
			if filter != nil && !filter.MatchString(name(r, t)) {
				continue
			}
			result, err := runTest(set, r, t)
			if err != nil {
				result = Result{Rule: r, Test: t, Failure: strings.Split(strings.TrimSuffix(err.Error(), "\n"), "\n"), Err: err}
			}
			results = append(results, result)
		}
	}
	return results
}

func runTest(set *rules.Set, r *patterns.Rule, t *patterns.Test) (Result, error) {
	b, err := newBench(set, r, t)
	if err != nil {
		return Result{}, err
	}
	for i := range t.Steps {
		if err := b.step(&t.Steps[i], i == 0); err != nil {
			return Result{}, fmt.Errorf("%s: %w", t.Steps[i].Pos, err)
		}
	}
	b.core.Finish(0)
	return Result{Rule: r, Test: t, Alerts: b.alerts, Summary: b.summaryOf(r.ID), Failure: b.judge()}, nil
}

// judge returns what differs from what the test expects.
func (b *bench) judge() []string {
	want := b.test.Expect
	c := comparison{zero: b.zero, want: want.Alerts, got: b.alerts}
	var failure []string
	missing := false
	if want.Count >= 0 {
		if len(b.alerts) == want.Count {
			return nil
		}
		failure = append(failure, fmt.Sprintf("expected %s, got %d", alertCount(want.Count), len(b.alerts)))
		missing = len(b.alerts) < want.Count
		for j := range min(len(b.alerts), maxSurplus) {
			failure = append(failure, "  "+c.found(j))
		}
	} else {
		failure = c.diff()
		missing = len(b.alerts) < len(want.Alerts)
	}
	if len(failure) > 0 {
		failure = append(failure, b.hints(missing)...)
	}
	return failure
}

func alertCount(n int) string {
	if n == 1 {
		return "1 alert"
	}
	return fmt.Sprintf("%d alerts", n)
}
