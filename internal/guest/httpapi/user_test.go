package httpapi_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/clock"
	"holdfast/internal/guest"
	"holdfast/internal/guest/httpapi"
)

var userSecret = strings.Repeat("u", 32)

func userKeys(t testing.TB, keys ...string) guest.Users {
	t.Helper()
	u, err := httpapi.NewUserKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func withUsers(t testing.TB) *server {
	t.Helper()
	p := newParts(t)
	p.users = userKeys(t, userSecret)
	return serve(t, p)
}

func signUser(t testing.TB, key bearer.Key, claims map[string]any, life time.Duration) string {
	t.Helper()
	k, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{key}})
	if err != nil {
		t.Fatal(err)
	}
	token, err := k.Sign(claims, clock.System(), life)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func userToken(t testing.TB, user string) string {
	t.Helper()
	return signUser(t, bearer.Key{Alg: bearer.HS256, Text: userSecret}, map[string]any{"sub": user, "aud": httpapi.UserAudience}, time.Minute)
}

func (b *browser) signIn(user string, parts ...string) {
	b.t.Helper()
	b.want(200, http.MethodPost, "/session/link", `{"token":"`+userToken(b.t, user)+`"}`, parts...)
}

func (b *browser) add(n int) {
	b.t.Helper()
	b.want(201, http.MethodPost, "/wishlist", b.wish(b.nth(n)))
}

// inUserSites runs a test on both profiles and engines, with users.
func inUserSites(t *testing.T, test func(*testing.T, *server)) {
	inSites(t, func(t *testing.T, s *server) { test(t, s.at(func(p *parts) { p.users = userKeys(t, userSecret) })) })
}

// TestSignIn checks that a guest's data joins the user's data, which all the user's browsers share.
func TestSignIn(t *testing.T) {
	t.Parallel()
	inUserSites(t, signIn)
}

func signIn(t *testing.T, s *server) {
	phone := s.begin()
	phone.add(1)
	phone.want(200, http.MethodPatch, "/session/preferences", `{"locale":"de-AT"}`)
	phone.want(200, http.MethodPatch, "/session/attributes", `{"theme":"dark","phone":true}`)
	before := *phone
	phone.signIn("u-1", `{"added":1,"changed":0,"dropped":0}`)
	if phone.cookie == before.cookie || !strings.HasPrefix(phone.cookie, "gus_") {
		t.Errorf("the cookie after the sign-in is %s", phone.cookie)
	}
	phone.want(200, http.MethodGet, "/wishlist", "", "00000001")
	phone.want(200, http.MethodGet, "/session", "", `"userId":"u-1","preferences":{"locale":"de-AT"},"attributes":{"phone":true,"theme":"dark"}`)
	before.want(200, http.MethodGet, "/wishlist", "", `"items":[]`) // the old cookie gives no access
	before.want(200, http.MethodGet, "/session", "", `"preferences":{}}`)

	laptop := s.begin()
	laptop.add(1)
	laptop.add(2)
	laptop.want(200, http.MethodPatch, "/session/preferences", `{"locale":"fr","currency":"CHF"}`)
	laptop.want(200, http.MethodPatch, "/session/attributes", `{"theme":"light","laptop":true}`)
	laptop.signIn("u-1", `{"added":1,"changed":0,"dropped":1}`)
	for _, b := range []*browser{phone, laptop} {
		b.want(200, http.MethodGet, "/wishlist", "", "00000001", "00000002")
		b.want(200, http.MethodGet, "/session", "", `"preferences":{"locale":"de-AT","currency":"CHF"},"attributes":{"phone":true,"theme":"dark","laptop":true}`)
	}
	laptop.add(3)
	phone.want(200, http.MethodGet, "/wishlist", "", "00000003")
	laptop.signIn("u-1", `{"added":0,"changed":0,"dropped":0}`)
	laptop.want(409, http.MethodPost, "/session/link", `{"token":"`+userToken(t, "u-2")+`"}`, `"code":"other-user"`)
	other := s.begin()
	other.signIn("u-2")
	other.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)

	endSessions(t, s, phone, laptop, other)
}

