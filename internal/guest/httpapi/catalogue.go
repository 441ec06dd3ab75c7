package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"holdfast/internal/canonjson"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/guest/telemetry"
)

// upstreamOf finds the upstream for a path with as many names as the upstream takes.
func upstreamOf(r route, p *guest.Profile) (u guest.Upstream, found bool) {
	u, found = p.Upstream(r.upstream)
	return u, found && u.Name != guest.SearchUpstream && len(u.Path) == len(r.names)
}

// maxValue is the longest parameter for an upstream, in bytes.
const maxValue = 200

// getAnswer answers GET /catalogue/… from a profile's upstream.
func (x *exchange) getAnswer() error {
	u, _ := upstreamOf(x.route, x.Guests.Profile())
	values, err := x.values(u)
	if err != nil {
		return err
	}
	v, err := x.Catalogue.Read(x.traced(), u, values)
	if item := values.Get("itemId"); err == nil && x.session != "" && slices.Contains(u.Path, "itemId") {
		x.Telemetry.ItemViewed(x.traced(), x.session, telemetry.ItemViewed{ItemID: item, Upstream: u.Name, Cache: v.State})
	}
	return x.sendView(v, err)
}

// values collects path and query parameters for an upstream, with defaults.
func (x *exchange) values(u guest.Upstream) (url.Values, error) {
	values, err := x.parameters(u.Parameters...)
	if err != nil {
		return nil, err
	}
	for _, name := range u.Parameters {
		switch text := values.Get(name); {
		case name == "locale":
			values.Set(name, first(text, acceptLanguage(x.in.Header), defaultLocale))
		case name == "currency":
			values.Set(name, first(text, x.currency(), defaultCurrency))
		case text == "":
			values.Del(name)
		case !isValue(text):
			return nil, guest.BadParameter(fmt.Sprintf("expected at most %d bytes of text", maxValue), name)
		}
	}
	for i, name := range u.Path {
		text, ok := x.route.names[i], isValue(x.route.names[i])
		if name == "itemId" {
			text, ok = x.Guests.Profile().ParseItem(text)
		}
		if !ok {
			return nil, catalogue.ErrMissing
		}
		values.Set(name, text)
	}
	return values, catalogue.NormalizeValues(values)
}

// isValue rejects parameters that, as a path segment, would alter the path's other segments.
func isValue(s string) bool {
	for _, c := range s {
		if unicode.IsControl(c) {
			return false
		}
	}
	return s != "." && s != ".." && len(s) <= maxValue && utf8.ValidString(s)
}

// itemsView is a page of a stored search, in profiles other than hotel.
type itemsView struct {
	SearchID  guest.ID        `json:"searchId"`
	Query     json.RawMessage `json:"query"` // a catalogue.CriteriaQuery
	CreatedAt time.Time       `json:"createdAt"`
	catalogue.Items
	Page     int  `json:"page"`
	NextPage *int `json:"nextPage"`
}

// searchItems answers POST /search in profiles with criteria.
func (x *exchange) searchItems() error {
	q, begun, err := x.criteria()
	if err != nil {
		return err
	}
	items, v, err := x.Catalogue.FindItems(x.traced(), q)
	x.cacheStatus(v, err)
	if err != nil {
		return err
	}
	begin := q
	begin.Page = 1
	text, err := json.Marshal(begin)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	s, err := x.Guests.BeginSearch(x.ctx(), x.session, hex.EncodeToString(sum[:]), text)
	if err != nil {
		return err
	}
	if begun.ID != "" {
		x.start(begun)
	}
	return x.sendItems(s, q, items, v)
}

// criteria reads and checks a search. begun is as for query.
func (x *exchange) criteria() (q catalogue.CriteriaQuery, begun guest.Session, err error) {
	if err := decode(x.body, &q); err != nil {
		return q, begun, err
	}
	criteria, err := canonjson.Parse(q.Criteria, maxBody)
	if err != nil || criteria[0] != '{' { // not an object, so free text could not be removed from events
		return q, begun, guest.BadMember("expected an object", "criteria")
	}
	if err := guest.Under("criteria", x.Guests.CheckCriteria(x.ctx(), criteria)); err != nil {
		return q, begun, err
	}
	q.Criteria = json.RawMessage(criteria)
	session, begun, err := x.searcher()
	if err != nil {
		return q, begun, err
	}
	q.Locale, q.Currency = x.preferred(session, q.Locale, q.Currency)
	return q, begun, q.Normalize()
}

// getItems answers GET /search/{id} in profiles with criteria.
func (x *exchange) getItems() error {
	var q catalogue.CriteriaQuery
	s, page, err := x.searched(&q)
	if err != nil {
		return err
	}
	q.Page = page
	items, v, err := x.Catalogue.FindItems(x.traced(), q)
	x.cacheStatus(v, err)
	if err != nil {
		return err
	}
	return x.sendItems(s, q, items, v)
}

// sendItems answers with a page, and publishes the search without the criterion text.
func (x *exchange) sendItems(s guest.Search, q catalogue.CriteriaQuery, items catalogue.Items, v catalogue.View) error {
	body := itemsView{SearchID: s.ID, Query: s.Query, CreatedAt: s.Created, Items: items, Page: q.Page}
	if q.Page*q.PageSize < items.Total {
		next := q.Page + 1
		body.NextPage = &next
	}
	e := telemetry.Executed{SearchID: s.ID, Kind: "list", Total: items.Total, Cache: v.State}
	var members map[string]json.RawMessage
	if json.Unmarshal(q.Criteria, &members) == nil && members["text"] != nil {
		e.HasText = true
		delete(members, "text")
		text, err := json.Marshal(members)
		if err != nil {
			return err
		}
		q.Criteria = text
	}
	e.Query = q
	x.Telemetry.Executed(x.traced(), x.session, e)
	return x.sendJSON(http.StatusOK, body)
}
