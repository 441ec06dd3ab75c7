package guest

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Site represents a guest's browser for profiles other than hotel, e.g. a shop. P is the handoff payload's type.
// Site is safe for concurrent use once its fields are set.
type Site[P any] struct{ browser }

// NewSite returns a client without a session; see New.
func NewSite[P any](baseURL string) (*Site[P], error) {
	b, err := newBrowser(baseURL)
	if err != nil {
		return nil, err
	}
	return &Site[P]{b}, nil
}

// ItemWish is a wishlist entry.
type ItemWish struct {
	ID       WishID    `json:"id"`
	TenantID Tenant    `json:"tenantId"`
	ItemID   string    `json:"itemId"`
	Quantity int       `json:"quantity"` // 0 if the profile does not use quantities
	Source   Source    `json:"source"`
	Note     *string   `json:"note,omitempty"`
	AddedAt  time.Time `json:"addedAt"`
	ETag     string    `json:"etag"` // for Match
}

// ItemWishRequest adds an item to the wishlist, or increases its quantity. ItemID is required. TenantID is required
// unless the profile sets the tenant.
type ItemWishRequest struct {
	ItemID   string  `json:"itemId"`
	TenantID string  `json:"tenantId,omitempty"`
	Quantity int     `json:"quantity,omitempty"` // 0 means 1
	Max      int     `json:"max,omitempty"`      // the entry's greatest quantity afterwards; 0 means the profile's maximum
	Source   Source  `json:"source,omitempty"`
	Note     *string `json:"note,omitempty"`
}

// WishChange changes a note, a quantity, or both.
type WishChange struct {
	Note     *string `json:"note,omitempty"`     // nil if unchanged; "" removes the note
	Quantity int     `json:"quantity,omitempty"` // 0 if unchanged
}

// ViewedItem is a viewed item.
type ViewedItem struct {
	TenantID Tenant    `json:"tenantId"`
	ItemID   string    `json:"itemId"`
	ViewedAt time.Time `json:"viewedAt"`
}

// PayloadRequest requests a handoff with a payload. Other members default to the session's.
type PayloadRequest[P any] struct {
	Payload  P               `json:"payload"`
	Currency *string         `json:"currency,omitempty"`
	Locale   *string         `json:"locale,omitempty"`
	Campaign *map[string]any `json:"campaign,omitempty"`
	IfOpen   IfOpen          `json:"ifOpen,omitempty"` // "": Replace
}

// IfOpen decides how Site.Mint treats an open handoff with the same name.
type IfOpen string

// IfOpen values.
const (
	Replace IfOpen = "replace" // void it, and mint another
	Keep    IfOpen = "keep"    // return it, if content and browser are the same and more than half its life is left; otherwise replace it
)

// ItemHandoff is a handoff that the session minted.
type ItemHandoff[P any] struct {
	HandoffID  HandoffID     `json:"handoffId"`
	TenantID   UUID          `json:"tenantId"`
	ItemID     string        `json:"itemId"`
	Payload    P             `json:"payload"`
	Currency   Currency      `json:"currency"`
	Locale     Locale        `json:"locale"`
	Status     HandoffStatus `json:"status"`
	MintedAt   time.Time     `json:"mintedAt"`
	ExpiresAt  time.Time     `json:"expiresAt"`
	ConsumedAt *time.Time    `json:"consumedAt,omitempty"`
}

// ItemPageView is a page view to publish.
type ItemPageView struct {
	Page       PageViewPage `json:"page"`
	TenantID   string       `json:"tenantId,omitempty"`
	ItemID     string       `json:"itemId,omitempty"`
	DurationMs *int         `json:"durationMs,omitempty"`
	OccurredAt *string      `json:"occurredAt,omitempty"`
}

