package guest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"holdfast/internal/canonjson"
	"holdfast/internal/clock"
)

// Service has the use cases of guests. It is safe for concurrent use.
type Service struct {
	opts    Options
	limits  atomic.Pointer[Limits]
	mirrors *mirrors
	seen    *seen
	forget  []func(ID) // see OnErase

	restored atomic.Bool // see RestoreHot

	payload    func() (*schema, error) // compiled schemas
	criteria   func() (*schema, error)
	attributes func() (*schema, error)
}

// Options are a Service's dependencies. Store, Hot, Cookies and Clock are required.
type Options struct {
	Store   Store
	Hot     Hot
	Cookies *Cookies
	Clock   clock.Clock
	Profile *Profile // nil: Hotel
	Users   Users    // nil: no sign-in

	// Local enforces Limits while Hot is unavailable; each of Processes gets an equal share. nil: no limits
	// meanwhile.
	Local     HotLimits
	Processes int    // that share the limits; 0 means 1
	Limits    Limits // see SetLimits

	Degraded Degraded // counts; may be nil

	// AddressLimited is called with Limit's arguments when it refuses a request because of the bucket that all sessions of
	// the client address share; may be nil.
	AddressLimited func(class Class, address string)

	// Keeper is Hot in memory whose sessions are also kept in Kept, the database of no other server; both nil: hot state
	// ends with the process, or outlives it by itself.
	Keeper HotKeeper
	Kept   HotStore
}

// NewService returns a Service. Run Repair beside it.
func NewService(o Options) *Service {
	s := &Service{opts: o, mirrors: newMirrors(), seen: newSeen()}
	s.payload = sync.OnceValues(func() (*schema, error) { return parseSchema(o.Profile.Payload) })
	s.criteria = sync.OnceValues(func() (*schema, error) { return parseSchema(o.Profile.Criteria) })
	s.attributes = sync.OnceValues(func() (*schema, error) { return parseSchema(o.Profile.site().AttributesSchema) })
	s.SetLimits(o.Limits)
	return s
}

// Limits returns the current limits, which callers must not change; nil: unlimited.
func (s *Service) Limits() Limits { return *s.limits.Load() }

// SetLimits replaces the limits; nil: unlimited. Taken tokens stay taken. The caller must not change the map afterwards.
func (s *Service) SetLimits(l Limits) { s.limits.Store(&l) }

// VerifyCookie is Cookies.Verify.
func (s *Service) VerifyCookie(cookie string) (session ID, old, ok bool) {
	return s.opts.Cookies.Verify(cookie)
}

// SignCookie is Cookies.Sign.
func (s *Service) SignCookie(session ID) string { return s.opts.Cookies.Sign(session) }

// Profile returns the profile; nil means Hotel.
func (s *Service) Profile() *Profile { return s.opts.Profile }

// CheckPayload returns FieldErrors with errcode.Invalid unless the payload matches the profile's schema, which must
// exist. Pointers are relative to the payload.
func (s *Service) CheckPayload(ctx context.Context, payload canonjson.Value) error {
	schema, err := s.payload()
	if err != nil {
		return err
	}
	return schema.validate(ctx, payload)
}

// CheckCriteria is CheckPayload for searches.
func (s *Service) CheckCriteria(ctx context.Context, criteria canonjson.Value) error {
	schema, err := s.criteria()
	if err != nil {
		return err
	}
	return schema.validate(ctx, criteria)
}

// AddWish validates and adds an entry, or adds to its quantity, up to most; 0 means the profile's maximum. A repeated request
// returns the first result. Err of the result is the refusal by the wishlist's rules.
func (s *Service) AddWish(ctx context.Context, m Mutation, w Wish, most int) (o Once[AddedWish], err error) {
	var ok bool
	if w.Tenant, ok = m.Profile.ParseTenant(w.Tenant); !ok {
		return o, ErrTenant
	}
	if w.Item, ok = m.Profile.ParseItem(w.Item); !ok {
		return o, BadMember(m.Profile.ExpectedItem(), m.Profile.Member())
	}
	if !slices.Contains(Sources, w.Source) {
		return o, ErrSource
	}
	if err := CheckNote(w.Note); err != nil {
		return o, err
	}
	if err := m.Profile.checkQuantity(w.Quantity, "quantity"); err != nil {
		return o, err
	}
	if most == 0 {
		most = m.Profile.maxQuantity()
	} else if err := m.Profile.checkQuantity(most, "max"); err != nil {
		return o, err
	}
	w.ID = NewID(WishPrefix, s.opts.Clock())
	a := AddWish{m, w, most, NewID(EventPrefix, s.opts.Clock())}
	return onWishlist(ctx, s, m, func() (Once[AddedWish], error) { return s.opts.Store.AddWish(ctx, a) })
}

// ChangeWish changes note or quantity. It returns ErrNoWish without a live entry.
func (s *Service) ChangeWish(ctx context.Context, m Mutation, c ChangeWish) (o Once[ChangedWish], err error) {
	item, ok := m.Profile.ParseItem(c.Item)
	if !ok {
		if err := m.Guard.Check(""); err != nil {
			return o, err
		}
		return o, ErrNoWish
	}
	if c.Note != nil {
		if err := CheckNote(*c.Note); err != nil {
			return o, err
		}
	}
	if c.Quantity != 0 {
		if err := m.Profile.checkQuantity(c.Quantity, "quantity"); err != nil {
			return o, err
		}
	}
	c.Mutation, c.Item, c.Event = m, item, NewID(EventPrefix, s.opts.Clock())
	return onWishlist(ctx, s, m, func() (Once[ChangedWish], error) { return s.opts.Store.ChangeWish(ctx, c) })
}

// RemoveWish removes an entry. A missing entry is not an error.
func (s *Service) RemoveWish(ctx context.Context, m Mutation, item string) (o Once[RemovedWish], err error) {
	item, ok := m.Profile.ParseItem(item)
	if !ok {
		return o, m.Guard.Check("")
	}
	r := RemoveWish{m, item, NewID(EventPrefix, s.opts.Clock())}
	return onWishlist(ctx, s, m, func() (Once[RemovedWish], error) { return s.opts.Store.RemoveWish(ctx, r) })
}
