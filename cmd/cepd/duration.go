package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// units are those of rules: whole numbers with ms s m h d w, combined.
var units = []struct {
	name string
	size time.Duration
}{
	{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour},
}

// parseDuration reads a duration as rules write it. "0" needs no unit.
func parseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	wrong := fmt.Errorf("%q is no duration: write 500ms, 10s, 5m, 1h30m or 2d", text)
	var d time.Duration
	for rest := text; rest != ""; {
		digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if digits <= 0 || digits > 15 {
			return 0, wrong
		}
		var n time.Duration
		for _, c := range rest[:digits] {
			n = n*10 + time.Duration(c-'0')
		}
		rest = rest[digits:]
		var size time.Duration
		for _, u := range units { // "ms" stands before "m"
			if after, ok := strings.CutPrefix(rest, u.name); ok {
				size, rest = u.size, after
				break
			}
		}
		if size == 0 {
			return 0, wrong
		}
		if n > (math.MaxInt64-d)/size {
			return 0, fmt.Errorf("%q is longer than 292 years", text)
		}
		d += n * size
	}
	if text == "" {
		return 0, wrong
	}
	return d, nil
}
