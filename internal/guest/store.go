package guest

import (
	"context"

	"holdfast/internal/outbox"
)

// Store stores what must not be lost. Every method is atomic. Any method may return
// fault.Unavailable when the engine is unavailable. Then it had no effect, except that
// a lost connection may leave the result of a mutation unknown; repeating it is safe.
//
// The test suite in storetest defines the contract.
type Store interface {
	Mutations
	Suspensions

	// Wishes reads live entries of a session, newest first and then by greater ID: at
	// most limit, after the entry with the time and ID of after, or from the first if
	// after is nil.
	Wishes(ctx context.Context, session ID, after *Wish, limit int) ([]Wish, error)

	// AppendEvents appends events of any sessions to the outbox, in their order and in one
	// transaction. It does not wait for mutations: the events of sessions that have one in
	// progress are returned as rest.
	AppendEvents(ctx context.Context, all []SessionEvent) (rest []SessionEvent, err error)

	// Outbox returns the events for a relay.
	Outbox() outbox.Kept
	HandoffStore
	RefusalStore
	AnswerStore
	BotStore
	RetentionStore

	// Ping checks that the engine is reachable and has the schema that this binary
	// requires. Otherwise it returns fault.Unavailable with the reason.
	Ping(ctx context.Context) error
}

// Mutations are the steps that change a session. Each happens in one transaction that excludes other
// mutations of the session, and stores its result, encoded by Mutation.Encode, under the key of
// the mutation for MutationLife. If the key has an answer, the step does nothing and returns
// that, by the rules of Begin. After an error nothing is stored. A step that waits too long for
// others of its session returns ErrInFlight. The method Decide of a request is its rule: the
// store calls it between what it reads and what it writes, with its own time, to the microsecond.
type Mutations interface {
	// AddWish adds an entry to the wishlist. A refusal by the rules of wishlists is a result.
	AddWish(ctx context.Context, a AddWish) (Once[AddedWish], error)

	// SetNote replaces the note of a live entry, or returns ErrNoWish.
	SetNote(ctx context.Context, s SetNote) (Once[NotedWish], error)

	// RemoveWish removes a live entry, if there is one.
	RemoveWish(ctx context.Context, r RemoveWish) (Once[RemovedWish], error)

	// Clear deletes the wishlist of the session, removed entries included, what its handoffs
	// say about the guest, and the answers of its earlier mutations.
	Clear(ctx context.Context, c Clear) (Once[Cleared], error)

	// Record appends the events of telemetry to the outbox, in their order.
	Record(ctx context.Context, r Record) (Once[Recorded], error)

	// Mint stores a new handoff and its event, and returns its token. The active key signs the
	// token; no one changes it until the end of the transaction. Mint returns the errors of
	// Mint.Check, ErrNoKey if no key is active, and ErrRestored if the database was restored
	// since the keys were made.
	Mint(ctx context.Context, m Mint) (Once[Minted], error)
}
