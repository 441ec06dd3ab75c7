// Package upstream implements a catalogue with HTTP services.
//
// A service answers 200 with a JSON object as defined by the types in package catalogue; unknown members are
// ignored. 404 and 410 mean "not found", except for hotel searches and maps, where they are errors. Any other,
// late, oversized or invalid answer is an error.
package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"holdfast/internal/errcode"
	"holdfast/internal/guest"
	"holdfast/internal/guest/catalogue"
	"holdfast/internal/ident"
	"holdfast/internal/work"
)

// Client implements catalogue.Source for hotel searches, and catalogue.Fetcher.
type Client struct {
	cfg catalogue.Upstreams
	// by upstream name
	hotel map[string]guest.Upstream
	http  *http.Client
}

var (
	_ catalogue.Source  = (*Client)(nil)
	_ catalogue.Fetcher = (*Client)(nil)
)

// maxIdle is per service.
const maxIdle = 32

// New does not contact the services.
func New(cfg catalogue.Upstreams) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes, t.MaxIdleConnsPerHost = 64<<10, maxIdle
	c := &Client{cfg: cfg, hotel: map[string]guest.Upstream{}, http: &http.Client{
		Transport: t,
		// Never send the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, u := range cfg.Hotel() {
		c.hotel[u.Name] = u
	}
	return c
}

// Close closes idle connections. Calls in progress continue.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Search implements catalogue.Source. "Not found" is a failure here: an empty list would be the right answer.
func (c *Client) Search(ctx context.Context, q catalogue.SearchQuery) (r catalogue.Results, err error) {
	err = c.call(ctx, catalogue.UpstreamSearch, nil, q, &r)
	err = missing(err, catalogue.ErrUpstream)
	for i := range r.Items {
		if err == nil {
			err = identify(&r.Items[i].PropertyID, &r.Items[i].TenantID)
		}
	}
	return r, err
}

// Map implements catalogue.Source, with errors as in Search.
func (c *Client) Map(ctx context.Context, q catalogue.SearchQuery) (p catalogue.Pins, err error) {
	err = c.call(ctx, catalogue.UpstreamMap, nil, q, &p)
	err = missing(err, catalogue.ErrUpstream)
	for i := range p.Items {
		if err == nil {
			err = identify(&p.Items[i].PropertyID, &p.Items[i].TenantID)
		}
	}
	return p, err
}

// Hotel implements catalogue.Source. It refuses an answer about another property.
func (c *Client) Hotel(ctx context.Context, property, locale, currency string) (h catalogue.Hotel, err error) {
	err = c.call(ctx, catalogue.UpstreamDetail, url.Values{"property": {property}, "locale": {locale}, "currency": {currency}}, nil, &h)
	if err == nil {
		err = identify(&h.PropertyID, &h.TenantID)
	}
	return h, sameProperty(missing(err, catalogue.ErrNoProperty), h.PropertyID, property)
}

// Availability implements catalogue.Source. The query's values replace the answer's.
func (c *Client) Availability(ctx context.Context, q catalogue.AvailabilityQuery) (a catalogue.Availability, err error) {
	values := url.Values{
		"property": {q.Property}, "from": {q.From}, "to": {q.To}, "adults": {strconv.Itoa(q.Adults)}, "children": {strconv.Itoa(q.Children)}, "rooms": {strconv.Itoa(q.Rooms)},
	}
	err = c.call(ctx, catalogue.UpstreamAvailability, values, nil, &a)
	a.PropertyID, a.From, a.To, a.Adults, a.Children, a.Rooms = q.Property, q.From, q.To, q.Adults, q.Children, q.Rooms
	return a, missing(err, catalogue.ErrNoProperty)
}

// Facets implements catalogue.Source.
func (c *Client) Facets(ctx context.Context, country, region string) (f catalogue.Facets, err error) {
	err = c.call(ctx, catalogue.UpstreamFacets, url.Values{"country": {country}, "region": {region}}, nil, &f)
	f.Country, f.Region = country, region
	return f, missing(err, catalogue.ErrNoRegion)
}

