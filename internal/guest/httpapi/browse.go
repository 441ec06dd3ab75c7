package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/telemetry"
	"holdfast/internal/web"
)

const (
	defaultLocale   = "en"
	defaultCurrency = "EUR"
)

// searchView is a page of a stored search.
type searchView struct {
	SearchID  guest.ID        `json:"searchId"`
	Query     json.RawMessage `json:"query"`
	CreatedAt time.Time       `json:"createdAt"`
	catalogue.Results
	Page     int  `json:"page"`
	NextPage *int `json:"nextPage"` // null on the last page
}

// search answers POST /search: it runs a new search and stores it in the session.
func (x *exchange) search() error {
	q, begun, err := x.query()
	if err != nil {
		return err
	}
	results, v, err := x.Catalogue.Find(x.traced(), q)
	x.cacheStatus(v, err)
	if err != nil {
		return err
	}
	q.Bounds = nil
	if err := q.Normalize(); err != nil {
		return err
	}
	page := q.Page
	q.Page = 1 // the history stores a query once, not once per page
	hash, err := q.Hash()
	if err != nil {
		return err
	}
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	s, err := x.Guests.BeginSearch(x.ctx(), x.session, hash, text)
	if err != nil {
		return err
	}
	if begun.ID != "" {
		x.start(begun)
	}
	q.Page = page
	x.executed(q, telemetry.Executed{SearchID: s.ID, Kind: "list", Total: results.Total, Cache: v.State})
	return x.sendSearch(s, results, page, q.PageSize)
}

// sendSearch answers with a page. size is the page size.
func (x *exchange) sendSearch(s guest.Search, r catalogue.Results, page, size int) error {
	body := searchView{SearchID: s.ID, Query: s.Query, CreatedAt: s.Created, Results: r, Page: page}
	if page*size < r.Total {
		next := page + 1
		body.NextPage = &next
	}
	return x.sendJSON(http.StatusOK, body)
}

// searchMap answers POST /search/map. The search is not stored.
func (x *exchange) searchMap() error {
	q, begun, err := x.query()
	if err != nil {
		return err
	}
	pins, v, err := x.Catalogue.FindPins(x.traced(), q)
	x.cacheStatus(v, err)
	if err != nil {
		return err
	}
	if err := q.Normalize(); err != nil {
		return err
	}
	if begun.ID != "" {
		x.start(begun)
	}
	x.executed(q, telemetry.Executed{Kind: "map", Total: pins.Total, Cache: v.State})
	return x.sendJSON(http.StatusOK, pins)
}

// query reads the search in a request. begun is the new session, if it started one.
func (x *exchange) query() (q catalogue.SearchQuery, begun guest.Session, err error) {
	if err := decode(x.body, &q); err != nil {
		return q, begun, err
	}
	q.Device = "desktop"
	if x.in.Header.Get("Sec-CH-UA-Mobile") == "?1" {
		q.Device = "mobile"
	}
	session, begun, err := x.searcher()
	if err != nil {
		return q, begun, err
	}
	q.Locale, q.Currency = x.preferred(session, q.Locale, q.Currency)
	return q, begun, x.Catalogue.CheckArrival(&q)
}

// searcher returns the request's session, or a new one, which a search needs.
func (x *exchange) searcher() (session, begun guest.Session, err error) {
	if x.session != "" {
		session, err = x.Guests.Session(x.ctx(), x.session, x.campaign())
		return session, begun, err
	}
	begun, err = x.Guests.Begin(x.ctx(), x.campaign())
	x.session = begun.ID
	return begun, begun, err
}

