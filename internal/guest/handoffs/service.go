// Package handoffs sends guests to booking sites with signed tokens, manages the signing keys, and lets a site
// consume each handoff once.
package handoffs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/canonjson"
	"holdfast/internal/clock"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
	"holdfast/internal/guest/catalogue"
)

// Service mints, verifies and consumes handoffs. It is safe for concurrent use.
type Service struct {
	opts     Options
	refusals refusals
}

// Options are a Service's dependencies, all required but Bots.
type Options struct {
	Guests    *guest.Service
	Store     Store
	Catalogue *catalogue.Service
	Clock     clock.Clock

	Keys   *Keys
	Hasher *guest.Hasher
	Life   time.Duration // token lifetime, at most handoff.MaxLife

	Site func(tenant string) BookingSite // booking site of a tenant; asked for each request

	Bots *bots.Service // told about replayed handoffs; may be nil

	// Called after a database restore made new keys necessary.
	Restored func()
}

// BookingSite is a tenant's booking site and its requirements.
type BookingSite struct {
	URL string // with {tenantId}, {propertyId} and {token}; "": not configured

	// Reaction to another browser or address than at the mint.
	Fingerprint, IP Mismatch

	Algorithm Algorithm // signs tokens; "": HMAC
}

// Mismatch is the reaction to another browser or address.
type Mismatch string

// Mismatch values.
const (
	MismatchRefuse Mismatch = "refuse"
	MismatchMark   Mismatch = "mark" // mark the guest as suspect in the answer
	MismatchIgnore Mismatch = "ignore"
)

// New returns a Service. Run Repair beside it.
func New(o Options) *Service { return &Service{opts: o} }

// Profile returns the profile; nil means guest.Hotel.
func (s *Service) Profile() *guest.Profile { return s.opts.Guests.Profile() }

// Now returns the time for tokens of services.
func (s *Service) Now() time.Time { return s.opts.Clock() }

// Handoff request errors.
var (
	ErrCampaign = guest.BadMember(fmt.Sprintf("expected an object of at most %d bytes", MaxCampaign), "campaign")
	ErrNoSite   = errcode.New(errcode.NotFound, "no booking site is configured for this tenant")
)

const (
	// MaxCampaign is in bytes of JSON.
	MaxCampaign = 1 << 10
	maxPeople   = 99 // guests or rooms
)

// MintRequest is a guest's request for a handoff.
type MintRequest struct {
	Tenant, Item string          // property or item ID
	Stay                         // Currency and Locale default to the session's
	Payload      json.RawMessage // replaces the stay in profiles other than guest.Hotel
	Campaign     json.RawMessage // nil: the session's
	IfOpen       IfOpen          // with a payload; "": Replace
	Visitor      guest.Visitor   // hashed, to compare when the handoff is consumed
	Home         string          // this server's origin, for booking sites given as a path

	// ErrHardBlock or *ChallengeError: refuses the handoff unless the request is a repeat.
	Denied error
}

// check validates the request, and canonicalizes IDs and the payload.
func (s *Service) check(ctx context.Context, r *MintRequest) error {
	p := s.opts.Guests.Profile()
	var isTenant, isItem bool
	if r.Tenant, isTenant = guest.ParseTenant(r.Tenant); !isTenant {
		return guest.BadParameter(guest.ExpectedUUID, "tenantId")
	}
	if r.Item, isItem = p.ParseItem(r.Item); !isItem {
		return guest.BadParameter(p.ExpectedItem(), p.Member())
	}
	if err := s.checkContent(ctx, r); err != nil {
		return err
	}
	if len(r.Campaign) > MaxCampaign || len(r.Campaign) > 0 && r.Campaign[0] != '{' {
		return ErrCampaign
	}
	return nil
}

