package guest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"time"

	"holdfast/client/internal/retry"
)

// Client represents a guest's browser. It is safe for concurrent use once its fields are set.
type Client struct{ browser }

// exampleBase is for error texts.
const exampleBase = "https://shop.example.com"

// New returns a client without a session. The base URL is e.g. https://shop.example.com, without /bff/consumer/v1.
// The first request that needs a session starts one.
func New(baseURL string) (*Client, error) {
	b, err := newBrowser(baseURL)
	if err != nil {
		return nil, err
	}
	return &Client{b}, nil
}

// newBrowser returns a client with a cookie jar and the defaults.
func newBrowser(baseURL string) (browser, error) {
	base, err := retry.Base(baseURL, exampleBase, "/bff/consumer/v1")
	if err != nil {
		return browser{}, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return browser{}, err
	}
	return browser{transport{HTTP: &http.Client{Jar: jar}, Retries: 4, MaxWait: time.Minute, base: base + "/bff/consumer/v1", begun: newBegun()}}, nil
}

// NewKey returns a new idempotency key.
func NewKey() string { return rand.Text() }

// Viewed returns the viewed properties, latest first.
func (c *Client) Viewed(ctx context.Context) ([]Viewed, error) {
	var l ViewedList
	err := c.do(ctx, call{method: http.MethodGet, path: "/session/recently-viewed", idempotent: true}, &l)
	return l.Items, err
}

// AddViewed puts a property at the front of the viewed properties.
func (c *Client) AddViewed(ctx context.Context, tenant TenantID, property PropertyID) (v Viewed, err error) {
	return v, c.do(ctx, call{
		method: http.MethodPost, path: "/session/recently-viewed", body: ViewedRequest{TenantID: tenant, PropertyID: property}, idempotent: true,
	}, &v)
}

// History returns the guest's searches, latest first.
func (c *Client) History(ctx context.Context) ([]Searched, error) {
	var l HistoryList
	err := c.do(ctx, call{method: http.MethodGet, path: "/session/history", idempotent: true}, &l)
	return l.Items, err
}

// Search starts a search session and returns its first page. Use Continue for further pages.
func (c *Client) Search(ctx context.Context, q SearchQuery) (r SearchResults, err error) {
	return r, c.do(ctx, call{method: http.MethodPost, path: "/search", body: q, idempotent: true}, &r)
}

// Continue returns a page of a search session. The first page is 1.
func (c *Client) Continue(ctx context.Context, id SearchID, page int) (r SearchResults, err error) {
	query := url.Values{"page": {strconv.Itoa(page)}}
	return r, c.do(ctx, call{method: http.MethodGet, path: "/search/" + url.PathEscape(id), query: query, idempotent: true}, &r)
}

// SearchMap returns the properties in a map section.
func (c *Client) SearchMap(ctx context.Context, q MapQuery) (p Pins, err error) {
	return p, c.do(ctx, call{method: http.MethodPost, path: "/search/map", body: q, idempotent: true}, &p)
}

// Hotel returns a property. locale and currency may be "".
func (c *Client) Hotel(ctx context.Context, id PropertyID, locale Locale, currency Currency) (h Hotel, err error) {
	query := url.Values{}
	if locale != "" {
		query.Set("locale", locale)
	}
	if currency != "" {
		query.Set("currency", currency)
	}
	return h, c.do(ctx, call{method: http.MethodGet, path: "/hotels/" + url.PathEscape(id), query: query, idempotent: true, public: true}, &h)
}

// Nights are the dates and guests of a stay.
type Nights struct {
	From, To                string // YYYY-MM-DD
	Adults, Children, Rooms int    // default: 2 adults, no children, 1 room
}

// Availability returns a property's offers for a stay.
func (c *Client) Availability(ctx context.Context, id PropertyID, n Nights) (a Availability, err error) {
	query := url.Values{"from": {n.From}, "to": {n.To}}
	for name, count := range map[string]int{"adults": n.Adults, "children": n.Children, "rooms": n.Rooms} {
		if count != 0 {
			query.Set(name, strconv.Itoa(count))
		}
	}
	return a, c.do(ctx, call{method: http.MethodGet, path: "/hotels/" + url.PathEscape(id) + "/availability", query: query, idempotent: true, public: true}, &a)
}

