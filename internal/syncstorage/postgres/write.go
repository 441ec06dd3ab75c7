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

// These are the positions in the result of a writing function. Returning an array takes the database half as long as
// a composite or JSON.
const (
	atStatus = iota
	atModified
	atPrevious
	atQuota // the user's quota; only if records are stored
	atUsedCollection
	atUsedUser
	writtenLength
)

const (
	done int64 = iota
	refused
	noRecord
	noBatch
	batchTooLarge
)

// quotaRefused is the SQLSTATE that rolls back a write over the quota.
const quotaRefused = "HF001"

// call runs a writing function. p is the precondition, for the error if the function refuses.
func (s *Store) call(ctx context.Context, f pgdb.Statement, p ss.Precondition, a *pgdb.Args) (ss.Written, error) {
	written, _, err := s.answer(ctx, f, p, a)
	return written, err
}

// answer is call, and also returns the numbers after writtenLength.
func (s *Store) answer(ctx context.Context, f pgdb.Statement, p ss.Precondition, a *pgdb.Args) (w ss.Written, rest []int64, err error) {
	result, err := s.db.Call(ctx, f, a)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == quotaRefused {
		return ss.Written{}, nil, ss.ErrQuota
	}
	if err != nil {
		return ss.Written{}, nil, err
	}
	if len(result) < writtenLength {
		return ss.Written{}, nil, unexpected(f, result)
	}
	switch result[atStatus] {
	case done:
		w = ss.Written{
			Modified: ss.Timestamp(result[atModified]), Previous: ss.Timestamp(result[atPrevious]),
			Used: ss.Used{Collection: result[atUsedCollection], User: result[atUsedUser]},
		}
		w.Quota.User = result[atQuota]
		return w, result[writtenLength:], nil
	case refused:
		err = p.Check(ss.Timestamp(result[atModified]))
	case noRecord:
		err = errNoRecord
	case noBatch:
		err = ss.ErrNoBatch
	case batchTooLarge:
		err = ss.ErrBatchTooLarge
	}
	if err == nil {
		err = unexpected(f, result)
	}
	return ss.Written{}, nil, err
}

// unexpected reports a result that this release does not know.
func unexpected(f pgdb.Statement, result []int64) error {
	return errcode.Wrap(errcode.Internal, "internal error", fmt.Errorf("%s answered %v", f.Name, result))
}

// store runs a function that stores records, and completes the quota in its result.
func (s *Store) store(ctx context.Context, f pgdb.Statement, w *ss.Write, a *pgdb.Args) (ss.Written, error) {
	written, err := s.call(ctx, f, w.If, a)
	if err != nil {
		return ss.Written{}, err
	}
	return withQuota(written, w), nil
}

// withQuota completes the quota: the function returns only the user's.
func withQuota(written ss.Written, w *ss.Write) ss.Written {
	held := written.Quota.User
	written.Quota = w.Quota
	written.Quota.User = held
	return written
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
	return s.store(ctx, sqlPut.Statement, &w, sqlPut.Args(put{target{o, coll, w}, u}))
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
	return s.store(ctx, sqlPost.Statement, &w, sqlPost.Args(post{target{o, coll, w}, us}))
}

// target holds the parameters that most functions share.
type target struct {
	owner ss.Owner
	// unknown: the user does not have it
	coll int32
	ss.Write
}

// collection encodes user and collection.
func (t *target) collection(a *pgdb.Args) {
	a.Bigint("p_user", t.owner.UID)
	a.Integer("p_coll", t.coll)
}

// condition encodes the service's time and the precondition.
func (t *target) condition(a *pgdb.Args) {
	a.Timestamp("p_now", t.Now.Time())
	precondition(a, t.If)
}

// precondition encodes NULL for times that are not set.
func precondition(a *pgdb.Args, p ss.Precondition) {
	a.TimestampOrNull("p_modified_since", p.ModifiedSince.Value.Time(), p.ModifiedSince.Set)
	a.TimestampOrNull("p_unmodified_since", p.UnmodifiedSince.Value.Time(), p.UnmodifiedSince.Set)
}

// limits encodes the quotas.
func (t *target) limits(a *pgdb.Args) {
	a.Bigint("p_limit", t.Quota.Collection)
	a.Bigint("p_user_limit", t.Quota.User)
	a.Boolean("p_enforce", t.Quota.Enforce)
	a.Boolean("p_own", t.Quota.Own)
}

// write encodes the parameters of functions without others.
func (t target) write(a *pgdb.Args) {
	t.collection(a)
	t.condition(a)
}

type put struct {
	target
	update ss.Update
}

// write encodes the parameters in binary.
func (p put) write(a *pgdb.Args) {
	p.collection(a)
	a.Text("p_id", p.update.ID)
	a.BigintOrNull("p_sortindex", p.update.SortIndex.Value, p.update.SortIndex.Set)
	a.BytesOrNull("p_payload", p.update.Payload.Value, p.update.Payload.Set)
	a.BigintOrNull("p_ttl", p.update.TTL.Value, p.update.TTL.Set)
	p.condition(a)
	p.limits(a)
}

type post struct {
	target
	updates []ss.Update
}

// write encodes the parameters in binary.
func (p post) write(a *pgdb.Args) {
	p.collection(a)
	updates(a, p.updates)
	p.condition(a)
	p.limits(a)
}

// updates adds an array per field, and payload sizes. IDs must be unique: one statement cannot write a row twice.
func updates(a *pgdb.Args, us []ss.Update) {
	us = ss.Distinct(us)
	n := len(us)
	a.Texts("p_ids", n, func(i int) string { return us[i].ID })
	a.Bigints("p_sortindexes", n, func(i int) (int64, bool) { return us[i].SortIndex.Value, us[i].SortIndex.Set })
	a.Byteas("p_payloads", n, func(i int) ([]byte, bool) { return us[i].Payload.Value, us[i].Payload.Set })
	a.Bigints("p_ttls", n, func(i int) (int64, bool) { return us[i].TTL.Value, us[i].TTL.Set })
	a.Bigints("p_sizes", n, func(i int) (int64, bool) { return int64(len(us[i].Payload.Value)), us[i].Payload.Set })
}