func endSessions(t *testing.T, s *server, phone, laptop, other *browser) {
	t.Helper()
	sessions := parse[struct {
		Items []struct {
			SessionID string
			Current   bool
		}
	}](t, phone.want(200, http.MethodGet, "/user/sessions", "").body).Items
	if len(sessions) != 2 || sessions[0].Current == sessions[1].Current {
		t.Fatalf("sessions %v", sessions)
	}
	ids := map[bool]string{sessions[0].Current: sessions[0].SessionID, sessions[1].Current: sessions[1].SessionID}
	other.want(204, http.MethodDelete, "/user/sessions/"+ids[false], "")
	other.want(204, http.MethodDelete, "/user/sessions/x", "")
	laptop.want(200, http.MethodGet, "/wishlist", "", "00000003")
	phone.want(204, http.MethodDelete, "/user/sessions/"+ids[false], "")
	laptop.want(401, http.MethodGet, "/session", "", "session-required")
	laptop.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)

	for range 2 {
		one := s.begin()
		one.signIn("u-1")
		phone.want(204, http.MethodDelete, "/user/sessions", "")
		one.want(401, http.MethodGet, "/session", "", "session-required")
	}
	signOut(t, s, phone)
}

// signOut also checks that the phone cannot access the user's data afterwards.
func signOut(t *testing.T, s *server, phone *browser) {
	t.Helper()
	user := *phone
	phone.want(204, http.MethodDelete, "/session/link", "")
	phone.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)
	phone.want(200, http.MethodGet, "/session", "", `"preferences":{}}`)
	phone.want(204, http.MethodDelete, "/session/link", "")
	user.want(401, http.MethodGet, "/session", "", "session-required")
	user.want(204, http.MethodDelete, "/session/link", "") // as if the first answer was lost
	if !strings.HasPrefix(user.cookie, "gms_") {
		t.Errorf("after the sign-out the cookie is %s", user.cookie)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		phone.want(403, method, "/user/sessions", "", `"code":"not-signed-in"`)
	}
	phone.signIn("u-1")
	phone.want(200, http.MethodGet, "/wishlist", "", "00000001", "00000003")
	cookie := phone.cookie
	phone.want(204, http.MethodPost, "/session/clear", "")
	if phone.cookie != cookie {
		t.Errorf("after clear the cookie is %s, want %s", phone.cookie, cookie)
	}
	phone.want(200, http.MethodGet, "/wishlist", "", `"items":[]`)

	linked := 0
	for _, e := range s.waiting() {
		if e.Topic == s.profile.EventType("session.linked.v1") {
			linked++
		}
		if strings.Contains(string(e.Payload), "u-1") {
			t.Errorf("an event has the user: %s", e.Payload)
		}
	}
	if linked != 6 {
		t.Errorf("%d events of links", linked)
	}
}

// TestSignInOnce checks that concurrent requests with the same key get the same cookie.
func TestSignInOnce(t *testing.T) {
	t.Parallel()
	inUserSites(t, func(t *testing.T, s *server) {
		b := s.begin()
		b.add(1)
		body := `{"token":"` + userToken(t, "u-1") + `"}`
		var mu sync.Mutex
		sessions := map[string]bool{}
		var all sync.WaitGroup
		for range 8 {
			racer := *b
			all.Go(func() {
				for {
					a := racer.send(http.MethodPost, "/session/link", body, "Idempotency-Key: once")
					if a.status == http.StatusConflict {
						racer.check(a, 409, `"in-flight"`)
						continue
					}
					racer.check(a, 200, `{"added":1,"changed":0,"dropped":0}`)
					break
				}
				mu.Lock()
				defer mu.Unlock()
				id, _, _ := strings.Cut(racer.cookie, ".")
				sessions[id] = true
			})
		}
		all.Wait()
		if len(sessions) != 1 {
			t.Errorf("sessions %v", sessions)
		}
	})
}

