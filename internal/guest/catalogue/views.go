package catalogue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
)

// Fetcher calls a profile's upstreams. It is safe for concurrent use. The answer belongs to the caller.
type Fetcher interface {
	// Fetch sends a GET with the path values and parameters, or a POST if body is set. It returns ErrMissing for "not
	// found".
	Fetch(ctx context.Context, u guest.Upstream, values url.Values, body []byte) ([]byte, error)
}

// CriteriaQuery is a search by a profile's criteria, as upstreams receive it and search sessions store it.
type CriteriaQuery struct {
	// a JSON object that fits the profile's criteria schema
	Criteria json.RawMessage `json:"criteria"`
	// 1 to 1000; default 1
	Page int `json:"page"`
	// 1 to 100; default 20
	PageSize int `json:"pageSize"`
	// BCP 47
	Locale string `json:"locale"`
	// ISO 4217
	Currency string `json:"currency"`
}

// Items is a page of results from a profile's search upstream.
type Items struct {
	Items []json.RawMessage `json:"items"` // objects
	// on all pages
	Total int `json:"total"`
}

// Normalize sets defaults and canonicalizes the locale, but does not check the criteria.
func (q *CriteriaQuery) Normalize() error {
	if q.Page == 0 {
		q.Page = 1
	}
	if q.PageSize == 0 {
		q.PageSize = 20
	}
	switch {
	case q.Page < 1 || q.Page > maxPage:
		return guest.BadMember(fmt.Sprintf("expected 1 to %d", maxPage), "page")
	case q.PageSize < 1 || q.PageSize > maxPageSize:
		return guest.BadMember(fmt.Sprintf("expected 1 to %d", maxPageSize), "pageSize")
	case !guest.IsLocale(q.Locale):
		return guest.ErrLocale
	case !guest.IsCurrency(q.Currency):
		return guest.ErrCurrency
	}
	q.Locale = normalizeLocale(q.Locale)
	return nil
}

// NormalizeValues canonicalizes the locale parameter. It returns errcode.Invalid for an invalid locale or currency.
func NormalizeValues(values url.Values) error {
	if values.Has("locale") {
		if !guest.IsLocale(values.Get("locale")) {
			return guest.BadParameter(guest.ExpectedLocale, "locale")
		}
		values.Set("locale", normalizeLocale(values.Get("locale")))
	}
	if values.Has("currency") && !guest.IsCurrency(values.Get("currency")) {
		return guest.BadParameter(guest.ExpectedCurrency, "currency")
	}
	return nil
}

// FindItems searches a profile's items. q is normalized. It hides items with a suspended tenant, both in the result and
// in the view's body, and returns ErrUpstream if the profile has no search.
func (s *Service) FindItems(ctx context.Context, q CriteriaQuery) (items Items, v View, err error) {
	u, ok := s.opts.Profile.Upstream(guest.SearchUpstream)
	if !ok || s.opts.Fetcher == nil {
		return items, v, ErrUpstream
	}
	text, err := json.Marshal(q)
	if err != nil {
		return items, v, errcode.Wrap(errcode.Internal, "encode a query", err)
	}
	sum := sha256.Sum256(text)
	v, err = s.view(ctx, u, u.Key(nil)+":"+hex.EncodeToString(sum[:]), func(ctx context.Context) ([]byte, error) {
		text, err := s.fetch(ctx, u, nil, text)
		if errors.Is(err, ErrMissing) {
			err = ErrUpstream
		}
		if err != nil {
			return nil, err
		}
		r := Items{Total: -1}
		if json.Unmarshal(text, &r) != nil || r.Items == nil || r.Total < 0 {
			return nil, errcode.New(errcode.Unavailable, "the search upstream's response lacks items and total")
		}
		return json.Marshal(r)
	})
	if err != nil {
		return items, v, err
	}
	if v.Body, err = s.withoutSuspended(ctx, v.Body); err != nil {
		return items, v, err
	}
	return items, v, json.Unmarshal(v.Body, &items)
}

