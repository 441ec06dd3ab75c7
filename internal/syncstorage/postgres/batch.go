package postgres

import (
	"context"

	ss "holdfast/internal/syncstorage"
)

// Append implements syncstorage.Store.
func (s *Store) Append(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	find := s.lookup
	if p.Opens {
		find = func(ctx context.Context, _ string) (int32, error) { return s.resolve(ctx, o, w) }
	}
	coll, err := find(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	a := callArgsOf(19, o, coll)
	a.Text(string(p.ID))
	a.Boolean(p.Opens)
	a.Timestamp((w.Now + ss.Timestamp(ss.BatchLifetime.Milliseconds())).Time())
	a.staged(p.Updates, p.Limits)
	a.condition(&w)
	a.quota(&w)
	return s.store(ctx, sqlAppend, &w, a)
}

// Commit implements syncstorage.Store.
func (s *Store) Commit(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.lookup(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	a := callArgsOf(17, o, coll)
	a.Text(string(p.ID))
	a.staged(p.Updates, p.Limits)
	a.condition(&w)
	a.quota(&w)
	return s.store(ctx, sqlCommit, &w, a)
}

// staged adds the updates and limits of a batch.
func (a *callArgs) staged(us []ss.Update, limits ss.BatchLimits) {
	a.updates(us)
	a.Bigint(limits.Records)
	a.Bigint(limits.Bytes)
}
