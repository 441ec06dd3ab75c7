package sqlite

import (
	"context"
	"slices"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
)

// Append implements syncstorage.Store.
func (s *Store) Append(ctx context.Context, o ss.Owner, w ss.Write, b ss.BatchID, create bool, us []ss.Update, limits ss.BatchLimits) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.append", creates: create}, o, w, func(st *step) error {
		if err := w.If.Check(st.found.Modified); err != nil {
			return err
		}
		if create {
			if err := st.open(0); err != nil {
				return err
			}
			expires := w.Now + ss.Timestamp(ss.BatchLifetime.Milliseconds())
			if err := sqlitedb.Exec(st.c, sqlAddBatch, st.user, st.coll, b, expires); err != nil {
				return err
			}
		}
		before, err := st.batch(b)
		if err != nil {
			return err
		}
		used, err := st.stagedBytes(b, before)
		if err != nil {
			return err
		}
		after := before
		for i := range us {
			d, err := st.stage(b, &us[i])
			if err != nil {
				return err
			}
			after = after.Add(d)
		}
		if err := limits.Check(after); err != nil {
			return err
		}
		if err := sqlitedb.Exec(st.c, sqlCountBatch, after.Records, after.Bytes, st.user, st.coll, b); err != nil {
			return err
		}
		grown, err := st.stagedBytes(b, after)
		if err == nil {
			err = w.Quota.Check(used, grown)
		}
		written = ss.Written{Modified: st.found.Modified, Previous: st.found.Modified, Used: grown}
		return err
	})
	return written, err
}

// batch reads the totals of an open batch.
func (st *step) batch(b ss.BatchID) (ss.Delta, error) {
	totals, found, err := sqlitedb.One(st.c, sqlBatch, func(s *sqlite.Stmt) ss.Delta {
		return ss.Delta{Records: s.ColumnInt64(0), Bytes: s.ColumnInt64(1)}
	}, st.user, st.coll, b, st.w.Now)
	if err == nil && !found {
		err = ss.ErrNoBatch
	}
	return totals, err
}

// stage adds one record to the batch, over what an earlier append staged.
func (st *step) stage(b ss.BatchID, u *ss.Update) (ss.Delta, error) {
	size, found, err := sqlitedb.One(st.c, sqlStagedSize, scanInt64, st.user, st.coll, b, u.ID)
	if err != nil {
		return ss.Delta{}, err
	}
	var d ss.Delta
	sql := sqlStageOver
	if !found {
		sql, d.Records = sqlStage, 1
	}
	if u.Payload.Set {
		d.Bytes = int64(len(u.Payload.Value)) - size
	}
	return d, sqlitedb.Exec(st.c, sql, orNull(u.SortIndex), orNull(u.TTL), orNull(u.Payload), st.user, st.coll, b, u.ID)
}

// stagedBytes is what the user would have if the batch were committed now. What
// has expired and what the batch will replace is subtracted only above the
// quota: below it there is nothing to decide.
func (st *step) stagedBytes(b ss.BatchID, staged ss.Delta) (int64, error) {
	q := st.w.Quota
	if q.Limit <= 0 {
		return 0, nil
	}
	used, _, err := sqlitedb.One(st.c, sqlUsedBytes, scanInt64, st.user)
	used += staged.Bytes
	if err != nil || used <= q.Limit {
		return used, err
	}
	expired, _, err := sqlitedb.One(st.c, sqlExpiredBytes, scanInt64, st.stamp, st.user)
	if err != nil {
		return 0, err
	}
	replaced, _, err := sqlitedb.One(st.c, sqlReplacedBytes, scanInt64, st.user, st.coll, b, st.stamp)
	return used - expired - replaced, err
}

// Commit implements syncstorage.Store.
func (s *Store) Commit(ctx context.Context, o ss.Owner, w ss.Write, b ss.BatchID, us []ss.Update, limits ss.BatchLimits) (written ss.Written, err error) {
	err = s.write(ctx, kind{name: "sync.commit", large: true}, o, w, func(st *step) error {
		if err := w.If.Check(st.found.Modified); err != nil {
			return err
		}
		totals, err := st.batch(b)
		if err != nil {
			return err
		}
		for i := range us {
			d, err := st.stage(b, &us[i])
			if err != nil {
				return err
			}
			totals = totals.Add(d)
		}
		if err := limits.Check(totals); err != nil {
			return err
		}
		if err := st.drain(b); err != nil {
			return err
		}
		for _, sql := range []string{sqlDeleteStaged, sqlDeleteBatch} {
			if err := sqlitedb.Exec(st.c, sql, st.user, st.coll, b); err != nil {
				return err
			}
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

// drain writes every staged record, one at a time: a batch may be much larger
// than what should be in memory.
func (st *step) drain(b ss.BatchID) error {
	var payload []byte
	return sqlitedb.Each(st.c, sqlStaged, func(s *sqlite.Stmt) error {
		u := ss.Update{ID: s.ColumnText(0), SortIndex: optional(s, 1), TTL: optional(s, 2)}
		if !s.ColumnIsNull(3) {
			n := s.ColumnLen(3)
			payload = slices.Grow(payload[:0], n)[:n]
			s.ColumnBytes(3, payload)
			u.Payload = ss.Some(payload)
		}
		var old *ss.BSO
		var bytes int64
		if st.found.Count > 0 { // a first sync has nothing to look up, and a batch no id twice
			var err error
			if old, bytes, err = st.header(u.ID); err != nil {
				return err
			}
		}
		return st.put(old, bytes, &u, ss.FromBatch)
	}, st.user, st.coll, b)
}
