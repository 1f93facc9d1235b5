package codec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // what a zone's name means must not depend on the machine

	"github.com/cepd/cepd/cep"
)

// TimeSpec says where events keep their time: fields in order of preference. The zero TimeSpec leaves Event.Time as the
// caller has set it.
type TimeSpec struct{ fields []timeField }

type timeField struct {
	name   string
	path   []string
	unit   timeUnit
	layout string         // unitLayout only
	loc    *time.Location // unitLayout only: the zone of times that name none
}

// timeUnit is how a field is read.
type timeUnit uint8

const (
	unitRFC3339 timeUnit = iota
	unitLayout
	unitSecond
	unitMilli
	unitMicro
	unitNano
	unitWindows
)

var unitNames = map[string]timeUnit{
	"rfc3339": unitRFC3339, "unix": unitSecond, "unix_s": unitSecond, "unix_ms": unitMilli, "unix_us": unitMicro,
	"unix_ns": unitNano, "windows": unitWindows,
}

// layouts is what messages say about what can be written.
const layouts = `rfc3339, unix, unix_ms, unix_us, unix_ns, windows, or a layout such as "2006-01-02 15:04:05.000,UTC" ` +
	`or "%Y-%m-%d %H:%M:%S,Europe/Berlin"`

// ParseTime reads where events keep their time: FIELD[,LAYOUT[,ZONE]] each, the first that an event has counts. FIELD is
// a dotted path, LAYOUT one of
//
//	rfc3339   2024-11-29T12:00:00.5Z; this where no layout is given
//	unix      seconds since 1970, as a number or a string, with decimals if need be; unix_ms, unix_us, unix_ns alike
//	windows   100 ns since 1601 (FILETIME)
//	a layout  as of package time, or with %Y %m %d as of strftime
//
// A layout without a zone needs one: its name in the tz database, or UTC. Nothing is assumed, since logs without a zone
// are as often local as not.
func ParseTime(fields ...string) (TimeSpec, error) {
	var t TimeSpec
	for _, text := range fields {
		f, err := parseTimeField(text)
		if err != nil {
			return TimeSpec{}, fmt.Errorf("time %q: %w", text, err)
		}
		t.fields = append(t.fields, f)
	}
	return t, nil
}

func parseTimeField(text string) (timeField, error) {
	name, layout, given := strings.Cut(text, ",")
	f := timeField{name: name, path: strings.Split(name, ".")}
	if slices.Contains(f.path, "") {
		return f, errors.New("no field before the comma: write FIELD[,LAYOUT]")
	}
	if !given {
		return f, nil
	}
	if unit, ok := unitNames[layout]; ok {
		f.unit = unit
		return f, nil
	}
	f.unit, f.loc = unitLayout, nil
	if i := strings.LastIndexByte(layout, ','); i >= 0 {
		// What follows the comma is a zone, or the decimals of a layout such as 15:04:05,000.
		switch zone := layout[i+1:]; zone {
		case "", "Local": // "Local" would be another time on another machine
			return f, fmt.Errorf("zone %q: write UTC or a name such as Europe/Berlin", zone)
		default:
			if loc, err := time.LoadLocation(zone); err == nil {
				f.loc, layout = loc, layout[:i]
			} else if strings.Trim(zone, "09") != "" && !strings.ContainsAny(zone, "%:") {
				return f, fmt.Errorf("zone %q is not known: write UTC or a name such as Europe/Berlin", zone)
			}
		}
	}
	if strings.Contains(layout, "%") {
		var err error
		if layout, err = goLayout(layout); err != nil {
			return f, err
		}
	}
	f.layout = layout
	// Two instants that differ in one thing only are written alike by a layout that does not say this thing.
	at := time.Date(2024, 11, 29, 12, 0, 0, 0, time.UTC)
	says := func(o time.Time) bool { return at.Format(layout) != o.Format(layout) }
	switch {
	case !says(at.AddDate(1, 0, 0)) || !says(at.AddDate(0, 0, 1)):
		return f, fmt.Errorf("layout says no day or no year; known are %s", layouts)
	case f.loc == nil && !says(time.Date(2024, 11, 29, 12, 0, 0, 0, time.FixedZone("EST", -5*3600))):
		return f, fmt.Errorf("layout has no zone: add one, as in %q", text+",UTC")
	case f.loc == nil:
		f.loc = time.UTC
	}
	return f, nil
}

// strftime maps the letters behind % to the layouts of package time.
var strftime = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'j': "002", 'b': "Jan", 'B': "January", 'a': "Mon",
	'A': "Monday", 'H': "15", 'I': "03", 'p': "PM", 'M': "04", 'S': "05", 'f': "000000", 'T': "15:04:05", 'F': "2006-01-02",
	'z': "-0700", 'Z': "MST", '%': "%",
}

