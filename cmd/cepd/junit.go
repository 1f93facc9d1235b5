package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cepd/cepd/rules/ruletest"
)

// The report of tests that build servers show: https://github.com/testmoapp/junitxml describes what they read of it.
type junitReport struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

// junitSuite holds the tests of a rule.
type junitSuite struct {
	Name     string      `xml:"name,attr"`
	File     string      `xml:"file,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes the report to a file.
func writeJUnit(name string, results []ruletest.Result) error {
	report := junitReport{Name: "cepd test", Tests: len(results)}
	for i := range results {
		r := &results[i]
		n := len(report.Suites)
		if n == 0 || report.Suites[n-1].Name != r.Rule.ID {
			report.Suites = append(report.Suites, junitSuite{Name: r.Rule.ID, File: r.Rule.Pos.File})
			n++
		}
		suite := &report.Suites[n-1]
		c := junitCase{Name: r.Test.Name, Class: r.Rule.ID, File: r.Test.Pos.File, Line: r.Test.Pos.Line}
		if !r.Passed() {
			// The message is the first line that says what is wrong.
			wrong := max(0, slices.IndexFunc(r.Failure, func(l string) bool { return !strings.HasPrefix(l, "=") }))
			c.Failure = &junitFailure{Message: r.Failure[wrong], Text: strings.Join(r.Failure, "\n")}
			suite.Failures++
			report.Failures++
		}
		suite.Tests++
		suite.Cases = append(suite.Cases, c)
	}
	text, err := xml.MarshalIndent(report, "", "  ")
	if err != nil {
		return failed(fmt.Errorf("make the report: %w", err))
	}
	if err := os.WriteFile(name, append([]byte(xml.Header), append(text, '\n')...), 0o644); err != nil { //nolint:gosec // a report is for everybody
		return failed(fmt.Errorf("write the report: %w", err))
	}
	return nil
}
