package buckets

import "time"

// Moment is the time in microseconds since 1970-01-01 UTC; 0 means no time.
type Moment int64

// At truncates t to microseconds.
func At(t time.Time) Moment { return Moment(t.UnixMicro()) }

// Time returns the time in UTC.
func (m Moment) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// Add rounds d towards zero to microseconds.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d/time.Microsecond) }

// Seconds returns the time in Unix seconds, the precision of HTTP dates.
func (m Moment) Seconds() int64 {
	s := int64(m) / 1e6
	if int64(m)%1e6 < 0 {
		s--
	}
	return s
}
