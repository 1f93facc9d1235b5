package codec

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cepd/cepd/cep"
	"pgregory.net/rapid"
)

func TestTimes(t *testing.T) {
	tests := []struct{ spec, value, want string }{
		{"ts", `"2024-11-29T12:00:00Z"`, "2024-11-29T12:00:00Z"},
		{"ts", `"2024-11-29T12:00:00.123456789+02:00"`, "2024-11-29T10:00:00.123456789Z"},
		{"ts,rfc3339", `"2024-11-29T12:00:00-05:30"`, "2024-11-29T17:30:00Z"},
		{"ts", `"2024-11-29 12:00:00"`, `not of the layout`},
		{"ts", `1732881234`, `a number, not RFC 3339: say its unit, as in "ts,unix_ms"`},
		{"ts", `"0001-01-01T00:00:00Z"`, "outside the years"},
		{"ts", `"2106-02-07T06:28:15Z"`, "2106-02-07T06:28:15Z"},
		{"ts,2006-01-02 15:04:05.000,UTC", `"2019-12-05 01:50:06.489"`, "2019-12-05T01:50:06.489Z"},
		{"ts,2006-01-02 15:04:05,Europe/Berlin", `"2024-07-01 12:00:00"`, "2024-07-01T10:00:00Z"},
		{"ts,2006-01-02 15:04:05,Europe/Berlin", `"2024-12-01 12:00:00"`, "2024-12-01T11:00:00Z"},
		{"ts,2006-01-02 15:04:05 -0700", `"2024-12-01 12:00:00 +0300"`, "2024-12-01T09:00:00Z"},
		{"ts,%Y-%m-%d %H:%M:%S,UTC", `"2024-12-01 12:00:00.25"`, "2024-12-01T12:00:00.25Z"},
		{"ts,%d/%b/%Y:%H:%M:%S %z", `"10/Oct/2000:13:55:36 -0700"`, "2000-10-10T20:55:36Z"},
		{"ts,2006-01-02 15:04:05,000,UTC", `"2024-12-01 12:00:00,250"`, "2024-12-01T12:00:00.25Z"},
		{"ts,20060102,UTC", `20241201`, "2024-12-01T00:00:00Z"},
		{"ts,unix", `1732881234`, "2024-11-29T11:53:54Z"},
		{"ts,unix", `"1732881234"`, "2024-11-29T11:53:54Z"},
		{"ts,unix", `1732881234.567891234`, "2024-11-29T11:53:54.567891234Z"},
		{"ts,unix", `1732881234.5678912349`, "2024-11-29T11:53:54.567891234Z"},
		{"ts,unix", `1.732881234e9`, "2024-11-29T11:53:54Z"},
		{"ts,unix", `-1.5`, "1969-12-31T23:59:58.5Z"},
		{"ts,unix", `0`, "1970-01-01T00:00:00Z"},
		{"ts,unix_s", `1`, "1970-01-01T00:00:01Z"},
		{"ts,unix_ms", `1732881234567`, "2024-11-29T11:53:54.567Z"},
		{"ts,unix_ms", `1732881234567.25`, "2024-11-29T11:53:54.56725Z"},
		{"ts,unix_us", `1732881234567890`, "2024-11-29T11:53:54.56789Z"},
		{"ts,unix_ns", `1732881234567890123`, "2024-11-29T11:53:54.567890123Z"},
		{"ts,unix_ns", `"9223372036854775808"`, "outside the years"},
		{"ts,unix_ns", `99999999999999999999999`, "outside the years"},
		{"ts,unix_ms", `1e400`, "not a number"},
		{"ts,unix", `1e12`, "outside the years"},
		{"ts,unix", `9214646400`, "outside the years"},
		{"ts,unix", `9214646399.999999999`, "2261-12-31T23:59:59.999999999Z"},
		{"ts,unix", `-9214560000`, "1678-01-01T00:00:00Z"},
		{"ts,unix", `-9214560001`, "outside the years"},
		{"ts,unix", `"1,5"`, "not a number"},
		{"ts,unix", `"."`, "not a number"},
		{"ts,unix", `"-"`, "not a number"},
		{"ts,unix", `"1.2.3"`, "not a number"},
		{"ts,windows", `132445665667520000`, "2020-09-14T14:16:06.752Z"},
		{"ts,windows", `"132445665667520001"`, "2020-09-14T14:16:06.7520001Z"},
		{"ts,windows", `-9223372036854775808`, "outside the years"},
		{"ts,windows", `9223372036854775807`, "outside the years"},
		{"ts,windows", `116444736000000000`, "1970-01-01T00:00:00Z"},
		{"ts,windows", `0`, "outside the years"},
		{"ts,windows", `1.5`, "not a number"},
	}
	for _, test := range tests {
		spec, err := ParseTime(test.spec)
		if err != nil {
			t.Fatal(err)
		}
		dec := NewJSON(cep.NewSchema(), spec, Options{})
		var ev cep.Event
		got := ""
		if err := dec.Decode([]byte(`{"ts":`+test.value+`}`), &ev); err != nil {
			got = err.Error()
		} else {
			got = ev.Time.String()
		}
		if got != test.want && !strings.Contains(got, ": "+test.want) {
			t.Errorf("%s of %s is %s, want %s", test.spec, test.value, got, test.want)
		}
	}
}

func TestParseTimeRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"":                                "no field before the comma",
		",unix":                           "no field before the comma",
		"a..b":                            "no field before the comma",
		"ts,2006-01-02 15:04:05":          `layout has no zone: add one, as in "ts,2006-01-02 15:04:05,UTC"`,
		"ts,2006-01-02 15:04:05,000":      "layout has no zone",
		"ts,%Y-%m-%d %H:%M:%S":            "layout has no zone",
		"ts,2006-01-02 15:04:05,Mars/One": `zone "Mars/One" is not known`,
		"ts,2006-01-02 15:04:05,Local":    `zone "Local": write UTC`,
		"ts,2006-01-02 15:04:05,":         `zone "": write UTC`,
		"ts,Jan _2 15:04:05,UTC":          "layout says no day or no year",
		"ts,epoch":                        "layout says no day or no year; known are rfc3339, unix,",
		"ts,%Y-%Q,UTC":                    "layout has %Q, which is not known",
		"ts,%Y-%m-%d %":                   "layout ends in %",
	} {
		if _, err := ParseTime(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", spec, err, want)
		}
	}
}

// The first field that the event has counts, even if a later one could be read.
func TestTimePreference(t *testing.T) {
	spec, err := ParseTime("UtcTime,2006-01-02 15:04:05.000,UTC", "event.start", "ts,unix")
	if err != nil {
		t.Fatal(err)
	}
	dec := NewJSON(cep.NewSchema(), spec, Options{})
	for text, want := range map[string]string{
		`{"ts":1,"UtcTime":"2020-01-01 00:00:00.500"}`:                            "2020-01-01T00:00:00.5Z",
		`{"ts":1,"event":{"start":"2021-01-01T00:00:00Z"}}`:                       "2021-01-01T00:00:00Z",
		`{"event.start":"2022-01-01T00:00:00Z","event":{"start":"2021"},"ts":1}`:  "2022-01-01T00:00:00Z",
		`{"ts":1,"UtcTime":null,"event":{"begin":1}}`:                             "1970-01-01T00:00:01Z",
		`{"ts":1,"event":{"start":"2021-01-01T00:00:00Z"},"event":{"kind":"up"}}`: "1970-01-01T00:00:01Z",
		`{"ts":1,"UtcTime":"soon"}`:                                               `bad time: field UtcTime: not of the layout "2006-01-02 15:04:05.000"`,
	} {
		var ev cep.Event
		got := ""
		if err := dec.Decode([]byte(text), &ev); err != nil {
			got = err.Error()
		} else {
			got = ev.Time.String()
		}
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// Every unit gives back the time that was written with it.
func TestTimeRoundTrip(t *testing.T) {
	spec := map[string]func(time.Time) string{
		"ts":         func(x time.Time) string { return `"` + x.Format(time.RFC3339Nano) + `"` },
		"ts,unix":    func(x time.Time) string { return fmt.Sprintf("%d.%09d", x.Unix(), x.Nanosecond()) },
		"ts,unix_ns": func(x time.Time) string { return fmt.Sprint(x.UnixNano()) },
		"ts,2006-01-02 15:04:05.999999999,UTC": func(x time.Time) string {
			return x.UTC().Format(`"2006-01-02 15:04:05.999999999"`)
		},
	}
	decs := map[string]Decoder{}
	for s := range spec {
		p, err := ParseTime(s)
		if err != nil {
			t.Fatal(err)
		}
		decs[s] = NewJSON(cep.NewSchema(), p, Options{})
	}
	rapid.Check(t, func(t *rapid.T) {
		// From 1970 on: before it the text of a unix time is not its seconds and its nanoseconds side by side.
		at := cep.Time(rapid.Int64Range(0, int64(cep.Second)*lastSecond).Draw(t, "time"))
		zone := rapid.IntRange(-14*60, 14*60).Draw(t, "zone")
		for s, format := range spec {
			text := `{"ts":` + format(at.Std().In(time.FixedZone("", zone*60))) + `}`
			var ev cep.Event
			if err := decs[s].Decode([]byte(text), &ev); err != nil || ev.Time != at {
				t.Fatalf("%s of %s is %v, %v, want %v", s, text, ev.Time, err, at)
			}
		}
	})
}