// Read returns ErrMissing if the answer belongs to a suspended tenant.
func (s *Service) Read(ctx context.Context, u guest.Upstream, values url.Values) (v View, err error) {
	if s.opts.Fetcher == nil {
		return v, ErrUpstream
	}
	v, err = s.view(ctx, u, u.Key(values), func(ctx context.Context) ([]byte, error) { return s.fetch(ctx, u, values, nil) })
	if err == nil {
		v.Body, err = s.withoutSuspended(ctx, v.Body)
	}
	return v, err
}

// fetch checks that the answer is a JSON object whose tenants are UUIDs, and removes white space.
func (s *Service) fetch(ctx context.Context, u guest.Upstream, values url.Values, body []byte) ([]byte, error) {
	text, err := s.opts.Fetcher.Fetch(ctx, u, values, body)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil || compact.Len() == 0 || compact.Bytes()[0] != '{' {
		return nil, errcode.New(errcode.Unavailable, "the answer of the "+u.Name+" upstream is not a JSON object")
	}
	_, err = s.owners(compact.Bytes())
	return compact.Bytes(), err
}

// owners are the tenants to check for suspension; "" belongs to nobody.
type owners struct {
	answer string
	// one per item
	items []string
}

// owners returns the tenants of an answer and its items. A list without a tenant has no owner.
func (s *Service) owners(body []byte) (o owners, err error) {
	var members map[string]json.RawMessage // matches names exactly, unlike a struct
	var tenant string
	if json.Unmarshal(body, &members) != nil || members["tenantId"] != nil && json.Unmarshal(members["tenantId"], &tenant) != nil {
		return o, errTenant
	}
	list := members["items"]
	isList := len(list) > 0 && list[0] == '['
	if tenant != "" || !isList {
		if o.answer, err = s.owner(tenant); err != nil {
			return o, err
		}
	}
	if !isList {
		return o, nil
	}
	var items []struct {
		TenantID string `json:"tenantId"`
	}
	if json.Unmarshal(list, &items) != nil {
		return o, errTenant
	}
	for _, i := range items {
		tenant, err := s.owner(i.TenantID)
		if err != nil {
			return o, err
		}
		o.items = append(o.items, tenant)
	}
	return o, nil
}

var errTenant = errcode.New(errcode.Unavailable, "an upstream response contains an item that is not an object, or a tenantId that is not a UUID")

// owner returns the UUID of an answer's tenant. Without a tenant, the answer belongs to the profile's tenant.
func (s *Service) owner(text string) (string, error) {
	if text == "" {
		return s.opts.Profile.Tenant, nil
	}
	tenant, ok := guest.ParseTenant(text)
	if !ok {
		return "", errTenant
	}
	return tenant, nil
}

// withoutSuspended removes suspended tenants' items from an answer, or returns ErrMissing if the answer itself
// belongs to a suspended tenant. It runs after the cache, so that a suspension acts at once.
func (s *Service) withoutSuspended(ctx context.Context, body []byte) ([]byte, error) {
	o, err := s.owners(body)
	if err != nil {
		return nil, err
	}
	asked := slices.Sorted(slices.Values(append(slices.Clone(o.items), o.answer)))
	asked = slices.DeleteFunc(slices.Compact(asked), func(t string) bool { return t == "" })
	if len(asked) == 0 {
		return body, nil
	}
	suspended, err := s.opts.Suspended(ctx, asked...)
	switch {
	case err != nil || len(suspended) == 0:
		return body, err
	case slices.Contains(suspended, o.answer):
		return nil, ErrMissing
	}
	var members map[string]json.RawMessage
	var items []json.RawMessage
	if err := errors.Join(json.Unmarshal(body, &members), json.Unmarshal(members["items"], &items)); err != nil {
		return nil, errcode.Wrap(errcode.Internal, "decode an answer of the catalogue", err)
	}
	kept := []json.RawMessage{}
	for n, item := range items {
		if !slices.Contains(suspended, o.items[n]) {
			kept = append(kept, item)
		}
	}
	if members["items"], err = json.Marshal(kept); err != nil {
		return nil, errcode.Wrap(errcode.Internal, "encode an answer of the catalogue", err)
	}
	return json.Marshal(members)
}
