package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// DeleteBSO implements syncstorage.Store.
func (s *Store) DeleteBSO(ctx context.Context, o ss.Owner, w ss.Write, id string) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.delete_bso"}, o, w, func(st *step) error {
		old, bytes, err := st.header(id)
		if err != nil {
			return err
		}
		if old == nil || !old.Live(st.stamp) {
			return fault.New(fault.NotFound, "no such record")
		}
		if err := w.If.Check(old.Modified); err != nil {
			return err
		}
		if err := st.remove(old, bytes); err != nil {
			return err
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

func (st *step) remove(b *ss.BSO, bytes int64) error {
	st.delta = st.delta.Add(ss.Delta{Records: -1, Bytes: -bytes})
	if !b.Live(st.stamp) {
		st.expired += bytes
	}
	return sqlitedb.Exec(st.c, sqlDeleteBSO, st.user, st.coll, b.ID)
}

// DeleteBSOs implements syncstorage.Store.
func (s *Store) DeleteBSOs(ctx context.Context, o ss.Owner, w ss.Write, ids []string) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.delete_bsos"}, o, w, func(st *step) error {
		if err := w.If.Check(st.found.Modified); err != nil {
			return err
		}
		if st.found.Modified == 0 {
			written = ss.Written{Modified: st.last}
			return nil
		}
		for _, id := range ids {
			old, bytes, err := st.header(id)
			if err != nil {
				return err
			}
			if old == nil {
				continue
			}
			if err := st.remove(old, bytes); err != nil {
				return err
			}
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

// DeleteCollection implements syncstorage.Store.
func (s *Store) DeleteCollection(ctx context.Context, o ss.Owner, w ss.Write) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.delete_collection", large: true}, o, w, func(st *step) error {
		if err := w.If.Check(st.found.Modified); err != nil {
			return err
		}
		written = ss.Written{Modified: st.last}
		if !st.found.Row {
			return nil
		}
		if err := sqlitedb.Exec(st.c, sqlDeleteCollection, st.user, st.coll); err != nil {
			return err
		}
		if st.found.Modified == 0 {
			return nil // only open batches were there
		}
		written = ss.Written{Modified: st.stamp, Previous: st.found.Modified}
		st.delta.Bytes = -st.found.Bytes
		if err := st.setUser(); err != nil {
			return err
		}
		written.Used, err = st.quota()
		return err
	})
	return written, err
}

// DeleteAll implements syncstorage.Store.
func (s *Store) DeleteAll(ctx context.Context, o ss.Owner, p ss.Precondition) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	return s.db.WriteAlone(ctx, "sync.delete_all", func(c *sqlite.Conn) error {
		user, _, err := sqlitedb.One(c, sqlUserCollection, scanCollection, o.UID, ss.TombstoneID)
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
