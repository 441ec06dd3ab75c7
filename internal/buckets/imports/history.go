package imports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/internal/buckets"
)

// Plan is an import's decision about the versions of a name.
type Plan struct {
	Take   []Listed           // oldest first
	Delete []*buckets.Version // imported, unchanged here and deleted at the source
	Same   []Pair             // equal on both sides; only tags may differ
	Absent int                // cannot be added, because they are older than a version here; they were deleted here or rejected by an earlier import
	Keep   bool               // changed here by a client later than at the source, so add nothing
}

// Pair is a version on both sides.
type Pair struct {
	From Listed
	Here *buckets.Object
}

// IsNothing reports whether nothing changes here and nothing must be reported.
func (p *Plan) IsNothing() bool { return len(p.Take)+len(p.Delete) == 0 && !p.Keep }

// PlanVersions compares the versions of a name on both sides, each oldest first. Versions match if source time,
// entity tag and size are equal. As with Decide, a version that a client wrote here is never deleted, and stays
// current unless the source has a later version.
func PlanVersions(from []Listed, here []buckets.Version, behind time.Duration) (p Plan) {
	places := map[string][]int{}
	for i := range from {
		k := from[i].identity()
		places[k] = append(places[k], i)
	}
	next := 0
	for i := range here {
		v := &here[i]
		at := slices.IndexFunc(places[identityOf(v)], func(n int) bool { return n >= next })
		switch {
		case v.Imported == 0 || at < 0 && v.Imported != v.Modified:
		case at < 0:
			p.Delete = append(p.Delete, v)
		default:
			n := places[identityOf(v)][at]
			p.Absent += n - next
			p.Same = append(p.Same, Pair{from[n], &v.Object})
			next = n + 1
		}
	}
	if next == len(from) {
		return p
	}
	p.Take = from[next:]
	if len(here) == 0 {
		return p
	}
	newest, last := &here[len(here)-1], &from[len(from)-1]
	isTouched := newest.Imported == 0 || newest.Imported != newest.Modified
	switch {
	case !isTouched || last.Modified.Add(behind) > newest.Modified:
	case len(from) == 1 && newest.Imported == 0 && !newest.Marker && !last.Marker && newest.Length == last.Size && newest.EntityTag() == last.ETag:
		p.Take, p.Same = nil, []Pair{{*last, &newest.Object}}
	default:
		p.Take, p.Keep = nil, true
	}
	return p
}

// identity is equal for equal versions on both sides.
func (l *Listed) identity() string { return identity(l.Marker, l.Modified, l.ETag, l.Size) }

// identityOf is identity for a version here.
func identityOf(v *buckets.Version) string {
	return identity(v.Marker, v.Imported, v.EntityTag(), v.Length)
}

// identity joins the properties that an import keeps. A marker has only its time.
func identity(isMarker bool, at buckets.Moment, etag string, size int64) string {
	if isMarker {
		return fmt.Sprint("marker ", int64(at))
	}
	return fmt.Sprint(int64(at), " ", size, " ", etag)
}

// inOrder sorts a name's versions, oldest first. Lists are newest first, but some servers list delete markers
// separately. Their versions are sorted by ULID or time.
func inOrder(newestFirst []Listed) []Listed {
	runs := 1
	for i := 1; i < len(newestFirst); i++ {
		if newestFirst[i].Marker != newestFirst[i-1].Marker {
			runs++
		}
	}
	if runs == 2 {
		slices.SortStableFunc(newestFirst, func(a, b Listed) int {
			switch {
			case a.Latest != b.Latest:
				return cmp.Compare(isLater(b.Latest), isLater(a.Latest))
			case isULID(a.Version) && isULID(b.Version): // versitygw rounds version times to seconds
				return cmp.Compare(b.Version, a.Version)
			}
			return cmp.Compare(b.Modified, a.Modified)
		})
	}
	slices.Reverse(newestFirst)
	return newestFirst
}

// isULID recognizes ULIDs, which sort by time.
func isULID(id string) bool {
	return len(id) == 26 && strings.Trim(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// isLater makes a bool comparable.
func isLater(is bool) int {
	if is {
		return 1
	}
	return 0
}
