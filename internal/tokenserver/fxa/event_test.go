//test:unraced the race detector makes it ten times as slow

package fxa

import (
	"net/http"
	"reflect"
	"testing"

	"holdfast/internal/tokenserver"
)

// event returns an event token's claims for the stub's client.
func event(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": "https://accounts.example", "aud": "client", "sub": "alice", "iat": start.Unix(), "jti": "1",
		"events": map[string]any{deleteUser: map[string]any{}},
	}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func TestEvents(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	s := newStub(t)
	c, _ := s.client(t, func(cfg *tokenserver.Config) { cfg.FxAOAuthPrimaryJWK = key.configured(t) })
	deleted := []tokenserver.Event{{Kind: tokenserver.AccountDeleted, FxAUID: "alice"}}
	change := func(detail any) map[string]any {
		return map[string]any{"events": map[string]any{passwordChange: detail}}
	}
	for _, tc := range []struct {
		name    string
		changes map[string]any
		want    []tokenserver.Event
	}{
		{"deleted", nil, deleted},
		{"audience in a list", map[string]any{"aud": []string{"other", "client"}}, deleted},
		{"expired is still true", map[string]any{"exp": 1}, deleted},
		{"password changed", change(map[string]any{"changeTime": 1790000000123}),
			[]tokenserver.Event{{Kind: tokenserver.PasswordChanged, FxAUID: "alice", At: 1790000000123}}},
		{"something else", map[string]any{"events": map[string]any{"https://schemas.accounts.firefox.com/event/profile-change": map[string]any{"email": "a@b"}}},
			[]tokenserver.Event{{Kind: tokenserver.OtherEvent, FxAUID: "alice"}}},
		{"password change without a time", change(map[string]any{}), nil},
		{"password change with a time as text", change(map[string]any{"changeTime": "t0"}), nil},
		{"password change that is not an object", change("x"), nil},
		{"another audience", map[string]any{"aud": "other"}, nil},
		{"no audience", map[string]any{"aud": nil}, nil},
		{"another issuer", map[string]any{"iss": "https://other.example"}, nil},
		{"no issuer", map[string]any{"iss": nil}, nil},
		{"nobody", map[string]any{"sub": nil}, nil},
		{"events a list", map[string]any{"events": []string{deleteUser}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.Events(t.Context(), key.sign(t, "secevent+jwt", key.kid, event(tc.changes)))
			if !reflect.DeepEqual(got, tc.want) || (err == nil) != (tc.want != nil) || err != nil && !isRefusal(err) {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
	for name, token := range map[string]string{
		"another key": testKeys()[1].sign(t, "secevent+jwt", key.kid, event(nil)),
		"no JWT":      "opaque",
		"empty":       "",
	} {
		if _, err := c.Events(t.Context(), token); !isRefusal(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Cleanup(func() {
		if n := s.verdicts.Load(); n != 0 {
			t.Errorf("%d events were sent to be verified as access tokens", n)
		}
	})
}

func TestEventsNotConfigured(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	for name, forget := range map[string]func(*tokenserver.Config){
		"no audience": func(cfg *tokenserver.Config) { cfg.FxAWebhookClientID = "" },
		"no issuer":   func(cfg *tokenserver.Config) { cfg.FxAWebhookIssuer = "" },
	} {
		c, _ := newStub(t, key).client(t, forget)
		changes := map[string]any{"aud": "", "iss": ""}
		if _, err := c.Events(t.Context(), key.sign(t, "", key.kid, event(changes))); !isRefusal(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventsWithFetchedKeys(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	s := newStub(t, key)
	c, hands := s.client(t, nil)
	token := key.sign(t, "", key.kid, event(nil))
	if got, err := c.Events(t.Context(), token); err != nil || len(got) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}

	// An event that cannot be verified now must not be refused.
	s.setJWKS(answer(http.StatusServiceUnavailable, ""))
	fresh, _ := s.client(t, nil)
	if _, err := fresh.Events(t.Context(), token); !isAway(err) {
		t.Errorf("no keys during an outage: %v", err)
	}
	hands.Advance(freshGap)
	if _, err := c.Events(t.Context(), testKeys()[1].sign(t, "", "second", event(nil))); !isAway(err) {
		t.Errorf("an unknown key during an outage: %v", err)
	}

	s.setJWKS(answer(http.StatusOK, `{"keys":[]}`))
	keyless, _ := s.client(t, nil)
	if _, err := keyless.Events(t.Context(), token); !isRefusal(err) {
		t.Errorf("an accounts server without keys: %v", err)
	}
}
