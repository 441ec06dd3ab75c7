package extstorage

import "time"

// Moment is a time in Unix milliseconds; 0 means never.
type Moment int64

// At truncates a time to milliseconds.
func At(t time.Time) Moment { return Moment(t.UnixMilli()) }

// Time returns the time in UTC.
func (m Moment) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Reached reports whether this expiry has been reached: records are visible until the millisecond before.
func (m Moment) Reached(now Moment) bool { return m != 0 && m <= now }
