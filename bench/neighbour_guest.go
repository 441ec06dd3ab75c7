package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	load "holdfast/internal/workload/guest"
)

type neighbourGuest struct{ on *engine }

const guestSearch = `{"country":"AT","pageSize":50}`

// settings returns nothing, because guests are disabled until enable is called.
func (neighbourGuest) settings(*engine) []string { return nil }

// enable returns settings that let the load generator choose each guest's address. They also disable rate limits,
// which would refuse the attack too early.
func (w neighbourGuest) enable() ([]string, error) { //nolint:unparam // see service.go
	return append(w.on.url("GUEST"),
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_GUEST__BOTS__ENABLED=false",
		"HOLDFAST_GUEST__COOKIE_SECRET="+strings.Repeat("c", 32), "HOLDFAST_GUEST__HANDOFF_SECRET="+strings.Repeat("h", 32),
		"HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1", "HOLDFAST_BUCKETS__ENABLED=false"), nil
}

func (neighbourGuest) owner(s *server, n int) (credentials, error) {
	address := fmt.Sprintf("192.0.2.%d", n)
	v := load.Visitor{Header: http.Header{"X-Forwarded-For": {address}}}
	if err := v.Begin(context.Background(), "http://"+s.listen); err != nil {
		return credentials{}, err
	}
	return credentials{Endpoint: "http://" + s.listen, sign: func(r *http.Request) error {
		r.Header.Set("X-Forwarded-For", address)
		r.Header.Set("Cookie", v.Cookie)
		r.Header.Set("Content-Type", "application/json")
		return nil
	}}, nil
}

func (neighbourGuest) operations() []operation { return nil }

func (neighbourGuest) fill(context.Context, *engine, []credentials) error { return nil }

func (neighbourGuest) limit(context.Context, *options, *engine, int) (limit, error) { return nil, nil }

func guestNeighbours(e *engine) neighbours {
	works := operation{name: "wishlist", do: func(ctx context.Context, c *caller, _ int) error {
		return c.exchange(ctx, http.MethodGet, load.API+"/wishlist", nil, "", io.Discard)
	}}
	post := func(name, path, body string) attack {
		return flood(name, func(ctx context.Context, c *caller, _ int) error {
			return c.exchange(ctx, http.MethodPost, load.API+path, []byte(body), "", io.Discard)
		})
	}
	return neighbours{service: neighbourGuest{e}, title: "guest", works: works, attacks: []attack{
		post("guest search, 50 hotels", "/search", guestSearch),
		post("guest search map", "/search/map", guestSearch),
	}}
}
