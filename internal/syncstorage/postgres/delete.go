package postgres

import (
	"context"

	ss "holdfast/internal/syncstorage"
)

// DeleteBSO implements syncstorage.Store.
func (s *Store) DeleteBSO(ctx context.Context, o ss.Owner, w ss.Write, id string) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.lookup(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	return s.call(ctx, sqlDeleteBSO, w.If, o.UID, coll, id,
		moment(w.Now), maybe(w.If.ModifiedSince), maybe(w.If.UnmodifiedSince), w.Quota.Limit)
}

// DeleteBSOs implements syncstorage.Store.
func (s *Store) DeleteBSOs(ctx context.Context, o ss.Owner, w ss.Write, ids []string) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.lookup(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	return s.call(ctx, sqlDeleteBSOs, w.If, o.UID, coll, ids,
		moment(w.Now), maybe(w.If.ModifiedSince), maybe(w.If.UnmodifiedSince), w.Quota.Limit)
}

// DeleteCollection implements syncstorage.Store.
func (s *Store) DeleteCollection(ctx context.Context, o ss.Owner, w ss.Write) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.lookup(ctx, w.Collection)
	if err != nil {
		return ss.Written{}, err
	}
	return s.call(ctx, sqlDeleteCollection, w.If, o.UID, coll,
		moment(w.Now), maybe(w.If.ModifiedSince), maybe(w.If.UnmodifiedSince), w.Quota.Limit)
}

// DeleteAll implements syncstorage.Store.
func (s *Store) DeleteAll(ctx context.Context, o ss.Owner, p ss.Precondition) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	_, err := s.call(ctx, sqlDeleteAll, p, o.UID, maybe(p.ModifiedSince), maybe(p.UnmodifiedSince))
	return err
}