// checkContent requires the stay or payload that the profile expects.
func (s *Service) checkContent(ctx context.Context, r *MintRequest) error {
	p := s.opts.Guests.Profile()
	switch {
	case p.IsHotel():
		return r.Stay.check()
	case p.Payload == nil:
		return ErrNoSite
	case r.IfOpen != "" && r.IfOpen != Replace && r.IfOpen != Keep:
		return guest.BadMember("expected replace or keep", "ifOpen")
	case !guest.IsLocale(r.Locale):
		return guest.ErrLocale
	case !guest.IsCurrency(r.Currency):
		return guest.ErrCurrency
	}
	payload, err := canonjson.Parse(r.Payload, max(len(r.Payload), 1))
	if err != nil {
		return guest.BadMember("expected a JSON value", "payload")
	}
	r.Payload = json.RawMessage(payload)
	return guest.Under("payload", s.opts.Guests.CheckPayload(ctx, payload))
}

// check returns FieldErrors for an impossible stay. Whether it is in the past depends on the property's time zone: see
// Mint.Check.
func (s *Stay) check() error {
	in, err1 := time.Parse(time.DateOnly, s.CheckIn)
	out, err2 := time.Parse(time.DateOnly, s.CheckOut)
	switch {
	case err1 != nil || in.Year() < 1970:
		return guest.BadMember(catalogue.ExpectedDate, "checkIn")
	case err2 != nil:
		return guest.BadMember(catalogue.ExpectedDate, "checkOut")
	case !out.After(in):
		return guest.BadMember("expected a date after checkIn", "checkOut")
	}
	for _, of := range []struct {
		name     string
		n, least int
	}{{"adults", s.Adults, 1}, {"children", s.Children, 0}, {"rooms", s.Rooms, 1}} {
		if of.n < of.least || of.n > maxPeople {
			return guest.BadMember(fmt.Sprintf("expected %d to %d", of.least, maxPeople), of.name)
		}
	}
	switch {
	case !guest.IsLocale(s.Locale):
		return guest.ErrLocale
	case !guest.IsCurrency(s.Currency):
		return guest.ErrCurrency
	}
	return nil
}

// Mint stores a handoff and returns its token and URL. preferences are the session's. A repeated request gets the same
// token while the handoff is open. It returns FieldErrors, ErrNoSite, tenants.ErrSuspended, a *ConsumedError, the reason
// in r.Denied, or for a repeated request ErrVoided or ErrExpired.
func (s *Service) Mint(ctx context.Context, m guest.Mutation, preferences guest.Preferences, r MintRequest) (o guest.Once[Minted], err error) {
	r.Locale, r.Currency = cmp.Or(r.Locale, preferences.Locale), cmp.Or(r.Currency, preferences.Currency)
	if r.Campaign == nil && preferences.Campaign != "" {
		r.Campaign = json.RawMessage(preferences.Campaign)
	}
	if r.Campaign != nil { // stored and signed in canonical form
		text, err := canonjson.Parse(r.Campaign, len(r.Campaign))
		if err != nil {
			return o, err
		}
		r.Campaign = json.RawMessage(text)
	}
	if err := s.check(ctx, &r); err != nil {
		return o, err
	}
	site := s.opts.Site(r.Tenant)
	if site.URL == "" {
		return o, ErrNoSite
	}
	if strings.HasPrefix(site.URL, "/") {
		site.URL = r.Home + site.URL
	}
	m.Denied = r.Denied
	mint := Mint{
		Mutation: m, Life: s.opts.Life, Site: site.URL, Event: guest.NewID(guest.EventPrefix, s.opts.Clock()), Keys: s.opts.Keys, Algorithm: site.Algorithm, IfOpen: r.IfOpen,
		Handoff: Handoff{
			ID: guest.NewID(guest.HandoffPrefix, s.opts.Clock()), Session: m.Session, Tenant: r.Tenant, Item: r.Item, Stay: r.Stay, Payload: r.Payload, Campaign: r.Campaign,
			Fingerprint: s.opts.Hasher.Fingerprint(r.Visitor), IP: s.opts.Hasher.IP(r.Visitor),
		},
	}
	// The transaction must not wait for an upstream. A repeat gets its stored answer regardless.
	if m.Profile.IsHotel() {
		property, missing := s.opts.Catalogue.PropertyOf(ctx, r.Tenant, r.Item)
		mint.TimeZone, mint.Missing = property.TimeZone, missing
	}
	step := func() (guest.Once[Minted], error) { return s.opts.Store.Mint(ctx, mint) }
	o, err = guest.DoOnce(ctx, s.opts.Guests, mint.Sealed(), step)
	if s.settle(ctx, err) && s.createKeys(ctx, &mint) {
		o, err = guest.DoOnce(ctx, s.opts.Guests, mint.Sealed(), step)
	}
	if err == nil && o.Replayed {
		err = s.checkRepeat(ctx, o.Result.ID)
	}
	if err != nil {
		return guest.Once[Minted]{}, err
	}
	return o, nil
}

