package patterns

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cepd/cepd/cep"
)

// maxName is the longest id or name: ids are part of file names and labels, and 128 is what most tools allow.
const maxName = 128

var (
	idShape     = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	nameShape   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	streamShape = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,248}$`)
	mitreShape  = regexp.MustCompile(`^(T[0-9]{4}(\.[0-9]{3})?|TA[0-9]{4})$`)
)

var (
	severities = []string{"info", "low", "medium", "high", "critical"}
	statuses   = []string{"experimental", "test", "stable", "deprecated"}
)

// reservedNames mean something in every condition, so that no step can have them (S1.2).
var reservedNames = []string{"e", "event", "match", "duration", "taken", "prev"}

// operatorNames are words of the expression language: a step of that name could not be written in a condition.
var operatorNames = []string{
	"true", "false", "nil", "not", "and", "or", "in", "matches", "contains", "startsWith", "endsWith", "let", "if", "else",
}

// quoted puts a word of a user in quotes, for messages.
func quoted(s string) string { return strconv.Quote(s) }

// joined puts words in quotes and a text between them.
func joined(words []string, between string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = quoted(w)
	}
	return strings.Join(list, between)
}

// isID reports whether a text can be the id of a rule.
func isID(s string) bool { return idShape.MatchString(s) && !strings.Contains(s, "..") }

var durationUnits = map[string]time.Duration{
	"ms": time.Millisecond,
	"s":  time.Second,
	"m":  time.Minute,
	"h":  time.Hour,
	"d":  24 * time.Hour,
	"w":  7 * 24 * time.Hour,
}

var durationPart = regexp.MustCompile(`^([0-9]+)(ms|[smhdw])`)

// ParseDuration reads a duration as rules write it: whole numbers with units, 90s or 1h30m. The error says how to write
// it.
func ParseDuration(s string) (cep.Duration, error) {
	var sum cep.Duration
	for rest := s; rest != "" || s == ""; {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, durationError(s)
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		unit := durationUnits[m[2]]
		if err != nil || n > (math.MaxInt64-int64(sum))/int64(unit) {
			return 0, errors.New("durations are at most 292 years")
		}
		sum += cep.Duration(n) * unit
		rest = rest[len(m[0]):]
	}
	return sum, nil
}

// durationError says how a text that is no duration would be written.
func durationError(s string) error {
	if d, err := time.ParseDuration(s); err == nil && d >= time.Millisecond {
		return fmt.Errorf("durations are whole numbers with units: %s", cep.FormatDuration(d.Truncate(time.Millisecond)))
	}
	if _, err := strconv.ParseUint(s, 10, 63); err == nil {
		return fmt.Errorf("add a unit: %ss or %sm", s, s)
	}
	return errors.New("durations are whole numbers with ms, s, m, h, d or w: 90s, 1h30m")
}

// parseTimes reads how often a loop may take an event: 5, 5.., 3..10, 0... max < 0 is no bound.
func parseTimes(s string) (least, most int, err error) {
	low, high, isRange := strings.Cut(s, "..")
	if least, err = timesBound(low); err != nil {
		return 0, 0, err
	}
	switch {
	case !isRange:
		most = least
	case high == "":
		return least, -1, nil
	default:
		if most, err = timesBound(high); err != nil {
			return 0, 0, err
		}
	}
	switch {
	case most == 0:
		return 0, 0, errors.New("a step that is taken 0 times is no step")
	case least > most:
		return 0, 0, fmt.Errorf("%d is more than %d", least, most)
	}
	return least, most, nil
}

// maxTimes bounds the numbers in `times`: a hundred times what a match may hold by default.
const maxTimes = 1_000_000

var errTimes = errors.New("not a number of times")

func timesBound(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > maxTimes:
		return 0, fmt.Errorf("more than %d", maxTimes)
	case err != nil:
		return 0, errTimes
	}
	return int(n), nil
}

// parseMoment reads a date, which means its first instant in UTC, or a time as RFC 3339.
func parseMoment(s string) (cep.Time, bool) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		if t, err = time.Parse(time.RFC3339, s); err != nil {
			return 0, false
		}
	}
	return cep.TimeOf(t)
}
