package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// Export implements syncstorage.Store.
func (s *Store) Export(ctx context.Context, o ss.Owner, now ss.Timestamp) iter.Seq2[ss.Exported, error] {
	return ss.ExportSequence(func(yield func(ss.Exported) bool) error { return s.export(ctx, o, now, yield) })
}

// export calls yield for each collection and record until it returns false.
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
		row       row
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
		if !row.id.Valid { // the collection is empty
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

// Restore implements syncstorage.Store.
func (s *Store) Restore(ctx context.Context, o ss.Owner, w ss.Write, r ss.Restore) (ss.Restored, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Restored{}, err
	}
	coll, err := s.resolve(ctx, o, w)
	if err != nil {
		return ss.Restored{}, err
	}
	rs := r.Records
	a := callArgsOf(15, o, coll)
	a.Timestamp(r.Modified.Time())
	a.Texts(len(rs), func(i int) string { return rs[i].ID })
	a.Bigints(len(rs), func(i int) (int64, bool) { return rs[i].SortIndex.Value, rs[i].SortIndex.Set })
	a.Byteas(len(rs), func(i int) ([]byte, bool) { return rs[i].Payload, true })
	a.Bigints(len(rs), func(i int) (int64, bool) { return int64(rs[i].Modified), true })
	a.Bigints(len(rs), func(i int) (int64, bool) { return int64(rs[i].Expiry), rs[i].Expiry != 0 })
	a.condition(&w)
	a.quota(&w)
	result, err := s.db.Call(ctx, sqlRestore, &a.Args)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == quotaRefused {
		return ss.Restored{}, ss.ErrQuota
	}
	if err != nil {
		return ss.Restored{}, err
	}
	if len(result) == 3 && result[0] == refused {
		if err := w.If.Check(ss.Timestamp(result[1])); err != nil {
			return ss.Restored{}, err
		}
	}
	if len(result) < 6 || result[0] != done {
		return ss.Restored{}, errcode.Wrap(errcode.Internal, "internal error", fmt.Errorf("%s answered %v", sqlRestore.Name, result))
	}
	restored := ss.Restored{User: ss.Timestamp(result[4]), Newer: int(result[5])}
	restored.Modified, restored.Previous = ss.Timestamp(result[1]), ss.Timestamp(result[2])
	restored.Quota = w.Quota
	restored.Quota.User = result[3]
	if len(result) == 8 {
		restored.Used = ss.Used{Collection: result[6], User: result[7]}
	}
	return restored, nil
}
