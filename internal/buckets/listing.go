package buckets

import (
	"strings"
	"unicode/utf8"
)

// MaxPage is the most entries per page.
const MaxPage = 1024

// Position is where a page starts.
type Position struct {
	Name      string
	Inclusive bool // start at the name, not after it
}

// Query selects a page of a bucket's objects, ordered by the bytes of their names. Names that contain the delimiter
// after the prefix form a group: the name up to and including the first delimiter. A group counts as one entry.
type Query struct {
	Prefix    string
	Delimiter string // empty: no groups
	Start     Position
	Limit     int // 1 to MaxPage

	// Metadata also reads Headers, Roles and Sharks. An object written meanwhile may then be newer than the rest of
	// the page.
	Metadata bool

	// Bytes, if positive, ends the page at the entry that brings its memory to this size. A page holds at least one
	// entry.
	Bytes int
}

// Entry is an object or a group.
type Entry struct {
	Group  string  // set for a group; Object is then nil
	Object *Object // without Inline, and without Headers, Roles and Sharks unless Query.Metadata is set
}

// Name returns the object name or the group.
func (e *Entry) Name() string {
	if e.Group != "" {
		return e.Group
	}
	return e.Object.Name
}

// Memory returns the approximate size of the entry in bytes.
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

// Memory of an entry, an object and a map element without their strings, in bytes.
const (
	entryMemory  = 32
	objectMemory = 400
	tagMemory    = 64

	// MaxEntry bounds the memory of an entry with the longest name, content type, properties and tags.
	MaxEntry = 40 << 10
)

// Page is the result of a Query.
type Page struct {
	Entries []Entry
	More    bool     // more entries follow
	Next    Position // where they start
}

// A server reads a long list in slices and keeps only one in memory.
const (
	// FirstSlice is the number of entries read first; SliceBytes limits later slices. PostgreSQL reads as many rows
	// as requested.
	FirstSlice = 500

	// SliceBytes ends a slice: about 500 entries with short names.
	SliceBytes = 256 << 10

	// SliceMemory is charged for a slice, which may exceed SliceBytes by one entry and some spare capacity.
	SliceMemory = SliceBytes + MaxEntry + 64<<10
)

// PerSlice returns how many entries like those of p fill a slice. p must not be empty.
func (p *Page) PerSlice() int {
	size := 0
	for i := range p.Entries {
		size += p.Entries[i].Memory()
	}
	return 1 + SliceBytes*len(p.Entries)/size
}

// Starting returns the query continued after a client's marker: after an object name, or after the whole group if the
// marker is a group.
func (q Query) Starting(marker string) Query {
	q.Start = Position{Name: marker}
	if group, ok := q.GroupOf(marker); ok && group == marker {
		q.Start = q.after(group)
	}
	return q
}

// GroupOf returns the group of a name that starts with the query's prefix.
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

func (q *Query) after(group string) Position {
	next, ok := Successor(group)
	if !ok { // no valid name is greater
		return Position{Name: strings.Repeat(string(utf8.MaxRune), MaxObjectName/utf8.UTFMax+1)}
	}
	return Position{Name: next, Inclusive: true}
}

// Lister builds a page. A backend passes rows in order, beginning at From, and skips to the position that Add
// returns.
type Lister struct {
	q       Query
	page    Page
	bytes   int
	objects []Object // preallocated for the next objects
}

// NewLister returns a Lister for a query.
func NewLister(q Query) *Lister { return &Lister{q: q} }

// From returns where the rows begin: the query's start or its prefix, whichever is greater.
func (l *Lister) From() Position {
	if l.q.Start.Name < l.q.Prefix {
		return Position{Name: l.q.Prefix, Inclusive: true}
	}
	return l.q.Start
}

// Add adds the next row. skip means that all rows up to next are in the same group, and the backend continues at
// next. done means that the page is complete.
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

// mostObjects is how many objects a Lister allocates at once; they are large.
const mostObjects = 128

// AddGroup is Add for a backend that knows only the next name. If it returns neither grouped nor done, Add needs the
// row.
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

// isFull reports whether the entry for name no longer fits. The next page then starts there.
func (l *Lister) isFull(name string) bool {
	if len(l.page.Entries) < l.q.Limit && (l.q.Bytes <= 0 || l.bytes < l.q.Bytes) {
		return false
	}
	l.page.More = true
	l.page.Next = Position{Name: name, Inclusive: true}
	return true
}

// IsComplete reports whether Add reached the end of the page. A backend that cannot stop must not call Add again.
func (l *Lister) IsComplete() bool { return l.page.More }

// Page returns the finished page.
func (l *Lister) Page() Page { return l.page }

// Successor returns the smallest string, by bytes, above every string with the prefix, or false. It increments the
// last character that can be incremented, so valid UTF-8 stays valid, as PostgreSQL requires.
func Successor(prefix string) (string, bool) {
	for prefix != "" {
		r, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xd7ff: // surrogates follow
			r = 0xdfff
		}
		return prefix + string(r+1), true
	}
	return "", false
}
