package fxa

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/internal/tokenserver"
)

// TestAddresses checks that an address comes from the token's claims or verification, or that a scope allows asking
// for it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	key := testKeys()[0]
	s := newStub(t, key)
	c, _ := s.client(t, nil)
	scope := tokenserver.Scope
	for _, tc := range []struct {
		change     map[string]any
		email      string
		readsEmail bool
	}{
		{nil, "", false},
		{map[string]any{"email": "a@example.org"}, "a@example.org", false},
		{map[string]any{"email": 7}, "", false},
		{map[string]any{"email": map[string]any{"x": 1}}, "", false},
		{map[string]any{"scope": "profile " + scope}, "", true},
		{map[string]any{"scope": scope + " profile:email"}, "", true},
		{map[string]any{"scope": scope + " profile:uid"}, "", false},
	} {
		id, err := c.AccessToken(t.Context(), key.sign(t, "at+jwt", key.kid, with(tc.change)))
		if err != nil || id.FxAUID != "alice" || id.Email != tc.email || id.ReadsEmail != tc.readsEmail {
			t.Errorf("%v: %+v, %v", tc.change, id, err)
		}
	}
	for body, email := range map[string]string{`"email":"a@example.org"`: "a@example.org", `"email":[1]`: "", `"x":1`: ""} {
		s.setVerify(answer(http.StatusOK, `{"user":"alice","scope":["profile:email","`+scope+`"],`+body+`}`))
		if id, err := c.AccessToken(t.Context(), "no-jwt"); err != nil || id.Email != email || !id.ReadsEmail {
			t.Errorf("%s: %+v, %v", body, id, err)
		}
	}
}

// TestEmail checks that only the profile server gets the token, and that unexpected responses are errors.
func TestEmail(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed a redirect") }))
	t.Cleanup(elsewhere.Close)
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"address":        {answer(http.StatusOK, `{"email":"a@example.org"}`), "a@example.org"},
		"another scope":  {answer(http.StatusForbidden, `{"code":403,"errno":100}`), ""},
		"no address":     {answer(http.StatusOK, `{}`), ""},
		"not a text":     {answer(http.StatusOK, `{"email":7}`), ""},
		"not JSON":       {answer(http.StatusOK, `<html>`), ""},
		"too large":      {answer(http.StatusOK, `{"email":"`+strings.Repeat("a", maxResponse)+`"}`), ""},
		"another server": {http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP, ""},
	} {
		profile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/v1/email" || r.Header.Get("Authorization") != "Bearer the-token" {
				t.Errorf("%s: asked %s %s with %q", name, r.Method, r.URL, r.Header.Get("Authorization"))
			}
			tc.answer(w, r)
		}))
		t.Cleanup(profile.Close)
		c, _ := newStub(t).client(t, func(cfg *tokenserver.Config) { cfg.FxAProfileServerURL = profile.URL + "/v1" })
		if got, err := c.Email(t.Context(), "the-token"); got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	c, _ := newStub(t).client(t, nil)
	if got, err := c.Email(t.Context(), "the-token"); got != "" || err == nil {
		t.Errorf("without a profile server: %q, %v", got, err)
	}
}