// checkRepeat checks whether a stored token may be handed out again. The answer is older than the handoff's row, so a
// missing row means that the handoff expired or was erased.
func (s *Service) checkRepeat(ctx context.Context, id guest.ID) error {
	h, state, err := s.opts.Store.Handoff(ctx, id)
	switch {
	case errors.Is(err, ErrNoHandoff):
		return ErrExpired
	case err != nil:
		return err
	}
	err = h.CheckRepeat(state)
	if s.settle(ctx, err) {
		err = ErrVoided // all keys were replaced
	}
	return err
}

// List returns the session's handoffs. See Store.Handoffs.
func (s *Service) List(ctx context.Context, session guest.ID, after *Handoff, limit int) ([]Handoff, error) {
	return s.opts.Store.Handoffs(ctx, session, after, limit)
}

// settle makes missing keys after ErrNoKey or ErrRestored, and reports whether the caller should try again.
func (s *Service) settle(ctx context.Context, err error) bool {
	if !errors.Is(err, ErrNoKey) && !errors.Is(err, ErrRestored) {
		return false
	}
	restored, err := s.opts.Keys.Settle(ctx, nil)
	if err == nil && restored {
		s.opts.Restored()
	}
	return err == nil
}

// createKeys creates a tenant's first keys, and reports whether the caller should try again.
func (s *Service) createKeys(ctx context.Context, m *Mint) bool {
	if m.KeyTenant() == "" {
		return true
	}
	_, err := s.opts.Keys.CreateOfTenant(ctx, m.KeyTenant())
	return err == nil
}

var errNoTenant = errcode.New(errcode.NotFound, "no such tenant: expected a UUID, or tnt_ and a ULID")

// KeySet returns a tenant's published keys as a JWK Set. life is how long caches may keep it; 0 if the tenant has no
// keys yet. tenant is a UUID, or tnt_ and a ULID.
func (s *Service) KeySet(ctx context.Context, tenant string) (set []byte, life time.Duration, err error) {
	id, ok := guest.ParseTenant(tenant)
	if !ok {
		return nil, 0, errNoTenant
	}
	set, empty, err := s.opts.Keys.Published(ctx, id, s.opts.Clock())
	if empty { // a tenant's first key signs immediately
		return set, 0, err
	}
	return set, KeySetLife, err
}

// ConsumeRequest is a booking site's request about a handoff.
type ConsumeRequest struct {
	ID      string // handoff ID, which must be the token's
	Token   string
	By      string // name of the service
	Tenant  string // restricts the service to a tenant; "": any
	Key     string // "" for Verify
	Trace   guest.Trace
	Visitor *guest.Visitor // the guest's browser as seen by the site; nil: not compared
}

// Received is a handoff as a booking site receives it.
type Received struct {
	Handoff
	Suspect bool // another browser or address than at the mint
}

// Consume consumes a handoff. It returns ErrNoHandoff, ErrToken, *ClaimError, ErrBinding, ErrExpired, ErrConsumed, or
// tenants.ErrSuspended. A repeat of the attempt that succeeded succeeds again.
func (s *Service) Consume(ctx context.Context, r ConsumeRequest) (Received, error) {
	c, key, suspect, err := s.authenticate(ctx, r)
	if err != nil {
		return Received{}, err
	}
	consumption := Consumption{ID: guest.ID(c.ID), Claims: c, SignedBy: key, By: r.By, Key: r.Key}
	h, _, err := s.opts.Store.Consume(ctx, consumption)
	if s.settle(ctx, err) {
		h, _, err = s.opts.Store.Consume(ctx, consumption)
	}
	if errors.Is(err, ErrConsumed) {
		err = s.refuseAgain(ctx, c, r)
	}
	return Received{h, suspect}, err
}

