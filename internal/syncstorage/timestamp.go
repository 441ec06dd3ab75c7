package syncstorage

import (
	"strconv"
	"time"
)

// Timestamp is in Unix milliseconds; zero means never. Stamps are multiples of Tick. The wire format is decimal
// seconds with exactly two decimals.
type Timestamp int64

// Tick is the resolution of stamps in milliseconds, from the wire format's two decimals.
const Tick = 10

// MaxTimestamp is the greatest stamp for the wire format and every engine (9999-12-31T23:59:59.99Z).
const MaxTimestamp Timestamp = 253402300799990

// At rounds a time down to a stamp within the valid range.
func At(t time.Time) Timestamp {
	ms := t.UnixMilli()
	switch {
	case ms < 0:
		return 0
	case ms > int64(MaxTimestamp):
		return MaxTimestamp
	}
	return Timestamp(ms - ms%Tick)
}

// Time returns the time in UTC.
func (t Timestamp) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

// NextStamp returns a write's stamp: now, or one tick after last if the clock did not advance. last is the user's
// greatest stamp, including tombstones.
func NextStamp(now, last Timestamp) Timestamp {
	return max(now-now%Tick, last+Tick)
}

// Horizon returns the time at which readers check expiry: the clock, but never before the collection's last stamp.
// Otherwise a record with TTL 0 would be visible until the clock reaches its stamp.
func Horizon(now, modified Timestamp) Timestamp { return max(now, modified) }

// ExpiresAt returns the time ttl seconds after the stamp.
func ExpiresAt(stamp Timestamp, ttl int64) Timestamp {
	return min(stamp+Timestamp(ttl)*1000, MaxTimestamp)
}

// String returns the wire format, such as "1234567890.10".
func (t Timestamp) String() string {
	var b [16]byte
	return string(t.Append(b[:0]))
}

// Append appends the wire format.
func (t Timestamp) Append(b []byte) []byte {
	b = strconv.AppendInt(b, int64(t)/1000, 10)
	cs := byte(int64(t) % 1000 / Tick)
	return append(b, '.', '0'+cs/10, '0'+cs%10)
}

// ParseTimestamp parses decimal seconds, truncated to two decimals and MaxTimestamp. It avoids floating point, in
// which 2.01 * 1000 is 2009.99….
func ParseTimestamp(s string) (Timestamp, bool) {
	whole, frac := s, ""
	for i := range len(s) {
		if s[i] == '.' {
			whole, frac = s[:i], s[i+1:]
			break
		}
	}
	if whole == "" && frac == "" || len(s) > 64 {
		return 0, false
	}
	var ms Timestamp
	for i := range len(whole) {
		d := whole[i] - '0'
		if d > 9 {
			return 0, false
		}
		ms = min(ms*10+Timestamp(d)*1000, MaxTimestamp)
	}
	unit := Timestamp(100)
	for i := range len(frac) {
		d := frac[i] - '0'
		if d > 9 {
			return 0, false
		}
		if unit >= Tick {
			ms += Timestamp(d) * unit
		}
		unit /= 10
	}
	return min(ms, MaxTimestamp), true
}
