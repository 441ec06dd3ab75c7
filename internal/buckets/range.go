package buckets

import (
	"math"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
)

// ErrRange means that the range is not satisfiable.
var ErrRange = errcode.New(errcode.Invalid, "the object has no byte in the range")

// ParseRange returns ok = false if the header must be ignored because it is malformed or contains several ranges. The
// only error is ErrRange.
func ParseRange(header string, size int64) (from, length int64, ok bool, err error) {
	spec, ok := strings.CutPrefix(header, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		return 0, 0, false, nil
	}
	first, last, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return 0, 0, false, nil
	}
	if first == "" {
		n, valid := digits(last)
		switch {
		case !valid:
			return 0, 0, false, nil
		case n == 0 || size == 0:
			return 0, 0, false, ErrRange
		}
		n = min(n, size)
		return size - n, n, true, nil
	}
	from, valid := digits(first)
	end := int64(math.MaxInt64)
	if last != "" {
		var validEnd bool
		if end, validEnd = digits(last); !validEnd {
			valid = false
		}
	}
	switch {
	case !valid || last != "" && isLess(last, first):
		return 0, 0, false, nil
	case from >= size:
		return 0, 0, false, ErrRange
	}
	return from, min(end, size-1) - from + 1, true, nil
}

// digits reads an unsigned number. Larger numbers become MaxInt64.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n = math.MaxInt64
	}
	return n, true
}

// isLess compares numbers that may be too large for digits.
func isLess(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) < len(b) || len(a) == len(b) && a < b
}