// refuseAgain records another attempt on a consumed handoff, a sign of a stolen token.
func (s *Service) refuseAgain(ctx context.Context, c handoff.Claims, r ConsumeRequest) error {
	if s.opts.Bots != nil {
		s.opts.Bots.Replayed(ctx, c.Fingerprint, c.IP)
	}
	refused, err := refusalOf(s.opts.Guests.Profile(), c, r)
	if err == nil {
		err = s.refuse(ctx, refused)
	}
	if err != nil {
		return err
	}
	return ErrConsumed
}

// Verify is Consume without effect. It does not tell whether a later Consume succeeds.
func (s *Service) Verify(ctx context.Context, r ConsumeRequest) (Received, error) {
	c, key, suspect, err := s.authenticate(ctx, r)
	if err != nil {
		return Received{}, err
	}
	h, state, err := s.opts.Store.Handoff(ctx, guest.ID(c.ID))
	if err != nil {
		return Received{}, err
	}
	_, err = h.CheckConsume(Consumption{Claims: c, SignedBy: key}, state)
	if s.settle(ctx, err) {
		err = ErrToken // all keys were replaced
	}
	return Received{h, suspect}, err
}

// authenticate verifies the token and compares the browser. key is the ID of the signing key.
func (s *Service) authenticate(ctx context.Context, r ConsumeRequest) (c handoff.Claims, key string, suspect bool, err error) {
	if _, ok := guest.ParseID(guest.HandoffPrefix, r.ID); !ok {
		return c, "", false, ErrNoHandoff
	}
	c, key, err = s.opts.Keys.verify(ctx, r.Token)
	switch {
	case err != nil:
		return c, "", false, err
	case c.ID != r.ID:
		return c, "", false, ErrToken
	case r.Tenant != "" && c.Tenant != r.Tenant: // hidden from this service
		return c, "", false, ErrNoHandoff
	}
	if r.Visitor == nil {
		return c, key, false, nil
	}
	site := s.opts.Site(c.Tenant)
	for _, of := range []struct {
		same bool
		or   Mismatch
	}{
		{s.opts.Hasher.IsFingerprint(c.Fingerprint, *r.Visitor), site.Fingerprint},
		{s.opts.Hasher.IsIP(c.IP, *r.Visitor), site.IP},
	} {
		switch {
		case of.same || of.or == MismatchIgnore:
		case of.or == MismatchRefuse:
			return c, "", false, ErrBinding
		default:
			suspect = true
		}
	}
	return c, key, suspect, nil
}

// refusalOf derives the event ID from the handoff and the reason, so that all attempts share an event.
func refusalOf(p *guest.Profile, c handoff.Claims, r ConsumeRequest) (n NewRefusal, err error) {
	payload, err := json.Marshal(replayPayload(p, c, r.By))
	if err != nil {
		return n, errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	id, err := eventOf(guest.ID(c.ID), c.Minted, ReasonConsumed)
	if err != nil {
		return n, err
	}
	return NewRefusal{
		Refusal: Refusal{Handoff: guest.ID(c.ID), Reason: ReasonConsumed}, Session: guest.ID(c.Session), Trace: r.Trace,
		Event: guest.Event{ID: id, Type: p.EventType("bot_suspected.v1"), Subject: c.ID, Retention: guest.Audit, Payload: payload},
	}, nil
}

// replayPayload returns the payload, whose names depend on the profile.
func replayPayload(p *guest.Profile, c handoff.Claims, by string) any {
	if p.IsHotel() {
		return struct {
			SessionID  string `json:"sessionId"`
			Signal     string `json:"signal"`
			HandoffID  string `json:"handoffId"`
			TenantID   string `json:"tenantId"`
			PropertyID string `json:"propertyId"`
			By         string `json:"by"`
		}{c.Session, bots.SignalReplay, c.ID, c.Tenant, c.Property, by}
	}
	return struct {
		SessionID string `json:"sessionId"`
		Signal    string `json:"signal"`
		HandoffID string `json:"handoffId"`
		TenantID  string `json:"tenantId"`
		ItemID    string `json:"itemId"`
		By        string `json:"by"`
	}{c.Session, bots.SignalReplay, c.ID, c.Tenant, c.Property, by}
}
