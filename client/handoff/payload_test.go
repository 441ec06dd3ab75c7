package handoff_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/client/handoff"
)

// cartVector is the JWT of whole(cart()) with signer("k1", tenantA). It tests receivers in other languages.
const cartVector = "eyJhbGciOiJFZERTQSIsImtpZCI6ImsxIiwidHlwIjoiaGFuZG9mZitqd3QifQ.eyJpc3MiOiJodHRwczovL2d1ZXN0cy5leGFtcGxlIiwiYXVkIjoiMTExMTExMTEtMjIyMi00MzMzLTg0NDQtNTU1NTU1NTU1NTU1Iiwic3ViIjoiZ21zXzAxSjhaUTRZN041TTNLMkgxRzBGOUU4RDdCIiwianRpIjoiYmhkXzAxSjhaUTRZN041TTNLMkgxRzBGOUU4RDdDIiwiaWF0IjoxNzkwMDAwMDAwLCJleHAiOjE3OTAwMDA2MDAsIml0ZW1JZCI6InNrdS00NzExIiwiY3VycmVuY3kiOiJFVVIiLCJsb2NhbGUiOiJkZS1BVCIsImZpbmdlcnByaW50IjoiUklZN0EtbVFtM0VBNEZzQ1Vta0pvMGI5ZEZVWVAyWVo0UDVobU1pWmdlQSIsImlwIjoidTVyMTBaRmRvZnZCTXM3UWdUSmVfTkxtUGtnRS1XaVE5QzZYT1dkeU42USIsInBheWxvYWQiOiI3dlJuUWEzOE9wOTJLVTA3ZVBONlJmRVRDU3JKMUU3bmZIb0Rpb2pfQ2FFIn0.DD9VHxfng9bNBY6x95qA8n6qBD0CACSSmstqFRoq8ZyaAxtAxTZK4CfDmWB8dl_avaXlt4iGM8XXMJzbiswFAQ"

// cart returns claims with a payload instead of a stay.
func cart() handoff.Claims {
	c := claims()
	c.Property, c.CheckIn, c.CheckOut, c.Adults, c.Children, c.Rooms, c.Payload = "sku-4711", "", "", 0, 0, 0, digest(`{"items":[]}`)
	return c
}

func TestPayload(t *testing.T) {
	t.Parallel()
	r := ring(t, key("k1", handoff.Active))
	token, _, err := r.Sign(cart())
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := r.Verify(token, minted); err != nil || !reflect.DeepEqual(got, cart()) {
		t.Errorf("%+v %v", got, err)
	}
	for i := range token {
		if changed := token[:i] + "A" + token[i+1:]; changed != token {
			if _, _, err := r.Verify(changed, minted); err == nil {
				t.Fatalf("byte %d does not count", i)
			}
		}
	}
	signer := signer(t, "k1", tenantA)
	c := cart()
	c.Minted, c.Expires = c.Minted.Truncate(time.Second), c.Expires.Truncate(time.Second)
	jwt, err := signer.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := signer.Verify(jwt, c.Minted); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v %v", got, err)
	}
	if jwt != cartVector {
		t.Errorf("the token of a cart has changed: %s", jwt)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[1])
	var members map[string]any
	if err != nil || json.Unmarshal(payload, &members) != nil {
		t.Fatal(string(payload), err)
	}
	if got := slices.Sorted(maps.Keys(members)); strings.Join(got, " ") != "aud currency exp fingerprint iat ip iss itemId jti locale payload sub" {
		t.Errorf("the claims of a cart are %v", got)
	}
	other := c
	other.Payload = digest("other")
	if second, err := signer.Sign(other); err != nil || second == jwt {
		t.Errorf("two payloads have one token: %v", err)
	}
}

// TestSignedPayloadOrStay checks that a correctly signed JWT with an item and a stay is malformed.
func TestSignedPayloadOrStay(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(digest("k1" + tenantA))
	set := keySet(t, signer(t, "k1", tenantA))
	claims := func(token string) (members map[string]any) {
		text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		if err != nil || json.Unmarshal(text, &members) != nil {
			t.Fatal(string(text), err)
		}
		return members
	}
	cart, stay := claims(cartVector), claims(jwtVector)
	cart["iss"], cart["aud"] = stay["iss"], stay["aud"]
	for name, change := range map[string]func(cart, stay map[string]any){
		"":                         func(_, _ map[string]any) {},
		"a property and a payload": func(c, _ map[string]any) { c["propertyId"] = c["itemId"]; delete(c, "itemId") },
		"a property and an item":   func(c, s map[string]any) { c["propertyId"] = s["propertyId"] },
		"an item and no payload":   func(c, _ map[string]any) { delete(c, "payload") },
		"a payload and no item":    func(c, _ map[string]any) { delete(c, "itemId") },
		"a cart with adults":       func(c, _ map[string]any) { c["adults"] = 1 },
		"a cart with children":     func(c, _ map[string]any) { c["children"] = 0 },
		"a stay with an item":      func(_, s map[string]any) { s["itemId"] = s["propertyId"] },
		"an item and a stay":       func(_, s map[string]any) { s["itemId"] = s["propertyId"]; delete(s, "propertyId") },
		"a stay with a payload":    func(c, s map[string]any) { s["payload"] = c["payload"] },
	} {
		c, s := maps.Clone(cart), maps.Clone(stay)
		change(c, s)
		refused := 0
		for _, members := range []map[string]any{c, s} {
			text, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			body := strings.Split(jwtVector, ".")[0] + "." + base64.RawURLEncoding.EncodeToString(text)
			_, _, err = set.Verify(body+"."+base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(body))), expected(0))
			if errors.Is(err, handoff.ErrMalformed) {
				refused++
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if want := min(len(name), 1); refused != want {
			t.Errorf("%s: %d tokens are refused, want %d", name, refused, want)
		}
	}
}

func TestPayloadOrStay(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*handoff.Claims){
		"payload: expected a digest": func(c *handoff.Claims) { c.Payload = []byte("short") },
		"payload: expected no stay":  func(c *handoff.Claims) { c.Adults = 1 },
		"check-in:":                  func(c *handoff.Claims) { c.Payload = nil },
	} {
		c := cart()
		change(&c)
		if _, _, err := ring(t, key("k1", handoff.Active)).Sign(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, _, err := ring(t, key("k1", handoff.VerifyOnly)).Sign(cart()); !errors.Is(err, handoff.ErrNoActiveKey) {
		t.Error(err)
	}
}
