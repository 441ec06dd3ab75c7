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

// stayView is a stay as clients send and see it.
type stayView struct {
	CheckIn  string `json:"checkIn"`
	CheckOut string `json:"checkOut"`
	Adults   int    `json:"adults"`
	Children int    `json:"children"`
	Rooms    int    `json:"rooms"`
	Currency string `json:"currency"`
	Locale   string `json:"locale"`
}

func stayOf(s handoffs.Stay) stayView {
	return stayView{s.CheckIn, s.CheckOut, s.Adults, s.Children, s.Rooms, s.Currency, s.Locale}
}

// parseHandoff parses the path after /handoff/.
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
	return route{template: "/handoff/{tenantId}/{propertyId}", tenant: tenant, property: property}
}

// visitor returns what the request says about the guest's browser.
func (x *exchange) visitor() guest.Visitor {
	v := guest.Visitor{UserAgent: x.in.Header.Get("User-Agent"), AcceptLanguage: strings.Join(x.in.Header.Values("Accept-Language"), ", ")}
	if ip, ok := web.ClientIP(x.out); ok {
		v.IP = ip.String()
	}
	return v
}

func (x *exchange) mint() error {
	in := struct {
		stayView
		Campaign json.RawMessage `json:"campaign"`
	}{stayView: stayView{Rooms: 1}}
	if err := decode(x.body, &in); err != nil {
		return err
	}
	if string(in.Campaign) == "null" {
		in.Campaign = nil
	}
	session, err := x.Guests.Session(x.ctx(), x.session, x.campaign())
	if err != nil {
		return err
	}
	in.Locale = first(in.Locale, session.Locale, acceptLanguage(x.in.Header), defaultLocale)
	in.Currency = first(in.Currency, session.Currency, x.currency(), defaultCurrency)
	r := handoffs.MintRequest{
		Tenant: x.route.tenant, Property: x.route.property, Campaign: in.Campaign, Visitor: x.visitor(), Denied: x.evaluate(),
		Home: x.at.Origin.String(),
		Stay: handoffs.Stay{
			CheckIn: in.CheckIn, CheckOut: in.CheckOut, Adults: in.Adults, Children: in.Children, Rooms: in.Rooms, Currency: in.Currency, Locale: in.Locale,
		},
	}
	o, err := x.Handoffs.Mint(x.ctx(), x.mutation, session.Preferences, r)
	return reply(x, o, err, func(m handoffs.Minted) (answer, error) {
		return jsonAnswer(http.StatusCreated, struct {
			HandoffID   guest.ID  `json:"handoffId"`
			Token       string    `json:"token"`
			RedirectURL string    `json:"redirectUrl"`
			ExpiresAt   time.Time `json:"expiresAt"`
		}{m.ID, m.Token, m.URL, m.Expires})
	})
}

// getKeySet returns the public keys of a tenant, with which its booking site verifies tokens offline.
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
	x.sendPublic(answer{Status: http.StatusOK, ContentType: "application/jwk-set+json", Body: append(set, '\n')})
	return nil
}

// handoffView is a handoff as its guest sees it: without the token.
type handoffView struct {
	HandoffID  guest.ID `json:"handoffId"`
	TenantID   string   `json:"tenantId"`
	PropertyID string   `json:"propertyId"`
	stayView
	Status     string     `json:"status"` // open, consumed or expired
	MintedAt   time.Time  `json:"mintedAt"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	ConsumedAt *time.Time `json:"consumedAt,omitempty"`
}

func handoffOf(h handoffs.Handoff, now time.Time) handoffView {
	v := handoffView{
		HandoffID: h.ID, TenantID: h.Tenant, PropertyID: h.Property, stayView: stayOf(h.Stay), Status: "open", MintedAt: h.Minted, ExpiresAt: h.Expires,
	}
	switch {
	case !h.Consumed.IsZero():
		v.Status, v.ConsumedAt = "consumed", &h.Consumed
	case !now.Before(h.Expires):
		v.Status = "expired"
	}
	return v
}

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
		Items      []handoffView `json:"items"`
		NextCursor *string       `json:"nextCursor"`
	}{Items: []handoffView{}}
	if len(all) > limit {
		all = all[:limit]
		next := cursorOf(place{all[limit-1].Minted, all[limit-1].ID})
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