// Brand implements catalogue.Source.
func (c *Client) Brand(ctx context.Context, tenant string) (b catalogue.Brand, err error) {
	err = c.call(ctx, catalogue.UpstreamBrand, url.Values{"tenant": {tenant}}, nil, &b)
	b.TenantID = tenant
	return b, missing(err, catalogue.ErrNoTenant)
}

// Property implements catalogue.Source. It refuses an answer about another property.
func (c *Client) Property(ctx context.Context, property string) (p catalogue.Property, err error) {
	err = c.call(ctx, catalogue.UpstreamProperty, url.Values{"property": {property}}, nil, &p)
	if err == nil {
		err = identify(&p.PropertyID, &p.TenantID)
	}
	return p, sameProperty(missing(err, catalogue.ErrNoProperty), p.PropertyID, property)
}

// identify canonicalizes IDs, so that they match suspended tenants.
func identify(property, tenant *string) error {
	p, ok1 := ident.ParseUUID(*property)
	t, ok2 := guest.ParseTenant(*tenant)
	if !ok1 || !ok2 {
		return errcode.New(errcode.Unavailable, "a catalogue response contains an ID that is not a UUID")
	}
	*property, *tenant = p, t
	return nil
}

// missing replaces ErrMissing by the error for the object.
func missing(err, instead error) error {
	if errors.Is(err, catalogue.ErrMissing) {
		return instead
	}
	return err
}

// sameProperty keeps a wrong answer from the cache.
func sameProperty(err error, got, want string) error {
	if err == nil && got != want {
		return errcode.New(errcode.Unavailable, "a catalogue response is about another property")
	}
	return err
}

// call sends values or, if it is set, query as JSON to a hotel upstream, and decodes the answer.
func (c *Client) call(ctx context.Context, u guest.Upstream, values url.Values, query, into any) error {
	var body []byte
	if query != nil {
		var err error
		if body, err = json.Marshal(query); err != nil {
			return errcode.Wrap(errcode.Internal, "encode a query", err)
		}
	}
	text, err := c.Fetch(ctx, c.hotel[u.Name], values, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errcode.Wrap(errcode.Unavailable, "the answer of the "+u.Name+" upstream is malformed", err)
	}
	return nil
}

// Fetch implements catalogue.Fetcher. Everything but "not found" is errcode.Unavailable: the service then uses a stale
// answer.
func (c *Client) Fetch(ctx context.Context, u guest.Upstream, values url.Values, body []byte) ([]byte, error) {
	if u.URL == "" {
		return nil, errcode.Newf(errcode.Unavailable, "guest.upstreams.%s is not set", u.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	r, err := c.request(ctx, u.Address(values), body)
	if err != nil {
		return nil, errcode.Wrap(errcode.Internal, "build a request to the "+u.Name+" upstream", err)
	}
	meter := work.Of(r.Context())
	meter.Wait()
	res, err := c.http.Do(r)
	meter.Resume()
	if err != nil {
		return nil, errcode.Unreachable("the "+u.Name+" upstream does not answer", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxBody+1))
	switch {
	case err != nil:
		return nil, errcode.Unreachable("the answer of the "+u.Name+" upstream ended early", err)
	case res.StatusCode == http.StatusNotFound, res.StatusCode == http.StatusGone:
		return nil, catalogue.ErrMissing
	case res.StatusCode != http.StatusOK:
		return nil, &errcode.Error{
			Code: errcode.Unavailable, Message: fmt.Sprintf("the %s upstream answered with status %d", u.Name, res.StatusCode), Fix: errcode.StatusFix(res.StatusCode),
		}
	case int64(len(text)) > c.cfg.MaxBody:
		return nil, errcode.Newf(errcode.Unavailable, "the %s upstream's response is larger than %d bytes", u.Name, c.cfg.MaxBody)
	}
	return text, nil
}

func (c *Client) request(ctx context.Context, address string, body []byte) (*http.Request, error) {
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, content = http.MethodPost, bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
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
