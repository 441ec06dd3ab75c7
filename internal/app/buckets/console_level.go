package buckets

import (
	"context"
	"strconv"
	"strings"

	"holdfast/internal/buckets"
	"holdfast/internal/errcode"
)

// level lists a folder: its subfolders first, and then its objects. The store returns both in the order of
// their names, so the subfolders are looked for before the page's objects, among the first entries. Subfolders
// behind those stand among the objects.
type level struct {
	list  func(buckets.Query) (buckets.Page, error)
	query buckets.Query // prefix and delimiter
	look  int           // entries that are read to find the subfolders
}

// lookedAt is how many entries of a level are read to find its subfolders. Reading them takes some 20 ms.
const lookedAt = 5 * buckets.MaxPage

// position is where a level's page begins. The zero position is its beginning.
type position struct {
	objects bool   // behind the subfolders
	end     string // with objects: subfolders up to this name were on earlier pages; "": all were
	after   string // the last name of the page before, or ""
}

// String returns the text for a link to the page; parsePosition reads it. The length separates two names, which may contain
// every character.
func (p position) String() string {
	if !p.objects {
		return "folders," + p.after
	}
	return "objects," + strconv.Itoa(len(p.end)) + "," + p.end + p.after
}

var errPosition = errcode.New(errcode.Invalid, "After: expected the end of a page, as in the link to the next page")

// parsePosition parses the text from String; "" is the beginning.
func parsePosition(s string) (p position, err error) {
	if s == "" {
		return p, nil
	}
	kind, rest, _ := strings.Cut(s, ",")
	switch kind {
	case "folders":
		p.after = rest
		return p, nil
	case "objects":
		size, names, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n > len(names) {
			return p, errPosition
		}
		return position{true, names[:n], names[n:]}, nil
	}
	return p, errPosition
}

// page returns up to limit entries from a position, and the position of the next page, or nil.
func (l *level) page(from position, limit int) (entries []buckets.Entry, next *position, err error) {
	if !from.objects {
		var more bool
		if entries, from.end, more, err = l.folders(from.after, limit); err != nil {
			return nil, nil, err
		}
		if more {
			return entries, &position{after: entries[len(entries)-1].Group}, nil
		}
		from.objects, from.after = true, ""
	}
	q := l.query
	if from.after != "" {
		q = q.Starting(from.after)
	}
	for len(entries) < limit {
		q.Limit = limit
		page, err := l.list(q)
		if err != nil {
			return nil, nil, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if e.Group != "" && (from.end == "" || e.Group <= from.end) {
				continue
			}
			if len(entries) == limit {
				return entries, &position{true, from.end, entries[limit-1].Name()}, nil
			}
			entries = append(entries, *e)
		}
		if !page.More {
			return entries, nil, nil
		}
		q = q.Starting(page.Entries[len(page.Entries)-1].Name())
	}
	last := from.after
	if e := &entries[limit-1]; e.Object != nil || from.end != "" && e.Group > from.end {
		last = e.Name()
	}
	return entries, &position{true, from.end, last}, nil
}

// folders returns up to limit subfolders after a name, and whether there are more. If it stopped looking, end is the last
// name that it saw.
func (l *level) folders(after string, limit int) (found []buckets.Entry, end string, more bool, err error) {
	q := l.query
	if after != "" {
		q = q.Starting(after)
	}
	for seen := 0; ; {
		q.Limit = min(buckets.MaxPage, l.look)
		page, err := l.list(q)
		if err != nil {
			return nil, "", false, err
		}
		for i := range page.Entries {
			if page.Entries[i].Group == "" {
				continue
			}
			if len(found) == limit {
				return found, "", true, nil
			}
			found = append(found, page.Entries[i])
		}
		if !page.More {
			return found, "", false, nil
		}
		last := page.Entries[len(page.Entries)-1].Name()
		if seen += len(page.Entries); seen >= l.look {
			return found, last, false, nil
		}
		q = q.Starting(last)
	}
}

// listLevel returns a page of a bucket's folder.
func (s *Buckets) listLevel(ctx context.Context, a buckets.Account, b buckets.Bucket, prefix, after string) (entries []buckets.Entry, next string, err error) {
	from, err := parsePosition(after)
	if err != nil {
		return nil, "", err
	}
	l := &level{look: lookedAt, query: buckets.Query{Prefix: prefix, Delimiter: "/"}, list: func(q buckets.Query) (buckets.Page, error) { return s.opened.List(ctx, a.ID, b.ID, q) }}
	entries, to, err := l.page(from, consoleRows)
	if to != nil {
		next = to.String()
	}
	return entries, next, err
}
