package cep

import (
	"math"
	"time"
)

// Time is an event time: nanoseconds since 1970-01-01 UTC. The zero value is that instant, not "no time".
type Time int64

// Duration is a span of event time in nanoseconds.
type Duration = time.Duration

// Units of event time, so that tests and conversions need no casts.
const (
	Millisecond = Time(time.Millisecond)
	Second      = Time(time.Second)
	Minute      = Time(time.Minute)
	Hour        = Time(time.Hour)
)

const (
	// BeforeAll is a time below that of every event: the watermark of a stream nobody has read from.
	BeforeAll = Time(math.MinInt64)
	// AfterAll is a time above that of every event: the deadline of what never ends.
	AfterAll = Time(math.MaxInt64)
)

// Add returns t + d, staying at BeforeAll or AfterAll where the sum would leave the range of int64.
func (t Time) Add(d Duration) Time {
	s := t + Time(d)
	switch {
	case d > 0 && s < t:
		return AfterAll
	case d < 0 && s > t:
		return BeforeAll
	}
	return s
}

// Sub returns t - u, staying at the ends of the range of Duration.
func (t Time) Sub(u Time) Duration {
	d := t - u
	switch {
	case t > u && d < 0:
		return math.MaxInt64
	case t < u && d > 0:
		return math.MinInt64
	}
	return Duration(d)
}

// Std returns t as a standard time in UTC.
func (t Time) Std() time.Time { return time.Unix(0, int64(t)).UTC() }

// String formats t as RFC 3339 in UTC with as many decimals as it needs.
func (t Time) String() string {
	if t == BeforeAll {
		return "before all"
	}
	if t == AfterAll {
		return "after all"
	}
	return t.Std().Format(time.RFC3339Nano)
}

// TimeOf converts a standard time; ok is false outside the years 1678 to 2262 that nanoseconds in an int64 can say.
func TimeOf(t time.Time) (_ Time, ok bool) {
	if y := t.UTC().Year(); y < 1678 || y > 2261 {
		return 0, false
	}
	return Time(t.UnixNano()), true
}
