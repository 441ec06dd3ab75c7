package postgres

import (
	"context"

	ss "holdfast/internal/syncstorage"
)

// Append implements syncstorage.Store.
func (s *Store) Append(ctx context.Context, o ss.Owner, w ss.Write, b ss.BatchID, create bool, us []ss.Update, limits ss.BatchLimits) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	find := s.lookup
	if create {
		find = func(ctx context.Context, _ string) (int32, error) { return s.resolve(ctx, o, w) }
	}
	coll, err := find(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	c := columnsOf(us)
	expiry := w.Now + ss.Timestamp(ss.BatchLifetime.Milliseconds())
	return s.call(ctx, sqlAppend, w.If, o.UID, coll, string(b), create, moment(expiry),
		c.ids, c.sortindexes, c.payloads, c.ttls, c.sizes, limits.Records, limits.Bytes,
		moment(w.Now), maybe(w.If.ModifiedSince), maybe(w.If.UnmodifiedSince), w.Quota.Collection, w.Quota.User, w.Quota.Enforce)
}

// Commit implements syncstorage.Store.
func (s *Store) Commit(ctx context.Context, o ss.Owner, w ss.Write, b ss.BatchID, us []ss.Update, limits ss.BatchLimits) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.lookup(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	c := columnsOf(us)
	return s.call(ctx, sqlCommit, w.If, o.UID, coll, string(b),
		c.ids, c.sortindexes, c.payloads, c.ttls, c.sizes, limits.Records, limits.Bytes,
		moment(w.Now), maybe(w.If.ModifiedSince), maybe(w.If.UnmodifiedSince), w.Quota.Collection, w.Quota.User, w.Quota.Enforce)
}
