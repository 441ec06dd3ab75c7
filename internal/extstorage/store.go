package extstorage

import (
	"context"
	"time"

	"holdfast/internal/canonjson"
)

// Store stores the records of all installs. Methods are atomic, safe for concurrent use, and return errcode.Denied for the
// zero Owner.
//
// A write first locks its install's row in ext_storage_usage, so everything is checked against the current state.
// Reads never write.
//
// Methods return errcode.Unavailable if the engine is unavailable, or if ctx ends. They then had no effect, but after a
// lost connection, or if ctx ended during a write, the result may be unknown.
//
// Slices and maps in parameters are never changed. The caller may change them when the method returned, except Write.Ops.
// Results belong to the caller, except that Register may return the draft's Document.
//
// Package storetest defines the contract.
type Store interface {
	// Apply executes an install's operations in order, all or nothing. An operation's error is an *ItemError from
	// Op.Decide or Ledger.Check. Expired records never count against a quota: a write rejected by the stored Counters
	// is decided again with counters at its own time. It returns ErrInstallDeleted after Deletions.Close, and
	// ErrKeyReused. Counters, changes, audit events and the response for an idempotency key are written in the same
	// transaction.
	Apply(ctx context.Context, o Owner, w Write) (Applied, error)

	// SkipChanges makes every install skip n change numbers and SkippedVersions(n) schema versions, and every record n
	// revisions, including installs, namespaces and records that do not exist; see SkippedChanges.
	SkipChanges(ctx context.Context, n int64) error

	// Get returns ErrNoRecord for a missing record, and for a record that expired at or before now.
	Get(ctx context.Context, o Owner, ns Namespace, key Key, now Moment) (Record, error)

	// List reads a page from a snapshot. It ends as a PageEnd requires, or earlier under concurrent writes.
	List(ctx context.Context, o Owner, q Query) (Page, error)

	// Export reads all namespaces like List, by namespace and key.
	Export(ctx context.Context, o Owner, q ExportQuery) (Page, error)

	// Changes reads at most limit changes after since, oldest first and gapless; with limit 0 only Feed.Last, which is
	// always the install's newest change. It returns ErrChangesGone if the next change was swept. For a since above
	// Feed.Last it returns none; the Service refuses that.
	Changes(ctx context.Context, o Owner, since Seq, limit int) (Feed, error)

	// Usage counts the records that are live at now, in the order of namespaces. Namespaces without live records are
	// missing. An unknown install counts 0.
	Usage(ctx context.Context, o Owner, now Moment) (Usage, error)

	// Sweep removes at most limit rows of a kind that were due at the time due, across installs, and returns how many.
	// limit rows mean that more may be due, fewer that none is; with an error, the number may be too low. now, not before
	// due, is the time of the changes that the sweep makes. The kinds are expired records, earliest first, each with a
	// change (except in an install being deleted); changes older than ChangesKept; stored responses older than
	// AnswersKept; revocations of expired tokens; and tombstones whose events are published.
	Sweep(ctx context.Context, kind Swept, now, due Moment, limit int) (int, error)

	// Ping checks the engine's reachability and schema version, which a newer release may change while this process
	// runs.
	Ping(ctx context.Context) error
}

// Swept is a kind of rows.
type Swept uint8

// Kinds of rows that Sweep removes.
const (
	SweptRecords Swept = iota // expired
	SweptChanges
	SweptAnswers
	SweptTokens
	SweptTombstones

	SweptKinds // their number
)

// Write is a list of operations with common parameters.
type Write struct {
	// Ops may be empty, and may contain a record several times: each operation sees the effects of those before it. The
	// store sets no limit. The caller must not change the slice after Apply: when ctx ends early, another goroutine may
	// still read it.
	Ops            []Op
	Now            Moment          // decides expiry, and becomes the time of all changes, even if stored times are later
	Quota          Quota           // in effect for the install
	Caller         Caller          // for the audit
	IdempotencyKey *IdempotencyKey // may be nil
	After          Seq             // change numbers continue above this number; 0 except in imports
}

// Restores reports whether the write sets numbers itself. Engines then take a slower path.
func (w *Write) Restores() bool {
	for i := range w.Ops {
		if w.Ops[i].Restored != nil {
			return true
		}
	}
	return w.After > 0
}

// Caller identifies in the audit who made a write.
type Caller struct {
	Kind string // "token", "runner" or "admin"; stores take any text
	ID   string // token, invocation or session ID; may be empty
}

// IdempotencyKey makes a write idempotent: within AnswersKept, the same request gets the first response again, and
// another request gets ErrKeyReused.
type IdempotencyKey struct {
	Key     string   // unique in the install; the service checks its length
	Request [32]byte // web.Fingerprint of the request
}

// Applied is the result of a write.
type Applied struct {
	Items    []Item // an element for each of Write.Ops, in their order
	Replayed bool   // the result was stored earlier for the IdempotencyKey
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

// SkippedChanges returns how many change numbers and revisions a restored database skips per install. After the backup
// the lost server may have issued them: its ETags and revisions must not match, and its clients must get ErrChangesGone
// and read everything again. The number grows with the backup's age, so restoring it again also skips the numbers issued after the first
// restore.
func SkippedChanges(age time.Duration) int64 { return 1_000_000_000 + 1_000_000*int64(age/time.Second) }

// ChangesPerVersion is how many skipped change numbers skip one schema version.
const ChangesPerVersion = 100_000

// SkippedVersions returns how many schema versions an install skips that skips n change numbers: 10,000, and 10 per
// second of the backup's age. The lost server may have registered as many, because somebody registers each by hand or
// with a deployment. More would use up the 2^31 versions after a few restores of old backups.
func SkippedVersions(n int64) int64 { return n / ChangesPerVersion }
