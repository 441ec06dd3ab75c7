package extstorage

import (
	"context"
	"time"

	"holdfast/internal/canonjson"
)

// Store keeps the records of all installs. Every method is one step that
// happens whole or not at all, and every method refuses the zero Owner with
// fault.Denied.
//
// Writes of one install are serialised by its row of ext_storage_usage, which
// each takes first: preconditions, schemas, quotas and the sequence of changes are
// judged on what is there. Reads never write. A record is visible until the
// moment at which it expires, whether it has been removed or not.
//
// Any method may fail with fault.Unavailable when the engine is away; nothing
// of the step is then done, except that a lost connection may leave the result
// of a write unknown.
//
// All methods that write fail with ErrInstallDeleted after Deletions.Close.
//
// The contract is the suite in storetest.
type Store interface {
	// Apply does the operations of one install in their order, all of them or
	// none. The failure of an operation is an *ItemError, with the error of
	// Op.Decide or of Ledger.Check. Expired records never count against a quota,
	// whether they have been removed or not: a write that the stored Counters
	// do not allow is decided again by the counters of its own moment. Values that
	// depend on stored ones (Op.Revise) are made of what the write finds: no other
	// write makes it fail.
	Apply(ctx context.Context, o Owner, w Write) (Applied, error)

	// Get reads a record; ErrNoRecord when it is absent or expired.
	Get(ctx context.Context, o Owner, ns Namespace, key Key, now Moment) (Record, error)

	// List reads a page of a namespace from one snapshot. The page ends where a
	// PageEnd of the query's Limit and Bytes ends it, or earlier when others write
	// meanwhile. No more values are read than about those of the page.
	List(ctx context.Context, o Owner, q Query) (Page, error)

	// Export reads a page of everything that an install has, as List does.
	Export(ctx context.Context, o Owner, q ExportQuery) (Page, error)

	// Changes reads what changed after a number, oldest first and without a
	// gap. ErrChangesGone when the next after it is not kept any more.
	Changes(ctx context.Context, o Owner, since Seq, limit int, now Moment) (Feed, error)

	// Usage counts the live records of an install, and those of every namespace
	// that has one.
	Usage(ctx context.Context, o Owner, now Moment) (Usage, error)

	// Sweep removes at most limit rows of a kind that were due at the moment due, of
	// any installs, and returns how many: records that had expired, the first to
	// expire first, each with a change of its own, which is made now; changes older
	// than ChangesKept; answers older than AnswersKept; revocations of tokens that had
	// expired; tombstones of installs and tenants that are due, unless an event of
	// theirs is still to be published. Of an install that is being deleted expired
	// records go without a change.
	Sweep(ctx context.Context, kind Swept, now, due Moment, limit int) (int, error)

	// Ping reaches the engine and finds the schema that this binary needs, or
	// says with fault.Unavailable what is missing.
	Ping(ctx context.Context) error
}

// Inspector reads the counters of many installs, for operators and metrics. It
// changes nothing. Every method refuses a Span that Check refuses, and the zero
// Owner, with fault.Denied.
type Inspector interface {
	// ListUsage reads at most limit counters of a span, in its order, from one
	// snapshot: of the installs that have or had a record. One that is only
	// registered has nothing to count and is not among them.
	ListUsage(ctx context.Context, span Span, limit int) ([]InstallUsage, error)

	// Audit counts the rows of an install and says where its counters differ.
	Audit(ctx context.Context, o Owner) (Audit, error)

	// Uncounted finds at most limit installs of a span, in its order, that have a
	// record, or the counter of a namespace, and no counters: what ListUsage cannot
	// tell. There are none unless somebody has damaged the database. It reads the
	// keys of all records of the span, so who asks bounds it by pages of ListUsage.
	Uncounted(ctx context.Context, span Span, limit int) ([]Owner, error)

	// Filled hands fn the installs that have NoticePercent or more of a quota of least,
	// and those that have overrides, in any order: all that can be near a quota of their
	// own when none is less than least. fn may be called again from the first install,
	// after begin. It reads the counters of all installs and namespaces; call it every
	// few minutes at most.
	Filled(ctx context.Context, least Quota, now Moment, begin func(), fn func(Filling)) error

	// Totals counts all installs, and the tenants that have more than soft bytes.
	// It scans the counters of every install; call it at most once a minute.
	Totals(ctx context.Context, soft int64, now Moment) (Totals, error)
}

// Swept is a kind of rows that a sweep removes.
type Swept uint8

// The kinds of rows that a sweep removes.
const (
	SweptRecords Swept = iota
	SweptChanges
	SweptAnswers
	SweptTokens
	SweptTombstones

	SweptKinds // how many there are
)

// Write is the frame of operations.
type Write struct {
	Ops            []Op
	Now            Moment
	Quota          Quota
	Caller         Caller          // for the audit
	IdempotencyKey *IdempotencyKey // nil: the request may happen as often as it comes
	After          Seq             // the numbers of its changes are greater than this
}

// Restores reports whether the write takes over what was written elsewhere.
func (w *Write) Restores() bool {
	for i := range w.Ops {
		if w.Ops[i].Restored != nil {
			return true
		}
	}
	return w.After > 0
}

// Caller is who made a write, as the audit names it.
type Caller struct {
	Kind string // "token", "runner" or "admin"
	ID   string // of the token, invocation or session; may be empty
}

// IdempotencyKey makes a write happen once: the same key with the same request gets the
// answer of the first, for AnswersKept; with another request it is ErrKeyReused.
type IdempotencyKey struct {
	Key     string
	Request [32]byte // hash of the request
}

// Applied is the answer to a write.
type Applied struct {
	Items    []Item // one for each operation
	Replayed bool   // by IdempotencyKey: nothing was done now
}

// Record is a stored record.
type Record struct {
	Namespace Namespace
	Key       Key
	Header
	Value    canonjson.Value
	Metadata canonjson.Value
}

// Position is a place in an export: behind a key.
type Position struct {
	Namespace Namespace
	Key       Key
}

// How long things are kept.
const (
	ChangesKept = 7 * 24 * time.Hour
	AnswersKept = 24 * time.Hour
)
