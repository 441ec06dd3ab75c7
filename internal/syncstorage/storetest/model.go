package storetest

import (
	"maps"
	"slices"
	"strings"

	ss "holdfast/internal/syncstorage"
)

// model implements the Store contract for a user with maps: slow, simple, and not safe for concurrent use.
type model struct {
	last        ss.Timestamp
	collections map[string]*modelCollection
	batches     map[ss.BatchID]*modelBatch
	quota       ss.Optional[int64]
}

type modelCollection struct {
	modified ss.Timestamp
	records  map[string]ss.BSO
}

type modelBatch struct {
	collection string
	expiry     ss.Timestamp
	records    map[string]ss.Update
}

func newModel() *model {
	return &model{collections: map[string]*modelCollection{}, batches: map[ss.BatchID]*modelBatch{}}
}

func (m *model) collection(name string) *modelCollection {
	if c := m.collections[name]; c != nil {
		return c
	}
	return &modelCollection{}
}

func (c *modelCollection) live(id string, horizon ss.Timestamp) (ss.BSO, bool) {
	b, ok := c.records[id]
	return b, ok && b.Live(horizon)
}

func (c *modelCollection) usage(now ss.Timestamp) (u ss.Delta) {
	for _, b := range c.records {
		if b.Live(ss.Horizon(now, c.modified)) {
			u = u.Add(ss.Delta{Records: 1, Bytes: int64(len(b.Payload))})
		}
	}
	return u
}

func (m *model) Collections() ss.Collections {
	cs := ss.Collections{Modified: m.last}
	for _, name := range slices.Sorted(maps.Keys(m.collections)) {
		cs.Stamps = append(cs.Stamps, ss.CollectionStamp{Name: name, Modified: m.collections[name].modified})
	}
	return cs
}

func (m *model) Usage(now ss.Timestamp) ss.Usage {
	us := ss.Usage{Modified: m.last, Quota: m.quota}
	for _, name := range slices.Sorted(maps.Keys(m.collections)) {
		u := m.collections[name].usage(now)
		us.Collections = append(us.Collections, ss.CollectionUsage{Name: name, Records: u.Records, Bytes: u.Bytes})
	}
	return us
}

func (m *model) Get(r ss.Request, id string) (ss.BSO, error) {
	c := m.collection(r.Collection)
	b, ok := c.live(id, ss.Horizon(r.Now, c.modified))
	if !ok {
		return ss.BSO{}, errNotFound
	}
	return b, r.If.Check(b.Modified)
}

func (m *model) List(q *ss.Query) (page, error) {
	c := m.collection(q.Collection)
	if err := q.If.Check(c.modified); err != nil {
		return page{}, err
	}
	var found []ss.BSO
	for id, b := range c.records {
		if b.Live(ss.Horizon(q.Now, c.modified)) && (q.IDs == nil || slices.Contains(q.IDs, id)) &&
			(!q.Newer.Set || b.Modified > q.Newer.Value) && (!q.Older.Set || b.Modified < q.Older.Value) &&
			(!q.Offset.After || inOrder(q.Sort, behind(q.Offset), b) < 0) {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b ss.BSO) int { return inOrder(q.Sort, a, b) })
	if !q.Offset.After {
		found = found[min(q.Offset.Skip, len(found)):]
	}
	p := page{modified: c.modified}
	if q.Limit.Set && q.Limit.Value < len(found) {
		found, p.more, p.next = found[:q.Limit.Value], true, q.Offset
	}
	for i := range found {
		r := recordOf(&found[i])
		r.expiry = 0
		if !q.Full {
			r = record{id: r.id}
		}
		p.records = append(p.records, r)
	}
	if p.more && len(found) > 0 {
		p.next = ss.OffsetAfter(q.Sort, &found[len(found)-1])
	}
	return p, nil
}

func behind(o ss.Offset) ss.BSO {
	return ss.BSO{ID: o.ID, Modified: o.Modified, SortIndex: o.SortIndex}
}

func inOrder(s ss.Sort, a, b ss.BSO) int {
	key := func(r ss.BSO) int64 {
		switch {
		case s != ss.ByIndex:
			return int64(r.Modified)
		case r.SortIndex.Set:
			return r.SortIndex.Value
		}
		return -1 << 62
	}
	n := strings.Compare(a.ID, b.ID)
	switch {
	case key(a) < key(b):
		n = -1
	case key(a) > key(b):
		n = 1
	}
	if s != ss.Oldest {
		n = -n
	}
	return n
}
