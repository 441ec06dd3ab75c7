package syncstorage

import (
	"context"
	"iter"
)

// Store stores the records of all users. Every method is one atomic operation of
// the protocol, and every method returns errcode.Denied for the zero Owner.
//
// Writes of one user are serialized by the row of user_collections with
// TombstoneID, so preconditions, quota and stamps are checked against the current
// state. A waiting writer eventually succeeds; there are no conflicts beyond those
// of the protocol.
//
// A write checks everything, including expiry, at its own stamp. If several checks
// fail, it returns the first of: too many names, the precondition, the batch, its
// limits, the quota.
//
// Any method may return errcode.Unavailable if the engine is unavailable, its
// connections are used up, or its disk is full. Then it had no effect, except that
// a lost connection may leave the result of a write unknown.
//
// The test suite in storetest defines the contract.
type Store interface {
	AdminStore

	// Collections reads info/collections. A user without data has none, and the
	// modified time 0.
	Collections(ctx context.Context, o Owner) (Collections, error)

	// Usage counts the live records and payload bytes of every collection.
	Usage(ctx context.Context, o Owner, now Timestamp) (Usage, error)

	// Get reads one record and checks r.If against it. It returns errcode.NotFound for
	// an absent or expired record, regardless of r.If, and a *PreconditionError if it
	// does not hold.
	Get(ctx context.Context, o Owner, r Request, id string) (BSO, error)

	// List reads a page of a collection. A collection that does not exist is empty
	// and has the modified time 0. If the query's If does not hold, it returns a
	// *PreconditionError.
	List(ctx context.Context, o Owner, q *Query) (*Listing, error)

	// Put writes one record. If is checked against the record.
	Put(ctx context.Context, o Owner, w Write, u Update) (Written, error)

	// Post writes several records with one stamp. If is checked against the
	// collection. The list may be empty: then the collection is created or gets a
	// new stamp.
	Post(ctx context.Context, o Owner, w Write, us []Update) (Written, error)

	// Append stages records in a batch, invisible to readers. It may open
	// the batch, which expires BatchLifetime after w.Now. If is checked against the
	// collection, whose stamp does not change and is returned as Written.Modified.
	// Errors: ErrNoBatch, ErrBatchTooLarge.
	Append(ctx context.Context, o Owner, w Write, p BatchPart) (Written, error)

	// Commit writes the staged records, and over them those of the last request,
	// with one stamp, and ends the batch. Times to live start at that stamp. If is
	// checked against the collection. Errors: ErrNoBatch, ErrBatchTooLarge.
	Commit(ctx context.Context, o Owner, w Write, p BatchPart) (Written, error)

	// DeleteBSO deletes one record and updates the collection's stamp. If is
	// checked against the record. It returns errcode.NotFound for an absent or
	// expired record.
	DeleteBSO(ctx context.Context, o Owner, w Write, id string) (Written, error)

	// DeleteBSOs deletes the named records, any of which may be absent, and updates
	// the collection's stamp. If is checked against the collection. If the
	// collection does not exist, nothing is written and Modified is the user's.
	DeleteBSOs(ctx context.Context, o Owner, w Write, ids []string) (Written, error)

	// DeleteCollection deletes a collection with its records and open batches and
	// updates the user's stamp; Previous is the collection's stamp before. If the
	// collection does not exist, nothing is written and Modified is the user's.
	DeleteCollection(ctx context.Context, o Owner, w Write) (Written, error)

	// DeleteAll deletes all data of the user, including the last stamp. p is
	// checked against the user. The number of names that the user added to the
	// table of collections stays.
	DeleteAll(ctx context.Context, o Owner, p Precondition) error

	// Sweep removes at most limit expired records and batches, of any user, and
	// returns their number. Collections keep their stamps.
	Sweep(ctx context.Context, now Timestamp, limit int) (int, error)

	// Ping checks that the engine is reachable and has the schema that this binary
	// requires. Otherwise it returns errcode.Unavailable with the reason.
	Ping(ctx context.Context) error
}

// AdminStore holds the operations for operators.
type AdminStore interface {
	// Totals reads the totals of users from the counters, in the order of the
	// owners, by one query with their keys.
	Totals(ctx context.Context, owners []Owner) ([]Total, error)

	// SetQuota sets the user's own quota, or removes it if bytes is not set; 0
	// means no limit. It applies from the next write on, even the user's first, and
	// DeleteAll does not remove it. A negative number is errcode.Invalid.
	SetQuota(ctx context.Context, o Owner, bytes Optional[int64]) error

	// Export yields the user's visible data at now, from one snapshot: each
	// collection followed by its records in ID order. A payload is valid until the
	// next iteration. An error ends the sequence.
	Export(ctx context.Context, o Owner, now Timestamp) iter.Seq2[Exported, error]

	// Restore writes exported records with their stamps. It skips records that have
	// a later stamp here. The collection's stamp becomes r.Modified, unless it is
	// later already, and the user's stamp follows. w.If is checked against the
	// user: with concurrent writes, clients would miss restored records, because
	// they ask for what is newer than they have seen.
	Restore(ctx context.Context, o Owner, w Write, r Restore) (Restored, error)
}

// Write holds the common parameters of all writes of a collection.
type Write struct {
	Collection string
	If         Precondition
	Now        Timestamp
	Quota      Quota

	// MaxNames is how many new names one user may add to the table of collections,
	// which all users share. Beyond that: ErrTooManyNames.
	MaxNames int
}

// Written is the result of a write.
type Written struct {
	Modified Timestamp // the stamp of the write
	Previous Timestamp // the collection's stamp before; 0 if it did not exist

	// Used is the live payload bytes of the collection and of the user after the
	// write, including staged records after an append. Writes that store records
	// compute it if Write.Quota has a limit. It may be too high where that decides
	// nothing: by records that have expired but are not swept, and by records that
	// staged ones will replace.
	Used Used

	Quota Quota // Write.Quota for this user; set by writes that store records
}
