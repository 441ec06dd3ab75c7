package extstorage

import "holdfast/internal/errcode"

// ChangeOp is the kind of a Change.
type ChangeOp string

// Change kinds.
const (
	ChangePut    ChangeOp = "put"
	ChangeDelete ChangeOp = "delete"
	ChangeExpire ChangeOp = "expire"
)

// Change is an entry in an install's feed. Sequence numbers have no gaps, and a reader that saw a number has seen all
// lower numbers.
type Change struct {
	Seq       Seq
	Op        ChangeOp
	Namespace Namespace
	Key       Key
	Revision  Revision // that was written or removed
	At        Moment
}

// Feed is a page of changes.
type Feed struct {
	Changes []Change

	// Last, from the Service, is the number after which to continue; the newest change if all were read. From a Store, it is
	// always the newest change: there, continue after the last element in Changes.
	Last Seq
}

// ErrChangesGone means that the changes were removed, so the client must read all records again.
var ErrChangesGone error = errcode.New(errcode.Invalid, "changes after this number are not available: read all records again, then continue from nextSince of a request with limit=0")

// ErrKeyReused means that another request used the idempotency key.
var ErrKeyReused error = errcode.New(errcode.Conflict, "the idempotency key was already used for a different request: use a new key for each request")
