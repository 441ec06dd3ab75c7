package guest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"holdfast/client/handoff"
	"holdfast/internal/canonjson"
	"holdfast/internal/fault"
	"holdfast/internal/ident"
)

// Handoffs implements the operations of handoffs.
type Handoffs struct{ HandoffOptions }

// HandoffOptions are what Handoffs needs. All are required.
type HandoffOptions struct {
	*Service
	Keys   *HandoffKeys
	Hasher *Hasher
	Life   time.Duration // of tokens, at most handoff.MaxLife

	// Site returns the booking site of a tenant.
	Site func(tenant string) BookingSite

	// Bots, if set, counts attempts to use a handoff again.
	Bots *Bots

	// Restored is called after the keys were replaced because the database was restored.
	Restored func()
}

// BookingSite is where guests of a tenant are sent, and what the site requires of them.
type BookingSite struct {
	URL string // with {tenantId}, {propertyId} and {token}; "": not configured

	// What to do if a handoff comes from another browser or address than it was minted
	// for.
	Fingerprint, IP Mismatch
}

// Mismatch says what to do about another browser or address.
type Mismatch string

// The values of Mismatch.
const (
	MismatchRefuse Mismatch = "refuse"
	MismatchMark   Mismatch = "mark" // the answer says that the guest is suspect
	MismatchIgnore Mismatch = "ignore"
)

// NewHandoffs returns the operations.
func NewHandoffs(o HandoffOptions) *Handoffs { return &Handoffs{o} }

// Errors of requests for handoffs.
var (
	ErrCampaign = badMember(fmt.Sprintf("expected an object of at most %d bytes", MaxCampaign), "campaign")
	ErrNoSite   = fault.New(fault.NotFound, "no booking site is configured for this tenant")
)

const (
	// MaxCampaign is the size of the largest campaign of a handoff in bytes of JSON.
	MaxCampaign = 1 << 10
	maxPeople   = 99
)

// MintRequest is a request for a handoff.
type MintRequest struct {
	Tenant, Property string
	Stay                             // Currency and Locale may be "": those of the session
	Campaign         json.RawMessage // nil: that of the session
	Visitor          Visitor

	// Denied refuses the handoff, unless the request is a repeated one: ErrHardBlock or a
	// *ChallengeError.
	Denied error
}

// check returns an error unless the request is valid. It brings UUIDs into lower case.
func (r *MintRequest) check() error {
	var isTenant, isProperty bool
	if r.Tenant, isTenant = ParseTenant(r.Tenant); !isTenant {
		return badParameter(expectedUUID, "tenantId")
	}
	if r.Property, isProperty = ident.ParseUUID(r.Property); !isProperty {
		return badParameter(expectedUUID, "propertyId")
	}
	if err := r.Stay.check(); err != nil {
		return err
	}
	if len(r.Campaign) > MaxCampaign || len(r.Campaign) > 0 && r.Campaign[0] != '{' {
		return ErrCampaign
	}
	return nil
}

// check returns an error unless the stay is valid.
func (s *Stay) check() error {
	in, err1 := time.Parse(time.DateOnly, s.CheckIn)
	out, err2 := time.Parse(time.DateOnly, s.CheckOut)
	switch {
	case err1 != nil || in.Year() < 1970:
		return badMember(expectedDate, "checkIn")
	case err2 != nil:
		return badMember(expectedDate, "checkOut")
	case !out.After(in):
		return badMember("expected a date after checkIn", "checkOut")
	}
	for _, of := range []struct {
		name     string
		n, least int
	}{{"adults", s.Adults, 1}, {"children", s.Children, 0}, {"rooms", s.Rooms, 1}} {
		if of.n < of.least || of.n > maxPeople {
			return badMember(fmt.Sprintf("expected %d to %d", of.least, maxPeople), of.name)
		}
	}
	switch {
	case !IsLocale(s.Locale):
		return ErrLocale
	case !IsCurrency(s.Currency):
		return ErrCurrency
	}
	return nil
}

// Minted is a new handoff with its token.
type Minted struct {
	Handoff
	Token string
	URL   string // where to send the guest
}