func goLayout(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", errors.New("layout ends in %")
		}
		l, ok := strftime[s[i]]
		if !ok {
			return "", fmt.Errorf("layout has %%%c, which is not known; known are %s", s[i], layouts)
		}
		b.WriteString(l)
	}
	return b.String(), nil
}

// timeRange is what an event time can be: whole years, so that windows around a time do not reach the ends of int64.
var (
	firstSecond = time.Date(1678, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC).Unix() - 1
)

// windowsEpoch is 1601-01-01 in ticks of 100 ns before 1970.
const windowsEpoch = 134774 * 86400 * 10_000_000

var (
	errNoNumber  = errors.New("not a number")
	errTimeRange = errors.New("outside the years 1678 to 2261")
)

// parse reads the text of a time: a string's content, or a number as it stands in the event.
func (f *timeField) parse(s string, number bool) (cep.Time, error) {
	switch f.unit {
	case unitRFC3339, unitLayout:
		if number && f.unit == unitRFC3339 {
			return 0, fmt.Errorf("a number, not RFC 3339: say its unit, as in %q", f.name+",unix_ms")
		}
		var t time.Time
		var err error
		if f.unit == unitRFC3339 {
			t, err = time.Parse(time.RFC3339, s)
		} else {
			t, err = time.ParseInLocation(f.layout, s, f.loc)
		}
		if err != nil {
			return 0, fmt.Errorf("not of the layout %q", f.layoutName())
		}
		ct, ok := cep.TimeOf(t)
		if !ok {
			return 0, errTimeRange
		}
		return ct, nil
	case unitSecond:
		return parseUnix(s, 9)
	case unitMilli:
		return parseUnix(s, 6)
	case unitMicro:
		return parseUnix(s, 3)
	case unitWindows:
		ticks, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, errNoNumber
		}
		ticks -= windowsEpoch // no overflow: FILETIME begins in 1601, so a negative one is out of range anyway
		if ticks/10_000_000 < firstSecond || ticks/10_000_000 > lastSecond {
			return 0, errTimeRange
		}
		return cep.Time(ticks * 100), nil
	default:
		return parseUnix(s, 0)
	}
}

func (f *timeField) layoutName() string {
	if f.unit == unitRFC3339 {
		return time.RFC3339
	}
	return f.layout
}

// parseUnix reads a decimal number of units of 10^exp nanoseconds from its digits, since a float would lose some: with
// decimals, seconds of today have 19 of them. What is finer than a nanosecond is cut off.
func parseUnix(s string, exp int) (cep.Time, error) {
	if n, ok := quickUnix(s); ok {
		if unit := unixUnits[exp]; n <= uint64(lastSecond)*1e9/unit {
			return cep.Time(n * unit), nil
		}
		return 0, errTimeRange
	}
	i, neg := 0, false
	if strings.HasPrefix(s, "-") {
		i, neg = 1, true
	}
	var n uint64 // the value in nanoseconds
	digits, left, point := 0, exp, false
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
			if point && left == 0 {
				continue
			}
			if n > (1<<63)/10 {
				return 0, errTimeRange
			}
			n = n*10 + uint64(c-'0')
			if point {
				left--
			}
		case c == '.' && !point && digits > 0:
			point = true
		case c == 'e' || c == 'E':
			return parseUnixFloat(s, exp)
		default:
			return 0, errNoNumber
		}
	}
	if digits == 0 {
		return 0, errNoNumber
	}
	for ; left > 0; left-- {
		if n > (1<<63)/10 {
			return 0, errTimeRange
		}
		n *= 10
	}
	if n/1e9 > uint64(lastSecond) { // firstSecond is nearer, but the same number of years off
		return 0, errTimeRange
	}
	t := cep.Time(n)
	if neg {
		if t = -t; int64(t)/1e9 < firstSecond {
			return 0, errTimeRange
		}
	}
	return t, nil
}

// unixUnits are the powers of ten that parseUnix is asked for.
var unixUnits = [...]uint64{0: 1, 3: 1e3, 6: 1e6, 9: 1e9}

// quickUnix reads what nearly all unix times are: digits, few enough not to overflow.
func quickUnix(s string) (n uint64, ok bool) {
	if len(s) == 0 || len(s) > 19 {
		return 0, false
	}
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, true
}

// parseUnixFloat reads numbers with an exponent (1.7e9), which nobody writes where digits count.
func parseUnixFloat(s string, exp int) (cep.Time, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, errNoNumber
	}
	for range exp {
		x *= 10
	}
	if x != x || x/1e9 < float64(firstSecond) || x/1e9 > float64(lastSecond) {
		return 0, errTimeRange
	}
	return cep.Time(x), nil
}
