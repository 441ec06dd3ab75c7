package sqlite

import (
	"context"
	"slices"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
)

// Append implements syncstorage.Store.
func (s *Store) Append(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (written ss.Written, err error) {
	us := ss.Distinct(p.Updates)
	var totals ss.Delta
	err = s.write(ctx, call{name: "sync.append", owner: o, creates: p.Opens}, w, func(st *writeState) error {
		if err := w.If.Check(st.found.Modified); err != nil {
			return err
		}
		var before ss.Delta
		if !p.Opens {
			var err error
			if before, err = st.batch(p.ID); err != nil {
				return err
			}
		}
		old, err := st.staged(p.ID, before, us)
		if err != nil {
			return err
		}
		totals = before.Add(old.delta(us))
		if err := p.Limits.Check(totals); err != nil {
			return err
		}
		used, err := st.stagedBytes(p.ID, before, nil, nil)
		if err != nil {
			return err
		}
		if st.after, err = st.stagedBytes(p.ID, totals, us, old); err != nil {
			return err
		}
		st.stage = old
		return st.w.Quota.Check(used, st.after)
	}, func(st *writeState) error {
		if p.Opens {
			if err := st.open(0); err != nil {
				return err
			}
			expires := w.Now + ss.Timestamp(ss.BatchLifetime.Milliseconds())
			if err := sqlitedb.Exec(st.c, sqlAddBatch, st.user, st.coll, p.ID, expires); err != nil {
				return err
			}
		}
		if err := st.addToBatch(p.ID, us, st.stage); err != nil {
			return err
		}
		written = ss.Written{Modified: st.found.Modified, Previous: st.found.Modified, Used: st.after, Quota: st.w.Quota}
		return sqlitedb.Exec(st.c, sqlCountBatch, totals.Records, totals.Bytes, st.user, st.coll, p.ID)
	})
	return written, err
}

// batch returns a batch's totals, or ErrNoBatch if it expired or never existed.
func (st *writeState) batch(b ss.BatchID) (ss.Delta, error) {
	totals, found, err := sqlitedb.QueryRow(st.c, sqlBatch, func(s *sqlite.Stmt) ss.Delta {
		return ss.Delta{Records: s.ColumnInt64(0), Bytes: s.ColumnInt64(1)}
	}, st.user, st.coll, b, st.w.Now)
	if err == nil && !found {
		err = ss.ErrNoBatch
	}
	return totals, err
}

// staged describes the staged records that have the IDs in a request, in its order.
type staged []struct {
	exists  bool
	payload ss.Optional[int64]
}

// delta returns the staged records and bytes that a request adds to its batch.
func (old staged) delta(us []ss.Update) (d ss.Delta) {
	for i := range us {
		if !old[i].exists {
			d.Records++
		}
		if us[i].Payload.Set {
			d.Bytes += int64(len(us[i].Payload.Value)) - old[i].payload.Value
		}
	}
	return d
}

// staged reads the staged records with the IDs in a request.
func (st *writeState) staged(b ss.BatchID, totals ss.Delta, us []ss.Update) (staged, error) {
	old := make(staged, len(us))
	if totals.Records == 0 || len(us) == 0 {
		return old, nil
	}
	ids, err := jsonList(len(us), func(i int) string { return us[i].ID })
	if err != nil {
		return nil, err
	}
	err = sqlitedb.ForEach(st.c, sqlStagedSizes, func(s *sqlite.Stmt) error {
		o := &old[s.ColumnInt(0)]
		o.exists, o.payload = true, optional(s, 1)
		return nil
	}, ids, st.user, st.coll, b)
	return old, err
}

// addToBatch stages updates. Fields that a client does not send keep their staged values.
func (st *writeState) addToBatch(b ss.BatchID, us []ss.Update, old staged) error {
	for i := range us {
		u, sql := &us[i], sqlStage
		if old[i].exists {
			sql = sqlStageOver
		}
		err := sqlitedb.Exec(st.c, sql, orNull(u.SortIndex), orNull(u.TTL), orNull(u.Payload), st.user, st.coll, b, u.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// stagedBytes returns the live bytes after the commit. totals already includes the updates. Expired records and
// records to be replaced are subtracted only above the quota, where they matter.
func (st *writeState) stagedBytes(b ss.BatchID, totals ss.Delta, us []ss.Update, old staged) (ss.Used, error) {
	q := st.w.Quota
	if !q.Limited() {
		return ss.Used{}, nil
	}
	used := st.used.Add(totals.Bytes)
	if !q.Over(used) {
		return used, nil
	}
	expired, err := st.expiredBytes()
	if err != nil {
		return ss.Used{}, err
	}
	replaced, _, err := sqlitedb.QueryRow(st.c, sqlReplacedBytes, scanInt64, st.user, st.coll, b, st.stamp)
	if err != nil {
		return ss.Used{}, err
	}
	for i := range us {
		if !us[i].Payload.Set || old[i].payload.Set {
			continue // it replaces nothing, or is counted by sqlReplacedBytes
		}
		h, err := st.lookUp(us[i].ID)
		if err != nil {
			return ss.Used{}, err
		}
		if h.live(st.stamp) {
			replaced += h.bytes
		}
	}
	return ss.Used{Collection: used.Collection - expired.Collection, User: used.User - expired.User}.Add(-replaced), nil
}

// Commit implements syncstorage.Store.
func (s *Store) Commit(ctx context.Context, o ss.Owner, w ss.Write, p ss.BatchPart) (written ss.Written, err error) {
	us := ss.Distinct(p.Updates)
	err = s.write(ctx, call{name: "sync.commit", owner: o, large: true}, w, func(st *writeState) error {
		if err := w.If.Check(st.found.Modified); err != nil {
			return err
		}
		totals, err := st.batch(p.ID)
		if err != nil {
			return err
		}
		if st.stage, err = st.staged(p.ID, totals, us); err != nil {
			return err
		}
		return p.Limits.Check(totals.Add(st.stage.delta(us)))
	}, func(st *writeState) error {
		if err := st.addToBatch(p.ID, us, st.stage); err != nil {
			return err
		}
		if err := st.drain(p.ID); err != nil {
			return err
		}
		for _, sql := range []string{sqlDeleteStaged, sqlDeleteBatch} {
			if err := sqlitedb.Exec(st.c, sql, st.user, st.coll, p.ID); err != nil {
				return err
			}
		}
		if err := st.quota(); err != nil {
			return err
		}
		written, err = st.finish()
		return err
	})
	return written, err
}

// drain writes staged records one at a time, because a batch may exceed memory.
func (st *writeState) drain(b ss.BatchID) error {
	var payload []byte
	return sqlitedb.ForEach(st.c, sqlStaged, func(s *sqlite.Stmt) error {
		u := ss.Update{ID: s.ColumnText(0), SortIndex: optional(s, 1), TTL: optional(s, 2)}
		if !s.ColumnIsNull(3) {
			n := s.ColumnLen(3)
			payload = slices.Grow(payload[:0], n)[:n]
			s.ColumnBytes(3, payload)
			u.Payload = ss.Some(payload)
		}
		var old header
		if st.found.Count > 0 { // nothing to replace, and a batch contains each ID once
			var err error
			if old, err = st.lookUp(u.ID); err != nil {
				return err
			}
		}
		st.plan(&old, &u, ss.FromBatch)
		return st.apply()
	}, st.user, st.coll, b)
}
