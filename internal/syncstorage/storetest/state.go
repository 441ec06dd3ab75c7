package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	ss "holdfast/internal/syncstorage"
)

type record struct {
	id       string
	index    ss.Optional[int64]
	payload  string
	modified ss.Timestamp
	expiry   ss.Timestamp
}

func recordOf(b *ss.BSO) record {
	return record{b.ID, b.SortIndex, string(b.Payload), b.Modified, b.Expiry}
}

func (r record) String() string {
	payload := r.payload
	if len(payload) > 40 {
		payload = fmt.Sprintf("%s… (%d bytes)", payload[:40], len(payload))
	}
	index := "none"
	if r.index.Set {
		index = fmt.Sprint(r.index.Value)
	}
	return fmt.Sprintf("{%q index %s payload %q modified %v expiry %v}", r.id, index, payload, r.modified, r.expiry)
}

type page struct {
	modified ss.Timestamp
	records  []record
	next     ss.Offset
	more     bool
}

func readPage(l *ss.Listing) (page, error) {
	defer l.Close()
	p := page{modified: l.Modified, next: l.Next, more: l.More}
	for b, err := range l.Items {
		if err != nil {
			return p, err
		}
		r := recordOf(b)
		r.expiry = 0
		p.records = append(p.records, r)
	}
	if len(p.records) != l.Records {
		return p, fmt.Errorf("the listing has Records = %d and yielded %d", l.Records, len(p.records))
	}
	return p, nil
}

func (p page) ids() []string {
	ids := []string{}
	for _, r := range p.records {
		ids = append(ids, r.id)
	}
	return ids
}

type state struct {
	modified    ss.Timestamp
	collections map[string]collectionState
}

type collectionState struct {
	modified       ss.Timestamp
	records, bytes int64
	list           []record
}

func (s state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "modified %v", s.modified)
	for _, name := range slices.Sorted(maps.Keys(s.collections)) {
		c := s.collections[name]
		fmt.Fprintf(&b, "\n  %s modified %v, %d records, %d bytes: %v", name, c.modified, c.records, c.bytes, c.list)
	}
	return b.String()
}

func (s state) equal(o state) bool {
	return s.modified == o.modified && maps.EqualFunc(s.collections, o.collections, func(a, b collectionState) bool {
		return a.modified == b.modified && a.records == b.records && a.bytes == b.bytes && slices.Equal(a.list, b.list)
	})
}

func (u *user) state() state {
	u.t.Helper()
	cs, usage := u.collections(), u.usage()
	s := state{modified: cs.Modified, collections: map[string]collectionState{}}
	equal(u.t, "the stamp that Usage has of the user", usage.Modified, cs.Modified)
	for _, c := range cs.Stamps {
		if _, twice := s.collections[c.Name]; twice {
			u.t.Errorf("Collections lists %q twice", c.Name)
		}
		if c.Modified > cs.Modified || c.Modified <= 0 {
			u.t.Errorf("%s was modified at %v, the user at %v", c.Name, c.Modified, cs.Modified)
		}
		l := u.list(c.Name)
		equal(u.t, "the stamp that List has of "+c.Name, l.modified, c.Modified)
		s.collections[c.Name] = collectionState{modified: c.Modified, list: l.records}
	}
	equal(u.t, "collections that Usage counts", len(usage.Collections), len(cs.Stamps))
	for _, c := range usage.Collections {
		sh, ok := s.collections[c.Name]
		if !ok {
			u.t.Errorf("Usage counts %q, which Collections does not list", c.Name)
		}
		sh.records, sh.bytes = c.Records, c.Bytes
		var sum int64
		for _, r := range sh.list {
			sum += int64(len(r.payload))
		}
		equal(u.t, "the count of records in "+c.Name, c.Records, int64(len(sh.list)))
		equal(u.t, "the count of bytes in "+c.Name, c.Bytes, sum)
		s.collections[c.Name] = sh
	}
	return s
}

func (u *user) wantState(after string, want state) {
	u.t.Helper()
	if got := u.state(); !got.equal(want) {
		u.t.Errorf("after %s the user has\n%v\nwant\n%v", after, got, want)
	}
}

func equalIDs(t tb, what string, got page, want ...string) {
	t.Helper()
	if !slices.Equal(got.ids(), want) {
		t.Errorf("%s: %q, want %q", what, got.ids(), want)
	}
}

func wantError(t tb, step string, err, want error) {
	t.Helper()
	if !sameError(err, want) {
		t.Errorf("%s: %v, want %v", step, err, want)
	}
}
