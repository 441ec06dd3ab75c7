package replica

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/errcode"
)

// Keep keeps the newest restore point in each of the last non-empty hours, days, weeks, months and years, in UTC. The
// zero value is no rule: the functions that take it say which points stay.
type Keep struct{ Hours, Days, Weeks, Months, Years int }

const maxKeep = 10_000

// ParseKeep parses a text such as "7d 4w 6m", with units h, d, w, m (months) and y.
func ParseKeep(text string) (k Keep, err error) {
	fields := map[string]*int{"h": &k.Hours, "d": &k.Days, "w": &k.Weeks, "m": &k.Months, "y": &k.Years}
	for word := range strings.FieldsSeq(text) {
		unit := word[len(word)-1:]
		n, err := strconv.Atoi(strings.TrimSuffix(word, unit))
		field := fields[unit]
		if err != nil || n < 1 || n > maxKeep || field == nil || *field != 0 {
			return Keep{}, errcode.Newf(errcode.Invalid, "invalid rule %q: expected numbers with the units h, d, w, m (months) and y, each unit once, e.g. 7d 4w 6m", text)
		}
		*field = n
	}
	return k, nil
}

// period is a unit of Keep.
type period struct {
	count int                 // how many non-empty periods keep a point
	of    func(time.Time) int // increases with time
}

// Until returns the time from which no kept point needs data that was deleted at a given time. It assumes a new point
// at every interval. Periods without a point do not count. A point needs files from up to snapshotEvery before it.
func (k Keep) Until(at time.Time, every time.Duration) time.Time {
	last := at
	for _, p := range []struct {
		count int
		end   time.Time
	}{
		{k.Hours, at.Add(time.Duration(k.Hours) * time.Hour)},
		{k.Days, at.AddDate(0, 0, k.Days)},
		{k.Weeks, at.AddDate(0, 0, 7*k.Weeks)},
		{k.Months, at.AddDate(0, k.Months, 0)},
		{k.Years, at.AddDate(k.Years, 0, 0)},
	} {
		for _, end := range []time.Time{p.end, at.Add(time.Duration(p.count) * every)} {
			if end.After(last) {
				last = end
			}
		}
	}
	return last.Add(snapshotEvery + every)
}

// periods returns the periods in UTC, so that all servers agree. Weeks begin on Monday.
func (k Keep) periods() []period {
	return []period{
		{k.Hours, func(t time.Time) int { return int(t.Unix() / 3600) }},
		{k.Days, func(t time.Time) int { return int(t.Unix() / 86400) }},
		{k.Weeks, func(t time.Time) int { year, week := t.UTC().ISOWeek(); return year*100 + week }},
		{k.Months, func(t time.Time) int { return t.UTC().Year()*12 + int(t.UTC().Month()) }},
		{k.Years, func(t time.Time) int { return t.UTC().Year() }},
	}
}

// candidate is a point that may be kept.
type candidate struct {
	name   string
	number uint64
	at     time.Time // time of the point
	files  int       // files that a restore reads
	whole  bool      // no file is missing
}

// choose takes a point that lacks a file only if no point in its period is complete.
func (k Keep) choose(all []candidate) (names []string) {
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.number, a.number)) })
	for _, p := range k.periods() {
		rest := all
		for range p.count {
			if len(rest) == 0 {
				break
			}
			same := 1
			for same < len(rest) && p.of(rest[same].at) == p.of(rest[0].at) {
				same++
			}
			best := max(0, slices.IndexFunc(rest[:same], func(c candidate) bool { return c.whole }))
			names, rest = append(names, rest[best].name), rest[same:]
		}
	}
	return names
}
