package extstorage

import (
	"context"
	"time"

	"holdfast/internal/canonjson"
)

// Store stores the records of all installs. Methods are atomic, and return errcode.Denied for the zero Owner.
//
// A write first locks its install's row in ext_storage_usage, so preconditions, schemas, quotas and change numbers
// are checked against the current state. Reads never write. Records are visible until they expire, swept or not.
//
// Methods return errcode.Unavailable if the engine is unavailable. They then had no effect, except that a lost
// connection may leave a write's result unknown. After Deletions.Close, writes return ErrInstallDeleted.
//
// Package storetest defines the contract.
type Store interface {
	// Apply executes an install's operations in order, all or nothing. An operation's error is an *ItemError with the
	// error from Op.Decide or Ledger.Check. Expired records never count against a quota, swept or not: a write
	// rejected by the stored Counters is decided again with counters at its own time. Values that depend on stored
	// ones (Op.Revise) are computed from the current state, so concurrent writes never make Apply fail.
	Apply(ctx context.Context, o Owner, w Write) (Applied, error)

	// SkipChanges makes every install skip n change numbers; see SkippedChanges.
	SkipChanges(ctx context.Context, n int64) error

	// Get returns ErrNoRecord for an absent or expired record.
	Get(ctx context.Context, o Owner, ns Namespace, key Key, now Moment) (Record, error)

	// List reads a page of a namespace from one snapshot. The page ends like a PageEnd with the query's limits, or
	// earlier under concurrent writes. It reads few values beyond the page.
	List(ctx context.Context, o Owner, q Query) (Page, error)

	// Export reads a page of a whole install, like List.
	Export(ctx context.Context, o Owner, q ExportQuery) (Page, error)

	// Changes reads the changes after since, oldest first and gapless. It returns ErrChangesGone if the next change
	// was swept.
	Changes(ctx context.Context, o Owner, since Seq, limit int, now Moment) (Feed, error)

	// Usage counts live records, in total and by namespace.
	Usage(ctx context.Context, o Owner, now Moment) (Usage, error)

	// Sweep removes at most limit rows of a kind, across installs, that were due at due, and returns how many. Kinds:
	// expired records in order of expiration, each with a change made now (without one in an install being deleted);
	// changes older than ChangesKept; stored responses older than AnswersKept; revocations of expired tokens;
	// tombstones whose events are all published.
	Sweep(ctx context.Context, kind Swept, now, due Moment, limit int) (int, error)

	// Ping checks that the engine is reachable with the schema version that this binary requires. It returns
	// errcode.Unavailable with the reason.
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

	SweptKinds
)

// Write is a list of operations with common parameters.
type Write struct {
	Ops            []Op
	Now            Moment
	Quota          Quota
	Caller         Caller          // for the audit
	IdempotencyKey *IdempotencyKey // nil: not idempotent
	After          Seq             // change numbers continue above it
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

// Caller identifies a write's origin in the audit.
type Caller struct {
	Kind string // "token", "runner" or "admin"
	ID   string // token, invocation or session ID; may be empty
}

// IdempotencyKey makes a write idempotent: within AnswersKept, repeating the key with the same request returns the
// first response; with another request, ErrKeyReused.
type IdempotencyKey struct {
	Key     string
	Request [32]byte // hash
}

// Applied is the result of a write.
type Applied struct {
	Items    []Item // one per operation
	Replayed bool   // stored earlier for the IdempotencyKey
}

// Record is a stored record.
type Record struct {
	Namespace Namespace
	Key       Key
	Header
	Value    canonjson.Value
	Metadata canonjson.Value
}

// Position is a position after a key in an export.
type Position struct {
	Namespace Namespace
	Key       Key
}

// Retention times.
const (
	ChangesKept = 7 * 24 * time.Hour
	AnswersKept = 24 * time.Hour
)

// SkippedChanges returns how many change numbers each install of a restored database skips. After the backup the lost
// server may have issued them: its ETags must not match, and clients that follow the changes must get ErrChangesGone
// and read everything again. The number grows with the backup's age, so restoring the same backup twice also skips
// the numbers issued by the first restored server.
func SkippedChanges(age time.Duration) int64 { return 1_000_000_000 + 1_000_000*int64(age/time.Second) }
