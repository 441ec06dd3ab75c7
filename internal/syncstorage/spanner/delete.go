package spanner

import (
	"context"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/budget"
)

// DeleteBSO implements syncstorage.Store.
func (s *Store) DeleteBSO(ctx context.Context, o ss.Owner, w ss.Write, id string) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.delete_bso", reads: readRecords, params: spannerdb.Params{"ids": []string{id}}}, o, w, func(st *writeState) error {
		had, there := st.records[id]
		if !there || !had.Live(st.stamp) {
			return errNoRecord
		}
		if err := w.If.Check(had.Modified); err != nil {
			return err
		}
		st.take(had)
		written, err = st.finish()
		return err
	})
	return written, err
}

// DeleteBSOs implements syncstorage.Store.
func (s *Store) DeleteBSOs(ctx context.Context, o ss.Owner, w ss.Write, ids []string) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.delete_bsos", reads: readRecords, params: spannerdb.Params{"ids": ids}}, o, w, func(st *writeState) error {
		if err := w.If.Check(st.found.modified); err != nil {
			return err
		}
		if st.found.modified == 0 {
			written = ss.Written{Modified: st.last}
			return nil
		}
		for _, had := range st.records {
			st.take(had)
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

// take deletes a record and takes it off the counters.
func (st *writeState) take(had record) {
	st.remove("bsos", append(st.key(), had.ID)...)
	st.delta = st.delta.Add(ss.Delta{Records: -1, Bytes: -had.bytes})
	if had.Live(st.stamp) {
		st.live -= had.bytes
	}
}

// DeleteCollection implements syncstorage.Store.
func (s *Store) DeleteCollection(ctx context.Context, o ss.Owner, w ss.Write) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.delete_collection", reads: readUser}, o, w, func(st *writeState) error {
		if err := w.If.Check(st.found.modified); err != nil {
			return err
		}
		written = ss.Written{Modified: st.last}
		if !st.found.row {
			return nil
		}
		st.whole = []any{st.coll}
		st.remove("user_collections", st.key()...)
		if st.found.modified == 0 {
			return nil
		}
		written = ss.Written{Modified: st.stamp, Previous: st.found.modified}
		st.change(spanner.InsertOrUpdate, "user_collections", userKey(), []string{"modified"}, append(keyOf(o, ss.TombstoneID), st.stamp.Time())...)
		return nil
	})
	return written, err
}

// DeleteAll implements syncstorage.Store.
func (s *Store) DeleteAll(ctx context.Context, o ss.Owner, p ss.Precondition) error {
	return s.write(ctx, kind{name: "sync.delete_all", reads: readUser}, o, ss.Write{}, func(st *writeState) error {
		if err := p.Check(st.last); err != nil {
			return err
		}
		if len(st.rows) == 0 {
			return nil
		}
		st.whole = []any{}
		st.tx.Predict(budget.Delete)
		st.changes = append(st.changes, spanner.Delete("user_collections", spanner.Key{o.FxAUID, o.FxAKID}.AsPrefix()))
		if names := st.rows[ss.TombstoneID].count; names > 0 || st.own.Set {
			st.change(spanner.Insert, "user_collections", userKey(), []string{"modified", "count", "quota"}, append(keyOf(o, ss.TombstoneID), epoch, names, number(st.own))...)
		}
		return nil
	})
}
