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

// Handoff records a guest sent to a tenant's site with a stay or a payload.
type Handoff struct {
	ID      guest.ID
	Session guest.ID
	Tenant  string // lower-case UUID
	Item    string // as in guest.Wish
	Stay
	Payload  json.RawMessage // as signed; nil: a stay instead
	Campaign json.RawMessage // JSON object; nil for none
	Key      string          // ID of the key that signed it

	// Keyed hashes. They are empty after the guest clears the session.
	Fingerprint, IP []byte

	Minted, Expires time.Time // in milliseconds, as in the token

	// Listed is the mint's time in microseconds: entries that were added later are not part of the handoff.
	Listed time.Time
	Voided time.Time // zero: not voided

	Consumed   time.Time // zero: not consumed
	ConsumedBy string    // service name
	ConsumeKey string    // consumer's idempotency key
}

// Stay is the stay a guest wants to book.
type Stay struct {
	CheckIn, CheckOut       string // YYYY-MM-DD
	Adults, Children, Rooms int
	Currency                string
	Locale                  string
}

// Life is how long handoff rows are kept. Tokens live at most 30 minutes, so they never outlive their row.
const Life = 24 * time.Hour

// ConsumedError means that a handoff with this name was consumed, so the name is spent.
type ConsumedError struct{ Handoff Handoff }

func (*ConsumedError) Error() string { return errcode.Message(ErrConsumed) }

// Unwrap makes errors.Is match ErrConsumed.
func (*ConsumedError) Unwrap() error { return ErrConsumed }

// Handoff errors.
var (
	ErrNoHandoff = errcode.New(errcode.NotFound, "no such handoff")
	ErrConsumed  = errcode.New(errcode.Conflict, "the handoff was consumed before")
	ErrVoided    = errcode.New(errcode.NotFound, "the handoff was voided: a later one replaced it, or its key was revoked")
	ErrExpired   = errcode.New(errcode.NotFound, "the handoff has expired")
	ErrToken     = errcode.New(errcode.Denied, "the token is not valid for this handoff")
	ErrBinding   = errcode.New(errcode.Denied, "the token was minted for another browser")
	ErrNoKey     = errcode.New(errcode.Unavailable, "no key is active, so no handoff can be signed")
	ErrRestored  = errcode.New(errcode.Unavailable, "the database was restored, and its handoff keys are not replaced yet")
)

// Consumption is an attempt to consume a verified handoff.
type Consumption struct {
	ID       guest.ID
	Claims   handoff.Claims // from the verified token
	SignedBy string         // key ID
	By       string         // service name of the consumer
	Key      string         // idempotency key; a repeat has the same By and Key
}

// State is the state of the database that decides whether a handoff can be consumed.
type State struct {
	Now       time.Time // database time
	KeyValid  bool      // the key's state allows the token
	Suspended bool      // the tenant is suspended
	Restored  bool      // database restored, keys not replaced yet
}

// ClaimError means that a token's signed claims differ from the stored handoff. Claim is the first difference.
type ClaimError struct{ Claim string }

func (e *ClaimError) Error() string {
	return "the token is signed, but its claim " + e.Claim + " differs from the stored handoff"
}

// Unwrap makes errors.Is match ErrToken.
func (*ClaimError) Unwrap() error { return ErrToken }

// compare returns a ClaimError if the claims differ. It ignores the digests and campaign of erased handoffs.
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

// CheckConsume checks whether the attempt may consume the handoff. repeated means that the same attempt already
// did.
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
	if !h.Consumed.IsZero() && h.ConsumedBy == c.By && h.ConsumeKey == c.Key {
		return true, nil
	}
	return false, h.checkOpen(s)
}

// checkOpen returns an error unless the handoff is open. It does not check the key.
func (h *Handoff) checkOpen(s State) error {
	switch {
	case !h.Consumed.IsZero():
		return ErrConsumed
	case !h.Voided.IsZero():
		return ErrVoided
	case !s.Now.Before(h.Expires):
		return ErrExpired
	case s.Suspended:
		return tenants.ErrSuspended
	}
	return nil
}

// CheckRepeat checks whether a repeated mint may return the token again: only while the handoff is open. It returns
// ErrRestored, ErrVoided, ErrExpired, tenants.ErrSuspended, or a *ConsumedError.
func (h *Handoff) CheckRepeat(s State) error {
	switch {
	case s.Restored:
		return ErrRestored
	case !h.Consumed.IsZero():
		return &ConsumedError{*h}
	case !s.KeyValid:
		return ErrVoided
	}
	return h.checkOpen(s)
}

// Consume marks the handoff as consumed. If the clock was set back, now may be before the mint.
func (h *Handoff) Consume(c Consumption, now time.Time) {
	h.Consumed, h.ConsumedBy, h.ConsumeKey = now, c.By, c.Key
	if now.Before(h.Minted) {
		h.Consumed = h.Minted
	}
}

// Store stores handoffs, their signing keys, and refused attempts to consume them. It keeps to the rules of guest.Store.
type Store interface {
	RefusalStore

	// Mint stores a handoff and its event and returns its token. Mint.KeyTenant's active key signs, and cannot
	// change until the transaction ends. If the handoff has a payload, Mint first reads the handoffs with its name that are neither
	// voided nor expired, and voids or keeps them as Mint.Claim decides; they cannot be consumed meanwhile. Mint
	// returns the errors of Mint.Check and Mint.Claim, ErrNoKey if no key is active, or ErrRestored if the database was
	// restored since the keys were made.
	Mint(ctx context.Context, m Mint) (guest.Once[Minted], error)

	// Consume consumes a handoff if CheckConsume allows it, by the database clock. Only one attempt succeeds; its
	// repeats return repeated. It returns CheckConsume's errors, or ErrNoHandoff.
	Consume(ctx context.Context, c Consumption) (h Handoff, repeated bool, err error)

	// Handoff reads a handoff with the state that CheckConsume needs. It returns ErrNoHandoff.
	Handoff(ctx context.Context, id guest.ID) (Handoff, State, error)

	// Handoffs reads up to limit handoffs that the session has not cleared, newest first, then by descending ID,
	// starting after the time and ID in after (nil: from the start).
	Handoffs(ctx context.Context, session guest.ID, after *Handoff, limit int) ([]Handoff, error)

	// HandoffKeys reads a tenant's keys ("": HMAC keys), by time added, then by ID.
	HandoffKeys(ctx context.Context, tenant string) ([]Key, error)

	// HandoffKey returns ErrNoSuchKey for an unknown ID. Retired keys are found.
	HandoffKey(ctx context.Context, id string) (Key, error)

	// TenantKeys reads up to limit Ed25519 keys by tenant and ID, starting after those in after.
	TenantKeys(ctx context.Context, after Key, limit int) ([]Key, error)

	// ChangeHandoffKeys applies ChangeKeys.Decide in a transaction that excludes mints and other key changes. If
	// Decide fails, nothing changes.
	ChangeHandoffKeys(ctx context.Context, c ChangeKeys) (ChangedKeys, error)
}
