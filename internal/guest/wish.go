package guest

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// Wish is a wishlist entry, at most one per session and item.
type Wish struct {
	ID       ID        `json:"id"`
	Tenant   string    `json:"tenant"`             // lower-case UUID
	Item     string    `json:"property"`           // lower-case UUID, or a text ID
	Quantity int       `json:"quantity,omitempty"` // 0 if the profile uses no quantities
	Source   string    `json:"source"`             // see Sources
	Note     string    `json:"note,omitempty"`
	Added    time.Time `json:"added"`
	Removed  time.Time `json:"removed,omitzero"` // zero if live
}

// Sources are the allowed values of Wish.Source.
var Sources = []string{"detail", "list", "map", "recently-viewed"}

// Wishlist limits.
const (
	MaxWishes = 100 // live entries per session
	MaxNote   = 280 // code points
)

// Wishlist errors.
var (
	ErrWishlistFull = errcode.Newf(errcode.Conflict, "the wishlist is full: it has %d entries", MaxWishes)
	ErrNoWish       = errcode.New(errcode.NotFound, "the wishlist does not have this property")
	ErrOtherTenant  = errcode.New(errcode.Conflict, "the wishlist has this property under another tenant")
	ErrSource       = BadMember("expected detail, list, map or recently-viewed", "source")
	ErrNote         = BadMember(fmt.Sprintf("expected at most %d UTF-8 characters without NUL", MaxNote), "note")
)

// CheckNote rejects notes that are too long or not text.
func CheckNote(note string) error {
	if !utf8.ValidString(note) || utf8.RuneCountInString(note) > MaxNote {
		return ErrNote
	}
	for i := range len(note) {
		if note[i] == 0 { // PostgreSQL cannot store NUL
			return ErrNote
		}
	}
	return nil
}

// isLive reports whether the row exists and is not removed.
func (w *Wish) isLive() bool { return w.ID != "" && w.Removed.IsZero() }

// AddWish is a request to add an entry.
type AddWish struct {
	Mutation
	Wish  Wish // with a new ID, without times; its quantity is added to a live entry's
	Most  int  // the entry's greatest quantity afterwards
	Event ID   // ID for the event
}

// WishOutcome says how AddWish ended.
type WishOutcome string

// Outcomes of AddWish.
const (
	WishAdded         WishOutcome = "added"
	WishKept          WishOutcome = "kept"    // already live, unchanged
	WishIncreased     WishOutcome = "changed" // already live, with a greater quantity
	WishlistFull      WishOutcome = "full"
	WishOfOtherTenant WishOutcome = "other-tenant"
	TooManyWishes     WishOutcome = "too-many" // the quantity would exceed AddWish.Most
)

// AddedWish is the result of AddWish.
type AddedWish struct {
	Outcome WishOutcome `json:"outcome"`
	Wish    Wish        `json:"wish,omitzero"` // zero if Err is not nil

	// set for TooManyWishes
	Quantity int `json:"quantity,omitempty"` // the refused quantity
	Most     int `json:"most,omitempty"`
}

// QuantityError means that an entry's quantity would exceed a limit.
type QuantityError struct{ Quantity, Most int }

func (e *QuantityError) Error() string {
	return fmt.Sprintf("the quantity would be %d: the limit is %d", e.Quantity, e.Most)
}

// Err returns the refusal, or nil.
func (a *AddedWish) Err() error {
	switch a.Outcome {
	case WishlistFull:
		return ErrWishlistFull
	case WishOfOtherTenant:
		return ErrOtherTenant
	case TooManyWishes:
		return &QuantityError{a.Quantity, a.Most}
	}
	return nil
}

// Decide adds an entry, revives a removed entry under its old ID, or increases a live entry's quantity and keeps its other
// members. existing is the session's row for the item, with an empty ID if missing; live counts live entries. If e has
// an ID, the store writes the entry and the event.
func (a *AddWish) Decide(existing Wish, live int, now time.Time) (r AddedWish, e Event, err error) {
	switch {
	case existing.ID != "" && existing.Tenant != a.Wish.Tenant:
		return AddedWish{Outcome: WishOfOtherTenant}, e, nil
	case existing.isLive():
		return a.increase(existing, now)
	case live >= MaxWishes:
		return AddedWish{Outcome: WishlistFull}, e, nil
	case a.Wish.Quantity > a.Most:
		return AddedWish{Outcome: TooManyWishes, Quantity: a.Wish.Quantity, Most: a.Most}, e, nil
	}
	w := a.Wish
	if existing.ID != "" {
		w.ID = existing.ID
	}
	w.Added, w.Removed = now, time.Time{}
	e, err = wishEvent(a.Mutation, "wishlist.added.v1", a.Event, w, now)
	return AddedWish{Outcome: WishAdded, Wish: w}, e, err
}

