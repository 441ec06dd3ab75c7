package lifecycle

import (
	"testing"
	"time"

	"holdfast/internal/buckets"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var g guard
	var passed, ahead time.Duration
	check := func(what string, wait, jump time.Duration, trusted bool) {
		t.Helper()
		passed, ahead = passed+wait, ahead+jump
		if err := g.check(buckets.At(began.Add(passed+ahead)), began.Add(passed)); (err == nil) != trusted {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("the first time", 0, 0, true)
	check("a week later", 7*24*time.Hour, 0, true)
	check("a little fast", time.Minute, 30*time.Minute, true)
	check("a little slow", time.Minute, -50*time.Minute, true)
	check("a year ahead", time.Minute, 365*24*time.Hour, false)
	check("still", time.Hour, 0, false)
	check("set back", time.Minute, -365*24*time.Hour, true)
	check("two hours ahead", time.Minute, 2*time.Hour, false)
	check("almost a day later", 23*time.Hour, 0, false)
	check("a day later", 2*time.Hour, 0, true)
	check("set back by a year", time.Minute, -365*24*time.Hour, true)
	check("and ahead again", time.Minute, 365*24*time.Hour, false)
}
