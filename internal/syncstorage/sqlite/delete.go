package sqlite

import (
	"context"
	"slices"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// DeleteBSO implements syncstorage.Store.
func (s *Store) DeleteBSO(ctx context.Context, o ss.Owner, w ss.Write, id string) (written ss.Written, err error) {
	err = s.write(ctx, call{name: "sync.delete_bso", owner: o}, w, func(st *writeState) error {
		old, err := st.lookUp(id)
		if err != nil {
			return err
		}
		if !old.live(st.stamp) {
			return errcode.New(errcode.NotFound, "record not found")
		}
		if err := w.If.Check(old.Modified); err != nil {
			return err
		}
		st.planRemoval(&old)
		return st.quota()
	}, func(st *writeState) error {
		if err := st.apply(); err != nil {
			return err
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

// DeleteBSOs implements syncstorage.Store.
func (s *Store) DeleteBSOs(ctx context.Context, o ss.Owner, w ss.Write, ids []string) (written ss.Written, err error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	slices.Reverse(ids)
	err = s.write(ctx, call{name: "sync.delete_bsos", owner: o}, w, func(st *writeState) error {
		if err := w.If.Check(st.found.Modified); err != nil || st.found.Modified == 0 {
			return err
		}
		old, err := st.lookUpAll(len(ids), func(i int) string { return ids[i] })
		if err != nil {
			return err
		}
		for i := range old {
			if old[i].row != 0 {
				st.planRemoval(&old[i])
			}
		}
		return st.quota()
	}, func(st *writeState) error {
		if st.found.Modified == 0 {
			written = ss.Written{Modified: st.last}
			return nil
		}
		if err := st.apply(); err != nil {
			return err
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

// DeleteCollection implements syncstorage.Store.
func (s *Store) DeleteCollection(ctx context.Context, o ss.Owner, w ss.Write) (written ss.Written, err error) {
	err = s.write(ctx, call{name: "sync.delete_collection", owner: o, large: true}, w, func(st *writeState) error {
		return w.If.Check(st.found.Modified)
	}, func(st *writeState) error {
		written = ss.Written{Modified: st.last}
		if !st.found.Row {
			return nil
		}
		if err := sqlitedb.Exec(st.c, sqlDeleteCollection, st.user, st.coll); err != nil {
			return err
		}
		if st.found.Modified == 0 {
			return nil
		}
		written = ss.Written{Modified: st.stamp, Previous: st.found.Modified}
		return st.setUser()
	})
	return written, err
}

// DeleteAll implements syncstorage.Store.
func (s *Store) DeleteAll(ctx context.Context, o ss.Owner, p ss.Precondition) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	return s.db.WriteAlone(ctx, "sync.delete_all", func(c *sqlite.Conn) error {
		user, _, err := sqlitedb.QueryRow(c, sqlUserCollection, scanCollection, o.UID, ss.TombstoneID)
		if err != nil {
			return err
		}
		if err := p.Check(user.Modified); err != nil {
			return err
		}
		for _, sql := range []string{sqlDeleteUserData, sqlDeleteUser, sqlForgetStamp} {
			if err := sqlitedb.Exec(c, sql, o.UID); err != nil {
				return err
			}
		}
		return nil
	})
}
