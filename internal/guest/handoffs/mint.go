package handoffs

import (
	"crypto/sha256"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/canonjson"
	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/tenants"
)

// Mint is a request to mint a handoff.
type Mint struct {
	guest.Mutation
	Handoff Handoff       // without Key and times
	Life    time.Duration // token lifetime
	Site    string        // booking site URL with {tenantId}, {propertyId} or {itemId}, and {token}
	Event   guest.ID      // ID for the event
	Keys    *Keys

	Algorithm Algorithm // the tenant's; "": HMAC
	IfOpen    IfOpen    // with a payload; "": Replace

	TimeZone string // of the property, to decide whether an arrival is in the past
	Missing  error  // nil if the property exists
}

// Minted is the result of a Mint.
type Minted struct {
	ID      guest.ID  `json:"id"`
	Token   string    `json:"token"`
	URL     string    `json:"url"` // booking site, with the token
	Expires time.Time `json:"expires"`
	Kept    bool      `json:"kept,omitempty"` // an open handoff was returned instead of a new one
}

// IfOpen decides how a mint treats an open handoff with the same name.
type IfOpen string

// IfOpen values.
const (
	Replace IfOpen = "replace" // void it
	Keep    IfOpen = "keep"    // return it, if content and browser are the same and more than half its life is left; otherwise void it
)

// Minting is everything that a mint writes.
type Minting struct {
	Minted  Minted
	Handoff Handoff
	Event   guest.Event
}

// KeyTenant returns the tenant whose key signs; "" for the HMAC keys.
func (m *Mint) KeyTenant() string {
	if m.Algorithm == Ed25519 {
		return m.Handoff.Tenant
	}
	return ""
}

// Sealed returns the mutation with a Sealer, because the answer contains a token.
func (m *Mint) Sealed() guest.Mutation {
	sealed := m.Mutation
	sealed.Sealer = m.Keys
	return sealed
}

// Check returns tenants.ErrSuspended, Missing, or an error for a past arrival.
func (m *Mint) Check(suspended bool, now time.Time) error {
	switch {
	case suspended:
		return tenants.ErrSuspended
	case m.Missing != nil:
		return m.Missing
	}
	if m.Handoff.Payload != nil {
		return nil
	}
	return catalogue.CheckArrival(guest.BadMember, "checkIn", m.Handoff.CheckIn, m.TimeZone, now)
}

// Decide signs with the key that the transaction holds. now is the database time.
func (m *Mint) Decide(key Key, now time.Time) (r Minting, err error) {
	h := m.Handoff
	h.Key, h.Minted, h.Listed = key.ID, now.Truncate(key.precision()), now
	if h.Minted.Before(key.NotBefore) { // the mint waited for a rotation
		h.Minted = key.NotBefore
	}
	h.Expires = h.Minted.Add(m.Life)
	token, err := m.Keys.sign(key, ClaimsOf(h))
	if err != nil {
		return r, err
	}
	e, err := initiated(m.Profile, h)
	if err != nil {
		return r, err
	}
	e.ID, e.At = m.Event, now
	return Minting{m.minted(h, token), h, e}, nil
}

// minted returns the result for a handoff.
func (m *Mint) minted(h Handoff, token string) Minted {
	item := escapeItem(h.Item)
	site := strings.NewReplacer("{tenantId}", h.Tenant, "{propertyId}", item, "{itemId}", item, "{token}", token).Replace(m.Site)
	return Minted{ID: h.ID, Token: token, URL: site, Expires: h.Expires}
}

// escapeItem escapes an item ID for any part of a URL. QueryEscape writes a space as a plus sign, which paths take
// literally.
func escapeItem(item string) string { return strings.ReplaceAll(url.QueryEscape(item), "+", "%20") }

// ClaimsOf returns the claims that a handoff's token contains.
func ClaimsOf(h Handoff) handoff.Claims {
	c := handoff.Claims{
		ID: string(h.ID), Session: string(h.Session), Tenant: h.Tenant, Property: h.Item, CheckIn: h.CheckIn, CheckOut: h.CheckOut,
		Adults: h.Adults, Children: h.Children, Rooms: h.Rooms, Currency: h.Currency, Locale: h.Locale,
		Fingerprint: h.Fingerprint, IP: h.IP, Minted: h.Minted, Expires: h.Expires,
	}
	if h.Payload != nil {
		sum := sha256.Sum256(h.Payload)
		c.Payload = sum[:]
	}
	if len(h.Campaign) > 0 {
		text := string(h.Campaign)
		if canonical, err := canonjson.Parse(h.Campaign, max(MaxCampaign, len(text))); err == nil { // databases may reformat JSON
			text = string(canonical)
		}
		sum := sha256.Sum256([]byte(text))
		c.Campaign = sum[:]
	}
	return c
}

// initiated returns the event for a minted handoff.
func initiated(p *guest.Profile, h Handoff) (guest.Event, error) {
	payload, err := json.Marshal(initiatedPayload(p, h))
	if err != nil {
		return guest.Event{}, errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	return guest.Event{Type: p.EventType("handoff.initiated.v1"), Subject: string(h.ID), Retention: guest.Audit, Payload: payload}, nil
}

// initiatedPayload returns the payload, whose names depend on the profile.
func initiatedPayload(p *guest.Profile, h Handoff) any {
	if p.IsHotel() {
		return struct {
			HandoffID  guest.ID        `json:"handoffId"`
			SessionID  guest.ID        `json:"sessionId"`
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
		}{h.ID, h.Session, h.Tenant, h.Item, h.CheckIn, h.CheckOut, h.Adults, h.Children, h.Rooms, h.Currency, h.Locale, h.Campaign, h.Key, h.Expires}
	}
	return struct {
		HandoffID guest.ID        `json:"handoffId"`
		SessionID guest.ID        `json:"sessionId"`
		TenantID  string          `json:"tenantId"`
		ItemID    string          `json:"itemId"`
		Payload   json.RawMessage `json:"payload"`
		Currency  string          `json:"currency"`
		Locale    string          `json:"locale"`
		Campaign  json.RawMessage `json:"campaign,omitempty"`
		KeyID     string          `json:"keyId"`
		ExpiresAt time.Time       `json:"expiresAt"`
	}{h.ID, h.Session, h.Tenant, h.Item, h.Payload, h.Currency, h.Locale, h.Campaign, h.Key, h.Expires}
}
