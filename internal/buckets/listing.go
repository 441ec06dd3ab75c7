package buckets

import (
	"strings"
	"unicode/utf8"
)

// MaxPage is the largest number of entries of a page.
const MaxPage = 1024

// Position is where a page starts.
type Position struct {
	Name      string
	Inclusive bool // the page may start with this name; otherwise after it
}

// Query selects a page of a bucket's objects, ordered by the bytes of their names.
// Names that have the delimiter after the prefix are grouped: a group is the name up to
// and including the first delimiter, and counts as one entry.
type Query struct {
	Prefix    string
	Delimiter string // empty: no groups
	Start     Position
	Limit     int // 1 to MaxPage

	// Metadata also reads Headers, Roles and Sharks. Then an object that is written while the
	// page is read may be of a later time than the others.
	Metadata bool

	// Bytes, if above 0, ends the page at the entry with which its entries take that much
	// memory. It has at least one entry.
	Bytes int
}

// Entry is an object of a page, or a group.
type Entry struct {
	Group  string  // not empty: a group; Object is nil
	Object *Object // without Inline, and without Headers, Roles and Sharks unless Query.Metadata is set
}

// Name returns the name of the object, or the group.
func (e *Entry) Name() string {
	if e.Group != "" {
		return e.Group
	}
	return e.Object.Name
}

// Memory returns about how many bytes the entry takes.
func (e *Entry) Memory() int {
	if e.Object == nil {
		return entryMemory + len(e.Group)
	}
	o := e.Object
	n := entryMemory + objectMemory + len(o.Name) + len(o.Creator) + len(o.ContentType) + len(o.ID) + len(o.MD5) +
		len(o.ETag) + len(o.Upload) + len(o.Checksum.Value) + len(o.Extra)
	for k, v := range o.Tags {
		n += tagMemory + len(k) + len(v)
	}
	for k, v := range o.Headers {
		n += tagMemory + len(k) + len(v)
	}
	for _, role := range o.Roles {
		n += entryMemory + len(role)
	}
	for _, node := range o.Sharks {
		n += entryMemory + len(node)
	}
	return n
}

// Memory of an entry, an object and a member of a map without their texts, in bytes.
const (
	entryMemory  = 32
	objectMemory = 400
	tagMemory    = 64

	// MaxEntry is more than an entry of a page takes: a name, a content type, properties and
	// tags of the greatest size.
	MaxEntry = 40 << 10
)

// Page is the result of a Query.
type Page struct {
	Entries []Entry
	More    bool     // there are more entries after the page
	Next    Position // where they start
}

// A server reads a long list in slices, so that it keeps only one in memory.
const (
	// FirstSlice is how many entries are read first; the next slices are as large as SliceBytes allows.
	// PostgreSQL reads as many rows as are asked for.
	FirstSlice = 500

	// SliceBytes ends a slice: about what 500 entries with short names take.
	SliceBytes = 256 << 10

	// SliceMemory is charged for a slice, which may exceed SliceBytes by an entry, and has room for
	// more entries.
	SliceMemory = SliceBytes + MaxEntry + 64<<10
)

// PerSlice returns how many entries like those of the page, which is not empty, fill a slice.
func (p *Page) PerSlice() int {
	size := 0
	for i := range p.Entries {
		size += p.Entries[i].Memory()
	}
	return 1 + SliceBytes*len(p.Entries)/size
}

// Starting returns the query as it starts after a marker that a client has sent: after
// an object's name, or after the whole group if the marker is one.
func (q Query) Starting(marker string) Query {
	q.Start = Position{Name: marker}
	if group, ok := q.GroupOf(marker); ok && group == marker {
		q.Start = q.after(group)
	}
	return q
}

// GroupOf returns the group that a name with the query's prefix belongs to.
func (q *Query) GroupOf(name string) (group string, ok bool) {
	if q.Delimiter == "" || !strings.HasPrefix(name, q.Prefix) {
		return "", false
	}
	i := strings.Index(name[len(q.Prefix):], q.Delimiter)
	if i < 0 {
		return "", false
	}
	return name[:len(q.Prefix)+i+len(q.Delimiter)], true
}

// after returns the position after all names of a group.
func (q *Query) after(group string) Position {
	next, ok := Successor(group)
	if !ok { // no valid name is greater
		return Position{Name: strings.Repeat(string(utf8.MaxRune), MaxObjectName/utf8.UTFMax+1)}
	}
	return Position{Name: next, Inclusive: true}
}

// Lister builds a page. A backend feeds it the rows of the bucket in order, beginning at
// From, and skips to the position that Add returns.
type Lister struct {
	q       Query
	page    Page
	bytes   int      // of the entries
	objects []Object // with capacity for the next ones of the page
}

// NewLister returns a Lister for a query.
func NewLister(q Query) *Lister { return &Lister{q: q} }

// From returns where the rows begin: at the query's start, or at its prefix if that is
// greater.
func (l *Lister) From() Position {
	if l.q.Start.Name < l.q.Prefix {
		return Position{Name: l.q.Prefix, Inclusive: true}
	}
	return l.q.Start
}

// Add adds the next row. If skip, the rows up to next are of the same group, and the
// backend continues there. If done, the page is complete.
func (l *Lister) Add(o Object) (next Position, skip, done bool) {
	if next, skip, done = l.AddGroup(o.Name); skip || done || l.isFull(o.Name) {
		return next, skip, !skip
	}
	if len(l.objects) == cap(l.objects) {
		l.objects = make([]Object, 0, min(l.q.Limit-len(l.page.Entries), max(8, 2*len(l.objects)), mostObjects))
	}
	l.objects = append(l.objects, o)
	l.add(Entry{Object: &l.objects[len(l.objects)-1]})
	return Position{}, false, false
}

func (l *Lister) add(e Entry) {
	l.page.Entries = append(l.page.Entries, e)
	if l.q.Bytes > 0 {
		l.bytes += e.Memory()
	}
}

// mostObjects is how many objects a Lister allocates at once. They are large.
const mostObjects = 128

// AddGroup is Add for a backend that knows only the name of the next row. If neither
// grouped nor done, the name has no group, and Add needs the row.
func (l *Lister) AddGroup(name string) (next Position, grouped, done bool) {
	if !strings.HasPrefix(name, l.q.Prefix) {
		return Position{}, false, true
	}
	group, grouped := l.q.GroupOf(name)
	switch {
	case !grouped:
		return Position{}, false, false
	case l.isFull(name):
		return Position{}, false, true
	}
	l.add(Entry{Group: group})
	return l.q.after(group), true, false
}

// isFull reports whether the page has no space for the entry of a name, which is then
// where the next page starts.
func (l *Lister) isFull(name string) bool {
	if len(l.page.Entries) < l.q.Limit && (l.q.Bytes <= 0 || l.bytes < l.q.Bytes) {
		return false
	}
	l.page.More = true
	l.page.Next = Position{Name: name, Inclusive: true}
	return true
}

// IsComplete reports that Add has found the end of the page. A backend that cannot stop must
// not call Add any more.
func (l *Lister) IsComplete() bool { return l.page.More }

// Page returns the page.
func (l *Lister) Page() Page { return l.page }

// Successor returns the least text, by bytes, that is greater than every text with the
// prefix, or false if there is none. The result is valid UTF-8 if the prefix is, because
// PostgreSQL accepts nothing else: Successor increments the last character that can be
// incremented.
func Successor(prefix string) (string, bool) {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xd7ff: // the next code points are surrogates
			r = 0xdfff
		}
		return prefix + string(r+1), true
	}
	return "", false
}
