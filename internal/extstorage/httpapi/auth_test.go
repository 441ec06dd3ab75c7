package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/bearer"
	ext "holdfast/internal/extstorage"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	c := s.install(t)
	stranger, err := bearer.NewKeyring(bearer.Options{Keys: []bearer.Key{{ID: "own", Alg: bearer.HS256, Text: strings.Repeat("x", 32)}}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := stranger.Sign(c.claims(everything), s.clock.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	without := func(name string, value any) string {
		claims := c.claims(everything)
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
		return s.sign(t, claims)
	}
	for name, token := range map[string]string{
		"none": "", "no token": "x", "of a stranger": foreign, "cut": c.token[:len(c.token)-2],
		"no tenant": without("tenant_id", nil), "no install": without("install_id", nil), "no ns": without("ns", nil),
		"a tenant that is none": without("tenant_id", "t"), "an install that is none": without("install_id", "i"),
		"a namespace that is none": s.sign(t, c.claims(`{"A":"r"}`)), "an access that is none": s.sign(t, c.claims(`{"a":"x"}`)),
		"of a service": s.sign(t, map[string]any{"tenant_id": c.tenant, "service": "runner"}),
	} {
		a := c.with(token).get(records)
		if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") != "Bearer" || a.problem().Code != "UNAUTHENTICATED" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	c.with("x").get("/ext/v1/installs/none/usage").fails(401, "UNAUTHENTICATED") // the token is checked before the path
	r := c.request(http.MethodGet, records, nil)
	r.Header.Add("Authorization", "Bearer "+c.token)
	c.send(r).fails(401, "UNAUTHENTICATED")
	c.get(records, "Authorization: Basic "+c.token).fails(401, "UNAUTHENTICATED")
	c.get(records, "Authorization: bearer "+c.token).is(http.StatusOK)
	c.get(records, "Authorization:", "X-Runner-Auth: "+c.token).fails(401, "UNAUTHENTICATED")

	s.clock.Advance(time.Hour + 29*time.Second)
	c.get(records).is(http.StatusOK)
	s.clock.Advance(2 * time.Second)
	c.get(records).fails(401, "UNAUTHENTICATED")
}

func TestAccess(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	in := func(ns string) string { return "/namespaces/" + ns + "/records/k" }
	const denied, unauthorized = "NAMESPACE_DENIED", "UNAUTHORIZED"
	for _, x := range []struct {
		method, inner, body string
		status              int
		code                string
	}{
		{"GET", in("z"), "", 403, denied},
		{"PUT", in("z"), `{"value":1}`, 403, denied},
		{"PUT", in("c"), `{"value":1}`, 403, unauthorized},
		{"DELETE", in("c"), "", 403, unauthorized},
		{"PATCH", in("c"), `{}`, 403, unauthorized},
		{"POST", in("c") + "/increment", `{"pointer":"","by":1}`, 403, unauthorized},
		{"GET", in("d"), "", 403, unauthorized},
		{"GET", "/namespaces/d/records", "", 403, unauthorized},
		{"GET", "/namespaces/z/records", "", 403, denied},
		{"PATCH", in("d"), `{}`, 403, unauthorized}, // a merge patch reveals the stored value
		{"POST", "/namespaces/z/records", `{"items":[{"key":"k","value":1}]}`, 403, denied},
		{"POST", "/namespaces/c/records", `{"items":[{"key":"k","value":1}]}`, 403, unauthorized},
		{"GET", "/namespaces/z/schemas", "", 403, denied},
		{"POST", "/namespaces/c/schemas", `{"schema":true}`, 403, unauthorized},
		{"POST", "/namespaces/z/schemas/check", `{"schema":true}`, 403, denied},
		{"PATCH", "/namespaces/c/schemas/1", `{"status":"active"}`, 403, unauthorized},
	} {
		headers := []string{}
		if x.method == "PATCH" && strings.Contains(x.inner, "/schemas/") {
			headers = append(headers, "Content-Type: application/json")
		}
		c.do(x.method, x.inner, x.body, headers...).fails(x.status, x.code)
	}
	c.put("k", `{"value":1}`).is(http.StatusOK)
	c.do("PUT", in("d"), `{"value":1}`).is(http.StatusCreated)
	c.get("/namespaces/c/records").is(http.StatusOK)
	nobody := c.granted(`{}`)
	nobody.get("/changes").fails(403, unauthorized)
	nobody.get("/export").fails(403, unauthorized)
	nobody.get("/usage").is(http.StatusOK)
	nobody.get("/namespaces").is(http.StatusOK).says(`{"namespaces":[]}`)
}

// TestAnotherInstall sends a tenant's token with another tenant's IDs to every route in the API description.
func TestAnotherInstall(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	a, b := s.install(t), s.install(t)
	sibling := s.installOf(t, a.tenant)
	for _, owner := range []*client{b, sibling} {
		owner.put("theme", `{"value":"secret"}`).is(http.StatusCreated)
	}
	fill := func(path, install string) string {
		return strings.NewReplacer("{install}", install, "{namespace}", "a", "{key}", "theme", "{version}", "1").Replace(path)
	}
	bodies := 0
	for _, route := range description(t).Routes() {
		if !strings.Contains(route.Path, "{install}") {
			continue
		}
		for _, install := range []string{b.install, sibling.install, "33333333-3333-4333-8333-333333333333", "none", "", strings.ReplaceAll(a.install, "-", "")} {
			target := fill(route.Path, install)
			answer := a.do(route.Method, target, "", "Content-Type: application/json")
			if route.Method == http.MethodHead {
				answer.is(http.StatusForbidden)
				continue
			}
			answer.fails(403, "UNAUTHORIZED")
			if strings.Contains(answer.body, "secret") {
				t.Errorf("%s tells a secret", answer.what)
			}
		}
		bodies++
	}
	if bodies < 18 {
		t.Errorf("only %d routes were asked", bodies)
	}
	for _, owner := range []*client{b, sibling} {
		owner.get(records + "/theme").is(http.StatusOK).says(`{"value":"secret","revision":1}`)
		owner.get("/changes").is(http.StatusOK).says(`{"nextSince":1}`)
	}
	a.get("/changes").is(http.StatusOK).says(`{"nextSince":0}`)
	a.do("GET", "/ext/v1/installs/"+strings.ToUpper(a.install)+"/usage", "").is(http.StatusOK) // the same UUID
}

// TestRegisteredAndRevoked checks that every route rejects a revoked install, whose data is intact after it is
// restored, and that a registration restricts tokens.
func TestRegisteredAndRevoked(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	c.register(ext.Registration{Namespaces: map[ext.Namespace]ext.Access{"a": ext.Read, "b": ext.Read | ext.Modify}})
	c.get(records + "/k").is(http.StatusOK)
	c.put("k", `{"value":2}`).fails(403, "UNAUTHORIZED")
	c.do("PUT", "/namespaces/d/records/k", `{"value":1}`).fails(403, "NAMESPACE_DENIED")
	c.granted(`{"b":"r"}`).do("PUT", "/namespaces/b/records/k", `{"value":1}`).fails(403, "UNAUTHORIZED")

	c.revoke()
	for _, route := range description(t).Routes() {
		if !strings.Contains(route.Path, "{install}") || route.Method == http.MethodHead {
			continue
		}
		target := strings.NewReplacer("{install}", c.install, "{namespace}", "a", "{key}", "k", "{version}", "1").Replace(route.Path)
		body, headers := bodyFor[route.ID], []string{}
		if route.ID == "importInstall" {
			headers = append(headers, "Content-Type: application/x-ndjson")
		}
		if body == "" && (route.Method == "PUT" || route.Method == "POST" || route.Method == "PATCH") {
			t.Errorf("no body for %s", route.ID)
			continue
		}
		if strings.Contains(route.Path, "/schemas/") {
			headers = append(headers, "Content-Type: application/json")
		}
		c.do(route.Method, target, body, headers...).fails(403, "UNAUTHORIZED")
	}
	c.register(ext.Registration{})
	c.get(records+"/k").fails(403, "UNAUTHORIZED")
	c.restore()
	c.get(records + "/k").is(http.StatusOK).says(`{"value":1}`)
}

var bodyFor = map[string]string{
	"putRecord": `{"value":1}`, "patchRecord": `{}`, "incrementRecord": `{"pointer":"","by":1}`, "bulkPutRecords": `{"items":[{"key":"k","value":1}]}`,
	"registerSchema": `{"schema":true}`, "setSchemaStatus": `{"status":"active"}`, "checkSchema": `{"schema":true}`,
	"batch": `{"ops":[{"op":"delete","namespace":"a","key":"k"}]}`, "importInstall": "\n",
}