// Facets returns the search filters for a region.
func (c *Client) Facets(ctx context.Context, country, region string) (f Facets, err error) {
	return f, c.do(ctx, call{method: http.MethodGet, path: "/facets/" + url.PathEscape(country) + "/" + url.PathEscape(region), idempotent: true, public: true}, &f)
}

// Brand returns a tenant's name, colors and logo, and does not start a session.
func (c *Client) Brand(ctx context.Context, tenant TenantID) (b Brand, err error) {
	return b, c.do(ctx, call{method: http.MethodGet, path: "/brands/" + url.PathEscape(tenant) + "/peek", idempotent: true, public: true}, &b)
}

// Wishlist iterates over the wishlist, newest first, until the first error.
func (c *Client) Wishlist(ctx context.Context) iter.Seq2[Wish, error] {
	return pages(func(cursor url.Values) ([]Wish, *string, error) {
		var p WishPage
		err := c.do(ctx, call{method: http.MethodGet, path: "/wishlist", query: cursor, idempotent: true, public: true}, &p)
		return p.Items, p.NextCursor, err
	})
}

// List returns the whole wishlist, newest first, and its entity tag.
func (c *Client) List(ctx context.Context) (all []Wish, tag string, err error) {
	var p WishPage
	err = c.do(ctx, list(&tag), &p)
	return p.Items, tag, err
}

// list is the request for a whole wishlist. A hotel search sends the tag only with a condition.
func list(tag *string) call {
	return call{method: http.MethodGet, path: "/wishlist", ifNoneMatch: `"-"`, tag: tag, idempotent: true, public: true}
}

// AddWish adds a property to the wishlist. If it is already there, AddWish returns the existing entry unchanged. The guards
// are about the list.
func (c *Client) AddWish(ctx context.Context, r WishRequest, guards ...Guard) (w Wish, err error) {
	return w, c.do(ctx, call{method: http.MethodPost, path: "/wishlist", body: r, key: NewKey()}.with(guards), &w)
}

// SetNote replaces the note of a wishlist entry; "" removes it.
func (c *Client) SetNote(ctx context.Context, property PropertyID, note string, guards ...Guard) (w Wish, err error) {
	return w, c.do(ctx, call{method: http.MethodPatch, path: "/wishlist/" + url.PathEscape(property), body: NoteRequest{Note: note}, key: NewKey()}.with(guards), &w)
}

// RemoveWish removes a property from the wishlist. It succeeds if the property is not in the wishlist.
func (c *Client) RemoveWish(ctx context.Context, property PropertyID, guards ...Guard) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/wishlist/" + url.PathEscape(property), key: NewKey()}.with(guards), nil)
}

// Mint mints a handoff to a tenant's booking site. key is the attempt's idempotency key, e.g. from a form, so that
// the form mints once even if it is sent twice; with "", each call is a new attempt. If the server suspects a bot, Mint
// solves the challenge, which takes a few milliseconds of CPU time.
func (c *Client) Mint(ctx context.Context, tenant TenantID, property PropertyID, key string, r MintRequest) (m Minted, err error) {
	return m, c.do(ctx, mint(tenant, property, key, r), &m)
}

// mint is the request for Mint.
func mint(tenant TenantID, item, key string, body any) call {
	path := "/handoff/" + url.PathEscape(tenant) + "/" + url.PathEscape(item)
	return call{method: http.MethodPost, path: path, body: body, key: cmp.Or(key, NewKey())}
}

// Handoffs iterates over the session's handoffs, newest first, until the first error.
func (c *Client) Handoffs(ctx context.Context) iter.Seq2[Handoff, error] {
	return pages(func(cursor url.Values) ([]Handoff, *string, error) {
		var p HandoffPage
		err := c.do(ctx, call{method: http.MethodGet, path: "/handoff", query: cursor, idempotent: true}, &p)
		return p.Items, p.NextCursor, err
	})
}