// ItemFunnelEvent is a step towards a handoff, to publish.
type ItemFunnelEvent struct {
	Step       FunnelEventStep `json:"step"`
	TenantID   string          `json:"tenantId,omitempty"`
	ItemID     string          `json:"itemId,omitempty"`
	HandoffID  string          `json:"handoffId,omitempty"`
	OccurredAt *string         `json:"occurredAt,omitempty"`
}

// Viewed returns the viewed items, latest first.
func (s *Site[P]) Viewed(ctx context.Context) ([]ViewedItem, error) {
	var l struct {
		Items []ViewedItem `json:"items"`
	}
	err := s.do(ctx, call{method: http.MethodGet, path: "/session/recently-viewed", idempotent: true}, &l)
	return l.Items, err
}

// AddViewed puts an item at the front of the viewed items. tenant may be "" if the profile sets the tenant.
func (s *Site[P]) AddViewed(ctx context.Context, tenant, item string) (v ViewedItem, err error) {
	body := struct {
		TenantID string `json:"tenantId,omitempty"`
		ItemID   string `json:"itemId"`
	}{tenant, item}
	return v, s.do(ctx, call{method: http.MethodPost, path: "/session/recently-viewed", body: body, idempotent: true}, &v)
}

// Wishlist iterates over the wishlist, newest first, until the first error.
func (s *Site[P]) Wishlist(ctx context.Context) iter.Seq2[ItemWish, error] {
	return pages(func(cursor url.Values) ([]ItemWish, *string, error) {
		var p struct {
			Items      []ItemWish `json:"items"`
			NextCursor *string    `json:"nextCursor"`
		}
		err := s.do(ctx, call{method: http.MethodGet, path: "/wishlist", query: cursor, idempotent: true, public: true}, &p)
		return p.Items, p.NextCursor, err
	})
}

// List returns the whole wishlist, newest first, and its entity tag.
func (s *Site[P]) List(ctx context.Context) (all []ItemWish, tag string, err error) {
	var p struct {
		Items []ItemWish `json:"items"`
	}
	err = s.do(ctx, list(&tag), &p)
	return p.Items, tag, err
}

// Add adds n to an item's quantity, or adds the item to the wishlist. The error's code is
// CodeQuantityLimit if the quantity would exceed the profile's maximum. The guards are about the list.
func (s *Site[P]) Add(ctx context.Context, item string, n int, guards ...Guard) (ItemWish, error) {
	return s.AddWish(ctx, ItemWishRequest{ItemID: item, Quantity: n}, guards...)
}

// AddWish adds an item to the wishlist. If it is already there, AddWish adds to its quantity, and keeps its note and source;
// without quantities it returns the existing entry unchanged. The guards are about the list.
func (s *Site[P]) AddWish(ctx context.Context, r ItemWishRequest, guards ...Guard) (w ItemWish, err error) {
	return w, s.do(ctx, call{method: http.MethodPost, path: "/wishlist", body: r, key: NewKey()}.with(guards), &w)
}

// ChangeWish changes note or quantity. The error has the code CodeNotFound if the item is not in the wishlist.
func (s *Site[P]) ChangeWish(ctx context.Context, item string, c WishChange, guards ...Guard) (w ItemWish, err error) {
	return w, s.do(ctx, call{method: http.MethodPatch, path: "/wishlist/" + url.PathEscape(item), body: c, key: NewKey()}.with(guards), &w)
}

// RemoveWish removes an item from the wishlist. It succeeds if the item is not in the wishlist.
func (s *Site[P]) RemoveWish(ctx context.Context, item string, guards ...Guard) error {
	return s.do(ctx, call{method: http.MethodDelete, path: "/wishlist/" + url.PathEscape(item), key: NewKey()}.with(guards), nil)
}

// Mint mints a handoff to a tenant's site. item is the payload's name, e.g. cart-1, and is consumed once. Another
// Mint voids or keeps the open handoff with this name, as r.IfOpen says. After the handoff was consumed, Mint fails with
// CodeHandoffConsumed, and the Error's Problem.Handoff is the consumed handoff. key is as in Client.Mint.
func (s *Site[P]) Mint(ctx context.Context, tenant TenantID, item, key string, r PayloadRequest[P]) (m Minted, err error) {
	return m, s.do(ctx, mint(tenant, item, key, r), &m)
}

