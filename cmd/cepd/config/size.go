package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the units of sizes, the largest first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseSize reads a number of bytes: 64MiB. The error says how to write it.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimLeft(s, "0123456789")
	number, unit := s[:len(s)-len(digits)], digits
	for _, u := range sizeUnits {
		if unit != u.name {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case number == "":
		case err != nil || n > math.MaxInt64/u.bytes:
			return 0, errors.New("sizes are less than 8388608TiB")
		default:
			return n * u.bytes, nil
		}
	}
	for _, u := range sizeUnits {
		if short := strings.TrimSuffix(u.name, "iB"); number != "" &&
			(strings.EqualFold(unit, u.name) || strings.EqualFold(unit, short) || strings.EqualFold(unit, short+"B")) && u.bytes > 1 {
			return 0, fmt.Errorf("write %s%s", number, u.name)
		}
	}
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return 0, fmt.Errorf("add a unit: %sMiB or %sB", s, s)
	}
	return 0, errors.New("sizes are whole numbers with B, KiB, MiB, GiB or TiB: 64MiB")
}

// FormatSize writes a size in the largest unit that says it exactly.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}
