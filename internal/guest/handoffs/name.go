package handoffs

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// Named is a handoff that holds its name, with the key that signed it.
type Named struct {
	Handoff
	SignedBy Key
}

// Claim is a mint's decision about its name.
type Claim struct {
	Keep   *Named        // returned by DecideKept instead of a new handoff; nil: mint
	Void   []string      // IDs of handoffs to void
	Events []guest.Event // about voided handoffs
}

// Claim decides about the handoffs with the mint's session, tenant and item that are neither voided nor expired. At most
// one open handoff and one consumed handoff share a name, unless an earlier release minted them. Claim returns a
// *ConsumedError if the name is spent. now is the database time.
func (m *Mint) Claim(named []Named, now time.Time) (c Claim, err error) {
	for _, n := range named {
		if !n.Consumed.IsZero() {
			return Claim{}, &ConsumedError{n.Handoff}
		}
		if m.IfOpen == Keep && c.Keep == nil && m.matches(&n, now) {
			c.Keep = &n
			continue
		}
		e, err := voidedEvent(m.Profile, n.Handoff, VoidReplaced, now)
		if err != nil {
			return Claim{}, err
		}
		c.Void, c.Events = append(c.Void, string(n.ID)), append(c.Events, e)
	}
	return c, nil
}

// matches reports whether an open handoff may be returned instead of a new one. In an erased handoff, the browser is missing.
func (m *Mint) matches(n *Named, now time.Time) bool {
	wanted := m.Handoff
	wanted.ID, wanted.Minted, wanted.Expires = n.ID, n.Minted, n.Expires
	return n.SignedBy.State != KeyRetired && len(n.Fingerprint) > 0 && n.Expires.Sub(now) > m.Life/2 && n.compare(ClaimsOf(wanted)) == nil
}

// DecideKept returns an open handoff's token again: signatures are deterministic.
func (m *Mint) DecideKept(n *Named) (Minted, error) {
	token, err := m.Keys.sign(n.SignedBy, ClaimsOf(n.Handoff))
	if err != nil {
		return Minted{}, err
	}
	r := m.minted(n.Handoff, token)
	r.Kept = true
	return r, nil
}

// VoidReason says why a handoff was voided.
type VoidReason string

// VoidReason values.
const (
	VoidReplaced VoidReason = "replaced"  // a later handoff took its name
	VoidSignIn   VoidReason = "signed-in" // the guest signed in, which moved the list
)

// VoidReasons lists all reasons.
var VoidReasons = []VoidReason{VoidReplaced, VoidSignIn}

// SignInEvents returns the events for open handoffs with a payload that a sign-in voided.
func SignInEvents(p *guest.Profile, voided []Handoff, now time.Time) (all []guest.Event, err error) {
	for _, h := range voided {
		e, err := voidedEvent(p, h, VoidSignIn, now)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// voidedEvent returns the event for a voided handoff with a payload.
func voidedEvent(p *guest.Profile, h Handoff, why VoidReason, now time.Time) (guest.Event, error) {
	payload, err := json.Marshal(struct {
		HandoffID guest.ID   `json:"handoffId"`
		SessionID guest.ID   `json:"sessionId"`
		TenantID  string     `json:"tenantId"`
		ItemID    string     `json:"itemId"`
		Reason    VoidReason `json:"reason"`
	}{h.ID, h.Session, h.Tenant, h.Item, why})
	if err != nil {
		return guest.Event{}, errcode.Wrap(errcode.Internal, "encode an event", err)
	}
	id, err := eventOf(h.ID, h.Minted, "voided")
	return guest.Event{ID: id, Type: p.EventType("handoff.voided.v1"), Subject: string(h.ID), Retention: guest.Audit, Payload: payload, At: now}, err
}

// eventOf derives an event ID for an event that happens at most once per handoff.
func eventOf(h guest.ID, minted time.Time, what string) (guest.ID, error) {
	sum := sha256.Sum256([]byte(string(h) + "|" + what))
	var u ulid.ULID
	if err := errors.Join(u.SetTime(ulid.Timestamp(minted)), u.SetEntropy(sum[:10])); err != nil {
		return "", errcode.Wrap(errcode.Internal, "make the ID of an event", err)
	}
	return guest.ID(guest.EventPrefix + u.String()), nil
}
