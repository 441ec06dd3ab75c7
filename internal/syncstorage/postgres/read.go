package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	ss "holdfast/internal/syncstorage"
)

// Collections implements syncstorage.Store.
func (s *Store) Collections(ctx context.Context, o ss.Owner) (cs ss.Collections, err error) {
	if err := o.CheckUID(); err != nil {
		return cs, err
	}
	var (
		name     pgtype.Text // NULL in the user's own row
		modified pgtype.Timestamp
	)
	err = s.db.ForEach(ctx, sqlCollections, []any{o.UID}, func() { cs = ss.Collections{} }, func() error {
		m := stamp(modified)
		cs.Modified = max(cs.Modified, m)
		if name.Valid {
			cs.Stamps = append(cs.Stamps, ss.CollectionStamp{Name: name.String, Modified: m})
		}
		return nil
	}, &name, &modified)
	if err != nil {
		return ss.Collections{}, err
	}
	return cs, nil
}

// Usage implements syncstorage.Store.
func (s *Store) Usage(ctx context.Context, o ss.Owner, now ss.Timestamp) (us ss.Usage, err error) {
	if err := o.CheckUID(); err != nil {
		return us, err
	}
	var (
		name           pgtype.Text
		modified       pgtype.Timestamp
		quota          pgtype.Int8
		records, bytes int64
	)
	err = s.db.ForEach(ctx, sqlUsage, []any{o.UID, moment(now)}, func() { us = ss.Usage{} }, func() error {
		us.Modified = max(us.Modified, stamp(modified))
		if name.Valid {
			us.Collections = append(us.Collections, ss.CollectionUsage{Name: name.String, Records: records, Bytes: bytes})
		} else {
			us.Quota = index(quota)
		}
		return nil
	}, &name, &modified, &quota, &records, &bytes)
	if err != nil {
		return ss.Usage{}, err
	}
	return us, nil
}

// Get implements syncstorage.Store.
func (s *Store) Get(ctx context.Context, o ss.Owner, q ss.Request, id string) (ss.BSO, error) {
	if err := o.CheckUID(); err != nil {
		return ss.BSO{}, err
	}
	coll, err := s.lookup(ctx, q.Collection)
	if err != nil {
		return ss.BSO{}, err
	}
	b := ss.BSO{ID: id}
	var (
		sortindex        pgtype.Int8
		modified, expiry pgtype.Timestamp
	)
	found, err := s.db.QueryRow(ctx, sqlGet, []any{o.UID, coll, id, moment(q.Now)}, &sortindex, &b.Payload, &modified, &expiry)
	if err != nil {
		return ss.BSO{}, err
	}
	if !found {
		return ss.BSO{}, errNoRecord
	}
	b.SortIndex, b.Modified, b.Expiry = index(sortindex), stamp(modified), stamp(expiry)
	if err := q.If.Check(b.Modified); err != nil {
		return ss.BSO{}, err
	}
	return b, nil
}

// index reads a sortindex.
func index(n pgtype.Int8) ss.Optional[int64] {
	return ss.Optional[int64]{Value: n.Int64, Set: n.Valid}
}
