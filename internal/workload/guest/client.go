// Package guest is the guest workload: a browser, a booking site, session changes, and the expected session state.
package guest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"holdfast/internal/workload"
)

// API is the prefix of browser routes.
const API = "/bff/consumer/v1"

// A property in the built-in catalogue, a stay there, and the route that mints its handoff.
const (
	Tenant = "11111111-2222-4333-8444-555555555555"
	Hotel  = "22222222-2222-4333-8444-555555555555"
	Stay   = `{"checkIn":"2036-12-30","checkOut":"2037-01-02","adults":2,"children":1,"currency":"EUR","locale":"de-AT"}`
	Mint   = "/handoff/" + Tenant + "/" + Hotel
)

// Property returns a property ID, not necessarily in the catalogue.
func Property(n int) string { return fmt.Sprintf("%08d-2222-4333-8444-555555555555", n) }

// Wish returns the body that adds a property to the wishlist.
func Wish(n int) string {
	return `{"tenantId":"` + Tenant + `","propertyId":"` + Property(n) + `","source":"list"}`
}

// Visitor is a browser with a session cookie.
type Visitor struct {
	HTTP   *http.Client // nil: http.DefaultClient
	Header http.Header  // for all requests, e.g. Traceparent
	Cookie string       // with its name; "": no session
}

// Call is a browser request. Path is relative to API; Key is an idempotency key.
type Call struct{ Method, Path, Body, Key string }

// Request returns a browser's request.
func (v *Visitor) Request(ctx context.Context, url string, c Call) (*http.Request, error) {
	r, err := workload.NewRequest(ctx, c.Method, url+API+c.Path, c.Body)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, v.Header)
	set(r, "Cookie", v.Cookie)
	set(r, "Idempotency-Key", c.Key)
	if c.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// set sets a header unless the value is "".
func set(r *http.Request, name, value string) {
	if value != "" {
		r.Header.Set(name, value)
	}
}

// Send sends a call and keeps the cookie set by the server.
func (v *Visitor) Send(ctx context.Context, url string, c Call) (workload.Answer, error) {
	r, err := v.Request(ctx, url, c)
	if err != nil {
		return workload.Answer{}, err
	}
	a, err := workload.Do(v.HTTP, r)
	for _, cookie := range a.Header.Values("Set-Cookie") {
		v.Cookie, _, _ = strings.Cut(cookie, ";")
	}
	return a, err
}

// Begin starts a session.
func (v *Visitor) Begin(ctx context.Context, url string) error {
	a, err := v.Send(ctx, url, Call{Method: http.MethodPost, Path: "/session"})
	if err == nil && (a.Status != http.StatusCreated || v.Cookie == "") {
		err = fmt.Errorf("begin a session: %d %s", a.Status, a.Body)
	}
	return err
}

// Session returns the session ID, the ordering key of its events.
func (v *Visitor) Session() string {
	_, id, _ := strings.Cut(v.Cookie, "=")
	id, _, _ = strings.Cut(id, ".")
	return id
}

// IsInFlight reports whether a request with the same key was in progress.
func IsInFlight(a workload.Answer) bool {
	return a.Status == http.StatusConflict && strings.Contains(a.Body, `"in-flight"`)
}

// Handoff is the answer to a mint.
type Handoff struct {
	HandoffID   string `json:"handoffId"`
	Token       string `json:"token"`
	RedirectURL string `json:"redirectUrl"`
}

// Site is a booking site that consumes handoffs.
type Site struct {
	HTTP    *http.Client // nil: http.DefaultClient
	Token   string       // service token
	Browser string       // JSON member guest with the guest's browser; "" to omit it
}

// Ask returns a handoff request's path and body. operation is "verify" or "consume".
func (s Site) Ask(operation string, h Handoff) (path, body string) {
	body = `{"token":"` + h.Token + `"}`
	if s.Browser != "" {
		body = `{"token":"` + h.Token + `","guest":` + s.Browser + `}`
	}
	return "/internal/handoff/" + h.HandoffID + "/" + operation, body
}

// Send sends a handoff request to the internal listener.
func (s Site) Send(ctx context.Context, url, operation string, h Handoff, key string) (workload.Answer, error) {
	path, body := s.Ask(operation, h)
	return s.Post(ctx, url+path, body, workload.JSON, "Idempotency-Key: "+key)
}

// Post sends a request to any URL of the internal listener.
func (s Site) Post(ctx context.Context, url, body string, headers ...string) (workload.Answer, error) {
	return workload.Send(ctx, s.HTTP, http.MethodPost, url, body, append(headers, "Authorization: Bearer "+s.Token)...)
}
