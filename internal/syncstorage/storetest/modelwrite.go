package storetest

import (
	"maps"

	ss "holdfast/internal/syncstorage"
)

func (m *model) used(collection string, now ss.Timestamp) ss.Used {
	return ss.Used{Collection: m.collection(collection).usage(now).Bytes, User: m.Usage(now).Bytes()}
}

func (m *model) merged(name string, us map[string]ss.Update, stamp ss.Timestamp, mode ss.MergeMode) *modelCollection {
	c := &modelCollection{stamp, map[string]ss.BSO{}}
	maps.Copy(c.records, m.collection(name).records)
	for id, u := range us {
		var old *ss.BSO
		if b, ok := c.records[id]; ok {
			old = &b
		}
		c.records[id], _ = ss.Merge(old, &u, stamp, mode)
	}
	return c
}

func (m *model) replace(w ss.Write, c *modelCollection) (ss.Written, error) {
	old := m.collection(w.Collection)
	before := m.used(w.Collection, w.Now)
	used := before.Add(c.usage(w.Now).Bytes - before.Collection)
	quota := w.Quota.For(m.quota)
	if err := quota.Check(before, used); err != nil {
		return ss.Written{}, err
	}
	m.collections[w.Collection], m.last = c, max(m.last, c.modified)
	return ss.Written{Modified: c.modified, Previous: old.modified, Used: used, Quota: quota}, nil
}

func (m *model) Put(w ss.Write, u ss.Update) (ss.Written, error) {
	stamp := ss.NextStamp(w.Now, m.last)
	var modified ss.Timestamp
	if b, ok := m.collection(w.Collection).live(u.ID, stamp); ok {
		modified = b.Modified
	}
	if err := w.If.Check(modified); err != nil {
		return ss.Written{}, err
	}
	return m.replace(w, m.merged(w.Collection, map[string]ss.Update{u.ID: u}, stamp, ss.Direct))
}

func (m *model) Post(w ss.Write, us []ss.Update) (ss.Written, error) {
	if err := w.If.Check(m.collection(w.Collection).modified); err != nil {
		return ss.Written{}, err
	}
	return m.replace(w, m.merged(w.Collection, staged(nil, us), ss.NextStamp(w.Now, m.last), ss.Direct))
}

func staged(old map[string]ss.Update, us []ss.Update) map[string]ss.Update {
	all := map[string]ss.Update{}
	maps.Copy(all, old)
	for _, u := range us {
		if before, ok := all[u.ID]; ok {
			u = ss.Stage(&before, u)
		}
		all[u.ID] = u
	}
	return all
}

func totals(us map[string]ss.Update) ss.Delta {
	d := ss.Delta{Records: int64(len(us))}
	for _, u := range us {
		d.Bytes += int64(len(u.Payload.Value))
	}
	return d
}

func (m *model) batch(w ss.Write, p ss.BatchPart) (*modelBatch, error) {
	if err := w.If.Check(m.collection(w.Collection).modified); err != nil {
		return nil, err
	}
	b := m.batches[p.ID]
	if b == nil || b.collection != w.Collection || b.expiry <= w.Now {
		return nil, ss.ErrNoBatch
	}
	after := &modelBatch{b.collection, b.expiry, staged(b.records, p.Updates)}
	return after, p.Limits.Check(totals(after.records))
}

// Append checks the quota as if the batch were committed now.
func (m *model) Append(w ss.Write, p ss.BatchPart) (ss.Written, error) {
	if p.Opens {
		m.batches[p.ID] = &modelBatch{w.Collection, w.Now + ss.Timestamp(ss.BatchLifetime.Milliseconds()), nil}
	}
	b, err := m.batch(w, p)
	if err == nil {
		stamp := ss.NextStamp(w.Now, m.last)
		used := func(us map[string]ss.Update) ss.Used {
			now := m.used(w.Collection, w.Now)
			return now.Add(m.merged(w.Collection, us, stamp, ss.FromBatch).usage(w.Now).Bytes - now.Collection)
		}
		before, after := used(m.batches[p.ID].records), used(b.records)
		if err = w.Quota.For(m.quota).Check(before, after); err == nil {
			m.batches[p.ID] = b
			modified := m.collection(w.Collection).modified
			return ss.Written{Modified: modified, Previous: modified, Used: after, Quota: w.Quota.For(m.quota)}, nil
		}
	}
	if p.Opens {
		delete(m.batches, p.ID)
	}
	return ss.Written{}, err
}

func (m *model) Commit(w ss.Write, p ss.BatchPart) (ss.Written, error) {
	b, err := m.batch(w, p)
	if err != nil {
		return ss.Written{}, err
	}
	written, err := m.replace(w, m.merged(w.Collection, b.records, ss.NextStamp(w.Now, m.last), ss.FromBatch))
	if err == nil {
		delete(m.batches, p.ID)
	}
	return written, err
}

func (m *model) DeleteBSO(w ss.Write, id string) (ss.Written, error) {
	b, ok := m.collection(w.Collection).live(id, ss.NextStamp(w.Now, m.last))
	if !ok {
		return ss.Written{}, errNotFound
	}
	if err := w.If.Check(b.Modified); err != nil {
		return ss.Written{}, err
	}
	return m.without(w, []string{id})
}

func (m *model) DeleteBSOs(w ss.Write, ids []string) (ss.Written, error) {
	if err := w.If.Check(m.collection(w.Collection).modified); err != nil {
		return ss.Written{}, err
	}
	if m.collections[w.Collection] == nil {
		return ss.Written{Modified: m.last}, nil
	}
	return m.without(w, ids)
}

func (m *model) without(w ss.Write, ids []string) (ss.Written, error) {
	c := m.merged(w.Collection, nil, ss.NextStamp(w.Now, m.last), ss.Direct)
	for _, id := range ids {
		delete(c.records, id)
	}
	return m.replace(w, c)
}

func (m *model) DeleteCollection(w ss.Write) (ss.Written, error) {
	c := m.collection(w.Collection)
	if err := w.If.Check(c.modified); err != nil {
		return ss.Written{}, err
	}
	maps.DeleteFunc(m.batches, func(_ ss.BatchID, b *modelBatch) bool { return b.collection == w.Collection })
	if m.collections[w.Collection] != nil {
		m.last = ss.NextStamp(w.Now, m.last)
		delete(m.collections, w.Collection)
	}
	return ss.Written{Modified: m.last, Previous: c.modified}, nil
}

func (m *model) DeleteAll(p ss.Precondition) error {
	if err := p.Check(m.last); err != nil {
		return err
	}
	quota := m.quota
	*m = *newModel()
	m.quota = quota
	return nil
}

// Sweep removes everything due, without a limit.
func (m *model) Sweep(now ss.Timestamp) (records, batches int) {
	for _, c := range m.collections {
		n := len(c.records)
		maps.DeleteFunc(c.records, func(_ string, b ss.BSO) bool { return !b.Live(now) })
		records += n - len(c.records)
	}
	n := len(m.batches)
	maps.DeleteFunc(m.batches, func(_ ss.BatchID, b *modelBatch) bool { return b.expiry <= now })
	return records, n - len(m.batches)
}