// preferred chooses locale and currency: from the request, else the session, else the headers, else a default.
func (x *exchange) preferred(session guest.Session, locale, currency string) (string, string) {
	return first(locale, session.Locale, acceptLanguage(x.in.Header), defaultLocale), first(currency, session.Currency, x.currency(), defaultCurrency)
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// currency ignores a malformed X-Currency.
func (x *exchange) currency() string {
	if c := x.in.Header.Get("X-Currency"); guest.IsCurrency(c) {
		return c
	}
	return ""
}

// acceptLanguage returns the language that the browser prefers, "" if unknown.
func acceptLanguage(h http.Header) (best string) {
	maximum := 0.0
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Language"), ","), ",") {
		tag, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		if text, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			var err error
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if tag = strings.TrimSpace(tag); q > maximum && guest.IsLocale(tag) {
			best, maximum = tag, q
		}
	}
	return best
}

// searched reads a stored search into query, and the page from the URL.
func (x *exchange) searched(query any) (s guest.Search, page int, err error) {
	id, ok := guest.ParseID(guest.SearchPrefix, x.route.search)
	if !ok {
		return s, 0, guest.ErrSearchExpired
	}
	values, err := x.parameters("page")
	if err != nil {
		return s, 0, err
	}
	page, err = number(values, "page", 1)
	if err == nil && page < 1 {
		err = web.Refuse(http.StatusBadRequest, "invalid", "page: expected at least 1")
	} else if err == nil {
		err = catalogue.CheckPage(page)
	}
	if err != nil {
		return s, 0, err
	}
	if s, err = x.Guests.Search(x.ctx(), x.session, id); err != nil {
		return s, 0, err
	}
	if json.Unmarshal(s.Query, query) != nil {
		err = guest.ErrSearchExpired // stored by another release
	}
	return s, page, err
}

// getSearch answers GET /search/{id}: it runs a stored search again, for another page.
func (x *exchange) getSearch() error {
	var q catalogue.SearchQuery
	s, page, err := x.searched(&q)
	if err != nil {
		return err
	}
	q.Page = page
	results, v, err := x.Catalogue.Find(x.traced(), q)
	x.cacheStatus(v, err)
	if err != nil {
		return err
	}
	x.executed(q, telemetry.Executed{SearchID: s.ID, Kind: "list", Total: results.Total, Cache: v.State})
	return x.sendSearch(s, results, page, q.PageSize)
}

// executed publishes a search, without the text that the guest typed.
func (x *exchange) executed(q catalogue.SearchQuery, e telemetry.Executed) {
	e.HasText, q.Text = q.Text != "", ""
	e.Query = q
	x.Telemetry.Executed(x.traced(), x.session, e)
}

// parameters parses the URL query, and refuses other names and repeated ones.
func (x *exchange) parameters(names ...string) (url.Values, error) {
	values, err := url.ParseQuery(x.in.URL.RawQuery)
	if err != nil {
		return nil, web.Refuse(http.StatusBadRequest, "invalid", "the URL query is malformed")
	}
	known := 0
	for _, name := range names {
		if n := len(values[name]); n > 1 {
			return nil, web.Refuse(http.StatusBadRequest, "invalid", name+": expected once in the URL query")
		} else if n == 1 {
			known++
		}
	}
	if known < len(values) {
		return nil, web.Refuse(http.StatusBadRequest, "invalid", "the URL query may contain "+strings.Join(names, ", ")+" only")
	}
	return values, nil
}

// number returns absent for a missing parameter.
func number(values url.Values, name string, absent int) (int, error) {
	if !values.Has(name) {
		return absent, nil
	}
	n, err := strconv.Atoi(values.Get(name))
	if err != nil {
		return 0, web.Refuse(http.StatusBadRequest, "invalid", name+": expected a whole number")
	}
	return n, nil
}

// getHotel answers GET /hotels/{id}. Without a session, the view is not published.
func (x *exchange) getHotel() error {
	values, err := x.parameters("locale", "currency")
	if err != nil {
		return err
	}
	locale := first(values.Get("locale"), acceptLanguage(x.in.Header), defaultLocale)
	currency := first(values.Get("currency"), x.currency(), defaultCurrency)
	h, v, err := x.Catalogue.Hotel(x.traced(), x.route.item, locale, currency)
	if err == nil && x.session != "" {
		x.Telemetry.DetailViewed(x.traced(), x.session, telemetry.DetailViewed{TenantID: h.TenantID, PropertyID: h.PropertyID, Locale: h.Locale, Currency: h.Currency, Cache: v.State})
	}
	return x.sendView(v, err)
}

