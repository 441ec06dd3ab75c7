package syncstorage

import (
	"context"
	"iter"
)

// Store stores all users' records. Methods are atomic, and return errcode.Denied for the zero Owner.
//
// A user's writes are serialized by the row in user_collections with TombstoneID, so preconditions, quotas and stamps
// are checked against the current state. A waiting writer eventually succeeds; the only conflicts are the protocol's.
//
// A write checks everything, even expiry, at its own stamp, in this order: too many names, precondition, batch, batch
// limits, quota.
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

	// Get reads a record. It returns errcode.NotFound if absent or expired, regardless of r.If, or a
	// *PreconditionError.
	Get(ctx context.Context, o Owner, r Request, id string) (BSO, error)

	// List reads a page. A missing collection is empty with modified time 0. It returns *PreconditionError.
	List(ctx context.Context, o Owner, q *Query) (*Listing, error)

	// Put writes a record. If applies to the record.
	Put(ctx context.Context, o Owner, w Write, u Update) (Written, error)

	// Post writes records with one stamp. If applies to the collection. An empty list creates or stamps the
	// collection.
	Post(ctx context.Context, o Owner, w Write, us []Update) (Written, error)

	// Append stages records in a batch, invisible to readers, opening it if requested; it expires BatchLifetime after
	// w.Now. If applies to the collection, whose unchanged stamp is returned as Written.Modified. It returns
	// ErrNoBatch or ErrBatchTooLarge.
	Append(ctx context.Context, o Owner, w Write, p BatchPart) (Written, error)

	// Commit writes the staged records, and over them the last request's, with one stamp from which TTLs start, and
	// ends the batch. If applies to the collection. It returns ErrNoBatch or ErrBatchTooLarge.
	Commit(ctx context.Context, o Owner, w Write, p BatchPart) (Written, error)

	// DeleteBSO deletes a record and stamps its collection. If applies to the record. It returns errcode.NotFound if
	// absent or expired.
	DeleteBSO(ctx context.Context, o Owner, w Write, id string) (Written, error)

	// DeleteBSOs deletes the named records, if they exist, and stamps the collection, to which If applies. If the
	// collection does not exist, nothing is written and Modified is the user's.
	DeleteBSOs(ctx context.Context, o Owner, w Write, ids []string) (Written, error)

	// DeleteCollection deletes a collection with its records and open batches, and stamps the user; Previous is the
	// collection's last stamp. If the collection does not exist, nothing is written and Modified is the user's.
	DeleteCollection(ctx context.Context, o Owner, w Write) (Written, error)

	// DeleteAll deletes all the user's data, including the last stamp, but not the number of added names. p applies
	// to the user.
	DeleteAll(ctx context.Context, o Owner, p Precondition) error

	// Sweep removes at most limit expired records and batches, across users, and returns how many. Collections keep
	// their stamps.
	Sweep(ctx context.Context, now Timestamp, limit int) (int, error)

	// Ping checks that the engine is reachable with the schema version that this binary requires. It returns
	// errcode.Unavailable with the reason.
	Ping(ctx context.Context) error
}

// AdminStore holds operations for operators.
type AdminStore interface {
	// Totals reads users' totals from the counters, in order, with one query by key.
	Totals(ctx context.Context, owners []Owner) ([]Total, error)

	// SetQuota sets the user's own quota, or removes it if unset; 0 means no limit. It applies from the next write
	// on, even the user's first, and survives DeleteAll. It returns errcode.Invalid for a negative number.
	SetQuota(ctx context.Context, o Owner, bytes Optional[int64]) error

	// Export yields the user's visible data from one snapshot: each collection followed by its records in ID order.
	// Payloads are valid until the next iteration. An error ends the sequence.
	Export(ctx context.Context, o Owner, now Timestamp) iter.Seq2[Exported, error]

	// Restore writes exported records with their stamps, skipping those with a later stamp here. The collection's
	// stamp becomes r.Modified unless it is later; the user's follows. w.If applies to the user: after concurrent
	// writes, clients would miss restored records, because they ask for what is newer than they saw.
	Restore(ctx context.Context, o Owner, w Write, r Restore) (Restored, error)
}

// Write holds parameters common to a collection's writes.
type Write struct {
	Collection string
	If         Precondition
	Now        Timestamp
	Quota      Quota

	// MaxNames is how many new names a user may add to the shared table of collections before ErrTooManyNames.
	MaxNames int
}

// Written is the result of a write.
type Written struct {
	Modified Timestamp // this write's stamp
	Previous Timestamp // collection's stamp before; 0: none

	// Used is the live payload bytes after the write, including staged records after an append. Writes that store
	// records compute it if Write.Quota has a limit. Where that decides nothing, it may still include unswept expired
	// records, and records that staged ones will replace.
	Used Used

	Quota Quota // for this user; set by writes that store records
}
