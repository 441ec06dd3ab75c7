//test:unraced the race detector makes it ten times as slow

package storetest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// TestMemory checks that the suite accepts the simplest correct store.
func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Harness {
		return Harness{
			Store: newMemory(),
			Faulty: func(_ testing.TB, fault func(string) error) ss.Store {
				m := newMemory()
				m.fault = fault
				return m
			},
		}
	})
}

type memory struct {
	mu    sync.Mutex
	users map[int64]*model
	names map[string]bool
	own   map[int64]int // number of names added per user
	fault func(point string) error
}

var _ ss.Store = (*memory)(nil)

func newMemory() *memory {
	s := &memory{users: map[int64]*model{}, names: map[string]bool{}, own: map[int64]int{}, fault: func(string) error { return nil }}
	for _, c := range ss.StandardCollections() {
		s.names[c.Name] = true
	}
	return s
}

func (s *memory) step(ctx context.Context, o ss.Owner, fn func(m *model) error) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return errcode.Wrap(errcode.Unavailable, "the caller disconnected", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault("begin"); err != nil {
		return err
	}
	if s.users[o.UID] == nil {
		s.users[o.UID] = newModel()
	}
	return fn(s.users[o.UID])
}

// write is step for a write that may add a name.
func (s *memory) write(ctx context.Context, o ss.Owner, w ss.Write, create bool, fn func(m *model) (ss.Written, error)) (written ss.Written, err error) {
	err = s.step(ctx, o, func(m *model) error {
		fresh := create && !s.names[w.Collection]
		if fresh && s.own[o.UID] >= w.MaxNames {
			return ss.ErrTooManyNames
		}
		if written, err = fn(m); err == nil && fresh {
			s.names[w.Collection] = true
			s.own[o.UID]++
		}
		return err
	})
	return written, err
}

func (s *memory) Collections(ctx context.Context, o ss.Owner) (cs ss.Collections, err error) {
	err = s.step(ctx, o, func(m *model) error { cs = m.Collections(); return nil })
	return cs, err
}

func (s *memory) Usage(ctx context.Context, o ss.Owner, now ss.Timestamp) (u ss.Usage, err error) {
	err = s.step(ctx, o, func(m *model) error { u = m.Usage(now); return nil })
	return u, err
}

func (s *memory) Get(ctx context.Context, o ss.Owner, r ss.Request, id string) (b ss.BSO, err error) {
	err = s.step(ctx, o, func(m *model) error { b, err = m.Get(r, id); return err })
	return b, err
}

func (s *memory) List(ctx context.Context, o ss.Owner, q *ss.Query) (l *ss.Listing, err error) {
	err = s.step(ctx, o, func(m *model) error {
		p, err := m.List(q)
		if err != nil {
			return err
		}
		l = ss.NewListing(p.modified, len(p.records), func(yield func(*ss.BSO, error) bool) {
			for _, r := range p.records {
				if !yield(&ss.BSO{ID: r.id, SortIndex: r.index, Payload: []byte(r.payload), Modified: r.modified}, nil) {
					return
				}
			}
		}, nil)
		if p.more {
			l.ContinueAfter(p.next)
		}
		return nil
	})
	return l, err
}

func (s *memory) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (ss.Written, error) {
	us := cloned([]ss.Update{u})
	return s.write(ctx, o, w, true, func(m *model) (ss.Written, error) { return m.Put(w, us[0]) })
}

func (s *memory) Post(ctx context.Context, o ss.Owner, w ss.Write, us []ss.Update) (ss.Written, error) {
	us = cloned(us)
	return s.write(ctx, o, w, true, func(m *model) (ss.Written, error) { return m.Post(w, us) })
}

