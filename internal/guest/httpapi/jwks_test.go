package httpapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/client/handoff"
	"holdfast/internal/guest"
	"holdfast/internal/guest/handoffs"
)

// TestKeySet verifies a tenant's tokens with the published keys, and consumes them.
func TestKeySet(t *testing.T) {
	t.Parallel()
	s := newServer(t).at(func(p *parts) { p.algorithm = handoffs.Ed25519 })
	b, r := s.begin(), newReceiver(t, s)
	path := "/tenants/" + tenant + "/jwks.json"
	if text := s.keySet(path, "private, no-store"); text != `{"keys":[]}`+"\n" {
		t.Errorf("%s", text)
	}
	for wrong, status := range map[string]int{"/tenants/x/jwks.json": 404, "/tenants/" + tenant: 404, path + "?a=1": 400, path + "/x": 404} {
		b.want(status, http.MethodGet, wrong, "")
	}
	b.want(405, http.MethodPost, path, `{}`)

	verifier, err := handoff.NewVerifier(handoff.VerifierOptions{KeySet: s.base + "/bff/consumer/v1" + path, Issuer: "holdfast", Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	m := b.mint()
	c, _, err := verifier.Verify(t.Context(), m.Token)
	if err != nil || c.ID != m.HandoffID || c.Property != property || !c.Expires.Equal(m.ExpiresAt) {
		t.Fatalf("%+v %v", c, err)
	}
	for _, name := range []string{tenant, strings.ToUpper(tenant)} {
		text := s.keySet("/tenants/"+name+"/jwks.json", "public, max-age=300")
		if again := b.send(http.MethodGet, "/tenants/"+name+"/jwks.json", "", `If-None-Match: *`); again.status != http.StatusNotModified {
			t.Errorf("again: %d", again.status)
		}
		if strings.Count(text, `"kid"`) != 2 || strings.Contains(text, `"d"`) {
			t.Errorf("%s", text)
		}
	}
	consume := "/internal/handoff/" + m.HandoffID + "/consume"
	r.want(403, consume, `{"token":"`+m.Token[:len(m.Token)-6]+`AAAAAA"}`, `"token-invalid"`)
	r.want(200, consume, `{"token":"`+m.Token+`"}`, `"consumedAt":"`)
	r.want(409, consume, `{"token":"`+m.Token+`"}`, `"handoff-consumed"`, "Idempotency-Key: b")
	// With HMAC, the site refuses the token.
	b.server = s.at(func(p *parts) { p.algorithm = "" })
	shared := b.mint()
	if _, _, err := verifier.Verify(t.Context(), shared.Token); !errors.Is(err, handoff.ErrAlgorithm) || !strings.HasPrefix(shared.Token, "bh1.") {
		t.Errorf("%s: %v", shared.Token, err)
	}
	r.want(200, "/internal/handoff/"+shared.HandoffID+"/consume", `{"token":"`+shared.Token+`"}`, `"consumedAt":"`)
}

// TestShopKeySet verifies a shop's tokens offline. They contain an item and a payload digest, and no stay.
func TestShopKeySet(t *testing.T) {
	t.Parallel()
	inShops(t, func(t *testing.T, s *server) {
		s = s.at(func(p *parts) { p.algorithm = handoffs.Ed25519 })
		b, r := s.begin(), newReceiver(t, s)
		const cart = `{"items":[{"itemId":"sku-4711","quantity":2}]}`
		var m minted
		if a := b.want(201, http.MethodPost, "/handoff/"+tenant+"/cart-1", `{"payload":`+cart+`}`); json.Unmarshal([]byte(a.body), &m) != nil {
			t.Fatal(a.body)
		}
		verifier, err := handoff.NewVerifier(handoff.VerifierOptions{KeySet: s.base + api + "/tenants/" + tenant + "/jwks.json", Issuer: "holdfast", Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(cart))
		if c, _, err := verifier.Verify(t.Context(), m.Token); err != nil || c.Property != "cart-1" || !bytes.Equal(c.Payload, sum[:]) || c.CheckIn != "" {
			t.Errorf("%+v %v", c, err)
		}
		claims, err := base64.RawURLEncoding.DecodeString(strings.Split(m.Token, ".")[1])
		if err != nil || !strings.Contains(string(claims), `"itemId":"cart-1","currency":"EUR"`) {
			t.Errorf("%s %v", claims, err)
		}
		for _, name := range []string{"propertyId", "checkIn", "checkOut", "adults", "children", "rooms"} {
			if strings.Contains(string(claims), name) {
				t.Errorf("the token of a shop has %s: %s", name, claims)
			}
		}
		consume, body := "/internal/handoff/"+m.HandoffID+"/consume", `{"token":"`+m.Token+`"}`
		r.want(200, consume, body, `"itemId":"cart-1","payload":`+cart)
		r.want(409, consume, body, `"handoff-consumed"`, "Idempotency-Key: b")
	})
}

func (s *server) keySet(path, cache string) string {
	s.t.Helper()
	b := &browser{server: s}
	a := b.send(http.MethodGet, path, "")
	if a.status != 200 || a.header.Get("Cache-Control") != cache || a.header.Get("Content-Type") != "application/jwk-set+json" || a.header.Get("Set-Cookie")+a.header.Get("RateLimit") != "" {
		s.t.Errorf("%s: %d %v %s", path, a.status, a.header, a.body)
	}
	return a.body
}

func TestKeySetLimit(t *testing.T) {
	t.Parallel()
	s := newServer(t).at(func(p *parts) { p.limits = guest.Limits{guest.ClassDetail: {Events: 1, Per: time.Hour, Burst: 1}} })
	path := "/tenants/" + tenant + "/jwks.json"
	for range 10 { // an address may send ten times as many
		s.keySet(path, "private, no-store")
	}
	(&browser{server: s}).want(429, http.MethodGet, path, "", `"rate-limited"`)
}
