package extstorage

import (
	"strconv"
	"time"
)

// ExpiresAt returns the expiry for a TTL in seconds, or a *ValidationError if it is outside the limits.
func (l Limits) ExpiresAt(now Moment, seconds int64) (Moment, error) {
	shortest, longest := int64(l.MinTTL/time.Second), int64(l.MaxTTL/time.Second)
	if seconds < shortest || seconds > longest {
		return 0, refuse("must be from " + strconv.FormatInt(shortest, 10) + " to " + strconv.FormatInt(longest, 10) + " seconds")
	}
	return now + Moment(seconds)*1000, nil
}
