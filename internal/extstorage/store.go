package extstorage

import (
	"context"
	"time"

	"holdfast/internal/canonjson"
)

// Store stores the records of all installs. Every method is atomic, and every
// method returns errcode.Denied for the zero Owner.
//
// Writes of one install are serialized by its row of ext_storage_usage, which each
// write locks first: preconditions, schemas, quotas and the change sequence are
// checked against the current state. Reads never write. A record is visible until
// the time at which it expires, whether it has been removed or not.
//
// Any method may return errcode.Unavailable when the engine is unavailable. Then it
// had no effect, except that a lost connection may leave the result of a write
// unknown.
//
// After Deletions.Close, all writing methods return ErrInstallDeleted.
//
// The test suite in storetest defines the contract.
type Store interface {
	// Apply executes the operations of one install in order, all or nothing. The
	// error of an operation is an *ItemError with the error of Op.Decide or of
	// Ledger.Check. Expired records never count against a quota, whether they have
	// been removed or not: a write that the stored Counters do not allow is decided
	// again with counters of its own time. Values that depend on stored values
	// (Op.Revise) are computed from the current state, so no concurrent write makes
	// Apply fail.
	Apply(ctx context.Context, o Owner, w Write) (Applied, error)

	// SkipChanges makes every install skip the next n change numbers; see SkippedChanges.
	SkipChanges(ctx context.Context, n int64) error

	// Get reads a record, or returns ErrNoRecord if it is absent or expired.
	Get(ctx context.Context, o Owner, ns Namespace, key Key, now Moment) (Record, error)

	// List reads a page of a namespace from one snapshot. The page ends where a
	// PageEnd with the query's Limit and Bytes ends it, or earlier because of
	// concurrent writes. It reads about as many values as the page has.
	List(ctx context.Context, o Owner, q Query) (Page, error)

	// Export reads a page of all records of an install, like List.
	Export(ctx context.Context, o Owner, q ExportQuery) (Page, error)

	// Changes reads the changes after a number, oldest first and without gaps. It
	// returns ErrChangesGone if the next change is no longer stored.
	Changes(ctx context.Context, o Owner, since Seq, limit int, now Moment) (Feed, error)

	// Usage counts the live records of an install, and of each namespace that has
	// any.
	Usage(ctx context.Context, o Owner, now Moment) (Usage, error)

	// Sweep removes at most limit rows of a kind, of any install, that were due at
	// the time due, and returns their number. Kinds: expired records, in order of
	// expiration, each with a change made now; changes older than ChangesKept;
	// answers older than AnswersKept; revocations of expired tokens; tombstones of
	// installs and tenants, unless one of their events is not published yet. In an
	// install that is being deleted, expired records are removed without a change.
	Sweep(ctx context.Context, kind Swept, now, due Moment, limit int) (int, error)

	// Ping checks that the engine is reachable and has the schema that this binary
	// requires. Otherwise it returns errcode.Unavailable with the reason.
	Ping(ctx context.Context) error
}

// Swept is a kind of rows that Sweep removes.
type Swept uint8

// Kinds of rows that Sweep removes.
const (
	SweptRecords Swept = iota
	SweptChanges
	SweptAnswers
	SweptTokens
	SweptTombstones

	SweptKinds // number of kinds
)

// Write is a list of operations with their common parameters.
type Write struct {
	Ops            []Op
	Now            Moment
	Quota          Quota
	Caller         Caller          // for the audit
	IdempotencyKey *IdempotencyKey // nil: the write is not idempotent
	After          Seq             // change numbers continue above this
}

// Restores reports whether the write restores records from another server.
func (w *Write) Restores() bool {
	for i := range w.Ops {
		if w.Ops[i].Restored != nil {
			return true
		}
	}
	return w.After > 0
}

// Caller identifies the origin of a write in the audit.
type Caller struct {
	Kind string // "token", "runner" or "admin"
	ID   string // ID of the token, invocation or session; may be empty
}

// IdempotencyKey makes a write idempotent: for AnswersKept, the same key with the
// same request returns the first answer. With a different request it is
// ErrKeyReused.
type IdempotencyKey struct {
	Key     string
	Request [32]byte // hash of the request
}

// Applied is the result of a write.
type Applied struct {
	Items    []Item // one per operation
	Replayed bool   // the stored answer of an earlier write with the same IdempotencyKey
}

// Record is a stored record.
type Record struct {
	Namespace Namespace
	Key       Key
	Header
	Value    canonjson.Value
	Metadata canonjson.Value
}

// Position is a position in an export: after a key.
type Position struct {
	Namespace Namespace
	Key       Key
}

// Retention times.
const (
	ChangesKept = 7 * 24 * time.Hour
	AnswersKept = 24 * time.Hour
)

// SkippedChanges returns how many change numbers each install of a restored database skips. After its data was copied, the lost
// server may have issued them, as ETags and to clients that follow the changes: those ETags must not match, and those
// clients must get ErrChangesGone and read everything again. The number grows with the age of the copy, so that a second
// restore of the same copy skips those that the first restored server has issued.
func SkippedChanges(age time.Duration) int64 { return 1_000_000_000 + 1_000_000*int64(age/time.Second) }
