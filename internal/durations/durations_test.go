package durations_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"holdfast/internal/durations"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "-5m": -5 * time.Minute, "+1s": time.Second,
		"1d": 24 * time.Hour, "90d": 2160 * time.Hour, "2w": 336 * time.Hour, "1w2d12h": 228 * time.Hour, "1.5d": 36 * time.Hour, "0.1w": 60480 * time.Second,
		"-1d12h": -36 * time.Hour, "12h1d": 36 * time.Hour, "106751d": 106751 * 24 * time.Hour, ".5d": 12 * time.Hour,
	} {
		if got, err := durations.Parse(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "30", "d", "w", "1", "1x", "1D", "1 d", "d1", "1d2", "1dd", "-", "+", "1d-1h", "--1d", "1..5d", "1e3d", "0x1d", "106752d", "999999999999w", "day", "1day", "infd", "nand",
		strings.Repeat("9", 400) + "d", "1d" + strings.Repeat("9", 400) + "h",
	} {
		if got, err := durations.Parse(text); err == nil || !strings.Contains(err.Error(), "90d") {
			t.Errorf("%.20q: %v, %v, want an error with an example", text, got, err)
		}
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, time.Second, time.Minute, time.Hour, 90 * time.Minute, 36 * time.Hour, 1500 * time.Millisecond, -time.Hour, time.Nanosecond, math.MaxInt64} {
		if got, err := durations.Parse(durations.Format(d)); err != nil || got != d {
			t.Errorf("%v: %v, %v", d, got, err)
		}
	}
	for want, d := range map[string]time.Duration{"2h": 2 * time.Hour, "24h": durations.Day, "30d": 30 * durations.Day, "49h": 49 * time.Hour, "1m30s": 90 * time.Second, "2h0m1s": 2*time.Hour + time.Second, "-7d": -7 * durations.Day} {
		if got := durations.Format(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// FuzzParse checks that every text without days and weeks means what it means in Go.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "1h30m", "-5m", "1d", "2w", "1.5d", "1d-1h", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := durations.Parse(text)
		if strings.ContainsAny(text, "dw") {
			return
		}
		want, wrong := time.ParseDuration(text)
		if (err == nil) != (wrong == nil && want != math.MinInt64) || err == nil && got != want {
			t.Errorf("%q: %v, %v; in Go %v, %v", text, got, err, want, wrong)
		}
	})
}
