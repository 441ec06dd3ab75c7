package postgres

import (
	"context"

	ss "holdfast/internal/syncstorage"
)

// delete runs a deletion in a collection. If the collection's name is unknown, the
// result is the user's stamp, which may be from a concurrent write that created the
// name. Then it runs again.
func (s *Store) delete(ctx context.Context, name string, run func(coll int32) (ss.Written, error)) (ss.Written, error) {
	for {
		coll, err := s.lookup(ctx, name)
		if err != nil {
			return ss.Written{}, err
		}
		written, err := run(coll)
		if err != nil || coll != unknown {
			return written, err
		}
		if coll, err = s.lookup(ctx, name); err != nil || coll == unknown {
			return written, err
		}
	}
}

// DeleteBSO implements syncstorage.Store.
func (s *Store) DeleteBSO(ctx context.Context, o ss.Owner, w ss.Write, id string) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	return s.delete(ctx, w.Collection, func(coll int32) (ss.Written, error) {
		a := callArgsOf(6, o, coll)
		a.Text(id)
		a.condition(&w)
		return s.call(ctx, sqlDeleteBSO, w.If, a)
	})
}

// DeleteBSOs implements syncstorage.Store.
func (s *Store) DeleteBSOs(ctx context.Context, o ss.Owner, w ss.Write, ids []string) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	return s.delete(ctx, w.Collection, func(coll int32) (ss.Written, error) {
		a := callArgsOf(6, o, coll)
		a.Texts(len(ids), func(i int) string { return ids[i] })
		a.condition(&w)
		return s.call(ctx, sqlDeleteBSOs, w.If, a)
	})
}

// DeleteCollection implements syncstorage.Store.
func (s *Store) DeleteCollection(ctx context.Context, o ss.Owner, w ss.Write) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	return s.delete(ctx, w.Collection, func(coll int32) (ss.Written, error) {
		a := callArgsOf(5, o, coll)
		a.condition(&w)
		return s.call(ctx, sqlDeleteCollection, w.If, a)
	})
}

// DeleteAll implements syncstorage.Store.
func (s *Store) DeleteAll(ctx context.Context, o ss.Owner, p ss.Precondition) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	var a callArgs
	a.Bigint(o.UID)
	a.stamp(p.ModifiedSince)
	a.stamp(p.UnmodifiedSince)
	_, err := s.call(ctx, sqlDeleteAll, p, &a)
	return err
}
