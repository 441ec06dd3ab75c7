package accounts

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// ask sends a request, signed in unless token is "", and decodes the answer into out.
func ask(t *testing.T, s *Server, token, method, path, body string, out any) (status int) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		raw, err := hex.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		id, err := hkdf.Key(sha256.New, raw, nil, "identity.mozilla.com/picl/v1/sessionToken", 32)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", `Hawk id="`+hex.EncodeToString(id)+`", ts="1", nonce="n", mac="m"`)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return w.Code
}

func signIn(t *testing.T, s *Server) Credentials {
	t.Helper()
	c, err := s.SignIn()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const wanted = `{"client_id":"desktop","scope":"` + SyncScope + ` profile"}`

func TestAccessToken(t *testing.T) {
	t.Parallel()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	user := signIn(t, s)
	var issued struct {
		Token string `json:"access_token"`
	}
	if status := ask(t, s, user.SessionToken, "POST", "/v1/oauth/token", wanted, &issued); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}

	var keys jose.JSONWebKeySet
	ask(t, s, "", "GET", "/v1/jwks", "", &keys)
	parsed, err := jwt.ParseSigned(issued.Token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	var got claims
	if err := parsed.Claims(keys, &got); err != nil {
		t.Fatalf("the published key does not verify the token: %v", err)
	}
	if typ := parsed.Headers[0].ExtraHeaders["typ"]; typ != "at+jwt" {
		t.Errorf("typ %v", typ)
	}
	if got.Subject != user.UID || got.Scope != SyncScope+" profile" || got.Generation == 0 || got.Expires <= got.IssuedAt {
		t.Errorf("claims %+v", got)
	}

	var verified struct {
		User  string   `json:"user"`
		Scope []string `json:"scope"`
	}
	check := `{"token":"` + issued.Token + `"}`
	if status := ask(t, s, "", "POST", "/v1/verify", check, &verified); status != http.StatusOK || verified.User != user.UID || len(verified.Scope) != 2 {
		t.Errorf("verify: status %d, %+v", status, verified)
	}
	ask(t, s, "", "POST", "/v1/oauth/destroy", check, &struct{}{})
	if status := ask(t, s, "", "POST", "/v1/verify", check, &verified); status != http.StatusUnauthorized {
		t.Errorf("verify of a destroyed token: status %d", status)
	}
}

func TestResetPassword(t *testing.T) {
	t.Parallel()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	before := signIn(t, s)
	s.ResetPassword()
	var failure refusal
	if status := ask(t, s, before.SessionToken, "POST", "/v1/oauth/token", wanted, &failure); status != http.StatusUnauthorized || failure.Number != 110 {
		t.Errorf("an old session: status %d, %+v", status, failure)
	}
	after := signIn(t, s)
	if after.UID != before.UID || after.ScopedKeys[SyncScope].K == before.ScopedKeys[SyncScope].K {
		t.Errorf("credentials before %+v, after %+v", before, after)
	}
	old, _, _ := strings.Cut(before.ScopedKeys[SyncScope].Kid, "-")
	renewed, _, _ := strings.Cut(after.ScopedKeys[SyncScope].Kid, "-")
	if len(old) != len(renewed) || old >= renewed {
		t.Errorf("the new key is of %s, the old one of %s", renewed, old)
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	a, b := signIn(t, s), signIn(t, s)
	var first, renamed device
	ask(t, s, a.SessionToken, "POST", "/v1/account/device", `{"name":"one","type":"desktop"}`, &first)
	ask(t, s, a.SessionToken, "POST", "/v1/account/device", `{"id":"`+first.ID+`","name":"uno"}`, &renamed)
	if first.ID == "" || renamed.ID != first.ID || renamed.Name != "uno" || renamed.Type != "desktop" {
		t.Errorf("registered %+v, then %+v", first, renamed)
	}
	for token, current := range map[string]bool{a.SessionToken: true, b.SessionToken: false} {
		var list []device
		ask(t, s, token, "GET", "/v1/account/devices", "", &list)
		if len(list) != 1 || list[0].ID != first.ID || list[0].Current != current {
			t.Errorf("devices %+v, want one with current %t", list, current)
		}
	}
}
