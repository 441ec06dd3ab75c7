package backup

import (
	"slices"
	"strings"
	"time"

	"holdfast/internal/durations"
	"holdfast/internal/errcode"
)

// Schedule determines when backups are due. The zero value is never.
type Schedule struct {
	times []time.Duration // since midnight, ascending
	every time.Duration
}

// leastEvery is the shortest interval of a schedule.
const leastEvery = time.Minute

// ParseSchedule parses times of day ("03:30 15:30") or an interval ("6h").
func ParseSchedule(text string) (s Schedule, err error) {
	invalid := errcode.Newf(errcode.Invalid, "invalid schedule %q: expected times of day, e.g. 03:30 15:30, or an interval of at least 1m, e.g. 6h", text)
	if every, err := durations.Parse(strings.TrimSpace(text)); err == nil {
		if every < leastEvery {
			return Schedule{}, invalid
		}
		return Schedule{every: every}, nil
	}
	for word := range strings.FieldsSeq(text) {
		at, err := time.Parse("15:04", word)
		if err != nil {
			return Schedule{}, invalid
		}
		s.times = append(s.times, time.Duration(at.Hour())*time.Hour+time.Duration(at.Minute())*time.Minute)
	}
	slices.Sort(s.times)
	return s, nil
}

// IsZero reports whether there are no backups.
func (s Schedule) IsZero() bool { return s.every == 0 && len(s.times) == 0 }

// Next uses the time zone of after.
func (s Schedule) Next(after time.Time) time.Time {
	if s.every > 0 {
		return after.Add(s.every)
	}
	year, month, day := after.Date()
	for ; len(s.times) > 0; day++ {
		for _, t := range s.times {
			at := time.Date(year, month, day, int(t/time.Hour), int(t%time.Hour/time.Minute), 0, 0, after.Location())
			if at.After(after) {
				return at
			}
		}
	}
	return time.Time{}
}

// LongestWait returns the longest time between two scheduled backups, or 0 without a valid schedule.
func (s *Settings) LongestWait() (longest time.Duration) {
	schedule, err := ParseSchedule(s.Schedule)
	if err != nil || schedule.IsZero() {
		return 0
	}
	at := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	for end := at.AddDate(0, 0, 2); at.Before(end); {
		next := schedule.Next(at)
		longest, at = max(longest, next.Sub(at)), next
	}
	return longest
}