// increase adds to a live entry's quantity. Without quantities, adding again has no effect.
func (a *AddWish) increase(w Wish, now time.Time) (r AddedWish, e Event, err error) {
	if a.Wish.Quantity == 0 {
		return AddedWish{Outcome: WishKept, Wish: w}, e, nil
	}
	if sum := w.Quantity + a.Wish.Quantity; sum > a.Most {
		return AddedWish{Outcome: TooManyWishes, Quantity: sum, Most: a.Most}, e, nil
	}
	w.Quantity += a.Wish.Quantity
	e, err = wishEvent(a.Mutation, "wishlist.changed.v1", a.Event, w, now)
	return AddedWish{Outcome: WishIncreased, Wish: w}, e, err
}

// ChangeWish is a request to change an entry.
type ChangeWish struct {
	Mutation
	Item     string
	Note     *string // nil: unchanged
	Quantity int     // 0: unchanged
	Event    ID      // if the quantity changes
}

// ChangedWish is the result of ChangeWish.
type ChangedWish struct {
	Wish Wish `json:"wish"`
}

// Decide returns the changed entry, *ChangedError if the guard does not hold for the entry, or ErrNoWish. The store appends
// the event, which is empty unless the quantity changed.
func (c *ChangeWish) Decide(existing Wish, now time.Time) (r ChangedWish, e Event, err error) {
	if err := c.Guard.Check(existing.Tag()); err != nil {
		return r, e, err
	}
	if !existing.isLive() {
		return r, e, ErrNoWish
	}
	if c.Note != nil {
		existing.Note = *c.Note
	}
	if c.Quantity != 0 && c.Quantity != existing.Quantity {
		existing.Quantity = c.Quantity
		e, err = wishEvent(c.Mutation, "wishlist.changed.v1", c.Event, existing, now)
	}
	return ChangedWish{existing}, e, err
}

// RemoveWish is a request to remove an entry.
type RemoveWish struct {
	Mutation
	Item  string
	Event ID
}

// RemovedWish is the result of RemoveWish.
type RemovedWish struct {
	Removed bool `json:"removed"` // false if no entry was live
}

// Decide returns the result, or *ChangedError if the guard does not hold for the entry. If the entry was removed, the
// store marks it as removed at now and stores the event.
func (r *RemoveWish) Decide(existing Wish, now time.Time) (removed RemovedWish, e Event, err error) {
	if err := r.Guard.Check(existing.Tag()); err != nil {
		return removed, e, err
	}
	if !existing.isLive() {
		return RemovedWish{}, e, nil
	}
	e, err = wishEvent(r.Mutation, "wishlist.removed.v1", r.Event, existing, now)
	return RemovedWish{true}, e, err
}

// wishEvent returns an event about an entry.
func wishEvent(m Mutation, kind string, id ID, w Wish, now time.Time) (Event, error) {
	payload, err := json.Marshal(wishPayload(m, w))
	if err != nil {
		return Event{}, errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	return Event{ID: id, Type: m.Profile.EventType(kind), Subject: string(w.ID), Retention: Operational, Payload: payload, At: now}, nil
}

// wishPayload returns the payload, whose names depend on the profile.
func wishPayload(m Mutation, w Wish) any {
	if m.Profile.IsHotel() {
		return struct {
			SessionID  ID     `json:"sessionId"`
			WishID     ID     `json:"wishId"`
			TenantID   string `json:"tenantId"`
			PropertyID string `json:"propertyId"`
			Source     string `json:"source"`
		}{m.Session, w.ID, w.Tenant, w.Item, w.Source}
	}
	return struct {
		SessionID ID     `json:"sessionId"`
		WishID    ID     `json:"wishId"`
		TenantID  string `json:"tenantId"`
		ItemID    string `json:"itemId"`
		Quantity  int    `json:"quantity,omitempty"`
		Source    string `json:"source"`
	}{m.Session, w.ID, w.Tenant, w.Item, w.Quantity, w.Source}
}
