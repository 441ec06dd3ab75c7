package guest

import (
	"context"
	"time"
)

// Store stores wishlists, which must not be lost, and the answers of mutations.
//
// A mutation is a step that changes a session: AddWish, ChangeWish, RemoveWish and Clear, and in the parts of
// the service Record and Mint. It happens in one transaction that excludes other mutations of
// the session, and stores its result, encoded by Mutation.Encode, under the key of
// the mutation for MutationLife. If the key has an answer, the step does nothing and returns
// that, by the rules of Begin. After an error nothing is stored. A step that waits too long for
// others of its session returns ErrInFlight. The method Decide of a request is its rule: the
// store calls it between what it reads and what it writes, with its own time, to the microsecond.
type Store interface {
	UserStore

	// AddWish adds an entry to the wishlist. A refusal by the rules of wishlists is a result.
	AddWish(ctx context.Context, a AddWish) (Once[AddedWish], error)

	// ChangeWish replaces the note and the quantity of a live entry, or returns ErrNoWish.
	ChangeWish(ctx context.Context, c ChangeWish) (Once[ChangedWish], error)

	// RemoveWish removes a live entry, if there is one.
	RemoveWish(ctx context.Context, r RemoveWish) (Once[RemovedWish], error)

	// Clear deletes the wishlist of the session, removed entries included, what its handoffs
	// say about the guest, and the answers of its earlier mutations.
	Clear(ctx context.Context, c Clear) (Once[Cleared], error)

	// Wishes reads live entries of a session, newest first and then by greater ID: at
	// most limit, after the entry with the time and ID of after, or from the first if
	// after is nil.
	Wishes(ctx context.Context, session ID, after *Wish, limit int) ([]Wish, error)

	// FindSessions returns at most limit sessions with a wishlist whose IDs begin with a prefix, ordered by ID.
	// The prefix is that of SessionPrefix at least.
	FindSessions(ctx context.Context, prefix string, limit int) ([]ID, error)

	// MarkSeen records that sessions, also those of users, were used on the day of a time in UTC. A wishlist is kept for
	// some time after the last use of its session. Sessions without a wishlist are ignored.
	MarkSeen(ctx context.Context, sessions []ID, at time.Time) error

	// Erase deletes what the database has of a session, and the sessions of the user whose list it has. It returns the
	// composite keys of its answers. Events that are audited or not published yet stay. Where content remains that
	// the engine has deleted, Erased.Remains says so.
	Erase(ctx context.Context, session ID) (Erased, []string, error)
}
