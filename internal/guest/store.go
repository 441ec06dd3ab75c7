package guest

import (
	"context"
	"time"

	"holdfast/internal/outbox"
)

// Store stores what must not be lost. Every method is atomic. Any method may return
// fault.Unavailable when the engine is unavailable. Then it had no effect, except that
// a lost connection may leave the result of a mutation unknown; repeating it is safe.
//
// The test suite in storetest defines the contract.
type Store interface {
	Suspensions

	// Mutate runs fn in a transaction that excludes other mutations of the session, and
	// stores its answer under the key of the mutation. If the key has an answer, Mutate
	// returns it instead, with replayed set, or ErrKeyReused if the digest is another one.
	// If fn returns an error, nothing is stored. fn may run twice and must not have other
	// effects. A mutation that waits too long for others of its session is ErrInFlight.
	Mutate(ctx context.Context, m Mutation, fn func(Tx) (Answer, error)) (a Answer, replayed bool, err error)

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

// Tx is the transaction of a mutation. It sees its own changes.
type Tx interface {
	// Now returns the time of the database, to the microsecond.
	Now() time.Time

	// AddWish is the rule AddWish on the session's wishlist. ID is that of a new entry.
	AddWish(w Wish) (result Wish, added bool, err error)

	// SetNote replaces the note of a live entry, or returns ErrNoWish.
	SetNote(property, note string) (Wish, error)

	// RemoveWish removes a live entry. It returns false if there is none.
	RemoveWish(property string) (Wish, bool, error)

	// Clear deletes the wishlist of the session, removed entries included, what its handoffs
	// say about the guest, and the answers of its mutations. It returns the composite keys of
	// these.
	Clear() (keys []string, err error)

	// Suspended reports whether a tenant, a UUID in lower case, is suspended.
	Suspended(tenant string) (bool, error)

	// Append appends events to the outbox, in their order.
	Append(events ...Event) error

	HandoffTx
}
