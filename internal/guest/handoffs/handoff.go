package handoffs

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/tenants"
)

// Handoff is a guest who was sent to the site of a tenant, with a chosen stay or a payload.
type Handoff struct {
	ID      guest.ID
	Session guest.ID
	Tenant  string // UUID in lower case
	Item    string // as in guest.Wish
	Stay
	Payload  json.RawMessage // as it is signed; nil: it has a stay
	Campaign json.RawMessage // nil: none
	Key      string          // ID of the key that signed the token

	// Keyed hashes; empty when the guest has cleared the session.
	Fingerprint, IP []byte

	Minted, Expires time.Time // to the millisecond, as in the token

	Consumed   time.Time // zero: not consumed
	ConsumedBy string    // the service that consumed it
	ConsumeKey string    // its idempotency key
}

// Stay is what a guest wants to book.
type Stay struct {
	CheckIn, CheckOut       string // YYYY-MM-DD
	Adults, Children, Rooms int
	Currency                string // ISO 4217, such as EUR
	Locale                  string // BCP 47, such as de-AT
}

// Life is how long rows of handoffs are kept. A token lives 30 minutes at most, so
// it cannot outlive its row.
const Life = 24 * time.Hour

// Errors of handoffs.
var (
	ErrNoHandoff = errcode.New(errcode.NotFound, "there is no such handoff")
	ErrConsumed  = errcode.New(errcode.Conflict, "the handoff was consumed before")
	ErrExpired   = errcode.New(errcode.NotFound, "the handoff has expired")
	ErrToken     = errcode.New(errcode.Denied, "the token is not valid for this handoff")
	ErrBinding   = errcode.New(errcode.Denied, "the token was minted for another browser")
	ErrNoKey     = errcode.New(errcode.Unavailable, "no key is active, so no handoff can be signed")
	ErrRestored  = errcode.New(errcode.Unavailable, "the database was restored, and its keys of handoffs are not replaced yet")
)

// Consumption is an attempt to consume a handoff whose token was verified.
type Consumption struct {
	ID       guest.ID
	Claims   handoff.Claims // of the token
	SignedBy string         // ID of the key of the token
	By       string         // the service
	Key      string         // its idempotency key
}

// State is what else decides about a handoff.
type State struct {
	Now       time.Time // of the database
	KeyValid  bool      // the key that signed it is not retired
	Suspended bool      // the tenant is suspended
	Restored  bool      // the database was restored, and its keys are not replaced yet
}

// ClaimError means that the signed claims of a token differ from the stored handoff. It is an ErrToken.
type ClaimError struct{ Claim string } // the first that differs

// Error implements error.
func (e *ClaimError) Error() string {
	return "the token is signed, but its claim " + e.Claim + " differs from the stored handoff"
}

// Unwrap returns ErrToken.
func (*ClaimError) Unwrap() error { return ErrToken }

// compare returns a *ClaimError unless the claims of a token are those of the handoff. An erased handoff has no digests and no campaign
// to compare.
func (h *Handoff) compare(c handoff.Claims) error {
	own := ClaimsOf(*h)
	if len(h.Fingerprint) == 0 && len(h.IP) == 0 {
		own.Campaign, own.Fingerprint, own.IP = c.Campaign, c.Fingerprint, c.IP
	}
	for _, of := range []struct {
		claim string
		same  bool
	}{
		{"handoff ID", own.ID == c.ID}, {"session", own.Session == c.Session}, {"tenant", own.Tenant == c.Tenant}, {"property", own.Property == c.Property},
		{"check-in", own.CheckIn == c.CheckIn}, {"check-out", own.CheckOut == c.CheckOut}, {"payload", bytes.Equal(own.Payload, c.Payload)},
		{"adults", own.Adults == c.Adults}, {"children", own.Children == c.Children}, {"rooms", own.Rooms == c.Rooms},
		{"currency", own.Currency == c.Currency}, {"locale", own.Locale == c.Locale},
		{"campaign", bytes.Equal(own.Campaign, c.Campaign)}, {"fingerprint", bytes.Equal(own.Fingerprint, c.Fingerprint)}, {"IP", bytes.Equal(own.IP, c.IP)},
		{"minted", own.Minted.Equal(c.Minted)}, {"expires", own.Expires.Equal(c.Expires)},
	} {
		if !of.same {
			return &ClaimError{of.claim}
		}
	}
	return nil
}

// CheckConsume returns nil if the attempt may consume the handoff. repeated reports that
// it has done so before.
func (h *Handoff) CheckConsume(c Consumption, s State) (repeated bool, err error) {
	switch {
	case s.Restored:
		return false, ErrRestored
	case !s.KeyValid || h.Key != c.SignedBy:
		return false, ErrToken
	}
	if err := h.compare(c.Claims); err != nil {
		return false, err
	}
	switch {
	case !h.Consumed.IsZero() && h.ConsumedBy == c.By && h.ConsumeKey == c.Key:
		return true, nil
	case !h.Consumed.IsZero():
		return false, ErrConsumed
	case !s.Now.Before(h.Expires):
		return false, ErrExpired
	case s.Suspended:
		return false, tenants.ErrSuspended
	}
	return false, nil
}

// Consume marks the handoff as consumed by an attempt that CheckConsume allows. A clock that was
// set back may be before the time of the mint.
func (h *Handoff) Consume(c Consumption, now time.Time) {
	h.Consumed, h.ConsumedBy, h.ConsumeKey = now, c.By, c.Key
	if now.Before(h.Minted) {
		h.Consumed = h.Minted
	}
}

// Store stores handoffs, the keys that sign them, and the attempts to consume them that were
// refused.
type Store interface {
	RefusalStore
	AnswerStore

	// Mint stores a new handoff and its event, and returns its token. It is a mutation: see
	// guest.Store. The active key of Mint.KeyTenant signs the token; no one changes it until the end of the
	// transaction. Mint returns the errors of Mint.Check, ErrNoKey if no key is active, and
	// ErrRestored if the database was restored since the keys were made.
	Mint(ctx context.Context, m Mint) (guest.Once[Minted], error)

	// Consume consumes a handoff if CheckConsume allows it, by the clock of the database:
	// of any number of attempts one succeeds, and repeated it succeeds again, with
	// repeated set. It returns the errors of CheckConsume, and ErrNoHandoff.
	Consume(ctx context.Context, c Consumption) (h Handoff, repeated bool, err error)

	// Handoff reads a handoff with its state, or returns ErrNoHandoff.
	Handoff(ctx context.Context, id guest.ID) (Handoff, State, error)

	// Handoffs reads handoffs of a session that it has not cleared, newest first and then
	// by greater ID: at most limit, after the one with the time and ID of after, or from
	// the first if after is nil.
	Handoffs(ctx context.Context, session guest.ID, after *Handoff, limit int) ([]Handoff, error)

	// HandoffKeys reads the keys of a tenant, or the HMAC keys if tenant is "", by the time when they were added and then by ID.
	HandoffKeys(ctx context.Context, tenant string) ([]Key, error)

	// HandoffKey reads a key, or returns ErrNoSuchKey.
	HandoffKey(ctx context.Context, id string) (Key, error)

	// TenantKeys reads Ed25519 keys, by tenant and then by ID: at most limit, after the key with the tenant and ID of after.
	TenantKeys(ctx context.Context, after Key, limit int) ([]Key, error)

	// ChangeHandoffKeys changes keys as ChangeKeys.Decide says, in a transaction that
	// excludes others of its kind, and mints. It returns the errors of Decide; then nothing
	// changes.
	ChangeHandoffKeys(ctx context.Context, c ChangeKeys) (ChangedKeys, error)
}