// Handoffs iterates over the session's handoffs, newest first, until the first error.
func (s *Site[P]) Handoffs(ctx context.Context) iter.Seq2[ItemHandoff[P], error] {
	return pages(func(cursor url.Values) ([]ItemHandoff[P], *string, error) {
		var p struct {
			Items      []ItemHandoff[P] `json:"items"`
			NextCursor *string          `json:"nextCursor"`
		}
		err := s.do(ctx, call{method: http.MethodGet, path: "/handoff", query: cursor, idempotent: true}, &p)
		return p.Items, p.NextCursor, err
	})
}

// RecordPageViews publishes 1 to 50 page views and returns their IDs.
func (s *Site[P]) RecordPageViews(ctx context.Context, items []ItemPageView) ([]string, error) {
	return s.record(ctx, "page-view", items)
}

// RecordFunnelEvents publishes 1 to 50 funnel steps and returns their IDs.
func (s *Site[P]) RecordFunnelEvents(ctx context.Context, items []ItemFunnelEvent) ([]string, error) {
	return s.record(ctx, "funnel", items)
}

// record publishes telemetry.
func (s *Site[P]) record(ctx context.Context, kind string, items any) ([]string, error) {
	var ids struct {
		IDs []string `json:"ids"`
	}
	err := s.do(ctx, call{method: http.MethodPost, path: "/telemetry/" + kind, body: map[string]any{"items": items}, key: NewKey()}, &ids)
	return ids.IDs, err
}

// ReceivedItem is a handoff as the consuming site receives it.
type ReceivedItem[P any] struct {
	ItemHandoff[P]

	SessionID SessionID        `json:"sessionId"`
	Campaign  *json.RawMessage `json:"campaign,omitempty"`
	Suspect   bool             `json:"suspect"` // whether the browser or address differs from the mint request
}

// SiteReceiver is like Receiver, but for handoffs with a payload, e.g. at a checkout.
type SiteReceiver[P any] struct{ transport }

// NewSiteReceiver is like NewReceiver, but for handoffs with a payload.
func NewSiteReceiver[P any](internalURL string, tokens TokenSource) (*SiteReceiver[P], error) {
	t, err := receiver(internalURL, tokens)
	if err != nil {
		return nil, err
	}
	return &SiteReceiver[P]{t}, nil
}

// Consume consumes a handoff, like Receiver.Consume.
func (r *SiteReceiver[P]) Consume(ctx context.Context, handoff HandoffID, key string, request ConsumeRequest) (h ReceivedItem[P], err error) {
	return h, r.send(ctx, consume(handoff, key, request), &h)
}

// Sold is an item that a checkout sold.
type Sold struct {
	ItemID   string `json:"itemId"`
	Quantity int    `json:"quantity,omitempty"` // 0: the whole entry
}

// RemoveItems removes a consumed handoff's sold items from the guest's list, e.g. after the payment. Entries that the
// guest added after the mint stay, and so does the rest of a larger quantity. Each handoff removes items once: a repeated
// call returns the same result, and other items fail with CodeItemsRemoved.
func (r *SiteReceiver[P]) RemoveItems(ctx context.Context, handoff HandoffID, items []Sold) (n RemovedItems, err error) {
	body := struct {
		Items []Sold `json:"items"`
	}{items}
	return n, r.send(ctx, call{method: http.MethodPost, path: url.PathEscape(handoff) + "/remove-items", body: body, idempotent: true}, &n)
}

// Verify checks whether a handoff can be consumed, without side effects.
func (r *SiteReceiver[P]) Verify(ctx context.Context, handoff HandoffID, request ConsumeRequest) (h ReceivedItem[P], err error) {
	return h, r.send(ctx, verify(handoff, request), &h)
}