// RecordPageViews publishes 1 to 50 page views and returns their IDs.
func (c *Client) RecordPageViews(ctx context.Context, items []PageView) ([]string, error) {
	var ids PageViewIDs
	err := c.do(ctx, call{method: http.MethodPost, path: "/telemetry/page-view", body: PageViewBatch{Items: items}, key: NewKey()}, &ids)
	return ids.Ids, err
}

// RecordFunnelEvents publishes 1 to 50 funnel steps and returns their IDs.
func (c *Client) RecordFunnelEvents(ctx context.Context, items []FunnelEvent) ([]string, error) {
	var ids FunnelIDs
	err := c.do(ctx, call{method: http.MethodPost, path: "/telemetry/funnel", body: FunnelBatch{Items: items}, key: NewKey()}, &ids)
	return ids.Ids, err
}

// pages reads page after page. It stops after an error.
func pages[T any](read func(cursor url.Values) ([]T, *string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for query := url.Values(nil); ; {
			items, next, err := read(query)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			query = url.Values{"cursor": {*next}}
		}
	}
}

// Receiver is a booking site that consumes handoffs at the internal listener. It is safe for concurrent use once its
// fields are set.
type Receiver struct{ transport }

// TokenSource returns a service token for a request.
type TokenSource func(context.Context) (string, error)

// StaticToken returns a TokenSource that always returns token.
func StaticToken(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}

// NewReceiver returns a receiver for the internal listener, e.g. http://holdfast.internal:8002. Create tokens with
// `holdfast guest tokens create`.
func NewReceiver(internalURL string, tokens TokenSource) (*Receiver, error) {
	t, err := receiver(internalURL, tokens)
	if err != nil {
		return nil, err
	}
	return &Receiver{t}, nil
}

// receiver checks the options.
func receiver(internalURL string, tokens TokenSource) (transport, error) {
	base, err := retry.Base(internalURL, exampleBase, "/internal/")
	if err == nil && tokens == nil {
		err = errors.New("tokens is nil: expected a TokenSource, such as StaticToken")
	}
	return transport{HTTP: http.DefaultClient, Retries: 4, MaxWait: time.Minute, base: base + "/internal/handoff/", tokens: tokens}, err
}

// Consume consumes a handoff. Call it before showing anything to the guest. Exactly one attempt succeeds. key
// identifies the attempt: a repeated call with the same key returns the same result, even from another process.
func (r *Receiver) Consume(ctx context.Context, handoff HandoffID, key string, request ConsumeRequest) (h Received, err error) {
	return h, r.send(ctx, consume(handoff, key, request), &h)
}

// Verify checks whether a handoff can be consumed, without side effects.
func (r *Receiver) Verify(ctx context.Context, handoff HandoffID, request ConsumeRequest) (h Received, err error) {
	return h, r.send(ctx, verify(handoff, request), &h)
}

// consume is the request for Consume.
func consume(handoff HandoffID, key string, request ConsumeRequest) call {
	return call{method: http.MethodPost, path: url.PathEscape(handoff) + "/consume", body: request, key: key}
}

// verify is the request for Verify.
func verify(handoff HandoffID, request ConsumeRequest) call {
	return call{method: http.MethodPost, path: url.PathEscape(handoff) + "/verify", body: request, idempotent: true}
}

// Error is an error response.
type Error struct {
	Status int // HTTP status
	Problem

	// ETag is the current entity tag after a Guard that does not hold; "" if there is no entry.
	ETag string

	// RetryAfter is the delay that the server requested, or 0.
	RetryAfter time.Duration
}

// Error returns the detail with its code.
func (e *Error) Error() string {
	if e.Code == "" {
		return "status " + strconv.Itoa(e.Status) + ": the response is not from Holdfast"
	}
	return fmt.Sprintf("%s (%s)", e.Detail, e.Code)
}

// Is lets errors.Is(err, guest.CodeNotFound) compare error codes.
func (e *Error) Is(target error) bool {
	code, ok := target.(ErrorCode)
	return ok && e.Code == code
}

// Error implements error, so that errors.Is accepts a code.
func (e ErrorCode) Error() string { return string(e) }
