// Package durations parses and formats durations in settings, flags, operations and console forms.
package durations

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Day is 24 hours, even if the clocks change.
const Day = 24 * time.Hour

// Expected describes a valid text, for error messages.
const Expected = "a duration with a unit, e.g. 30s, 2h, 90d or 2w"

var errInvalid = errors.New("expected " + Expected)

// Parse parses a text as time.ParseDuration does, with the additional units d (days) and w (weeks): 90d, 2w, 1.5d, 1w2d12h.
// 0 needs no unit. The error contains Expected and does not quote the text.
func Parse(text string) (time.Duration, error) {
	var hours strings.Builder
	for rest := text; rest != ""; {
		end := strings.IndexAny(rest, "dw")
		if end < 0 {
			hours.WriteString(rest)
			break
		}
		// The number begins after the unit before it.
		start := strings.LastIndexFunc(rest[:end], func(r rune) bool { return (r < '0' || r > '9') && r != '.' }) + 1
		n, err := strconv.ParseFloat(rest[start:end], 64)
		if err != nil {
			return 0, errInvalid
		}
		if rest[end] == 'w' {
			n *= 7
		}
		hours.WriteString(rest[:start] + strconv.FormatFloat(n*24, 'f', -1, 64) + "h")
		rest = rest[end+1:]
	}
	d, err := time.ParseDuration(hours.String())
	if err != nil || d == math.MinInt64 {
		return 0, errInvalid
	}
	return d, nil
}

// Format formats a duration without zero units: 2h, not 2h0m0s, and 30d, not 720h, if it is two days or more. Parse accepts
// it.
func Format(d time.Duration) string {
	if d.Abs() >= 2*Day && d%Day == 0 {
		return strconv.FormatInt(int64(d/Day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
