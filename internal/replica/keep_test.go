package replica

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/internal/testdb"
)

func TestParseKeep(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Keep{
		"": {}, "7d 4w 6m": {Days: 7, Weeks: 4, Months: 6}, " 12h  2y ": {Hours: 12, Years: 2}, "1d": {Days: 1},
	} {
		if got, err := ParseKeep(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"7", "d", "0d", "-1d", "7d 2d", "7s", "7dd", "7d,4w", "1.5d", "10001d", "7 d"} {
		if got, err := ParseKeep(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// specified restates the rule as plainly as possible: a point is kept if it is its period's newest, and fewer than n
// later periods contain a point.
func specified(rule Keep, now time.Time, points []Point) (kept []uint64) {
	for _, p := range points {
		isKept := p.Time.After(now) || p.Number == points[len(points)-1].Number
		for _, period := range []struct {
			n    int
			name func(time.Time) string
		}{
			{rule.Hours, func(t time.Time) string { return t.Format("2006-01-02 15") }},
			{rule.Days, func(t time.Time) string { return t.Format("2006-01-02") }},
			{rule.Weeks, func(t time.Time) string { y, w := t.ISOWeek(); return fmt.Sprint(y, w) }},
			{rule.Months, func(t time.Time) string { return t.Format("2006-01") }},
			{rule.Years, func(t time.Time) string { return t.Format("2006") }},
		} {
			isNewest, later := true, map[string]bool{}
			for _, other := range points {
				isLater := other.Time.After(p.Time) || other.Time.Equal(p.Time) && other.Number > p.Number
				if !isLater || other.Time.After(now) {
					continue
				}
				if period.name(other.Time) == period.name(p.Time) {
					isNewest = false
				} else {
					later[period.name(other.Time)] = true
				}
			}
			isKept = isKept || isNewest && len(later) < period.n
		}
		if isKept {
			kept = append(kept, p.Number)
		}
	}
	return kept
}

// TestKeepModel compares the kept points with the function specified, even with a wrong clock, and checks that each
// can be restored.
func TestKeepModel(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(what string) int { return rapid.IntRange(0, 4).Draw(rt, what) }
		rule := Keep{draw("hours"), draw("days"), draw("weeks"), draw("months"), draw("years")}
		h := newHistory(time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC))
		h.begin("one.db")
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			h.now = h.now.Add(rapid.SampledFrom([]time.Duration{
				time.Minute, time.Hour, 24 * time.Hour, 24 * time.Hour, 8 * 24 * time.Hour, 40 * 24 * time.Hour, -time.Hour, -50 * 24 * time.Hour,
			}).Draw(rt, "time"))
			switch rapid.SampledFrom([]string{"write", "write", "write", "run", "none"}).Draw(rt, "event") {
			case "write":
				h.txid["one.db"]++
				h.add("one.db", h.txid["one.db"], h.txid["one.db"])
			case "run":
				h.begin("one.db")
			}
			h.publish()
			if !rapid.Bool().Draw(rt, "tidy") {
				continue
			}
			want := specified(rule, h.now, h.ordered())
			for _, name := range unneeded(h.names, h.points, h.files(), current{}, retention{now: h.now, rule: rule}) {
				delete(h.points, name)
				h.names = without(h.names, name)
			}
			var got []uint64
			for _, p := range h.ordered() {
				got = append(got, p.Number)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("at %v, %+v keeps %v: expected %v", h.now, rule, got, want)
			}
			for point, ok := range h.restorable() {
				if !ok {
					rt.Fatalf("%s cannot be restored", point)
				}
			}
		}
	})
}

// TestKeepUntil checks with a point every six hours that Until is neither too early nor much too late.
func TestKeepUntil(t *testing.T) {
	testdb.Sequential(t)
	t.Parallel()
	const every = 6 * time.Hour
	for _, text := range []string{"", "36h", "7d", "7d 4w", "3m", "2d 2y"} {
		rule, err := ParseKeep(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, deleted := range []time.Time{time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 23, 59, 0, 0, time.UTC), time.Date(2024, 8, 31, 12, 30, 0, 0, time.UTC)} {
			var points []candidate
			for at := deleted.Add(-10 * 24 * time.Hour); at.Before(rule.Until(deleted, every).Add(32 * 24 * time.Hour)); at = at.Add(every) {
				points = append(points, candidate{name: at.Format(time.RFC3339), number: uint64(len(points)), at: at, whole: true})
			}
			last := deleted
			for i := range points {
				now := points[i].at
				kept := rule.choose(slices.Clone(points[:i+1]))
				if !now.Before(deleted) && slices.ContainsFunc(points[:i], func(c candidate) bool {
					// A point up to a day after the deletion may need a snapshot from before it.
					return c.at.Before(deleted.Add(snapshotEvery)) && slices.Contains(kept, c.name)
				}) {
					last = now
				}
			}
			if until := rule.Until(deleted, every); last.After(until) || until.Sub(last) > 33*24*time.Hour && rule.Years == 0 {
				t.Errorf("%q, deleted at %v: kept until %v, and Until says %v", text, deleted, last, until)
			}
		}
	}
}

func (h *history) ordered() (all []Point) {
	for _, p := range h.points {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Point) int { return int(a.Number) - int(b.Number) })
	return all
}

func TestKeepDamaged(t *testing.T) {
	t.Parallel()
	h := newHistory(time.Date(2026, 1, 10, 1, 0, 0, 0, time.UTC))
	for range 4 {
		h.begin("one.db")
		h.publish()
		h.now = h.now.Add(12 * time.Hour)
	}
	h.names = without(h.names, "files/one.db/00000000000000000000000002/0000000000000001-0000000000000001.ltx")
	check := func(want ...uint64) {
		t.Helper()
		kept, _ := retention{now: h.now, rule: Keep{Days: 3}}.choose(h.points, h.files())
		for _, p := range h.ordered() {
			if kept[pointName(p)] != slices.Contains(want, p.Number) {
				t.Errorf("%v is kept", kept)
			}
		}
	}
	check(1, 4)
	h.names = without(h.names, "files/one.db/00000000000000000000000001/0000000000000001-0000000000000001.ltx")
	check(2, 4)
}

func TestKeepOfReplica(t *testing.T) {
	t.Parallel()
	h := newHistory(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	h.begin("one.db")
	for range 60 * 24 {
		h.publish()
		h.now = h.now.Add(time.Hour)
	}
	kept, _ := retention{now: h.now, fine: fine, keep: 7 * 24 * time.Hour, every: mergeEvery, rule: Keep{Days: 10, Months: 3}}.choose(h.points, h.files())
	// These are all hours of the last seven days, three earlier days, and the end of January.
	if len(kept) != 7*24-1+3+1 {
		t.Errorf("%d points are kept", len(kept))
	}
}
