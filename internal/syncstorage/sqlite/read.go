package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// Collections implements syncstorage.Store.
func (s *Store) Collections(ctx context.Context, o ss.Owner) (cs ss.Collections, err error) {
	if err := o.CheckUID(); err != nil {
		return cs, err
	}
	err = s.db.Read(ctx, "sync.collections", func(c *sqlite.Conn) error {
		return sqlitedb.ForEach(c, sqlCollections, func(r *sqlite.Stmt) error {
			modified := ss.Timestamp(r.ColumnInt64(1))
			if r.ColumnIsNull(0) {
				cs.Modified = modified
				return nil
			}
			cs.Stamps = append(cs.Stamps, ss.CollectionStamp{Name: r.ColumnText(0), Modified: modified})
			return nil
		}, o.UID)
	})
	return cs, err
}

// Usage implements syncstorage.Store.
func (s *Store) Usage(ctx context.Context, o ss.Owner, now ss.Timestamp) (u ss.Usage, err error) {
	if err := o.CheckUID(); err != nil {
		return u, err
	}
	err = s.db.Read(ctx, "sync.usage", func(c *sqlite.Conn) error {
		return sqlitedb.ForEach(c, sqlUsage, func(r *sqlite.Stmt) error {
			if r.ColumnIsNull(0) {
				u.Modified, u.Quota = ss.Timestamp(r.ColumnInt64(1)), optional(r, 2)
				return nil
			}
			u.Collections = append(u.Collections,
				ss.CollectionUsage{Name: r.ColumnText(0), Records: r.ColumnInt64(3), Bytes: r.ColumnInt64(4)})
			return nil
		}, o.UID, now)
	})
	return u, err
}

// Get implements syncstorage.Store.
func (s *Store) Get(ctx context.Context, o ss.Owner, q ss.Request, id string) (b ss.BSO, err error) {
	if err := o.CheckUID(); err != nil {
		return b, err
	}
	err = s.db.Read(ctx, "sync.get", func(c *sqlite.Conn) error {
		coll, err := s.lookup(c, q.Collection)
		if err != nil {
			return err
		}
		b.ID = id
		horizon, found, err := sqlitedb.QueryRow(c, sqlGet, func(r *sqlite.Stmt) ss.Timestamp {
			b.SortIndex, b.Modified, b.Expiry = optional(r, 0), ss.Timestamp(r.ColumnInt64(1)), ss.Timestamp(r.ColumnInt64(2))
			b.Payload = make([]byte, r.ColumnLen(3))
			r.ColumnBytes(3, b.Payload)
			return ss.Horizon(q.Now, ss.Timestamp(r.ColumnInt64(4)))
		}, o.UID, coll, id)
		if err != nil {
			return err
		}
		if !found || !b.Live(horizon) {
			return errcode.New(errcode.NotFound, "record not found")
		}
		return q.If.Check(b.Modified)
	})
	if err != nil {
		return ss.BSO{}, err
	}
	return b, nil
}

// lookup returns a collection's ID, 0 if the name is unknown. IDs never change, so they are cached for good.
func (s *Store) lookup(c *sqlite.Conn, name string) (int64, error) {
	if id := s.cached(name); id != 0 {
		return id, nil
	}
	id, found, err := sqlitedb.QueryRow(c, sqlCollectionID, scanInt64, name)
	if found {
		s.names.Store(name, id)
	}
	return id, err
}
