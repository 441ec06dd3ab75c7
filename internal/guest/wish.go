package guest

import (
	"fmt"
	"time"
	"unicode/utf8"

	"holdfast/internal/fault"
)

// Wish is an entry of a session's wishlist. A session has at most one for a property.
type Wish struct {
	ID       ID
	Tenant   string // UUID in lower case
	Property string // UUID in lower case
	Source   string // where the guest added it; see Sources
	Note     string // "": none
	Added    time.Time
	Removed  time.Time // zero: it is live
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
	ErrWishlistFull = fault.Newf(fault.Conflict, "the wishlist is full: it has %d entries", MaxWishes)
	ErrNoWish       = fault.New(fault.NotFound, "the wishlist does not have this property")
	ErrOtherTenant  = fault.New(fault.Conflict, "the wishlist has this property under another tenant")
	ErrSource       = badMember("expected detail, list, map or recently-viewed", "source")
	ErrNote         = badMember(fmt.Sprintf("expected at most %d characters of UTF-8 without NUL", MaxNote), "note")
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

// AddWish adds an entry, or revives a removed one, which keeps its ID. An entry that is
// live stays as it is, and added is false. Existing is the session's row for the property,
// if any; live is the number of its live entries.
func AddWish(w Wish, existing Wish, exists bool, live int) (result Wish, added bool, err error) {
	switch {
	case exists && existing.Tenant != w.Tenant:
		return Wish{}, false, ErrOtherTenant
	case exists && existing.Removed.IsZero():
		return existing, false, nil
	case live >= MaxWishes:
		return Wish{}, false, ErrWishlistFull
	case exists:
		w.ID = existing.ID
	}
	return w, true, nil
}

// CheckLive returns ErrNoWish unless an entry exists and is live.
func CheckLive(w Wish, exists bool) error {
	if !exists || !w.Removed.IsZero() {
		return ErrNoWish
	}
	return nil
}
