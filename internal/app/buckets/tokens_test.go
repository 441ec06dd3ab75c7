package buckets

import (
	"errors"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/httpapi"
)

// TestTokenKeys checks that tokens from a former secret are valid until the secret is removed, and that tokens for
// other purposes are refused.
func TestTokenKeys(t *testing.T) {
	t.Parallel()
	const old, current = "the former secret, of 32 bytes or more", "the current secret, of 32 bytes or more"
	keys := func(secrets ...string) *bearer.Keyring {
		t.Helper()
		k, err := tokenKeys(secrets)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	now := time.Now()
	account := buckets.Account{ID: buckets.AccountID(buckets.NewUUID()), Name: "main"}
	token, err := keys(old).Sign(httpapi.Claims(account, false), now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys *bearer.Keyring
		at   time.Time
		want error
	}{
		{keys(old), now, nil},
		{keys(old, old), now, nil},
		{keys(current, old), now, nil},
		{keys(current), now, bearer.ErrSignature},
		{keys(old), now.Add(time.Hour + leeway), bearer.ErrExpired},
	} {
		if claims, err := c.keys.Verify(token, c.at); !errors.Is(err, c.want) || err == nil && claims.Subject != string(account.ID) {
			t.Errorf("%+v, %v; want %v", claims, err, c.want)
		}
	}
	if _, err := keys(old).Sign(httpapi.Claims(account, true), now, maxTTL+time.Second); err == nil {
		t.Error("a token is valid for longer than the longest time")
	}
}
