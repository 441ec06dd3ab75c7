package postgres

import (
	"context"

	ext "holdfast/internal/extstorage"
)

// Reclaim implements extstorage.Store.
func (s *Store) Reclaim(ctx context.Context, o ext.Owner, at ext.Moment, limit int) (n int, err error) {
	if err := o.Check(); err != nil {
		return 0, err
	}
	_, err = s.db.One(ctx, sqlReclaim, []any{string(o.Tenant), string(o.Install), now(at), int64(limit)}, &n)
	return n, err
}

// Sweep implements extstorage.Store. Every install is a transaction of its own,
// under the install's lock, so a sweep stands in nobody's way for long and never
// holds two locks.
func (s *Store) Sweep(ctx context.Context, at ext.Moment, limit int) (swept int, err error) {
	var (
		due              []ext.Owner
		o                ext.Owner
		changes, answers = before(at, ext.ChangesKept), before(at, ext.AnswersKept)
	)
	err = s.db.Each(ctx, sqlDue, []any{now(at), changes, answers, int64(limit)}, func() { due = nil }, func() error {
		due = append(due, o)
		return nil
	}, &o.Tenant, &o.Install)
	if err != nil {
		return 0, err
	}
	for _, o := range due {
		if swept >= limit {
			break
		}
		var n int
		if _, err := s.db.One(ctx, sqlSweep,
			[]any{string(o.Tenant), string(o.Install), now(at), changes, answers, int64(limit - swept)}, &n); err != nil {
			return swept, err
		}
		swept += n
	}
	return swept, nil
}
