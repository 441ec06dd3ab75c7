package guest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Catalogue searches a site. C is the type for the criteria in the profile's schema, and I the type for the items
// that the upstream named search returns.
type Catalogue[C, I any] struct{ b *browser }

// NewCatalogue returns a catalogue that shares the session of a Site.
func NewCatalogue[C, I, P any](s *Site[P]) Catalogue[C, I] { return Catalogue[C, I]{&s.browser} }

// CriteriaQuery describes a search.
type CriteriaQuery[C any] struct {
	Criteria C        `json:"criteria"`
	Page     int      `json:"page,omitempty"`     // 0 means 1
	PageSize int      `json:"pageSize,omitempty"` // 0 means 20
	Locale   Locale   `json:"locale,omitempty"`   // default: from the session, then from the browser
	Currency Currency `json:"currency,omitempty"` // default: from the session
}

// ItemResults is a page of search results.
type ItemResults[C, I any] struct {
	SearchID  SearchID         `json:"searchId"`
	Query     CriteriaQuery[C] `json:"query"`
	CreatedAt time.Time        `json:"createdAt"`
	Items     []I              `json:"items"`
	Total     int              `json:"total"` // on all pages
	Page      int              `json:"page"`
	NextPage  *int             `json:"nextPage"` // nil on the last page
}

// SearchedItems is a search in the guest's history.
type SearchedItems[C any] struct {
	SearchID   SearchID         `json:"searchId"`
	Query      CriteriaQuery[C] `json:"query"`
	SearchedAt time.Time        `json:"searchedAt"`
}

// Search starts a search session and returns a page. Use Continue for further pages.
func (c Catalogue[C, I]) Search(ctx context.Context, q CriteriaQuery[C]) (r ItemResults[C, I], err error) {
	return r, c.b.do(ctx, call{method: http.MethodPost, path: "/search", body: q, idempotent: true}, &r)
}

// Continue returns a page of a search session. The first page is 1.
func (c Catalogue[C, I]) Continue(ctx context.Context, id SearchID, page int) (r ItemResults[C, I], err error) {
	query := url.Values{"page": {strconv.Itoa(page)}}
	return r, c.b.do(ctx, call{method: http.MethodGet, path: "/search/" + url.PathEscape(id), query: query, idempotent: true}, &r)
}

// History returns the guest's searches, latest first.
func (c Catalogue[C, I]) History(ctx context.Context) ([]SearchedItems[C], error) {
	var l struct {
		Items []SearchedItems[C] `json:"items"`
	}
	err := c.b.do(ctx, call{method: http.MethodGet, path: "/session/history", idempotent: true}, &l)
	return l.Items, err
}

// Upstream selects an upstream and the values for its path and parameters.
type Upstream struct {
	Name       string     // as in the profile's upstreams
	Path       []string   // values in the path's order
	Parameters url.Values // query parameters
}

// Answer decodes an upstream's response into into. The response is the same for all guests.
func (s *Site[P]) Answer(ctx context.Context, u Upstream, into any) error {
	parts := []string{"/catalogue", url.PathEscape(u.Name)}
	for _, value := range u.Path {
		parts = append(parts, url.PathEscape(value))
	}
	return s.do(ctx, call{method: http.MethodGet, path: strings.Join(parts, "/"), query: u.Parameters, idempotent: true, public: true}, into)
}
