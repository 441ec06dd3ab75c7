package sqlite

import (
	"context"
	"iter"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	ss "holdfast/internal/syncstorage"
)

// Export implements syncstorage.AdminStore.
func (s *Store) Export(ctx context.Context, o ss.Owner, now ss.Timestamp) iter.Seq2[ss.Exported, error] {
	return ss.ExportSequence(func(yield func(ss.Exported) bool) error {
		err := s.export(ctx, o, now, func(e ss.Exported) error {
			if !yield(e) {
				return errStopped
			}
			return nil
		})
		if err == errStopped { //nolint:errorlint // returned by add, never wrapped
			return nil
		}
		return err
	})
}

// export streams a user's records in a snapshot.
func (s *Store) export(ctx context.Context, o ss.Owner, now ss.Timestamp, add func(ss.Exported) error) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	snapshot, err := s.db.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snapshot.Release()
	snapshot.Stream()
	return snapshot.Read(func(c *sqlite.Conn) error { return exportFrom(c, o, now, add) })
}

// exportFrom is export on a connection.
func exportFrom(c *sqlite.Conn, o ss.Owner, now ss.Timestamp, add func(ss.Exported) error) error {
	type named struct {
		id int64
		ss.CollectionStamp
	}
	colls, err := sqlitedb.QueryAll(c, sqlExportCollections, func(r *sqlite.Stmt) named {
		return named{r.ColumnInt64(0), ss.CollectionStamp{Name: r.ColumnText(1), Modified: ss.Timestamp(r.ColumnInt64(2))}}
	}, o.UID)
	if err != nil {
		return err
	}
	for _, coll := range colls {
		if err := add(ss.Exported{Collection: coll.CollectionStamp}); err != nil {
			return err
		}
		var payload []byte
		err := sqlitedb.ForEach(c, sqlExport, func(r *sqlite.Stmt) error {
			n := r.ColumnLen(4)
			payload = slices.Grow(payload[:0], n)[:n]
			r.ColumnBytes(4, payload)
			return add(ss.Exported{Collection: coll.CollectionStamp, BSO: &ss.BSO{
				ID: r.ColumnText(0), SortIndex: optional(r, 1), Modified: ss.Timestamp(r.ColumnInt64(2)),
				Expiry: ss.Timestamp(r.ColumnInt64(3)), Payload: payload,
			}})
		}, o.UID, coll.id, ss.Horizon(now, coll.Modified))
		if err != nil {
			return err
		}
	}
	return nil
}

// Restore implements syncstorage.AdminStore.
func (s *Store) Restore(ctx context.Context, o ss.Owner, w ss.Write, r ss.Restore) (restored ss.Restored, err error) {
	records := slices.Clone(r.Records)
	slices.SortFunc(records, func(a, b ss.BSO) int { return strings.Compare(b.ID, a.ID) })
	err = s.write(ctx, call{name: "sync.restore", owner: o, creates: true}, w, func(st *writeState) error {
		restored.Newer = 0
		if err := w.If.Check(st.last); err != nil {
			return err
		}
		old, err := st.lookUpAll(len(records), func(i int) string { return records[i].ID })
		if err != nil {
			return err
		}
		for i := range records {
			if old[i].row != 0 && records[i].Keeps(&old[i].BSO, st.stamp) {
				restored.Newer++
				continue
			}
			st.planRestored(&old[i], &records[i])
		}
		return st.quota()
	}, func(st *writeState) error {
		if err := st.open(r.Modified); err != nil {
			return err
		}
		if err := st.apply(); err != nil {
			return err
		}
		restored.User = max(st.last, r.Modified)
		restored.Written = ss.Written{
			Modified: max(st.found.Modified, r.Modified), Previous: st.found.Modified, Used: st.after, Quota: st.w.Quota,
		}
		if err := sqlitedb.Exec(st.c, sqlRestoreCollection, r.Modified, st.delta.Records, st.delta.Bytes, st.user, st.coll); err != nil {
			return err
		}
		st.stamp = restored.User
		return st.setUser()
	})
	if err != nil {
		return ss.Restored{}, err
	}
	return restored, nil
}

// planRestored notes an imported record, which keeps its stamp.
func (st *writeState) planRestored(old *header, b *ss.BSO) {
	delta := ss.Delta{Records: 1, Bytes: int64(len(b.Payload))}
	c := change{*b, old.row}
	if old.row != 0 {
		delta = ss.Delta{Bytes: delta.Bytes - old.bytes}
		if !old.live(st.stamp) {
			st.expired += old.bytes
		}
		st.update = append(st.update, c)
	} else {
		st.insert = append(st.insert, c)
	}
	if !b.Live(st.stamp) {
		st.expires += int64(len(b.Payload))
	}
	st.delta = st.delta.Add(delta)
}
