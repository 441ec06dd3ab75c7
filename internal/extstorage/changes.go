package extstorage

import "holdfast/internal/errcode"

// ChangeOp is the kind of a change.
type ChangeOp string

// Kinds of changes in a feed.
const (
	ChangePut    ChangeOp = "put"
	ChangeDelete ChangeOp = "delete"
	ChangeExpire ChangeOp = "expire" // removed some time after it expired
)

// Change is one entry of an install's feed. Sequence numbers have no gaps and are
// assigned under the install's lock, so a reader that has seen one number has seen
// all lower ones.
type Change struct {
	Seq       Seq
	Op        ChangeOp
	Namespace Namespace
	Key       Key
	Revision  Revision // of the record that was written, deleted or has expired
	At        Moment
}

// Feed is the result of reading changes.
type Feed struct {
	Changes []Change
	Last    Seq // the newest change of the install
}

// ErrChangesGone means that the requested changes are no longer stored: read all
// records again.
var ErrChangesGone error = errcode.New(errcode.Invalid, "changes after this number are not available: read all records again, then continue from nextSince of a request with limit=0")

// ErrKeyReused means that an idempotency key was used before with a different
// request.
var ErrKeyReused error = errcode.New(errcode.Conflict, "the idempotency key was already used for a different request: use a new key for each request")
