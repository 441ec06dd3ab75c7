package guest

import (
	"context"
	"time"
)

// Store durably stores wishlists and mutation answers.
//
// A mutation changes a session: AddWish, ChangeWish, RemoveWish, RemoveSold, Clear and LinkUser, and in other packages Record and
// Mint. It runs in a transaction that excludes other mutations of the session, and stores its result under the
// mutation's key for MutationLife. A key with an answer makes the mutation return that answer by the rules of Begin,
// without any effect. After an error nothing was stored. A mutation that waits too long for another returns
// ErrInFlight. The store calls the request's Decide method between reading and writing, with the store's own time in
// microseconds, truncated: otherwise the first answer would differ from those that are repeated. It keeps Mutation.Digest
// with the answer.
//
// Methods are safe for concurrent use. They neither change nor keep slices in parameters, and results belong to the
// caller. They return errcode.Unavailable if the database is unavailable, or if ctx ends. Lists have at most limit
// elements, fewer only at the end, and none for limit 0.
type Store interface {
	UserStore

	// A refusal by the wishlist rules is a result, not an error. The guard is about the list; *ChangedError if it does not
	// hold.
	AddWish(ctx context.Context, a AddWish) (Once[AddedWish], error)

	// ChangeWish returns ErrNoWish without a live entry. The guard is about the entry; *ChangedError if it does not hold.
	ChangeWish(ctx context.Context, c ChangeWish) (Once[ChangedWish], error)

	// RemoveWish marks an entry as removed. A missing entry is a result, not an error. The guard is about the entry.
	RemoveWish(ctx context.Context, r RemoveWish) (Once[RemovedWish], error)

	// RemoveSold removes and reduces entries as RemoveSold.Decide says, each with its event. Nothing to change is not an
	// error.
	RemoveSold(ctx context.Context, r RemoveSold) (Once[RemovedSold], error)

	// Clear deletes the session's wishlist including removed entries, guest data in its handoffs, and earlier
	// answers. The guard is about the list.
	Clear(ctx context.Context, c Clear) (Once[Cleared], error)

	// Wishes reads up to limit live entries after the time and ID in after (nil: from the start), newest first, then
	// by descending ID.
	Wishes(ctx context.Context, session ID, after *Wish, limit int) ([]Wish, error)

	// FindSessions returns up to limit sessions with a wishlist by ID prefix, which includes SessionPrefix, in ID
	// order. It does not check the prefix.
	FindSessions(ctx context.Context, prefix string, limit int) ([]ID, error)

	// MarkSeen records the last use, as a UTC day, of sessions and user sessions; a later day stays. Wishlists expire some
	// time after it. Sessions without a wishlist are ignored. sessions may be empty and contain duplicates.
	MarkSeen(ctx context.Context, sessions []ID, at time.Time) error

	// Erase deletes a session's data and the sessions of the user who owns its list, and returns its answers'
	// composite keys. Audited and unpublished events stay. Erased.Remains says where the engine may still hold
	// deleted content. An unknown session is not an error. After an error, a part may be deleted: call it again.
	Erase(ctx context.Context, session ID) (Erased, []string, error)
}