// Mint signs a handoff to a property of the catalogue. answer makes the answer of the
// request, which is stored.
func (s *Handoffs) Mint(ctx context.Context, m Mutation, preferences Preferences, r MintRequest, answer func(Minted) (Answer, error)) (a Answer, replayed bool, err error) {
	r.Locale, r.Currency = cmp.Or(r.Locale, preferences.Locale), cmp.Or(r.Currency, preferences.Currency)
	if r.Campaign == nil && preferences.Campaign != "" {
		r.Campaign = json.RawMessage(preferences.Campaign)
	}
	if r.Campaign != nil { // it is stored and signed in one spelling
		text, err := canonjson.Parse(r.Campaign, len(r.Campaign))
		if err != nil {
			return Answer{}, false, err
		}
		r.Campaign = json.RawMessage(text)
	}
	if err := r.check(); err != nil {
		return Answer{}, false, err
	}
	site := s.Site(r.Tenant)
	if site.URL == "" {
		return Answer{}, false, ErrNoSite
	}
	h := Handoff{
		Session: m.Session, Tenant: r.Tenant, Property: r.Property, Stay: r.Stay, Campaign: r.Campaign,
		Fingerprint: s.Hasher.Fingerprint(r.Visitor), IP: s.Hasher.IP(r.Visitor),
	}
	// Before the transaction, which must not wait for an upstream. A repeated request gets
	// its answer whatever the catalogue says now.
	property, missing := s.propertyOf(ctx, h.Tenant, h.Property)
	mint := func(tx Tx) (Answer, error) {
		if r.Denied != nil {
			return Answer{}, r.Denied
		}
		if missing == nil {
			missing = checkArrival(badMember, "checkIn", h.CheckIn, property.TimeZone, tx.Now())
		}
		minted, err := s.mint(tx, h, missing)
		if err != nil {
			return Answer{}, err
		}
		minted.URL = strings.NewReplacer("{tenantId}", h.Tenant, "{propertyId}", h.Property, "{token}", minted.Token).Replace(site.URL)
		return answer(minted)
	}
	a, replayed, err = s.mutateSealed(ctx, m, mint)
	if s.settle(ctx, err) {
		a, replayed, err = s.mutateSealed(ctx, m, mint)
	}
	return a, replayed, err
}

// settle replaces the keys after an error which says that this is necessary, and reports
// whether it did.
func (s *Handoffs) settle(ctx context.Context, err error) bool {
	if !errors.Is(err, ErrNoKey) && !errors.Is(err, ErrRestored) {
		return false
	}
	restored, err := s.Keys.Settle(ctx, nil)
	if err == nil && restored {
		s.Restored()
	}
	return err == nil
}

// mint signs a handoff and stores it in a transaction. refused is why the catalogue does not
// have the stay, or nil.
func (s *Handoffs) mint(tx Tx, h Handoff, refused error) (m Minted, err error) {
	suspended, err := tx.Suspended(h.Tenant)
	switch {
	case err != nil:
		return m, err
	case suspended:
		return m, ErrTenantSuspended
	case refused != nil:
		return m, refused
	}
	key, err := tx.SigningKey()
	if err != nil {
		return m, err
	}
	h.ID, h.Key = NewID(HandoffPrefix, s.Clock()), key.ID
	h.Minted = tx.Now().Truncate(time.Millisecond)
	if h.Minted.Before(key.NotBefore) { // it waited for a rotation
		h.Minted = key.NotBefore
	}
	h.Expires = h.Minted.Add(s.Life)
	token, err := s.Keys.sign(key, ClaimsOf(h))
	if err != nil {
		return m, err
	}
	if err := tx.Mint(h); err != nil {
		return m, err
	}
	e, err := s.initiated(h)
	if err != nil {
		return m, err
	}
	e.At = tx.Now()
	return Minted{Handoff: h, Token: token}, tx.Append(e)
}

// ClaimsOf returns what the token of a handoff states.
func ClaimsOf(h Handoff) handoff.Claims {
	c := handoff.Claims{
		ID: string(h.ID), Session: string(h.Session), Tenant: h.Tenant, Property: h.Property, CheckIn: h.CheckIn, CheckOut: h.CheckOut,
		Adults: h.Adults, Children: h.Children, Rooms: h.Rooms, Currency: h.Currency, Locale: h.Locale,
		Fingerprint: h.Fingerprint, IP: h.IP, Minted: h.Minted, Expires: h.Expires,
	}
	if len(h.Campaign) > 0 {
		text := string(h.Campaign)
		if canonical, err := canonjson.Parse(h.Campaign, max(MaxCampaign, len(text))); err == nil { // a database may spell it otherwise
			text = string(canonical)
		}
		sum := sha256.Sum256([]byte(text))
		c.Campaign = sum[:]
	}
	return c
}

func (s *Handoffs) initiated(h Handoff) (Event, error) {
	payload, err := json.Marshal(struct {
		HandoffID  ID              `json:"handoffId"`
		SessionID  ID              `json:"sessionId"`
		TenantID   string          `json:"tenantId"`
		PropertyID string          `json:"propertyId"`
		CheckIn    string          `json:"checkIn"`
		CheckOut   string          `json:"checkOut"`
		Adults     int             `json:"adults"`
		Children   int             `json:"children"`
		Rooms      int             `json:"rooms"`
		Currency   string          `json:"currency"`
		Locale     string          `json:"locale"`
		Campaign   json.RawMessage `json:"campaign,omitempty"`
		KeyID      string          `json:"keyId"`
		ExpiresAt  time.Time       `json:"expiresAt"`
	}{h.ID, h.Session, h.Tenant, h.Property, h.CheckIn, h.CheckOut, h.Adults, h.Children, h.Rooms, h.Currency, h.Locale, h.Campaign, h.Key, h.Expires})
	if err != nil {
		return Event{}, fault.Wrap(fault.Internal, "encode an event", err)
	}
	return Event{ID: NewID(EventPrefix, s.Clock()), Type: topics + "handoff.initiated.v1", Subject: string(h.ID), Retention: Audit, Payload: payload}, nil
}