// getAvailability answers GET /hotels/{id}/availability.
func (x *exchange) getAvailability() error {
	values, err := x.parameters("from", "to", "adults", "children", "rooms")
	if err != nil {
		return err
	}
	q := catalogue.AvailabilityQuery{Property: x.route.item, From: values.Get("from"), To: values.Get("to")}
	for _, p := range []struct {
		name   string
		into   *int
		absent int
	}{{"adults", &q.Adults, 2}, {"children", &q.Children, 0}, {"rooms", &q.Rooms, 1}} {
		if *p.into, err = number(values, p.name, p.absent); err != nil {
			return err
		}
	}
	v, err := x.Catalogue.Availability(x.traced(), q)
	return x.sendView(v, err)
}

// getFacets answers GET /facets/{country}/{region}.
func (x *exchange) getFacets() error {
	if _, err := x.parameters(); err != nil {
		return err
	}
	v, err := x.Catalogue.FacetsOf(x.traced(), x.route.country, x.route.region)
	return x.sendView(v, err)
}

// getBrand answers GET for a tenant's profile, with the ID as the client spelled it.
func (x *exchange) getBrand() error {
	if _, err := x.parameters(); err != nil {
		return err
	}
	b, v, err := x.Catalogue.BrandPeek(x.traced(), x.route.tenant)
	if asked := spelled(b.TenantID, x.route.tenant); err == nil && asked != b.TenantID {
		b.TenantID = asked
		v.Body, err = json.Marshal(b)
	}
	return x.sendView(v, err)
}

// traced passes the request's trace to upstreams and events.
func (x *exchange) traced() context.Context { return guest.WithTrace(x.ctx(), traceOf(x.in)) }

// sendView sends an answer that contains no guest data and is equal for all guests, because shared caches may
// store it.
func (x *exchange) sendView(v catalogue.View, err error) error {
	x.cacheStatus(v, err)
	if err != nil {
		return err
	}
	x.out.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d, stale-if-error=%d", max(0, int(v.Fresh.Seconds())), int(v.Stale.Seconds())))
	x.out.Header().Add("Vary", "Accept-Language, X-Currency, Accept-Encoding")
	return x.sendPublic(answer{Status: http.StatusOK, ContentType: "application/json", Body: v.Body})
}

// sendPublic sends an answer that shared caches may store. Its ETag is a hash over the body.
func (x *exchange) sendPublic(a answer) error {
	known, err := web.ParseEntityTags(x.in.Header, "If-None-Match")
	if err != nil {
		return err
	}
	h := x.out.Header()
	sum := sha256.Sum256(a.Body)
	tag := base64.RawURLEncoding.EncodeToString(sum[:12])
	for _, private := range []string{"Set-Cookie", "X-Session-Token", "RateLimit", "RateLimit-Policy"} {
		h.Del(private)
	}
	if !x.notModified(known, tag) {
		send(x.out, a)
	}
	return nil
}

// cacheStatus sets X-Cache and Cache-Status (RFC 9211).
func (x *exchange) cacheStatus(v catalogue.View, err error) {
	if err != nil || v.State == "" {
		return
	}
	ttl := int(math.Ceil(v.Fresh.Seconds()))
	status := "holdfast; "
	switch v.State {
	case catalogue.CacheMiss:
		status += fmt.Sprintf("fwd=uri-miss; stored; ttl=%d", ttl)
		if v.Collapsed {
			status += "; collapsed"
		}
	case catalogue.CacheBypass:
		status += "fwd=bypass"
	default:
		status += fmt.Sprintf("hit; ttl=%d", ttl)
	}
	x.out.Header().Set("X-Cache", string(v.State))
	x.out.Header().Set("Cache-Status", status)
}
