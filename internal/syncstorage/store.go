package syncstorage

import (
	"context"
	"iter"
)

// Store stores all users' records. Methods are atomic, safe for concurrent use, and return errcode.Denied for the zero
// Owner: the Service does not check it.
//
// The row in user_collections with TombstoneID serializes a user's writes, so everything is checked against the
// current state. A waiting writer eventually succeeds; the only conflicts are those of the protocol.
//
// A write checks, at its own stamp and in this order: too many names (ErrTooManyNames), precondition
// (*PreconditionError), batch (ErrNoBatch), batch limits (ErrBatchTooLarge), quota (ErrQuota).
//
// Methods return errcode.Unavailable if the engine is unavailable, or out of connections or disk space, or if ctx ends.
// They then had no effect, but after a lost connection the result of a write may be unknown.
//
// Slices in parameters belong to the caller: a method neither changes them nor keeps them after it returned, except
// that a Listing uses its Query until Close. Results belong to the caller, too, except where a method limits how long
// they are valid. Methods trust names, IDs and field values: the Service checked them.
//
// Package storetest defines the contract.
type Store interface {
	AdminStore

	// Collections is empty with modified time 0 for a user without data. Stamps are in no fixed order.
	Collections(ctx context.Context, o Owner) (Collections, error)

	// Usage counts the records that are live at now, by collection in no fixed order.
	Usage(ctx context.Context, o Owner, now Timestamp) (Usage, error)

	// Get returns errcode.NotFound for an absent or expired record, whatever r.If is, and a *PreconditionError if r.If
	// does not hold.
	Get(ctx context.Context, o Owner, r Request, id string) (BSO, error)

	// List treats a missing collection as empty with modified time 0. It returns *PreconditionError if the precondition
	// does not hold. It does not call Query.Check. ctx must not end, and q not change, before the listing is closed.
	List(ctx context.Context, o Owner, q *Query) (*Listing, error)

	// Put applies w.If to the record.
	Put(ctx context.Context, o Owner, w Write, u Update) (Written, error)

	// Post writes records with a single stamp. w.If applies to the collection. An empty list creates or stamps the
	// collection. Updates with the same ID are merged (Distinct), as in Append and Commit.
	Post(ctx context.Context, o Owner, w Write, us []Update) (Written, error)

	// Append stages records in a batch. If requested, it opens the batch, for BatchLifetime from w.Now. w.If applies
	// to the collection, whose stamp does not change and is Written.Modified. Append returns ErrNoBatch or
	// ErrBatchTooLarge.
	Append(ctx context.Context, o Owner, w Write, p BatchPart) (Written, error)

	// Commit writes the staged records, and then those of the last request, with a single stamp, at which TTLs start.
	// It ends the batch. w.If applies to the collection. Commit returns ErrNoBatch or ErrBatchTooLarge.
	Commit(ctx context.Context, o Owner, w Write, p BatchPart) (Written, error)

	// DeleteBSO stamps the collection. w.If applies to the record. It returns errcode.NotFound if the record is absent or
	// expired.
	DeleteBSO(ctx context.Context, o Owner, w Write, id string) (Written, error)

	// DeleteBSOs stamps the collection, to which w.If applies, even if ids is empty. It ignores missing records. If there
	// is no such collection, nothing is written and Modified is the user's stamp.
	DeleteBSOs(ctx context.Context, o Owner, w Write, ids []string) (Written, error)

	// DeleteCollection also deletes open batches, and stamps the user; Previous is the collection's last stamp. If there
	// is no such collection, nothing is written and Modified is the user's stamp.
	DeleteCollection(ctx context.Context, o Owner, w Write) (Written, error)

	// DeleteAll deletes the user's records, batches, collections and last stamp. The number of added names and the user's
	// own quota stay. p applies to the user. A user without data is not an error.
	DeleteAll(ctx context.Context, o Owner, p Precondition) error

	// Sweep removes at most limit rows that expired at or before now, across users, and returns their number: records,
	// batches, and the records staged in them. Fewer than limit means that none is left; limit, that some may be. A large
	// batch may need several calls, between which it stays expired. Collections keep their stamps. With an error, the
	// result may be too low. Spanner removes rows by itself: there, Sweep returns 0.
	Sweep(ctx context.Context, now Timestamp, limit int) (int, error)

	// Ping checks the schema version, too, which a newer release may change while this process runs. It returns
	// errcode.Unavailable with the reason.
	Ping(ctx context.Context) error
}

// AdminStore has the methods for operators' commands. They work for users of any state.
type AdminStore interface {
	// Totals reads the counters. The result has an element for each owner, in the same order. An unknown user counts 0.
	Totals(ctx context.Context, owners []Owner) ([]Total, error)

	// Owners returns up to n users with collections, in the order of the engine's keys, that come after a user. after may be
	// zero, and no user with this key need exist. Only the fields of the engine's key are set: UID, or on Spanner FxAUID
	// and FxAKID. Fewer than n users mean that none follow.
	Owners(ctx context.Context, after Owner, n int) ([]Owner, error)

	// SetQuota removes the user's own quota if bytes is unset; 0 means no limit. It applies from the next write on, even
	// the user's first, and survives DeleteAll. SetQuota returns errcode.Invalid for a negative number.
	SetQuota(ctx context.Context, o Owner, bytes Optional[int64]) error

	// Export yields a snapshot of the user's visible data: each collection followed by its records in ID order.
	// Exported.BSO and its payload are valid until the next iteration. An error ends the sequence. The snapshot holds a
	// connection while the loop runs; each loop over the sequence reads a new snapshot.
	Export(ctx context.Context, o Owner, now Timestamp) iter.Seq2[Exported, error]

	// Restore writes exported records with their stamps. It skips records that have a later stamp here. The collection's
	// stamp becomes r.Modified unless it is already later; the user's stamp becomes at least as late. w.If is compared
	// with the user's stamp, because clients that saw a concurrent write would miss restored records. IDs in r.Records
	// must be unique; their order does not matter. Restore does not call Restore.Check.
	Restore(ctx context.Context, o Owner, w Write, r Restore) (Restored, error)

	// EndBatches expires all open batches of all users, because in a restored database they may lack acknowledged
	// records, which a commit would lose.
	EndBatches(ctx context.Context) error
}

// Write contains parameters common to writes in a collection.
type Write struct {
	Collection string
	If         Precondition // see the method to which resource it applies
	Now        Timestamp    // clock time; the stamp may be later, see NextStamp
	Quota      Quota        // from the configuration; the user's own quota takes precedence

	// MaxNames limits the names that a user may add to the shared table of collections. 0 allows only names that exist
	// there, such as the standard collections.
	MaxNames int
}

// Written is the result of a write.
type Written struct {
	Modified Timestamp // stamp of this write
	Previous Timestamp // the collection's stamp before the write; 0 if it did not exist

	// Used is the number of live payload bytes after the write; after an append, it includes staged records. Writes
	// that store records compute it if Write.Quota has a limit.
	Used Used

	Quota Quota // this user's quota; set by writes that store records
}