func TestUserTokens(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	publicPEM := encode("PUBLIC KEY", der, err)
	der, err = x509.MarshalPKCS8PrivateKey(private)
	privatePEM := encode("PRIVATE KEY", der, err)
	s := withUsers(t).at(func(p *parts) { p.users = userKeys(t, userSecret, publicPEM) })
	claims := func(sub, aud string) map[string]any { return map[string]any{"sub": sub, "aud": aud} }
	hs, ed := bearer.Key{Alg: bearer.HS256, Text: userSecret}, bearer.Key{Alg: bearer.EdDSA, Text: privatePEM}
	for name, token := range map[string]string{
		"HS256": signUser(t, hs, claims("u-1", httpapi.UserAudience), 10*time.Minute), "EdDSA": signUser(t, ed, claims("u-1", httpapi.UserAudience), time.Minute),
	} {
		b := s.begin()
		b.want(200, http.MethodPost, "/session/link", `{"token":"`+token+`"}`)
		if a := b.send(http.MethodGet, "/session", ""); !strings.Contains(a.body, `"userId":"u-1"`) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	b := s.begin()
	for name, token := range map[string]string{
		"nothing":       "",
		"long life":     signUser(t, hs, claims("u-1", httpapi.UserAudience), time.Hour),
		"other purpose": signUser(t, hs, claims("u-1", "shop"), time.Minute),
		"other key":     signUser(t, bearer.Key{Alg: bearer.HS256, Text: strings.Repeat("x", 32)}, claims("u-1", httpapi.UserAudience), time.Minute),
		"public key":    signUser(t, bearer.Key{Alg: bearer.HS256, Text: strings.ReplaceAll(publicPEM, "-", "")}, claims("u-1", httpapi.UserAudience), time.Minute),
	} {
		a := b.send(http.MethodPost, "/session/link", `{"token":"`+token+`"}`)
		if a.status != 403 || !strings.Contains(a.body, `"code":"user-token-invalid"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	newServer(t).begin().want(404, http.MethodPost, "/session/link", `{"token":"x"}`, "user_keys")
	for _, wrong := range []string{"short", "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----"} {
		if _, err := httpapi.NewUserKeys([]string{wrong}); err == nil {
			t.Errorf("%q is a key", wrong)
		}
	}
}

// TestRefusedSubjects checks that the error for each wrong user ID says which rule it breaks, but only to a client with a
// key.
func TestRefusedSubjects(t *testing.T) {
	t.Parallel()
	inUserSites(t, func(t *testing.T, s *server) {
		b := s.begin()
		b.add(1)
		const expected = ": expected 1 to 128 printable ASCII characters without spaces"
		refused := map[any]string{
			"": "sub is empty", nil: "sub is empty", strings.Repeat("u", 129): "sub has 129 characters", strings.Repeat("ä", 65): "sub has a character that is not ASCII (byte 1)",
			" ": "sub has a space (byte 1)", "a b": "sub has a space (byte 2)", "ab ": "sub has a space (byte 3)", "anna@bücher.example": "sub has a character that is not ASCII (byte 7)",
			"a\u00a0": "sub has a character that is not ASCII (byte 2)", "😀": "sub has a character that is not ASCII (byte 1)",
		}
		for c := '\x01'; c < ' '; c++ { // a token with U+0000 is malformed
			refused["ab"+string(c)] = "sub has a control character (byte 3)"
		}
		refused["a\x7f"] = "sub has a control character (byte 2)"
		for sub, problem := range refused {
			claims := map[string]any{"sub": sub, "aud": httpapi.UserAudience}
			if sub == nil {
				delete(claims, "sub")
			}
			token := func(secret string) string {
				return `{"token":"` + signUser(t, bearer.Key{Alg: bearer.HS256, Text: secret}, claims, time.Minute) + `"}`
			}
			b.want(403, http.MethodPost, "/session/link", token(userSecret), `"code":"user-token-invalid"`, `"detail":"invalid user token: `+problem+expected+`"`)
			if a := b.send(http.MethodPost, "/session/link", token(strings.Repeat("x", 32))); a.status != 403 || strings.Contains(a.body, problem) {
				t.Errorf("%q with another key: %d %s", sub, a.status, a.body)
			}
		}
		b.want(200, http.MethodGet, "/wishlist", "", "00000001") // the guest's data is not touched
		var all []byte
		for c := byte('!'); c <= '~'; c++ {
			all = append(all, c)
		}
		one := s.begin()
		one.signIn(string(all))
		if got := parse[struct{ UserID string }](t, one.want(200, http.MethodGet, "/session", "").body).UserID; got != string(all) {
			t.Errorf("the user is %q, want %q", got, all)
		}
		s.begin().signIn(strings.Repeat("u", 128))
	})
}
