package extstorage

import "holdfast/internal/errcode"

// ChangeOp is the kind of change.
type ChangeOp string

// Change kinds.
const (
	ChangePut    ChangeOp = "put"
	ChangeDelete ChangeOp = "delete"
	ChangeExpire ChangeOp = "expire"
)

// Change is an entry in an install's feed. Sequence numbers are assigned under the install's lock without gaps: a
// reader that saw one number saw all lower ones.
type Change struct {
	Seq       Seq
	Op        ChangeOp
	Namespace Namespace
	Key       Key
	Revision  Revision // written, deleted or expired
	At        Moment
}

// Feed is the result of reading changes.
type Feed struct {
	Changes []Change
	Last    Seq // newest change of the install
}

// ErrChangesGone means that the requested changes were already removed; read all records again.
var ErrChangesGone error = errcode.New(errcode.Invalid, "changes after this number are not available: read all records again, then continue from nextSince of a request with limit=0")

// ErrKeyReused means that the idempotency key was used for a different request.
var ErrKeyReused error = errcode.New(errcode.Conflict, "the idempotency key was already used for a different request: use a new key for each request")
