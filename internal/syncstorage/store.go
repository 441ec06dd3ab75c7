package syncstorage

import (
	"context"
	"iter"
)

// Store stores all users' records. Methods are atomic, and return errcode.Denied for the zero Owner.
//
// The row in user_collections with TombstoneID serializes a user's writes, so everything is checked against the
// current state. A waiting writer eventually succeeds; the only conflicts are the protocol's.
//
// A write checks, at its own stamp and in this order: too many names, precondition, batch, batch limits, quota.
//
// Methods return errcode.Unavailable if the engine is unavailable, or out of connections or disk space. They then had
// no effect, except that a lost connection may leave a write's result unknown.
//
// Package storetest defines the contract.
type Store interface {
	AdminStore

	// Collections reads info/collections; empty with modified time 0 for a user without data.
	Collections(ctx context.Context, o Owner) (Collections, error)

	// Usage counts live records and payload bytes by collection.
	Usage(ctx context.Context, o Owner, now Timestamp) (Usage, error)

	// Get returns errcode.NotFound for an absent or expired record, whatever r.If, or a *PreconditionError.
	Get(ctx context.Context, o Owner, r Request, id string) (BSO, error)

	// List reads a page. A missing collection is empty with modified time 0. It returns *PreconditionError.
	List(ctx context.Context, o Owner, q *Query) (*Listing, error)

	// Put writes a record. If applies to the record.
	Put(ctx context.Context, o Owner, w Write, u Update) (Written, error)

	// Post writes records with a single stamp. If applies to the collection, which an empty list creates or stamps.
	Post(ctx context.Context, o Owner, w Write, us []Update) (Written, error)

	// Append stages records in a batch, opening it if requested for BatchLifetime from w.Now. If applies to the
	// collection, whose unchanged stamp is Written.Modified. It returns ErrNoBatch or ErrBatchTooLarge.
	Append(ctx context.Context, o Owner, w Write, p BatchPart) (Written, error)

	// Commit writes the staged records, and over them the last request's, with a single stamp, which starts TTLs, and
	// ends the batch. If applies to the collection. It returns ErrNoBatch or ErrBatchTooLarge.
	Commit(ctx context.Context, o Owner, w Write, p BatchPart) (Written, error)

	// DeleteBSO deletes a record, to which If applies, and stamps its collection. It returns errcode.NotFound if
	// absent or expired.
	DeleteBSO(ctx context.Context, o Owner, w Write, id string) (Written, error)

	// DeleteBSOs deletes the named records, if they exist, and stamps the collection, to which If applies. Without
	// that collection, nothing is written and Modified is the user's.
	DeleteBSOs(ctx context.Context, o Owner, w Write, ids []string) (Written, error)

	// DeleteCollection deletes a collection with its records and open batches, and stamps the user; Previous is the
	// collection's last stamp. Without that collection, nothing is written and Modified is the user's.
	DeleteCollection(ctx context.Context, o Owner, w Write) (Written, error)

	// DeleteAll deletes all the user's data and stamps, but not the number of added names. p applies to the user.
	DeleteAll(ctx context.Context, o Owner, p Precondition) error

	// Sweep removes at most limit expired records and batches, across users, and returns how many. Collections keep
	// their stamps.
	Sweep(ctx context.Context, now Timestamp, limit int) (int, error)

	// Ping checks the engine's reachability and schema version. errcode.Unavailable carries the reason.
	Ping(ctx context.Context) error
}

// AdminStore has operations for operators.
type AdminStore interface {
	// Totals returns the users' totals in the order of owners. It reads them from the counters, with one query by
	// key.
	Totals(ctx context.Context, owners []Owner) ([]Total, error)

	// SetQuota sets the user's own quota, or removes it if unset; 0 means no limit. It applies from the next write
	// on, even the user's first, and survives DeleteAll. A negative number returns errcode.Invalid.
	SetQuota(ctx context.Context, o Owner, bytes Optional[int64]) error

	// Export yields a snapshot of the user's visible data: each collection followed by its records in ID order.
	// Payloads are valid until the next iteration. An error ends it.
	Export(ctx context.Context, o Owner, now Timestamp) iter.Seq2[Exported, error]

	// Restore writes exported records with their stamps, skipping those with a later stamp here. The collection's
	// stamp becomes r.Modified unless it is later already; the user's stamp becomes at least as late. w.If is
	// compared with the user's stamp: clients that saw a concurrent write would miss restored records.
	Restore(ctx context.Context, o Owner, w Write, r Restore) (Restored, error)
}

// Write holds parameters common to a collection's writes.
type Write struct {
	Collection string
	If         Precondition
	Now        Timestamp
	Quota      Quota

	// A user's new names in the shared table of collections.
	MaxNames int
}

// Written is the result of a write.
type Written struct {
	Modified Timestamp
	Previous Timestamp

	// Live payload bytes after the write, with staged records after an append. Writes that store records compute it
	// if Write.Quota has a limit. Where that decides nothing, it may include unswept expired records, and records to
	// be replaced by staged records.
	Used Used

	Quota Quota // for this user; set by writes that store records
}
