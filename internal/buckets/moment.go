package buckets

import "time"

// Moment is a point in time in microseconds since 1970-01-01 UTC; 0 means none. Every
// engine stores it exactly.
type Moment int64

// At truncates a time to a Moment.
func At(t time.Time) Moment { return Moment(t.UnixMicro()) }

// Time returns the moment in UTC.
func (m Moment) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// Add returns the moment that is a duration later.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d/time.Microsecond) }

// Seconds returns the moment in whole seconds, the precision of dates in HTTP headers.
func (m Moment) Seconds() int64 {
	s := int64(m) / 1e6
	if int64(m)%1e6 < 0 {
		s--
	}
	return s
}
