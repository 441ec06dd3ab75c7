package extstorage

import (
	"strconv"
	"time"
)

// ExpiresAt is the moment at which a record ends that is written at now with a
// time to live in seconds. A *ValidationError refuses one out of the limits; a
// write without a time to live has no use for this and expires never (0).
func (l Limits) ExpiresAt(now Moment, seconds int64) (Moment, error) {
	least, most := int64(l.MinTTL/time.Second), int64(l.MaxTTL/time.Second)
	if seconds < least || seconds > most {
		return 0, refuse("must be from " + strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10) + " seconds")
	}
	return now + Moment(seconds)*1000, nil
}
