package guest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/fault"
	"holdfast/internal/ident"
)

// Service implements the operations of guests.
type Service struct {
	Options
	mirrors *mirrors
	seen    *seen
	caching caching

	observed observed
	refusals refusals
}

// Options are what a Service needs. Store, Hot, Cookies and Clock are required; a Service
// that only receives events needs a Store.
type Options struct {
	Store   Store
	Hot     Hot
	Cookies *Cookies
	Clock   clock.Clock

	// Local counts for Limits, and caches, while Hot is unavailable: then each of Processes
	// has its part of the limits. It also has copies of what was read from caches.
	Local     LocalHot
	Processes int
	Limits    Limits // nil: no limits

	// Samples say how much of telemetry is published.
	Samples SampleRates

	// Recorded, if set, is called with a kind of telemetry, what becomes of it (Published,
	// SampledOut or Dropped), and the number of items of a request.
	Recorded func(kind, result string, n int)

	// Types are those of received events; those of DefaultTenantTypes if it has none.
	Types TenantTypes

	Catalogue Catalogue // nil: every answer is ErrUpstream
	Campaign  bool      // search results are cached for longer

	// Cached, if set, is called with the name of a cache and one of CacheStates when it was
	// asked; Called after a call of the catalogue.
	Cached func(cache string, state CacheState)
	Called func(cache string, d time.Duration, err error)

	// Backups returns the known backups of the database, for Erase; nil: none is known.
	Backups func() ([]Backup, error)

	// Degraded, if set, is called when an operation continues without hot state, with one
	// of Degradations.
	Degraded func(what string)
}

// NewService returns a service.
func NewService(o Options) *Service {
	if o.Types.Suspended == nil {
		o.Types = DefaultTenantTypes()
	}
	return &Service{Options: o, mirrors: newMirrors(), seen: newSeen()}
}

// AddWish adds a property to the wishlist of a session. answer makes the answer of the
// request, which is stored; its error is nil, ErrWishlistFull or ErrOtherTenant.
func (s *Service) AddWish(ctx context.Context, m Mutation, w Wish, answer func(w Wish, added bool, err error) (Answer, error)) (Answer, bool, error) {
	var ok bool
	if w.Tenant, ok = ParseTenant(w.Tenant); !ok {
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
	return s.mutate(ctx, m, true, func(tx Tx) (Answer, error) {
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
	return s.mutate(ctx, m, true, func(tx Tx) (Answer, error) {
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
	return s.mutate(ctx, m, true, func(tx Tx) (Answer, error) {
		w, removed, err := tx.RemoveWish(property)
		if err != nil || !removed {
			return answer, err
		}
		return answer, s.appendWish(tx, "wishlist.removed.v1", m.Session, w)
	})
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
