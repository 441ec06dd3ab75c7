package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/fault"
	ss "holdfast/internal/syncstorage"
)

// Statuses of the writing functions, explained in their migration.
const (
	done int64 = iota
	refused
	noRecord
	noBatch
	batchTooLarge
)

// quotaRefused is the SQLSTATE that undoes a write over the quota.
const quotaRefused = "HF001"

// call runs a writing function.
func (s *Store) call(ctx context.Context, f pgdb.Statement, p ss.Precondition, args ...any) (ss.Written, error) {
	var result []int64
	_, err := s.db.QueryRow(ctx, f, args, &result)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == quotaRefused:
		return ss.Written{}, ss.ErrQuota
	case err != nil:
		return ss.Written{}, err
	case len(result) != 3 && len(result) != 5:
		return ss.Written{}, fault.Wrap(fault.Internal, "internal error", fmt.Errorf("%s answered %v", f.Name, result))
	}
	written := ss.Written{Modified: ss.Timestamp(result[1]), Previous: ss.Timestamp(result[2])}
	if len(result) == 5 {
		written.Used = ss.Used{Collection: result[3], User: result[4]}
	}
	switch result[0] {
	case done:
		return written, nil
	case refused:
		if err := p.Check(written.Modified); err != nil {
			return ss.Written{}, err
		}
	case noRecord:
		return ss.Written{}, errNoRecord
	case noBatch:
		return ss.Written{}, ss.ErrNoBatch
	case batchTooLarge:
		return ss.Written{}, ss.ErrBatchTooLarge
	}
	return ss.Written{}, fault.Wrap(fault.Internal, "internal error", fmt.Errorf("%s answered %v", f.Name, result))
}

var errNoRecord error = fault.New(fault.NotFound, "no such record")

// Put implements syncstorage.Store.
func (s *Store) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.resolve(ctx, o, w)
	if err != nil {
		return ss.Written{}, err
	}
	return s.call(ctx, sqlPut, w.If, o.UID, coll,
		u.ID, number(u.SortIndex), payload(u.Payload), number(u.TTL),
		moment(w.Now), maybe(w.If.ModifiedSince), maybe(w.If.UnmodifiedSince), w.Quota.Collection, w.Quota.User, w.Quota.Enforce)
}

// Post implements syncstorage.Store.
func (s *Store) Post(ctx context.Context, o ss.Owner, w ss.Write, us []ss.Update) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.resolve(ctx, o, w)
	if err != nil {
		return ss.Written{}, err
	}
	c := columnsOf(us)
	return s.call(ctx, sqlPost, w.If, o.UID, coll,
		c.ids, c.sortindexes, c.payloads, c.ttls, c.sizes,
		moment(w.Now), maybe(w.If.ModifiedSince), maybe(w.If.UnmodifiedSince), w.Quota.Collection, w.Quota.User, w.Quota.Enforce)
}

// columns are the fields of several updates, an array for each.
type columns struct {
	ids                      []string
	payloads                 [][]byte
	sortindexes, ttls, sizes []*int64 // sizes: of the payloads
}

// columnsOf spreads updates over columns, each id once, because one statement
// cannot write a row twice.
func columnsOf(us []ss.Update) columns {
	n := len(us)
	c := columns{
		ids: make([]string, 0, n), payloads: make([][]byte, 0, n),
		sortindexes: make([]*int64, 0, n), ttls: make([]*int64, 0, n), sizes: make([]*int64, 0, n),
	}
	for _, u := range ss.Distinct(us) {
		var size *int64
		if u.Payload.Set {
			l := int64(len(u.Payload.Value))
			size = &l
		}
		c.ids = append(c.ids, u.ID)
		c.sortindexes = append(c.sortindexes, number(u.SortIndex))
		c.payloads = append(c.payloads, payload(u.Payload))
		c.ttls = append(c.ttls, number(u.TTL))
		c.sizes = append(c.sizes, size)
	}
	return c
}
