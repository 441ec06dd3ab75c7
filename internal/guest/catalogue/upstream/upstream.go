// Package upstream asks HTTP services for what the catalogue has.
//
// A service answers 200 with JSON, whose members are those of the types in package guest;
// others are ignored. 404 and 410 say that there is no such thing. Any other answer, one
// that is too late, too long or not valid, is an error.
package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/ident"
	"holdfast/internal/work"
)

// Client implements guest.Catalogue.
type Client struct {
	cfg  catalogue.Upstreams
	http *http.Client
}

var _ catalogue.Source = (*Client)(nil)

// maxIdle is how many connections to a service are kept while it is not called.
const maxIdle = 32

// New returns a client. It does not contact the services.
func New(cfg catalogue.Upstreams) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes, t.MaxIdleConnsPerHost = 64<<10, maxIdle
	return &Client{cfg: cfg, http: &http.Client{
		Transport: t,
		// The token is sent to the configured service only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Search implements guest.Catalogue.
func (c *Client) Search(ctx context.Context, q catalogue.SearchQuery) (r catalogue.Results, err error) {
	err = c.call(ctx, question{catalogue.CacheSearch, c.cfg.Search, nil, nil, q, catalogue.ErrUpstream}, &r)
	for i := range r.Items {
		if err == nil {
			err = identify(&r.Items[i].PropertyID, &r.Items[i].TenantID)
		}
	}
	return r, err
}

// Map implements guest.Catalogue.
func (c *Client) Map(ctx context.Context, q catalogue.SearchQuery) (p catalogue.Pins, err error) {
	err = c.call(ctx, question{catalogue.CacheMap, c.cfg.Map, nil, nil, q, catalogue.ErrUpstream}, &p)
	for i := range p.Items {
		if err == nil {
			err = identify(&p.Items[i].PropertyID, &p.Items[i].TenantID)
		}
	}
	return p, err
}

// Hotel implements guest.Catalogue.
func (c *Client) Hotel(ctx context.Context, property, locale, currency string) (h catalogue.Hotel, err error) {
	err = c.call(ctx, question{catalogue.CacheDetail, c.cfg.Detail, []string{property}, url.Values{"locale": {locale}, "currency": {currency}}, nil, catalogue.ErrNoProperty}, &h)
	if err == nil {
		err = identify(&h.PropertyID, &h.TenantID)
	}
	return h, sameProperty(err, h.PropertyID, property)
}

// Availability implements guest.Catalogue.
func (c *Client) Availability(ctx context.Context, q catalogue.AvailabilityQuery) (a catalogue.Availability, err error) {
	values := url.Values{
		"from": {q.From}, "to": {q.To}, "adults": {strconv.Itoa(q.Adults)}, "children": {strconv.Itoa(q.Children)}, "rooms": {strconv.Itoa(q.Rooms)},
	}
	err = c.call(ctx, question{catalogue.CacheAvailability, c.cfg.Availability, []string{q.Property}, values, nil, catalogue.ErrNoProperty}, &a)
	a.PropertyID, a.From, a.To, a.Adults, a.Children, a.Rooms = q.Property, q.From, q.To, q.Adults, q.Children, q.Rooms
	return a, err
}

// Facets implements guest.Catalogue.
func (c *Client) Facets(ctx context.Context, country, region string) (f catalogue.Facets, err error) {
	err = c.call(ctx, question{catalogue.CacheFacets, c.cfg.Facets, []string{country, region}, nil, nil, catalogue.ErrNoRegion}, &f)
	f.Country, f.Region = country, region
	return f, err
}

// Brand implements guest.Catalogue.
func (c *Client) Brand(ctx context.Context, tenant string) (b catalogue.Brand, err error) {
	err = c.call(ctx, question{catalogue.CacheBrand, c.cfg.Brand, []string{tenant}, nil, nil, catalogue.ErrNoTenant}, &b)
	b.TenantID = tenant
	return b, err
}

// Property implements guest.Catalogue.
func (c *Client) Property(ctx context.Context, property string) (p catalogue.Property, err error) {
	err = c.call(ctx, question{catalogue.CacheProperty, c.cfg.Property, []string{property}, nil, nil, catalogue.ErrNoProperty}, &p)
	if err == nil {
		err = identify(&p.PropertyID, &p.TenantID)
	}
	return p, sameProperty(err, p.PropertyID, property)
}

// identify writes IDs in one spelling, in which suspended tenants are named.
func identify(property, tenant *string) error {
	p, ok1 := ident.ParseUUID(*property)
	t, ok2 := guest.ParseTenant(*tenant)
	if !ok1 || !ok2 {
		return errcode.New(errcode.Unavailable, "an answer of the catalogue has an ID that is not a UUID")
	}
	*property, *tenant = p, t
	return nil
}

// sameProperty returns an error if an answer is about another property.
func sameProperty(err error, got, want string) error {
	if err == nil && got != want {
		return errcode.New(errcode.Unavailable, "an answer of the catalogue is about another property")
	}
	return err
}

// question is a request to an upstream.
type question struct {
	cache   catalogue.Cache // whose name is that of the upstream
	base    string          // URL; "": it is not set
	path    []string        // segments after the base
	query   url.Values
	body    any   // nil: none
	missing error // of 404
}

// call asks a question and reads the answer.
func (c *Client) call(ctx context.Context, q question, into any) error {
	if q.base == "" {
		return errcode.Newf(errcode.Unavailable, "guest.upstreams.%s is not set", q.cache.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	r, err := c.request(ctx, &q)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "build a request to the "+q.cache.Name+" upstream", err)
	}
	meter := work.Of(r.Context())
	meter.Wait()
	res, err := c.http.Do(r)
	meter.Resume()
	if err != nil {
		return errcode.Wrap(errcode.Unavailable, "the "+q.cache.Name+" upstream does not answer", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxBody+1))
	switch {
	case err != nil:
		return errcode.Wrap(errcode.Unavailable, "the answer of the "+q.cache.Name+" upstream ended early", err)
	case res.StatusCode == http.StatusNotFound, res.StatusCode == http.StatusGone:
		return q.missing
	case res.StatusCode != http.StatusOK:
		return errcode.Newf(errcode.Unavailable, "the %s upstream answered with status %d", q.cache.Name, res.StatusCode)
	case int64(len(text)) > c.cfg.MaxBody:
		return errcode.Newf(errcode.Unavailable, "the answer of the %s upstream has more than %d bytes", q.cache.Name, c.cfg.MaxBody)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errcode.Wrap(errcode.Unavailable, "the answer of the "+q.cache.Name+" upstream is malformed", err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, q *question) (*http.Request, error) {
	parts := []string{strings.TrimSuffix(q.base, "/")}
	for _, p := range q.path {
		parts = append(parts, url.PathEscape(p))
	}
	address := strings.Join(parts, "/")
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	method, content := http.MethodGet, io.Reader(nil)
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("encode a query: %w", err)
		}
		method, content = http.MethodPost, bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	if trace := guest.TraceOf(ctx); trace.Parent != "" {
		r.Header.Set("Traceparent", trace.Parent)
		if trace.State != "" {
			r.Header.Set("Tracestate", trace.State)
		}
	}
	return r, nil
}