// ConsumeRequest is a request of a booking site about a handoff.
type ConsumeRequest struct {
	ID      string
	Token   string
	By      string // the service
	Tenant  string // to which the service is limited; "": to none
	Key     string // its idempotency key; "" for Verify
	Trace   Trace
	Visitor *Visitor // the guest's browser as the site sees it; nil: do not compare
}

// Received is a handoff as a booking site gets it.
type Received struct {
	Handoff
	Suspect bool // it comes from another browser or address than it was minted for
}

// Consume consumes a handoff, once. A request that is repeated with its idempotency key
// gets the same answer.
func (s *Handoffs) Consume(ctx context.Context, r ConsumeRequest) (Received, error) {
	c, key, suspect, err := s.authenticate(ctx, r)
	if err != nil {
		return Received{}, err
	}
	consumption := Consumption{ID: ID(c.ID), Claims: c, SignedBy: key, By: r.By, Key: r.Key}
	h, _, err := s.Store.Consume(ctx, consumption)
	if s.settle(ctx, err) {
		h, _, err = s.Store.Consume(ctx, consumption)
	}
	if errors.Is(err, ErrConsumed) {
		err = s.refuseAgain(ctx, c, r)
	}
	return Received{h, suspect}, err
}

// refuseAgain counts an attempt to consume a handoff again, and returns ErrConsumed.
func (s *Handoffs) refuseAgain(ctx context.Context, c handoff.Claims, r ConsumeRequest) error {
	if s.Bots != nil {
		s.Bots.Replayed(ctx, c.Fingerprint, c.IP)
	}
	refused, err := refusalOf(c, r)
	if err == nil {
		err = s.refuse(ctx, refused)
	}
	if err != nil {
		return err
	}
	return ErrConsumed
}

// Verify checks whether a handoff could be consumed. It changes nothing.
func (s *Handoffs) Verify(ctx context.Context, r ConsumeRequest) (Received, error) {
	c, key, suspect, err := s.authenticate(ctx, r)
	if err != nil {
		return Received{}, err
	}
	h, state, err := s.Store.Handoff(ctx, ID(c.ID))
	if err != nil {
		return Received{}, err
	}
	_, err = h.CheckConsume(Consumption{Claims: c, SignedBy: key}, state)
	if s.settle(ctx, err) {
		err = ErrHandoffToken // all keys were replaced
	}
	return Received{h, suspect}, err
}

// authenticate verifies the token and what it is bound to.
func (s *Handoffs) authenticate(ctx context.Context, r ConsumeRequest) (c handoff.Claims, key string, suspect bool, err error) {
	if _, ok := ParseID(HandoffPrefix, r.ID); !ok {
		return c, "", false, ErrNoHandoff
	}
	c, key, err = s.Keys.verify(ctx, r.Token)
	switch {
	case err != nil:
		return c, "", false, err
	case c.ID != r.ID:
		return c, "", false, ErrHandoffToken
	case r.Tenant != "" && c.Tenant != r.Tenant: // to this service it does not exist
		return c, "", false, ErrNoHandoff
	}
	if r.Visitor == nil {
		return c, key, false, nil
	}
	site := s.Site(c.Tenant)
	for _, of := range []struct {
		same bool
		or   Mismatch
	}{
		{s.Hasher.IsFingerprint(c.Fingerprint, *r.Visitor), site.Fingerprint},
		{s.Hasher.IsIP(c.IP, *r.Visitor), site.IP},
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

// refusalOf returns the refusal of an attempt to consume a handoff again. The ID of its event
// follows from the handoff and the reason, so that there is one for all attempts.
func refusalOf(c handoff.Claims, r ConsumeRequest) (n NewRefusal, err error) {
	payload, err := json.Marshal(struct {
		SessionID  string `json:"sessionId"`
		Signal     string `json:"signal"`
		HandoffID  string `json:"handoffId"`
		TenantID   string `json:"tenantId"`
		PropertyID string `json:"propertyId"`
		By         string `json:"by"`
	}{c.Session, SignalReplay, c.ID, c.Tenant, c.Property, r.By})
	if err != nil {
		return n, fault.Wrap(fault.Internal, "encode an event", err)
	}
	sum := sha256.Sum256([]byte(c.ID + "|" + ReasonConsumed))
	var u ulid.ULID
	if err := errors.Join(u.SetTime(ulid.Timestamp(c.Minted)), u.SetEntropy(sum[:10])); err != nil {
		return n, fault.Wrap(fault.Internal, "make the ID of an event", err)
	}
	return NewRefusal{
		Refusal: Refusal{Handoff: ID(c.ID), Reason: ReasonConsumed}, Session: ID(c.Session), Trace: r.Trace,
		Event: Event{ID: ID(EventPrefix + u.String()), Type: topics + "bot_suspected.v1", Subject: c.ID, Retention: Audit, Payload: payload},
	}, nil
}
