package sync

import (
	"fmt"
	"strconv"
	"strings"
)

// Moment is a protocol timestamp, in hundredths of a second; 0 is never.
type Moment int64

// ParseMoment parses decimal seconds with exactly two decimals, as written by servers.
func ParseMoment(text string) (Moment, error) {
	seconds, hundredths, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(seconds+hundredths, 10, 63)
	if err != nil || len(hundredths) != 2 {
		return 0, fmt.Errorf("%q is not a timestamp", text)
	}
	return Moment(n), nil
}

// String returns the protocol's form.
func (m Moment) String() string { return fmt.Sprintf("%d.%02d", m/100, m%100) }
