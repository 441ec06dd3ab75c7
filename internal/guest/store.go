package guest

import (
	"context"
	"time"
)

// Store durably stores wishlists and the answers to mutations.
//
// A mutation changes a session: AddWish, ChangeWish, RemoveWish and Clear, and elsewhere in the service Record and
// Mint. It runs in one transaction that excludes other mutations of the session, and stores its result, encoded by
// Mutation.Encode, under the mutation's key for MutationLife. If the key already has an answer, the mutation does
// nothing and returns the answer by the rules of Begin. An error means that nothing was stored. A mutation that waits
// too long for another returns ErrInFlight. The store calls the request's Decide method between reading and writing,
// with the store's own time in microseconds.
type Store interface {
	UserStore

	// AddWish adds a wishlist entry. A refusal by the wishlist rules is a result, not an error.
	AddWish(ctx context.Context, a AddWish) (Once[AddedWish], error)

	// ChangeWish replaces a live entry's note and quantity, or returns ErrNoWish.
	ChangeWish(ctx context.Context, c ChangeWish) (Once[ChangedWish], error)

	// RemoveWish removes a live entry, if it exists.
	RemoveWish(ctx context.Context, r RemoveWish) (Once[RemovedWish], error)

	// Clear deletes the session's wishlist including removed entries, the guest data in its handoffs, and the answers
	// to earlier mutations.
	Clear(ctx context.Context, c Clear) (Once[Cleared], error)

	// Wishes reads up to limit live entries, newest first and then by descending ID. It starts after the time and ID
	// in after, or at the beginning if after is nil.
	Wishes(ctx context.Context, session ID, after *Wish, limit int) ([]Wish, error)

	// FindSessions returns up to limit sessions with a wishlist by ID prefix, ordered by ID. The prefix includes at
	// least SessionPrefix.
	FindSessions(ctx context.Context, prefix string, limit int) ([]ID, error)

	// MarkSeen records that sessions (also user sessions) were used on the UTC day of at. Wishlists expire some time
	// after the session's last use. Sessions without a wishlist are ignored.
	MarkSeen(ctx context.Context, sessions []ID, at time.Time) error

	// Erase deletes a session's data and the sessions of the user who owns its list, and returns the composite keys
	// of its answers. Audited and unpublished events stay. Erased.Remains says where the engine may still hold
	// deleted content.
	Erase(ctx context.Context, session ID) (Erased, []string, error)
}
