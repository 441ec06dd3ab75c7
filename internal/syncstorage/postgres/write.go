package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/db/pgdb"
	"holdfast/internal/errcode"
	ss "holdfast/internal/syncstorage"
)

// Positions in the answer of a writing function.
const (
	atStatus         = iota
	atModified       // ms
	atPrevious       // ms
	atQuota          // of the user; only of functions that store records
	atUsedCollection // bytes; only if a quota has a limit
	atUsedUser       // bytes
)

// Statuses that the writing functions return; their migration explains them.
const (
	done int64 = iota
	refused
	noRecord
	noBatch
	batchTooLarge
)

// quotaRefused is the SQLSTATE with which a function rolls back a write over the
// quota.
const quotaRefused = "HF001"

// call calls a writing function.
func (s *Store) call(ctx context.Context, f pgdb.Statement, p ss.Precondition, a *callArgs) (ss.Written, error) {
	result, err := s.db.Call(ctx, f, &a.Args)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == quotaRefused:
		return ss.Written{}, ss.ErrQuota
	case err != nil:
		return ss.Written{}, err
	case len(result) <= atPrevious:
		return ss.Written{}, errcode.Wrap(errcode.Internal, "internal error", fmt.Errorf("%s answered %v", f.Name, result))
	}
	at := func(position int) int64 { // functions leave out what their last positions would say
		if position < len(result) {
			return result[position]
		}
		return 0
	}
	written := ss.Written{Modified: ss.Timestamp(at(atModified)), Previous: ss.Timestamp(at(atPrevious)), Used: ss.Used{Collection: at(atUsedCollection), User: at(atUsedUser)}}
	written.Quota.User = at(atQuota)
	switch at(atStatus) {
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
	return ss.Written{}, errcode.Wrap(errcode.Internal, "internal error", fmt.Errorf("%s answered %v", f.Name, result))
}

// store is call for a function that stores records, which also returns the user's
// quota.
func (s *Store) store(ctx context.Context, f pgdb.Statement, w *ss.Write, a *callArgs) (ss.Written, error) {
	written, err := s.call(ctx, f, w.If, a)
	if err != nil {
		return ss.Written{}, err
	}
	held := written.Quota.User
	written.Quota = w.Quota
	written.Quota.User = held
	return written, nil
}

var errNoRecord error = errcode.New(errcode.NotFound, "record not found")

// Put implements syncstorage.Store.
func (s *Store) Put(ctx context.Context, o ss.Owner, w ss.Write, u ss.Update) (ss.Written, error) {
	if err := o.CheckUID(); err != nil {
		return ss.Written{}, err
	}
	coll, err := s.resolve(ctx, o, w)
	if err != nil {
		return ss.Written{}, err
	}
	a := callArgsOf(13, o, coll)
	a.Text(u.ID)
	a.number(u.SortIndex)
	if u.Payload.Set {
		a.Bytea(u.Payload.Value)
	} else {
		a.Null()
	}
	a.number(u.TTL)
	a.condition(&w)
	a.quota(&w)
	return s.store(ctx, sqlPut, &w, a)
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
	a := callArgsOf(14, o, coll)
	a.updates(us)
	a.condition(&w)
	a.quota(&w)
	return s.store(ctx, sqlPost, &w, a)
}

// callArgs are the arguments of a writing function.
type callArgs struct{ pgdb.Args }

// callArgsOf returns n arguments that begin with the user and the collection.
func callArgsOf(n int, o ss.Owner, coll int32) *callArgs {
	a := &callArgs{*pgdb.NewArgs(n)}
	a.Bigint(o.UID)
	a.Integer(coll)
	return a
}

// number adds a bigint, or NULL if it is not set.
func (a *callArgs) number(n ss.Optional[int64]) {
	if !n.Set {
		a.Null()
		return
	}
	a.Bigint(n.Value)
}

// stamp adds a timestamp, or NULL if it is not set.
func (a *callArgs) stamp(t ss.Optional[ss.Timestamp]) {
	if !t.Set {
		a.Null()
		return
	}
	a.Timestamp(t.Value.Time())
}

// condition adds the time of a write and its precondition.
func (a *callArgs) condition(w *ss.Write) {
	a.Timestamp(w.Now.Time())
	a.stamp(w.If.ModifiedSince)
	a.stamp(w.If.UnmodifiedSince)
}

// quota adds the limits of a write.
func (a *callArgs) quota(w *ss.Write) {
	a.Bigint(w.Quota.Collection)
	a.Bigint(w.Quota.User)
	a.Boolean(w.Quota.Enforce)
	a.Boolean(w.Quota.Own)
}

// updates adds an array for each field of the updates and one for the sizes of
// their payloads. IDs must be unique, because one statement cannot write a row
// twice.
func (a *callArgs) updates(us []ss.Update) {
	us = ss.Distinct(us)
	n := len(us)
	a.Texts(n, func(i int) string { return us[i].ID })
	a.Bigints(n, func(i int) (int64, bool) { return us[i].SortIndex.Value, us[i].SortIndex.Set })
	a.Byteas(n, func(i int) ([]byte, bool) { return us[i].Payload.Value, us[i].Payload.Set })
	a.Bigints(n, func(i int) (int64, bool) { return us[i].TTL.Value, us[i].TTL.Set })
	a.Bigints(n, func(i int) (int64, bool) { return int64(len(us[i].Payload.Value)), us[i].Payload.Set })
}
