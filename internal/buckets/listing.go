package buckets

import (
	"strings"
	"unicode/utf8"
)

// MaxPage is the maximum number of entries on a page.
const MaxPage = 1024

// Position is where a list begins.
type Position struct {
	Name      string
	Inclusive bool // start at the name instead of after it
}

// Query selects a page of a bucket's objects by name. With a delimiter, names that are equal up to its first
// occurrence after the prefix form a group, which counts as one entry.
type Query struct {
	Prefix    string   // "" for all names
	Delimiter string   // empty for no groups
	Start     Position // zero for the first name
	Limit     int      // entries, at most MaxPage

	// Metadata also reads Headers, Roles and Sharks, which may be newer than the rest.
	Metadata bool

	// Bytes, if positive, limits the page's memory. A page has at least one entry.
	Bytes int
}

// Entry is an object or a group (S3's common prefix).
type Entry struct {
	Group  string  // if set, Object is nil
	Object *Object // without Inline; Headers, Roles and Sharks only with Query.Metadata
}

// Name returns the group or the object name. It is the marker that continues a list after this entry.
func (e *Entry) Name() string {
	if e.Group != "" {
		return e.Group
	}
	return e.Object.Name
}

// Memory estimates the size in bytes.
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

// Sizes without strings, in bytes.
const (
	entryMemory  = 32
	objectMemory = 400 // struct, row and slice headers
	tagMemory    = 64

	// MaxEntry is the size of an entry whose strings have the maximum length.
	MaxEntry = 40 << 10
)

// Page is a slice from a list.
type Page struct {
	Entries []Entry
	More    bool     // there are entries from Next on
	Next    Position // where the next page starts; zero without More
}

// Long lists are read in slices to limit memory.
const (
	// FirstSlice is the number of entries in the first slice. PostgreSQL reads as many rows as requested.
	FirstSlice = 500

	// SliceBytes fits about 500 entries with short names.
	SliceBytes = 256 << 10

	// SliceMemory is reserved per slice. It covers SliceBytes, one more entry and spare capacity.
	SliceMemory = SliceBytes + MaxEntry + 64<<10
)

// PerSlice estimates how many entries fit a slice. p must not be empty.
func (p *Page) PerSlice() int {
	size := 0
	for i := range p.Entries {
		size += p.Entries[i].Memory()
	}
	return 1 + SliceBytes*len(p.Entries)/size
}

// Starting returns a query that continues after an object name or group.
func (q Query) Starting(marker string) Query {
	q.Start = Position{Name: marker}
	if group, ok := q.GroupOf(marker); ok && group == marker {
		q.Start = q.after(group)
	}
	return q
}

// GroupOf returns ok = false if the name is in no group.
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

// after returns where rows after a group begin. With no greater name, it returns a position beyond all names.
func (q *Query) after(group string) Position {
	next, ok := Successor(group)
	if !ok { // there is no greater valid name
		return Position{Name: strings.Repeat(string(utf8.MaxRune), MaxObjectName/utf8.UTFMax+1)}
	}
	return Position{Name: next, Inclusive: true}
}

// Lister builds a page from ordered rows, which begin at From. The backend skips to the positions that Add returns. The
// page keeps the maps and slices of added objects. A Lister is not safe for concurrent use, like the other listers.
type Lister struct {
	q       Query
	page    Page
	bytes   int
	objects []Object
}

func NewLister(q Query) *Lister { return &Lister{q: q} }

// From returns where rows must begin.
func (l *Lister) From() Position {
	if l.q.Start.Name < l.q.Prefix {
		return Position{Name: l.q.Prefix, Inclusive: true}
	}
	return l.q.Start
}

// Add returns skip if all rows up to next are in the same group, and done if the page is complete.
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

// add appends an entry. Sizes are only computed if a limit needs them.
func (l *Lister) add(e Entry) {
	l.page.Entries = append(l.page.Entries, e)
	if l.q.Bytes > 0 {
		l.bytes += e.Memory()
	}
}

// mostObjects limits how many objects are allocated at once.
const mostObjects = 128

// AddGroup is like Add, but needs only the name. Call Add if it returns neither grouped nor done.
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

// isFull also sets where the next page starts.
func (l *Lister) isFull(name string) bool {
	if len(l.page.Entries) < l.q.Limit && (l.q.Bytes <= 0 || l.bytes < l.q.Bytes) {
		return false
	}
	l.page.More = true
	l.page.Next = Position{Name: name, Inclusive: true}
	return true
}

// IsComplete reports whether the page is full and more entries follow.
func (l *Lister) IsComplete() bool { return l.page.More }

// Page returns the result after the last Add.
func (l *Lister) Page() Page { return l.page }

// Successor returns the smallest string above all strings with the prefix, if any. It is valid UTF-8, as PostgreSQL
// requires.
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
