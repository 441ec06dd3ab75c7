package tokenserver

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/operate"
)

// order is a sort order for accounts.
type order struct {
	// value is the sort key, greatest first; nil means that UIDs are the key, smallest first. Equal values are ordered
	// by UID.
	value func(*userUsage) int64
	// reverse also reverses the order of equal values, so that a reversed list is the list read backwards.
	reverse bool
}

// parseOrder parses the inputs sort and reverse. The error is an *operate.InputError.
func parseOrder(name string, reverse bool) (order, error) {
	o := order{reverse: reverse}
	counted := func(value func(*userUsage) int64) func(*userUsage) int64 {
		return func(r *userUsage) int64 {
			if !r.here || !r.Counted {
				return -1 // unknown values come last
			}
			return value(r)
		}
	}
	switch name {
	case "id":
	case "created":
		o.value = func(r *userUsage) int64 { return r.CreatedAt }
	case "used":
		o.value = func(r *userUsage) int64 {
			if !r.here {
				return -1
			}
			return r.ModifiedMillis
		}
	case "bytes":
		o.value = counted(func(r *userUsage) int64 { return r.Bytes })
	case "records":
		o.value = counted(func(r *userUsage) int64 { return r.Records })
	default:
		return o, &operate.InputError{Input: "sort", Reason: "expected used, bytes, records, created or id"}
	}
	return o, nil
}

// byID reports whether the database returns this order, so that a page needs no sorting.
func (o order) byID() bool { return o.value == nil && !o.reverse }

// position is a user's position in an order. given is false for the start of the list; valued says that the order sorts
// by value, then by UID.
type position struct {
	given  bool
	valued bool
	value  int64
	uid    int64
}

// position returns the position of a row, which the next page starts after.
func (o order) position(r *userUsage) position {
	if o.value == nil {
		return position{given: true, uid: r.UID}
	}
	return position{true, true, o.value(r), r.UID}
}

// String returns the input after: the UID, or the value and the UID, e.g. 5000:17.
func (p position) String() string {
	if !p.valued {
		return strconv.FormatInt(p.uid, 10)
	}
	return strconv.FormatInt(p.value, 10) + ":" + strconv.FormatInt(p.uid, 10)
}

// parseAfter parses position.String; "" is the start. The error is an *operate.InputError. A position from another
// order is refused if its form differs.
func (o order) parseAfter(s string) (p position, err error) {
	if s == "" {
		return p, nil
	}
	p.given = true
	value, uid, valued := strings.Cut(s, ":")
	expected := "a value printed at the end of a page in this order, e.g. 5000:17"
	if o.value == nil {
		expected, uid, value = "a uid", value, "0"
	}
	var failed [2]error
	p.value, failed[0] = strconv.ParseInt(value, 10, 64)
	p.uid, failed[1] = strconv.ParseInt(uid, 10, 64)
	p.valued = valued
	if errors.Join(failed[:]...) != nil || p.uid < 0 || valued != (o.value != nil) {
		return p, &operate.InputError{Input: "after", Reason: "expected " + expected}
	}
	return p, nil
}

// compare returns a negative number if a comes before b.
func (o order) compare(a, b position) int {
	n := cmp.Or(-cmp.Compare(a.value, b.value), cmp.Compare(a.uid, b.uid))
	if o.reverse {
		return -n
	}
	return n
}

// top keeps the first n of many rows without keeping all.
type top struct {
	// n is at least 1. kept has fewer than 2n rows, in no order before cut.
	n    int
	o    order
	kept []userUsage
}

// newTop keeps the n rows that come first in o.
func newTop(n int, o order) *top { return &top{n: n, o: o} }

// add sorts and truncates only once per n rows.
func (t *top) add(r userUsage) {
	if t.kept = append(t.kept, r); len(t.kept) >= 2*t.n {
		t.cut()
	}
}

// cut sorts the rows and drops those after the first n. It clears them, so that their texts can be collected.
func (t *top) cut() {
	slices.SortFunc(t.kept, func(a, b userUsage) int { return t.o.compare(t.o.position(&a), t.o.position(&b)) })
	if len(t.kept) > t.n {
		clear(t.kept[t.n:])
		t.kept = t.kept[:t.n]
	}
}

// rows returns the first rows in order; call it once, at the end.
func (t *top) rows() []userUsage {
	t.cut()
	return t.kept
}
