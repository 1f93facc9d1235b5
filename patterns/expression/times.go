package expression

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that a calendar means the same on a machine without a zone database

	"github.com/cepd/cepd/cep"
)

func inUnits(unit time.Duration) func(cep.Value) (cep.Value, error) {
	return func(v cep.Value) (cep.Value, error) {
		if v.Kind() != cep.KindDuration {
			return cep.Value{}, wrongType("hours, minutes or seconds", v)
		}
		d := v.AsInt()
		// In two parts, so that whole units are exact.
		return cep.Float(float64(d/int64(unit)) + float64(d%int64(unit))/float64(unit)), nil
	}
}

// timeOfValue reads a time: RFC 3339 or seconds since 1970.
func timeOfValue(v cep.Value) (cep.Value, error) {
	switch v.Kind() {
	case cep.KindTime:
		return v, nil
	case cep.KindString:
		t, err := time.Parse(time.RFC3339Nano, v.AsString())
		if err != nil {
			return cep.Value{}, fmt.Errorf("ts(%q): not a time as in 2006-01-02T15:04:05Z", v.AsString())
		}
		at, ok := cep.TimeOf(t)
		if !ok {
			return cep.Value{}, errTime
		}
		return cep.TimeValue(at), nil
	case cep.KindInt:
		i := v.AsInt()
		if i > math.MaxInt64/int64(time.Second) || i < math.MinInt64/int64(time.Second) {
			return cep.Value{}, errTime
		}
		return cep.TimeValue(cep.Time(i) * cep.Second), nil
	case cep.KindFloat:
		ns := math.Round(v.AsFloat() * float64(time.Second))
		if !(ns > math.MinInt64 && ns < math.MaxInt64) {
			return cep.Value{}, errTime
		}
		return cep.TimeValue(cep.Time(ns)), nil
	default:
		return cep.Value{}, wrongType("ts", v)
	}
}

func durationOf(v cep.Value) (cep.Value, error) {
	if v.Kind() != cep.KindString {
		return cep.Value{}, wrongType("duration", v)
	}
	d, err := parseDuration(v.AsString())
	return cep.DurationValue(d), err
}

// parseDuration reads Go's durations, and days and weeks of 24 hours and 7 days as the rule files write them.
func parseDuration(s string) (cep.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	var total cep.Duration
	rest := s
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 {
			return 0, fmt.Errorf("malformed duration %q", s)
		}
		n, err := strconv.ParseInt(rest[:end], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("malformed duration %q", s)
		}
		rest = rest[end:]
		end = strings.IndexFunc(rest, func(r rune) bool { return r >= '0' && r <= '9' })
		if end < 0 {
			end = len(rest)
		}
		unit := durationUnits[rest[:end]]
		if unit == 0 || n > (math.MaxInt64-int64(total))/int64(unit) {
			return 0, fmt.Errorf("malformed duration %q", s)
		}
		total += cep.Duration(n) * unit
		rest = rest[end:]
	}
	if s == "" {
		return 0, errors.New(`malformed duration ""`)
	}
	return total, nil
}

var durationUnits = map[string]cep.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// calendarPart returns the number of a calendar in a zone. Weekdays count from Sunday, 0, as cron and SQL do.
func calendarPart(name string, t cep.Time, zone *time.Location) int64 {
	u := time.Unix(0, int64(t)).In(zone)
	switch name {
	case "minute":
		return int64(u.Minute())
	case "hour":
		return int64(u.Hour())
	case "day":
		return int64(u.Day())
	default:
		return int64(u.Weekday())
	}
}
