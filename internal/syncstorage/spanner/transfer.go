package spanner

import (
	"context"
	"iter"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// Export implements syncstorage.AdminStore.
func (s *Store) Export(ctx context.Context, o ss.Owner, now ss.Timestamp) iter.Seq2[ss.Exported, error] {
	return ss.ExportSequence(func(yield func(ss.Exported) bool) error { return s.export(ctx, o, now, yield) })
}

// export streams a user's records from a snapshot.
func (s *Store) export(ctx context.Context, o ss.Owner, now ss.Timestamp, yield func(ss.Exported) bool) error {
	if err := checkOwner(o); err != nil {
		return err
	}
	rows, err := s.db.Stream(ctx, sqlExport, of(o, spannerdb.Params{"now": now.Time(), "epoch": epoch}))
	if err != nil {
		return err
	}
	defer rows.Close()
	var coll ss.CollectionStamp
	for {
		row, err := rows.Next()
		if err != nil || row == nil {
			return err
		}
		var (
			name             string
			collStamp        time.Time
			id, payload      spanner.NullString
			sortindex        spanner.NullInt64
			modified, expiry spanner.NullTime
		)
		if err := row.Columns(&name, &collStamp, &id, &sortindex, &modified, &expiry, &payload); err != nil {
			return err
		}
		if name != coll.Name {
			coll = ss.CollectionStamp{Name: name, Modified: stamp(collStamp)}
			if !yield(ss.Exported{Collection: coll}) {
				return nil
			}
		}
		if !id.Valid {
			continue
		}
		m := stamp(modified.Time)
		b := ss.BSO{
			ID: id.StringVal, SortIndex: optional(sortindex), Payload: []byte(payload.StringVal),
			Modified: m, Expiry: expiryOf(m, expiry.Time),
		}
		if !yield(ss.Exported{Collection: coll, BSO: &b}) {
			return nil
		}
	}
}

// Restore implements syncstorage.AdminStore.
func (s *Store) Restore(ctx context.Context, o ss.Owner, w ss.Write, r ss.Restore) (restored ss.Restored, err error) {
	ids := make([]string, len(r.Records))
	for i := range r.Records {
		if ids[i] = r.Records[i].ID; !utf8.Valid(r.Records[i].Payload) {
			return ss.Restored{}, errcode.New(errcode.Invalid, "a payload is not UTF-8: Spanner stores only UTF-8")
		}
	}
	if err := s.ensure(ctx, o, w); err != nil {
		return ss.Restored{}, err
	}
	err = s.write(ctx, kind{name: "sync.restore", reads: readRecords, params: spannerdb.Params{"ids": ids}}, o, w, func(st *writeState) error {
		restored.Newer = 0
		if err := w.If.Check(st.last); err != nil {
			return err
		}
		for i := range r.Records {
			if !st.restore(&r.Records[i]) {
				restored.Newer++
			}
		}
		count, err := st.quota()
		if err != nil {
			return err
		}
		restored.Written = ss.Written{
			Modified: max(st.found.modified, r.Modified), Previous: st.found.modified, Used: count.used, Quota: st.w.Quota,
		}
		restored.User = max(st.last, r.Modified)
		columns, values := []string{"modified"}, append(st.key(), restored.Modified.Time())
		if count.write {
			columns, values = append(columns, "count", "total_bytes"), append(values, count.count, count.bytes)
		}
		st.parent = st.row(spanner.InsertOrUpdate, "user_collections", userKey(), columns, values...)
		return nil
	})
	if err != nil {
		return ss.Restored{}, err
	}
	return restored, nil
}

// restore writes an imported record, and returns false if a newer one is stored.
func (st *writeState) restore(b *ss.BSO) bool {
	had, there := st.records[b.ID]
	if there && b.Keeps(&had.BSO, st.stamp) {
		return false
	}
	size := int64(len(b.Payload))
	st.change(spanner.InsertOrUpdate, "bsos", bsoKey(), []string{"sortindex", "payload", "modified", "expiry"},
		append(st.key(), b.ID, number(b.SortIndex), string(b.Payload), b.Modified.Time(), expiresAt(b.Modified, b.Expiry))...)
	st.load.Records++
	st.load.IDs += int64(len(b.ID))
	st.load.Payload += size
	if !there {
		st.delta.Records++
	}
	st.delta.Bytes += size - had.bytes
	if b.Live(st.stamp) {
		st.live += size
	}
	if there && had.Live(st.stamp) {
		st.live -= had.bytes
	}
	return true
}
