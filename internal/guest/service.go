package guest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
	"holdfast/internal/ident"
)

// Service implements the operations of guests.
type Service struct{ Options }

// Options are what a Service needs. All are required.
type Options struct {
	Store   Store
	Hot     Hot
	Cookies *Cookies
	Clock   clock.Clock
}

// NewService returns a service.
func NewService(o Options) *Service { return &Service{o} }

// Begin begins a session.
func (s *Service) Begin(ctx context.Context) (Session, error) {
	now := s.Clock().UTC()
	session := Session{ID: NewID(SessionPrefix, now), Created: now}
	return session, s.Hot.PutSession(ctx, session)
}

// Session returns the session of a cookie that was verified. If its state was lost, it
// begins again with an empty one.
func (s *Service) Session(ctx context.Context, id ID) (Session, error) {
	session, found, err := s.Hot.Session(ctx, id)
	if err != nil || found {
		return session, err
	}
	session = Session{ID: id, Created: s.Clock().UTC()}
	return session, s.Hot.PutSession(ctx, session)
}

// SetPreferences changes those preferences that are not nil.
func (s *Service) SetPreferences(ctx context.Context, id ID, locale, currency *string) (Session, error) {
	if locale != nil && !isLocale(*locale) {
		return Session{}, ErrLocale
	}
	if currency != nil && !isCurrency(*currency) {
		return Session{}, ErrCurrency
	}
	session, err := s.Session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if locale != nil {
		session.Locale = *locale
	}
	if currency != nil {
		session.Currency = *currency
	}
	return session, s.Hot.PutSession(ctx, session)
}

// Errors of preferences and of IDs in requests.
var (
	ErrLocale   = fault.New(fault.Invalid, "locale: expected a language tag such as de-AT")
	ErrCurrency = fault.New(fault.Invalid, "currency: expected three capital letters such as EUR")
	ErrTenant   = fault.New(fault.Invalid, "tenantId: expected a UUID")
	ErrProperty = fault.New(fault.Invalid, "propertyId: expected a UUID")
)

// isLocale accepts subtags of 1 to 8 letters and digits, the first of 2 or 3 letters.
func isLocale(s string) bool {
	if len(s) > 35 {
		return false
	}
	n, first := 0, true
	for i := 0; i <= len(s); i++ {
		if i == len(s) || s[i] == '-' {
			if n == 0 || n > 8 || first && (n < 2 || n > 3) {
				return false
			}
			n, first = 0, false
			continue
		}
		letter := 'a' <= s[i]|0x20 && s[i]|0x20 <= 'z'
		if !letter && (first || s[i] < '0' || s[i] > '9') {
			return false
		}
		n++
	}
	return true
}

func isCurrency(s string) bool {
	return len(s) == 3 && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < 'A' || c > 'Z' })
}

// AddWish adds a property to the wishlist of a session. answer makes the answer of the
// request, which is stored; its error is nil, ErrWishlistFull or ErrOtherTenant.
func (s *Service) AddWish(ctx context.Context, m Mutation, w Wish, answer func(w Wish, added bool, err error) (Answer, error)) (Answer, bool, error) {
	var ok bool
	if w.Tenant, ok = ident.ParseUUID(w.Tenant); !ok {
		return Answer{}, false, ErrTenant
	}
	if w.Property, ok = ident.ParseUUID(w.Property); !ok {
		return Answer{}, false, ErrProperty
	}
	if !slices.Contains(Sources, w.Source) {
		return Answer{}, false, ErrSource
	}
	if err := CheckNote(w.Note); err != nil {
		return Answer{}, false, err
	}
	w.ID = NewID(WishPrefix, s.Clock())
	return s.Store.Mutate(ctx, m, func(tx Tx) (Answer, error) {
		result, added, err := tx.AddWish(w)
		switch {
		case errors.Is(err, ErrWishlistFull), errors.Is(err, ErrOtherTenant):
			return answer(result, false, err)
		case err != nil:
			return Answer{}, err
		case added:
			if err := s.appendWish(tx, "wishlist.added.v1", m.Session, result); err != nil {
				return Answer{}, err
			}
		}
		return answer(result, added, nil)
	})
}

// SetNote replaces the note of an entry.
func (s *Service) SetNote(ctx context.Context, m Mutation, property, note string, answer func(Wish) (Answer, error)) (Answer, bool, error) {
	property, ok := ident.ParseUUID(property)
	if !ok {
		return Answer{}, false, ErrNoWish
	}
	if err := CheckNote(note); err != nil {
		return Answer{}, false, err
	}
	return s.Store.Mutate(ctx, m, func(tx Tx) (Answer, error) {
		w, err := tx.SetNote(property, note)
		if err != nil {
			return Answer{}, err
		}
		return answer(w)
	})
}

// RemoveWish removes an entry, if there is one.
func (s *Service) RemoveWish(ctx context.Context, m Mutation, property string, answer Answer) (Answer, bool, error) {
	property, ok := ident.ParseUUID(property)
	if !ok {
		return answer, false, nil
	}
	return s.Store.Mutate(ctx, m, func(tx Tx) (Answer, error) {
		w, removed, err := tx.RemoveWish(property)
		if err != nil || !removed {
			return answer, err
		}
		return answer, s.appendWish(tx, "wishlist.removed.v1", m.Session, w)
	})
}

// Clear deletes what a session has, and begins another one.
func (s *Service) Clear(ctx context.Context, m Mutation, answer Answer) (Session, Answer, bool, error) {
	a, replayed, err := s.Store.Mutate(ctx, m, func(tx Tx) (Answer, error) { return answer, tx.Clear() })
	if err != nil {
		return Session{}, Answer{}, false, err
	}
	if err := s.Hot.DropSession(ctx, m.Session); err != nil {
		return Session{}, Answer{}, false, err
	}
	session, err := s.Begin(ctx)
	return session, a, replayed, err
}

// topics is the beginning of the types of events.
const topics = "melmastoon.bff.consumer."

func (s *Service) appendWish(tx Tx, kind string, session ID, w Wish) error {
	payload, err := json.Marshal(struct {
		SessionID  ID     `json:"sessionId"`
		WishID     ID     `json:"wishId"`
		TenantID   string `json:"tenantId"`
		PropertyID string `json:"propertyId"`
		Source     string `json:"source"`
	}{session, w.ID, w.Tenant, w.Property, w.Source})
	if err != nil {
		return fault.Wrap(fault.Internal, "encode an event", err)
	}
	return tx.Append(Event{
		ID: NewID(EventPrefix, s.Clock()), Type: topics + kind, Subject: string(w.ID), Retention: Operational, Payload: payload, At: tx.Now(),
	})
}
