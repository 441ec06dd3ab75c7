package tokenserver

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/operate"
)

type order struct {
	value   func(*row) int64 // greatest first; nil: by UID, smallest first
	reverse bool
}

func parseOrder(name string, reverse bool) (order, error) {
	o := order{reverse: reverse}
	counted := func(value func(*row) int64) func(*row) int64 {
		return func(r *row) int64 {
			if !r.here || !r.Counted {
				return -1 // unknown values come last
			}
			return value(r)
		}
	}
	switch name {
	case "id":
	case "created":
		o.value = func(r *row) int64 { return r.CreatedAt }
	case "used":
		o.value = func(r *row) int64 {
			if !r.here {
				return -1
			}
			return r.ModifiedMillis
		}
	case "bytes":
		o.value = counted(func(r *row) int64 { return r.Bytes })
	case "records":
		o.value = counted(func(r *row) int64 { return r.Records })
	default:
		return o, &operate.InputError{Input: "sort", Reason: "expected used, bytes, records, created or id"}
	}
	return o, nil
}

func (o order) byID() bool { return o.value == nil && !o.reverse }

type place struct {
	given  bool
	valued bool
	value  int64
	uid    int64
}

func (o order) place(r *row) place {
	if o.value == nil {
		return place{given: true, uid: r.UID}
	}
	return place{true, true, o.value(r), r.UID}
}

func (p place) String() string {
	if !p.valued {
		return strconv.FormatInt(p.uid, 10)
	}
	return strconv.FormatInt(p.value, 10) + ":" + strconv.FormatInt(p.uid, 10)
}

func (o order) parseAfter(s string) (p place, err error) {
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

func (o order) compare(a, b place) int {
	n := cmp.Or(-cmp.Compare(a.value, b.value), cmp.Compare(a.uid, b.uid))
	if o.reverse {
		return -n
	}
	return n
}

type top struct {
	n    int
	o    order
	kept []row
}

func newTop(n int, o order) *top { return &top{n: n, o: o} }

// add sorts and truncates only once per n rows.
func (t *top) add(r row) {
	if t.kept = append(t.kept, r); len(t.kept) >= 2*t.n {
		t.cut()
	}
}

func (t *top) cut() {
	slices.SortFunc(t.kept, func(a, b row) int { return t.o.compare(t.o.place(&a), t.o.place(&b)) })
	if len(t.kept) > t.n {
		clear(t.kept[t.n:])
		t.kept = t.kept[:t.n]
	}
}

func (t *top) rows() []row {
	t.cut()
	return t.kept
}
