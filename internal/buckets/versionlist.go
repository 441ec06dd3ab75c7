package buckets

import "strings"

// VersionQuery selects a page of a bucket's object versions. Groups work as in Query.
type VersionQuery struct {
	Prefix    string
	Delimiter string

	// The page starts after all versions of After, a name or group, or after AfterVersion if that is set.
	After        string
	AfterVersion VersionID

	// Noncurrent omits current objects, but not current delete markers.
	Noncurrent bool

	Limit int // versions and groups
	Bytes int // if positive, limits the page's memory
}

// VersionPage is a slice from a list.
type VersionPage struct {
	Versions []Version // without Inline
	Groups   []string

	// If More is true, the next page starts after these.
	More         bool
	After        string
	AfterVersion VersionID
}

// VersionPosition is where rows begin. Rows are ordered by name and then by version, with the current object first.
type VersionPosition struct {
	Name      string
	Inclusive bool
	After     VersionID // otherwise, if set, start with older noncurrent versions; never NullVersion
}

// IDs below and above all others.
const (
	FirstVersion VersionID = "00000000-0000-0000-0000-000000000000"
	LastVersion  VersionID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

// Noncurrent returns the position before the noncurrent versions of the name.
func (p VersionPosition) Noncurrent() VersionID {
	switch {
	case p.Inclusive:
		return FirstVersion
	case p.After != "":
		return p.After
	}
	return LastVersion
}

// VersionLister builds a VersionPage like Lister builds a Page, and decides which rows are read next.
type VersionLister struct {
	q     VersionQuery
	page  VersionPage
	from  VersionPosition
	bytes int
}

// NewVersionLister returns a VersionLister. If AfterVersion is NullVersion, null is its position.
func NewVersionLister(q VersionQuery, null VersionID) *VersionLister {
	l := &VersionLister{q: q, from: VersionPosition{Name: q.After, After: q.AfterVersion}}
	if q.AfterVersion == NullVersion {
		l.from.After = null
	}
	objects := Query{Prefix: q.Prefix, Delimiter: q.Delimiter}
	switch group, ok := objects.GroupOf(q.After); {
	case q.After < q.Prefix:
		l.from = VersionPosition{Name: q.Prefix, Inclusive: true}
	case ok && group == q.After:
		l.skip(objects, group)
	}
	return l
}

// skip continues after all names in a group.
func (l *VersionLister) skip(objects Query, group string) {
	p := objects.after(group)
	l.from = VersionPosition{Name: p.Name, Inclusive: p.Inclusive}
}

// smallBatch rows are read first and after each group, because the next row is usually in another group.
const smallBatch = 8

// Fill calls read, which passes at most limit rows to add until add returns false, and returns their number. key is a
// row's position, "" for the current object.
func (l *VersionLister) Fill(read func(from VersionPosition, limit int, add func(v Version, key VersionID) bool) (int, error)) (VersionPage, error) {
	batch := l.q.Limit + 1
	if l.q.Delimiter != "" {
		batch = min(batch, smallBatch)
	}
	for {
		var skipped, done bool
		n, err := read(l.from, batch, func(v Version, key VersionID) bool {
			if !skipped && !done {
				skipped, done = l.add(v, key)
			}
			return !skipped && !done
		})
		switch {
		case err != nil:
			return VersionPage{}, err
		case skipped:
			batch = min(l.q.Limit+1, smallBatch)
		case done || n < batch:
			return l.page, nil
		default:
			batch = min(batch*8, l.q.Limit+1)
		}
	}
}

// add takes the next row. It returns skipped if the row began a group, so that the following rows must not be read, and
// done if no further row is needed.
func (l *VersionLister) add(v Version, key VersionID) (skipped, done bool) {
	switch {
	case !strings.HasPrefix(v.Name, l.q.Prefix):
		return false, true
	case len(l.page.Versions)+len(l.page.Groups) == l.q.Limit, l.q.Bytes > 0 && l.bytes >= l.q.Bytes:
		l.page.More = true
		return false, true
	}
	objects := Query{Prefix: l.q.Prefix, Delimiter: l.q.Delimiter}
	if group, ok := objects.GroupOf(v.Name); ok {
		l.page.Groups = append(l.page.Groups, group)
		l.page.After, l.page.AfterVersion = group, ""
		l.bytes += entryMemory + len(group)
		l.skip(objects, group)
		return true, false
	}
	l.page.Versions = append(l.page.Versions, v)
	l.page.After, l.page.AfterVersion = v.Name, v.VersionID()
	l.from = VersionPosition{Name: v.Name, After: key}
	if key == "" {
		l.from.After = FirstVersion
	}
	e := Entry{Object: &v.Object}
	l.bytes += e.Memory()
	return false, false
}
