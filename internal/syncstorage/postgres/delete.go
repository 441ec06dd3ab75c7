package postgres

import (
	"context"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
)

// delete returns the user's stamp for an unknown name. If a concurrent write created the name and made that stamp,
// delete runs again.
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
		return s.call(ctx, sqlDeleteBSO.Statement, w.If, sqlDeleteBSO.Args(deleteBSO{target{o, coll, w}, id}))
	})
}

// DeleteBSOs implements syncstorage.Store.
func (s *Store) DeleteBSOs(ctx context.Context, o ss.Owner, w ss.Write, ids []string) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	return s.delete(ctx, w.Collection, func(coll int32) (ss.Written, error) {
		return s.call(ctx, sqlDeleteBSOs.Statement, w.If, sqlDeleteBSOs.Args(deleteBSOs{target{o, coll, w}, ids}))
	})
}

// DeleteCollection implements syncstorage.Store.
func (s *Store) DeleteCollection(ctx context.Context, o ss.Owner, w ss.Write) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	return s.delete(ctx, w.Collection, func(coll int32) (ss.Written, error) {
		return s.call(ctx, sqlDeleteCollection.Statement, w.If, sqlDeleteCollection.Args(target{o, coll, w}))
	})
}

// DeleteAll implements syncstorage.Store.
func (s *Store) DeleteAll(ctx context.Context, o ss.Owner, p ss.Precondition) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	_, err := s.call(ctx, sqlDeleteAll.Statement, p, sqlDeleteAll.Args(deleteAll{o, p}))
	return err
}

type deleteBSO struct {
	target
	id string
}

// write encodes the parameters in binary.
func (d deleteBSO) write(a *pgdb.Args) {
	d.collection(a)
	a.Text("p_id", d.id)
	d.condition(a)
}

type deleteBSOs struct {
	target
	ids []string
}

// write encodes the parameters in binary.
func (d deleteBSOs) write(a *pgdb.Args) {
	d.collection(a)
	a.Texts("p_ids", len(d.ids), func(i int) string { return d.ids[i] })
	d.condition(a)
}

type deleteAll struct {
	owner ss.Owner
	when  ss.Precondition
}

// write encodes the parameters in binary.
func (d deleteAll) write(a *pgdb.Args) {
	a.Bigint("p_user", d.owner.UID)
	precondition(a, d.when)
}
