//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	"holdfast/internal/buckets"
	"holdfast/internal/buckets/httpapi"
)

func each(fn func(method, target, body string)) {
	for _, target := range []string{"/buckets/v1/accounts/main/buckets", photos, photos + "/objects"} {
		fn("GET", target, "")
	}
	fn("HEAD", photos, "")
	fn("PUT", photos, "")
	fn("DELETE", photos, "")
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		fn(method, objects+"k", "")
	}
	fn("PUT", objects+"k", hello)
	fn("GET", metadata+"k", "")
	fn("PATCH", metadata+"k", "{}")
	fn("GET", photos+"/versions", "")
	fn("PATCH", photos, "{}")
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		fn(method, objects+"k?version=null", "")
	}
	fn("POST", batches, "")
	fn("GET", batches+"/"+buckets.NewUUID(), "")
	fn("DELETE", batches+"/"+buckets.NewUUID(), "")
}

func (a *answer) refused(status int, code string) {
	a.t.Helper()
	if strings.HasPrefix(a.what, "HEAD") {
		a.is(status)
		return
	}
	a.fails(status, code)
}

// TestOtherAccounts checks that a token is valid for one account only, and for garbage only with gc.
func TestOtherAccounts(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.put("k", hello)
	each(func(method, target, body string) {
		s.as(s.other, false).do(method, target, body).refused(403, "AuthorizationFailed")
	})
	other := s.as(s.other, false)
	at := strings.NewReplacer("/main/", "/other/")
	other.do("GET", at.Replace(objects)+"k", "").fails(404, "BucketNotFound")
	other.do("PUT", at.Replace(photos), "").is(201)
	other.do("GET", at.Replace(objects)+"k", "").fails(404, "ObjectNotFound")
	if names, _ := other.do("GET", "/buckets/v1/accounts/other/buckets", "").names(); len(names) != 1 {
		t.Error(names)
	}
	for _, account := range []string{"", "%00", "%ff", "..", "MAIN", string(s.main.ID)} {
		s.do("GET", "/buckets/v1/accounts/"+account+"/buckets", "").fails(403, "AuthorizationFailed")
	}
	for _, target := range []string{batches, batches + "/" + buckets.NewUUID()} {
		method := map[bool]string{true: "POST", false: "DELETE"}[target == batches]
		s.do(method, target, "").fails(403, "AuthorizationFailed")
		for _, gc := range []any{"true", 1, false, nil} {
			forged := *s
			forged.token = s.sign(map[string]any{"sub": s.main.ID, "account": "main", "gc": gc}, time.Hour)
			forged.do(method, target, "").fails(403, "AuthorizationFailed")
		}
	}
	s.do("GET", objects+"k", "").says(hello)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	s.put("k", hello)
	theirs, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{ID: "own", Alg: bearer.HS256, Text: strings.Repeat("x", 32)}}, Audience: httpapi.Audience})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := theirs.Sign(httpapi.Claims(s.main, true), s.clock.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	gone := s.account("gone")
	revoked := s.sign(httpapi.Claims(gone, true), time.Hour)
	if err := s.store.DeleteAccount(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	s.account("gone") // a new account with the old name
	for _, header := range []string{
		"", "Bearer", "Bearer x", "Basic bWFpbjo=", "Bearer " + foreign, "Bearer " + s.token + "x", "Bearer " + s.sign(map[string]any{"sub": s.main.ID}, time.Hour),
		"Bearer " + s.sign(map[string]any{"account": "main"}, time.Hour), "Bearer " + s.sign(map[string]any{"sub": "main", "account": "main"}, time.Hour),
		"Bearer " + s.sign(map[string]any{"sub": s.main.ID, "Account": "main"}, time.Hour), "Bearer " + s.sign(map[string]any{"sub": s.main.ID, "account": 1}, time.Hour),
	} {
		each(func(method, target, body string) {
			s.do(method, target, body, "Authorization:"+header).refused(401, "InvalidCredentials")
		})
	}
	each(func(method, target, body string) { // same name, new account
		target = strings.Replace(target, "/main/", "/gone/", 1)
		s.do(method, target, body, "Authorization: Bearer "+revoked).refused(401, "InvalidCredentials")
	})
	r := s.request("GET", objects+"k", nil)
	r.Header.Add("Authorization", "Bearer "+s.token)
	s.send(s.client, r).fails(401, "InvalidCredentials").has("WWW-Authenticate: Bearer")
	s.do("GET", objects+"k", "").says(hello)
	s.clock.Advance(time.Hour)
	s.do("GET", objects+"k", "").fails(401, "InvalidCredentials")
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	s := withBucket(t)
	for _, target := range []string{
		"/buckets/", "/buckets/v1", "/buckets/v1/", "/buckets/v2/accounts/main/buckets", "/buckets/v1/accounts", "/buckets/v1/accounts/main", "/buckets/v1/accounts/main/objects", photos + "/", photos + "/metadata", photos + "/other/k",
		batches + "/", batches + "/x/y", "/buckets/v1/gc", "/buckets/openapi.json/",
	} {
		a := s.do("GET", target, "")
		if target == batches+"/" {
			a.fails(403, "AuthorizationFailed")
			continue
		}
		a.fails(404, "ResourceNotFound")
	}
	for target, allowed := range map[string]string{
		"/buckets/openapi.json": "GET, HEAD", "/buckets/v1/accounts/main/buckets": "GET", photos: "DELETE, GET, HEAD, PATCH, PUT", photos + "/objects": "GET", versions: "GET", objects + "k": "DELETE, GET, HEAD, PUT", metadata + "k": "GET, PATCH",
		batches: "POST", batches + "/x": "DELETE, GET",
	} {
		for _, method := range []string{"OPTIONS", "TRACE", "POST", "LOCK"} {
			if !strings.Contains(allowed, method) {
				s.do(method, target, "").fails(405, "MethodNotAllowed").has("Allow: " + allowed)
			}
		}
	}
	s.do("GET", "/buckets/openapi.json", "", "Authorization:").is(200)
	s.do("HEAD", "/buckets/openapi.json", "", "Authorization:").is(200)
	for _, r := range description(t).Routes() {
		if label := httpapi.Label(strings.NewReplacer("{", "", "}", "").Replace(r.Path)); label == "unknown" || !httpapi.Owns(r.Path) {
			t.Errorf("%s is described and not routed", r.Path)
		}
	}
	if label := httpapi.Label("/buckets/v1/accounts/%zz/buckets"); label != "unknown" {
		t.Error(label)
	}
	for _, method := range []string{"GET", "DELETE"} {
		s.do(method, objects+"k", "body").fails(400, "InvalidArgument")
	}
	s.do(http.MethodPut, photos, "{}").fails(400, "InvalidArgument")
}
