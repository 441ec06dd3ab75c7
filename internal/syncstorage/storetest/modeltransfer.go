package storetest

import (
	"maps"
	"slices"

	ss "holdfast/internal/syncstorage"
)

func (m *model) Total() ss.Total {
	t := ss.Total{Modified: m.last, Counted: true, Quota: m.quota}
	for _, c := range m.collections {
		for _, b := range c.records {
			t.Records++
			t.Bytes += int64(len(b.Payload))
		}
	}
	return t
}

func (m *model) Export(now ss.Timestamp) (all []ss.Exported) {
	for _, name := range slices.Sorted(maps.Keys(m.collections)) {
		c := m.collections[name]
		stamp := ss.CollectionStamp{Name: name, Modified: c.modified}
		all = append(all, ss.Exported{Collection: stamp})
		for _, id := range slices.Sorted(maps.Keys(c.records)) {
			if b, ok := c.live(id, ss.Horizon(now, c.modified)); ok {
				all = append(all, ss.Exported{Collection: stamp, BSO: &b})
			}
		}
	}
	return all
}

func (m *model) Restore(w ss.Write, r ss.Restore) (restored ss.Restored, err error) {
	if err := w.If.Check(m.last); err != nil {
		return restored, err
	}
	old := m.collection(w.Collection)
	horizon := ss.NextStamp(w.Now, m.last)
	c := &modelCollection{max(old.modified, r.Modified), map[string]ss.BSO{}}
	maps.Copy(c.records, old.records)
	for _, b := range r.Records {
		if stored, ok := c.records[b.ID]; ok && b.Keeps(&stored, horizon) {
			restored.Newer++
			continue
		}
		c.records[b.ID] = b
	}
	if restored.Written, err = m.replace(w, c); err != nil {
		return ss.Restored{}, err
	}
	restored.User = m.last
	return restored, nil
}