func (s *memory) Append(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (ss.Written, error) {
	p.Updates = cloned(p.Updates)
	return s.write(ctx, o, w, p.Opens, func(m *model) (ss.Written, error) { return m.Append(w, p) })
}

func (s *memory) Commit(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (ss.Written, error) {
	p.Updates = cloned(p.Updates)
	return s.write(ctx, o, w, false, func(m *model) (ss.Written, error) { return m.Commit(w, p) })
}

func (s *memory) DeleteBSO(ctx context.Context, o ss.Owner, w ss.Write, id string) (ss.Written, error) {
	return s.write(ctx, o, w, false, func(m *model) (ss.Written, error) { return m.DeleteBSO(w, id) })
}

func (s *memory) DeleteBSOs(ctx context.Context, o ss.Owner, w ss.Write, ids []string) (ss.Written, error) {
	return s.write(ctx, o, w, false, func(m *model) (ss.Written, error) { return m.DeleteBSOs(w, ids) })
}

func (s *memory) DeleteCollection(ctx context.Context, o ss.Owner, w ss.Write) (ss.Written, error) {
	return s.write(ctx, o, w, false, func(m *model) (ss.Written, error) { return m.DeleteCollection(w) })
}

func (s *memory) DeleteAll(ctx context.Context, o ss.Owner, p ss.Precondition) error {
	return s.step(ctx, o, func(m *model) error { return m.DeleteAll(p) })
}

func (s *memory) Totals(ctx context.Context, owners []ss.Owner) ([]ss.Total, error) {
	totals := make([]ss.Total, len(owners))
	for i, o := range owners {
		if err := s.step(ctx, o, func(m *model) error { totals[i] = m.Total(); return nil }); err != nil {
			return nil, err
		}
	}
	return totals, nil
}

func (s *memory) Owners(_ context.Context, after ss.Owner, n int) (all []ss.Owner, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(s.users)) {
		if uid > after.UID && len(all) < n && len(s.users[uid].Collections().Stamps) > 0 {
			all = append(all, ss.Owner{UID: uid})
		}
	}
	return all, nil
}

func (s *memory) SetQuota(ctx context.Context, o ss.Owner, bytes ss.Optional[int64]) error {
	return s.step(ctx, o, func(m *model) error {
		if err := ss.CheckOwnQuota(bytes); err != nil {
			return err
		}
		m.quota = bytes
		return nil
	})
}

func (s *memory) Export(ctx context.Context, o ss.Owner, now ss.Timestamp) iter.Seq2[ss.Exported, error] {
	return func(yield func(ss.Exported, error) bool) {
		var all []ss.Exported
		if err := s.step(ctx, o, func(m *model) error { all = m.Export(now); return nil }); err != nil {
			yield(ss.Exported{}, err)
			return
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *memory) Restore(ctx context.Context, o ss.Owner, w ss.Write, r ss.Restore) (restored ss.Restored, err error) {
	_, err = s.write(ctx, o, w, true, func(m *model) (ss.Written, error) {
		restored, err = m.Restore(w, r)
		return restored.Written, err
	})
	return restored, err
}

func (s *memory) Sweep(ctx context.Context, now ss.Timestamp, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fault("begin"); err != nil {
		return 0, err
	}
	n := 0
	for _, m := range s.users {
		for _, c := range m.collections {
			for id, b := range c.records {
				if n < limit && !b.Live(now) {
					delete(c.records, id)
					n++
				}
			}
		}
		for id, b := range m.batches {
			if n < limit && b.expiry <= now {
				delete(m.batches, id)
				n++
			}
		}
	}
	return n, nil
}

func (s *memory) EndBatches(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.users {
		for _, b := range m.batches {
			b.expiry = 0
		}
	}
	return nil
}

func (s *memory) Ping(context.Context) error { return nil }

func cloned(us []ss.Update) []ss.Update {
	us = append([]ss.Update(nil), us...)
	for i := range us {
		if us[i].Payload.Set {
			us[i].Payload.Value = append([]byte(nil), us[i].Payload.Value...)
		}
	}
	return us
}
