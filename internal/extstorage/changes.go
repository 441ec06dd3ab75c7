package extstorage

import "holdfast/internal/fault"

// ChangeOp is what a change did.
type ChangeOp string

// The changes of a feed.
const (
	ChangePut    ChangeOp = "put"
	ChangeDelete ChangeOp = "delete"
	ChangeExpire ChangeOp = "expire" // removed, some time after it had expired
)

// Change is one line of an install's feed. Their numbers have no gaps, and are
// handed out under the install's lock, so a reader that has seen one has seen
// all before it.
type Change struct {
	Seq       Seq
	Op        ChangeOp
	Namespace Namespace
	Key       Key
	Revision  Revision // of the record written, deleted or expired
	At        Moment
}

// Feed is the answer to a question for changes.
type Feed struct {
	Changes []Change
	Last    Seq // the newest of the install
}

// ErrChangesGone is a question for changes that are not kept any more: read
// everything anew.
var ErrChangesGone error = fault.New(fault.Invalid, "changes after this number are not available: read all records again, then continue from nextSince of a request with limit=0")

// ErrKeyReused is an idempotency key that came with another request before.
var ErrKeyReused error = fault.New(fault.Conflict, "the idempotency key was already used for a different request: use a new key for each request")
