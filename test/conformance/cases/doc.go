// Package cases holds the language to what people wanted to detect.
//
// Each case is a need from a public question or bug report, a few events, and the alerts that were wanted. For each the
// rule that a user would write stands in rules/, in a file of the case's name; the rule with the case's id gives the
// alerts, others in the file are there to feed it. The test plays the case's events through the engine and compares.
//
// Where a need cannot be said, the nearest rule stands there, and a list beside the test says what it does wrong and why.
//
// The cases are not part of the project: the test reads the folder in CEPD_CASES, or ../shared/cases beside the checkout,
// and skips where there is none.
package cases
