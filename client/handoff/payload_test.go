package handoff_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"holdfast/client/handoff"
)

// cart returns claims with a payload instead of a stay.
func cart() handoff.Claims {
	c := claims()
	c.Property, c.CheckIn, c.CheckOut, c.Adults, c.Children, c.Rooms, c.Payload = "sku-4711", "", "", 0, 0, 0, digest(`{"items":[]}`)
	return c
}

// TestPayload: both kinds of tokens state the digest of a payload instead of a stay.
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
	signer, err := handoff.NewSigner(handoff.SignerOptions{ID: "k1", Seed: digest("seed"), Issuer: "https://shop.example", Tenant: cart().Tenant})
	if err != nil {
		t.Fatal(err)
	}
	c := cart()
	c.Minted, c.Expires = c.Minted.Truncate(time.Second), c.Expires.Truncate(time.Second)
	jwt, err := signer.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := signer.Verify(jwt, c.Minted); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v %v", got, err)
	}
	other := c
	other.Payload = digest("other")
	if second, err := signer.Sign(other); err != nil || second == jwt {
		t.Errorf("two payloads have one token: %v", err)
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
