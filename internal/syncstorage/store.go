package syncstorage

import (
	"context"
	"iter"
)

// Store keeps the records of all users. Every method is one step of the
// protocol that happens whole or not at all, and every method refuses the
// zero Owner with fault.Denied.
//
// Writes of one user are serialised by the row of user_collections under
// TombstoneID, so preconditions, quota and stamps are judged on what is there.
// A waiting writer waits and then succeeds; it never meets a conflict that the
// protocol does not have.
//
// A write judges what it finds, expiry included, at its own stamp. One that
// could be refused for several reasons is refused for the first of: too many
// names, the precondition, the batch, its limits, the quota.
//
// Any method may fail with fault.Unavailable when the engine is away, its
// connections are used up, or its disk is full; nothing of the step is then
// done, except that a lost connection may leave the result of a write unknown.
//
// The contract is the suite in storetest.
type Store interface {
	AdminStore

	// Collections is info/collections. A user without data has none, at 0.
	Collections(ctx context.Context, o Owner) (Collections, error)

	// Usage counts the live records and payload bytes of every collection.
	Usage(ctx context.Context, o Owner, now Timestamp) (Usage, error)

	// Get reads one record and judges p on it. A record that is absent or
	// expired is fault.NotFound, whatever p says; p failing is a
	// *PreconditionError.
	Get(ctx context.Context, o Owner, collection, id string, p Precondition, now Timestamp) (BSO, error)

	// List reads a page of a collection; a collection that does not exist is
	// empty and was modified at 0. The query's If failing is a
	// *PreconditionError.
	List(ctx context.Context, o Owner, q *Query) (*Listing, error)

	// Put writes one record. If is judged on the record.
	Put(ctx context.Context, o Owner, w Write, u Update) (Written, error)

	// Post writes several records with one stamp. If is judged on the
	// collection. No record at all is legal: the collection is then created
	// or its stamp moved.
	Post(ctx context.Context, o Owner, w Write, us []Update) (Written, error)

	// Append stages records in a batch; nothing of it is visible. With create
	// the batch is opened first and expires BatchLifetime after w.Now. If is
	// judged on the collection, whose stamp stays as it is and is returned as
	// Written.Modified. ErrNoBatch, ErrBatchTooLarge.
	Append(ctx context.Context, o Owner, w Write, b BatchID, create bool, us []Update, limits BatchLimits) (Written, error)

	// Commit writes what is staged, and over it the records of the last
	// request, with one stamp, and ends the batch. A time to live counts from
	// that stamp. If is judged on the collection. ErrNoBatch,
	// ErrBatchTooLarge.
	Commit(ctx context.Context, o Owner, w Write, b BatchID, us []Update, limits BatchLimits) (Written, error)

	// DeleteBSO deletes one record and moves the collection's stamp. If is
	// judged on the record; an absent or expired one is fault.NotFound.
	DeleteBSO(ctx context.Context, o Owner, w Write, id string) (Written, error)

	// DeleteBSOs deletes the named records, of which any may be absent, and
	// moves the collection's stamp. If is judged on the collection. A
	// collection that does not exist stays so: nothing is written and
	// Modified is the user's.
	DeleteBSOs(ctx context.Context, o Owner, w Write, ids []string) (Written, error)

	// DeleteCollection deletes a collection with its records and open batches
	// and moves the user's stamp; Previous is the collection's stamp before.
	// A collection that does not exist is no error: nothing is written and
	// Modified is the user's.
	DeleteCollection(ctx context.Context, o Owner, w Write) (Written, error)

	// DeleteAll deletes everything of the user, the last stamp included: the
	// next write starts a new life. p is judged on the user. The count of
	// names that the user brought into the collections table stays.
	DeleteAll(ctx context.Context, o Owner, p Precondition) error

	// Sweep removes at most limit expired records and batches, of any users,
	// and returns how many. Collections keep their stamps.
	Sweep(ctx context.Context, now Timestamp, limit int) (int, error)

	// Ping reaches the engine and finds the schema that this binary needs, or
	// says with fault.Unavailable what is missing.
	Ping(ctx context.Context) error
}

// AdminStore is what operators do with the records of users.
type AdminStore interface {
	// Totals reads what users store by the counters, in the order of the owners: in
	// one query, by the key of each.
	Totals(ctx context.Context, owners []Owner) ([]Total, error)

	// SetQuota gives the user a quota of its own, or takes it away when bytes is not
	// set; 0 is no limit. It holds from the next write on, also when that is the
	// user's first, and DeleteAll does not end it. fault.Invalid below 0.
	SetQuota(ctx context.Context, o Owner, bytes Optional[int64]) error

	// Export yields what is visible of the user at now, of one snapshot: each
	// collection, and behind it its records in the order of their ids. A payload is
	// valid until the next is asked for; an error ends the sequence.
	Export(ctx context.Context, o Owner, now Timestamp) iter.Seq2[Exported, error]

	// Restore writes records of an export with the stamps that they have in it. A
	// record whose stamp is later here stays as it is. The stamp of the collection
	// becomes r.Modified, unless it is later; that of the user follows. w.If is
	// judged on the user: a restore that others write beside would hide records from
	// clients, which ask for what is newer than they have seen.
	Restore(ctx context.Context, o Owner, w Write, r Restore) (Restored, error)
}

// Write is what every write of a collection has in common.
type Write struct {
	Collection string
	If         Precondition
	Now        Timestamp
	Quota      Quota

	// MaxNames is how many new names one user may bring into the table of
	// collections, which all users share. One more is ErrTooManyNames.
	MaxNames int
}

// Written is the result of a write.
type Written struct {
	Modified Timestamp // the stamp of the write
	Previous Timestamp // the collection's stamp before it; 0 when it was not there

	// Used is the live payload bytes of the collection and of the user after the
	// write, what an append has staged included. Writes that store compute it
	// when Write.Quota has a limit. It may be too much, by what has expired and
	// is not swept yet and by what staged records will replace, where that
	// decides nothing.
	Used Used

	Quota Quota // Write.Quota for this user; of writes that store
}
