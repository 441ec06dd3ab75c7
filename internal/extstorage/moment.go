package extstorage

import "time"

// Moment is a point in time in milliseconds since 1970-01-01 UTC; 0 means never.
// Every engine stores it exactly.
type Moment int64

// At truncates a time to a Moment.
func At(t time.Time) Moment { return Moment(t.UnixMilli()) }

// Time returns the moment in UTC.
func (m Moment) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Reached reports whether the time to live that ends at m has ended: a record is
// visible until the millisecond before m.
func (m Moment) Reached(now Moment) bool { return m != 0 && m <= now }
