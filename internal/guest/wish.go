package guest

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"holdfast/internal/errcode"
)

// Wish is an entry of a session's wishlist. A session has at most one for an item.
type Wish struct {
	ID       ID        `json:"id"`
	Tenant   string    `json:"tenant"`             // UUID in lower case
	Item     string    `json:"property"`           // UUID in lower case
	Quantity int       `json:"quantity,omitempty"` // 0: the profile has none
	Source   string    `json:"source"`             // where the guest added it; see Sources
	Note     string    `json:"note,omitempty"`     // "": none
	Added    time.Time `json:"added"`
	Removed  time.Time `json:"removed,omitzero"` // zero: it is live
}

// Sources are the values of Wish.Source.
var Sources = []string{"detail", "list", "map", "recently-viewed"}

// Limits of a wishlist.
const (
	MaxWishes = 100 // live entries of a session
	MaxNote   = 280 // code points
)

// Errors of wishlists.
var (
	ErrWishlistFull = errcode.Newf(errcode.Conflict, "the wishlist is full: it has %d entries", MaxWishes)
	ErrNoWish       = errcode.New(errcode.NotFound, "the wishlist does not have this property")
	ErrOtherTenant  = errcode.New(errcode.Conflict, "the wishlist has this property under another tenant")
	ErrSource       = BadMember("expected detail, list, map or recently-viewed", "source")
	ErrNote         = BadMember(fmt.Sprintf("expected at most %d characters of UTF-8 without NUL", MaxNote), "note")
)

// CheckNote rejects notes that are too long or not text.
func CheckNote(note string) error {
	if !utf8.ValidString(note) || utf8.RuneCountInString(note) > MaxNote {
		return ErrNote
	}
	for i := range len(note) {
		if note[i] == 0 { // PostgreSQL cannot store it
			return ErrNote
		}
	}
	return nil
}

// isLive reports whether a row of a wishlist is a live entry.
func (w *Wish) isLive() bool { return w.ID != "" && w.Removed.IsZero() }

// AddWish is a request to add an entry to the wishlist of a session.
type AddWish struct {
	Mutation
	Wish  Wish // with the ID of a new entry, and without times
	Event ID   // ID of the event that the entry was added
}

// WishOutcome says what a request to add an entry has done.
type WishOutcome string

// The values of WishOutcome.
const (
	WishAdded         WishOutcome = "added"
	WishKept          WishOutcome = "kept" // the entry was live before, and stays as it is
	WishlistFull      WishOutcome = "full"
	WishOfOtherTenant WishOutcome = "other-tenant"
)

// AddedWish is the result of AddWish.
type AddedWish struct {
	Outcome WishOutcome `json:"outcome"`
	Wish    Wish        `json:"wish,omitzero"` // zero if Err is not nil
}

// Err returns ErrWishlistFull, ErrOtherTenant, or nil. These refusals are results: a repeated
// request is refused again.
func (a *AddedWish) Err() error {
	switch a.Outcome {
	case WishlistFull:
		return ErrWishlistFull
	case WishOfOtherTenant:
		return ErrOtherTenant
	}
	return nil
}

// Decide adds an entry, or revives a removed entry, which keeps its ID. existing is the session's
// row for the item; a missing row has no ID. live counts the session's live entries. If the
// outcome is WishAdded, the store writes the entry and the event.
func (a *AddWish) Decide(existing Wish, live int, now time.Time) (r AddedWish, e Event, err error) {
	switch {
	case existing.ID != "" && existing.Tenant != a.Wish.Tenant:
		return AddedWish{Outcome: WishOfOtherTenant}, e, nil
	case existing.isLive():
		return AddedWish{WishKept, existing}, e, nil
	case live >= MaxWishes:
		return AddedWish{Outcome: WishlistFull}, e, nil
	}
	w := a.Wish
	if existing.ID != "" {
		w.ID = existing.ID
	}
	w.Added, w.Removed = now, time.Time{}
	e, err = wishEvent(a.Mutation, "wishlist.added.v1", a.Event, w, now)
	return AddedWish{WishAdded, w}, e, err
}

// ChangeWish is a request to replace the note and the quantity of an entry.
type ChangeWish struct {
	Mutation
	Item     string
	Note     *string // nil: it stays
	Quantity int     // 0: it stays
	Event    ID      // ID of the event that the quantity was changed
}

// ChangedWish is the result of ChangeWish.
type ChangedWish struct {
	Wish Wish `json:"wish"`
}

// Decide returns the entry with its new values, or ErrNoWish. existing is as in AddWish.Decide. If
// the quantity is another one, there is an event, and the store appends it.
func (c *ChangeWish) Decide(existing Wish, now time.Time) (r ChangedWish, e Event, err error) {
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
	Event ID // ID of the event that the entry was removed
}

// RemovedWish is the result of RemoveWish.
type RemovedWish struct {
	Removed bool `json:"removed"` // false: there was no live entry
}

// Decide decides whether there is an entry to remove. existing is as in AddWish.Decide. If there
// is, it is removed at the time now, and the event is stored.
func (r *RemoveWish) Decide(existing Wish, now time.Time) (removed RemovedWish, e Event, err error) {
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

// wishPayload returns the payload of an event about an entry.
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
