package postgres

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/pgdb"
	ss "holdfast/internal/syncstorage"
)

// Export implements syncstorage.AdminStore.
func (s *Store) Export(ctx context.Context, o ss.Owner, now ss.Timestamp) iter.Seq2[ss.Exported, error] {
	return ss.ExportSequence(func(yield func(ss.Exported) bool) error { return s.export(ctx, o, now, yield) })
}

// export streams a user's records from a snapshot.
func (s *Store) export(ctx context.Context, o ss.Owner, now ss.Timestamp, yield func(ss.Exported) bool) error {
	if err := o.CheckUID(); err != nil {
		return err
	}
	rows, err := s.db.Stream(ctx, sqlExport, o.UID, moment(now))
	if err != nil {
		return err
	}
	defer rows.Close()
	var (
		coll      ss.CollectionStamp
		name      string
		collStamp pgtype.Timestamp
		row       bsoRow
		expiry    pgtype.Timestamp
		payload   pgtype.DriverBytes
	)
	for rows.Next() {
		if err := rows.Scan(&name, &collStamp, &row.id, &row.sortindex, &row.modified, &expiry, &payload); err != nil {
			return err
		}
		if name != coll.Name {
			coll = ss.CollectionStamp{Name: name, Modified: stamp(collStamp)}
			if !yield(ss.Exported{Collection: coll}) {
				return nil
			}
		}
		if !row.id.Valid {
			continue
		}
		b := row.bso()
		b.Expiry, b.Payload = stamp(expiry), payload
		if !yield(ss.Exported{Collection: coll, BSO: &b}) {
			return nil
		}
	}
	return rows.Err()
}

// Restore implements syncstorage.AdminStore.
func (s *Store) Restore(ctx context.Context, o ss.Owner, w ss.Write, r ss.Restore) (ss.Restored, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Restored{}, err
	}
	coll, err := s.resolve(ctx, o, w)
	if err != nil {
		return ss.Restored{}, err
	}
	written, rest, err := s.answer(ctx, sqlRestore.Statement, w.If, sqlRestore.Args(restore{target{o, coll, w}, r}))
	if err != nil {
		return ss.Restored{}, err
	}
	if len(rest) != restoredLength {
		return ss.Restored{}, unexpected(sqlRestore.Statement, rest)
	}
	return ss.Restored{Written: withQuota(written, &w), User: ss.Timestamp(rest[atUser]), Newer: int(rest[atNewer])}, nil
}

const (
	atUser = iota
	atNewer
	restoredLength
)

// restore holds the parameters for an import.
type restore struct {
	target
	ss.Restore
}

// write encodes the parameters in binary.
func (r restore) write(a *pgdb.Args) {
	r.collection(a)
	a.Timestamp("p_modified", r.Modified.Time())
	rs, n := r.Records, len(r.Records)
	a.Texts("p_ids", n, func(i int) string { return rs[i].ID })
	a.Bigints("p_sortindexes", n, func(i int) (int64, bool) { return rs[i].SortIndex.Value, rs[i].SortIndex.Set })
	a.Byteas("p_payloads", n, func(i int) ([]byte, bool) { return rs[i].Payload, true })
	a.Bigints("p_stamps", n, func(i int) (int64, bool) { return int64(rs[i].Modified), true })
	a.Bigints("p_expiries", n, func(i int) (int64, bool) { return int64(rs[i].Expiry), rs[i].Expiry != 0 })
	r.condition(a)
	r.limits(a)
}
