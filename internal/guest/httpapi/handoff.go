package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
	"holdfast/internal/web"
)

// stayView is a stay as clients send it. Dates are YYYY-MM-DD; CheckOut is the day of departure.
type stayView struct {
	CheckIn  string `json:"checkIn"`
	CheckOut string `json:"checkOut"`
	Adults   int    `json:"adults"`
	Children int    `json:"children"`
	Rooms    int    `json:"rooms"`
	Currency string `json:"currency"`
	Locale   string `json:"locale"`
}

// parseHandoff parses the tenant and item in a path.
func parseHandoff(names string) route {
	tenant, property, found := strings.Cut(names, "/")
	if !found || tenant == "" || property == "" || strings.Contains(property, "/") {
		return route{}
	}
	tenant, err1 := url.PathUnescape(tenant)
	property, err2 := url.PathUnescape(property)
	if err1 != nil || err2 != nil {
		return route{}
	}
	return route{template: "/handoff/{tenantId}/{propertyId}", tenant: tenant, item: property}
}

// visitor returns the features by which a browser is recognized.
func (x *exchange) visitor() guest.Visitor {
	v := guest.Visitor{UserAgent: x.in.Header.Get("User-Agent"), AcceptLanguage: strings.Join(x.in.Header.Values("Accept-Language"), ", ")}
	if ip, ok := web.ClientIP(x.in); ok {
		v.IP = ip.String()
	}
	return v
}

// mintBody reads a handoff's contents: a stay, or the profile's payload.
func (x *exchange) mintBody() (r handoffs.MintRequest, err error) {
	if x.Guests.Profile().IsHotel() {
		in := struct {
			stayView
			Campaign json.RawMessage `json:"campaign"`
		}{stayView: stayView{Rooms: 1}}
		err = decode(x.body, &in)
		r.Stay, r.Campaign = handoffs.Stay(in.stayView), in.Campaign
	} else {
		var in struct {
			Payload  json.RawMessage `json:"payload"`
			Currency string          `json:"currency"`
			Locale   string          `json:"locale"`
			Campaign json.RawMessage `json:"campaign"`
			IfOpen   handoffs.IfOpen `json:"ifOpen"`
		}
		err = decode(x.body, &in)
		r.Payload, r.Currency, r.Locale, r.Campaign, r.IfOpen = in.Payload, in.Currency, in.Locale, in.Campaign, in.IfOpen
	}
	if string(r.Campaign) == "null" {
		r.Campaign = nil
	}
	return r, err
}

// mint mints a handoff, or returns the open handoff with its name, and answers with its URL. The answer to a repeated request
// is the same while the handoff is open.
func (x *exchange) mint() error {
	r, err := x.mintBody()
	if err != nil {
		return err
	}
	session, err := x.Guests.Session(x.ctx(), x.session, x.campaign())
	if err != nil {
		return err
	}
	r.Locale = first(r.Locale, session.Locale, acceptLanguage(x.in.Header), defaultLocale)
	r.Currency = first(r.Currency, session.Currency, x.currency(), defaultCurrency)
	r.Tenant, r.Item, r.Visitor, r.Denied, r.Home = x.route.tenant, x.route.item, x.visitor(), x.evaluate(), x.at.Origin.String()
	o, err := x.Handoffs.Mint(x.ctx(), x.mutation, session.Preferences, r)
	return reply(x, o, err, func(m handoffs.Minted) (answer, error) {
		status := http.StatusCreated
		if m.Kept {
			status = http.StatusOK
		}
		return jsonAnswer(status, struct {
			HandoffID   guest.ID  `json:"handoffId"`
			Token       string    `json:"token"`
			RedirectURL string    `json:"redirectUrl"`
			ExpiresAt   time.Time `json:"expiresAt"`
		}{m.ID, m.Token, m.URL, m.Expires})
	})
}

// getKeySet answers with the public keys (RFC 7517), which booking sites may cache.
func (x *exchange) getKeySet() error {
	if _, err := x.parameters(); err != nil {
		return err
	}
	set, life, err := x.Handoffs.KeySet(x.ctx(), x.route.tenant)
	if err != nil {
		return err
	}
	if life > 0 {
		x.out.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(life.Seconds())))
	}
	return x.sendPublic(answer{Status: http.StatusOK, ContentType: "application/jwk-set+json", Body: append(set, '\n')})
}

// handoffView omits the token.
type handoffView struct {
	HandoffID  guest.ID `json:"handoffId"`
	TenantID   string   `json:"tenantId"`
	PropertyID string   `json:"propertyId"`
	stayView
	handoffState
}

// itemHandoffView is handoffView in profiles other than hotel.
type itemHandoffView struct {
	HandoffID guest.ID        `json:"handoffId"`
	TenantID  string          `json:"tenantId"`
	ItemID    string          `json:"itemId"`
	Payload   json.RawMessage `json:"payload"`
	Currency  string          `json:"currency"`
	Locale    string          `json:"locale"`
	handoffState
}

// handoffState holds the members that both views share.
type handoffState struct {
	Status     string     `json:"status"` // open, consumed, voided or expired
	MintedAt   time.Time  `json:"mintedAt"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	ConsumedAt *time.Time `json:"consumedAt,omitempty"`
}

// handoffOf chooses the view.
func handoffOf(h handoffs.Handoff, now time.Time) any {
	v := handoffState{Status: "open", MintedAt: h.Minted, ExpiresAt: h.Expires}
	switch {
	case !h.Consumed.IsZero():
		v.Status, v.ConsumedAt = "consumed", &h.Consumed
	case !h.Voided.IsZero():
		v.Status = "voided"
	case !now.Before(h.Expires):
		v.Status = "expired"
	}
	if h.Payload != nil {
		return itemHandoffView{h.ID, h.Tenant, h.Item, h.Payload, h.Currency, h.Locale, v}
	}
	return handoffView{h.ID, h.Tenant, h.Item, stayView(h.Stay), v}
}

// listHandoffs lists the session's handoffs, newest first.
func (x *exchange) listHandoffs() error {
	limit, after, err := parsePage(x.in.URL.RawQuery, guest.HandoffPrefix)
	if err != nil {
		return err
	}
	var last *handoffs.Handoff
	if after != nil {
		last = &handoffs.Handoff{ID: after.ID, Minted: after.At}
	}
	all, err := x.Handoffs.List(x.ctx(), x.session, last, limit+1)
	if err != nil {
		return err
	}
	page := struct {
		Items      []any   `json:"items"`
		NextCursor *string `json:"nextCursor"`
	}{Items: []any{}}
	if len(all) > limit {
		all = all[:limit]
		next := cursorOf(position{all[limit-1].Minted, all[limit-1].ID})
		page.NextCursor = &next
	}
	for _, h := range all {
		page.Items = append(page.Items, handoffOf(h, x.Handoffs.Now()))
	}
	a, err := jsonAnswer(http.StatusOK, page)
	if err != nil {
		return err
	}
	send(x.out, a)
	return nil
}
