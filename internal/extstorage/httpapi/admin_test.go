//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	ext "holdfast/internal/extstorage"
)

// adminDo sends an operator's request for the client's install.
func (c *client) adminDo(method, body string, headers ...string) *answer {
	c.t.Helper()
	return c.adminAt(method, "/ext/installs/"+c.install+"?tenant="+c.tenant, body, headers...)
}

func (c *client) adminAt(method, target, body string, headers ...string) *answer {
	c.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	return c.sendBy(c.admin.Client(), c.with("").requestTo(c.admin.URL, method, target, r, headers...)).has("Access-Control-Allow-Origin", "")
}

// adminPut registers the client's install, which exists.
func (c *client) adminPut(body string) *answer {
	c.t.Helper()
	a := c.adminDo(http.MethodPut, body)
	if a.status == http.StatusCreated {
		a = c.adminDo(http.MethodPut, body)
	}
	return a
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.adminDo(http.MethodGet, "").fails(404, "NOT_FOUND")
	ids := `"tenant":"` + c.tenant + `","install":"` + c.install + `",`
	bare := ids + `"tier":"","overrides":null,"namespaces":null,"revokedAt":null,"createdAt":"2026-09-21T14:13:20.123Z","updatedAt":"2026-09-21T14:13:20.123Z"`
	if a := c.adminDo(http.MethodPut, `{}`).is(http.StatusCreated); a.body != "{"+bare+"}" {
		t.Errorf("registered is %s", a.body)
	}
	c.clock.Advance(time.Second)
	full := `{` + ids + `"tier":"","overrides":{"bytes":1000,"keys":3,"until":"2026-09-22T00:00:00.500Z"},"namespaces":{"a":"rw","b":"r","c":""},` +
		`"revokedAt":null,"createdAt":"2026-09-21T14:13:20.123Z","updatedAt":"2026-09-21T14:13:21.123Z"}`
	put := c.adminDo(http.MethodPut, `{"overrides":{"bytes":1e3,"keys":3.0,"until":"2026-09-22T02:00:00.5+02:00"},"namespaces":{"c":"","b":"r","a":"rw"}}`).is(http.StatusOK)
	if put.body != full {
		t.Errorf("registered is %s, want %s", put.body, full)
	}
	if a := c.adminDo(http.MethodGet, "").is(http.StatusOK); a.body != full {
		t.Errorf("shown is %s", a.body)
	}
	c.adminDo(http.MethodDelete, "").is(http.StatusNoContent)
	c.adminDo(http.MethodPut, `{}`).is(http.StatusOK).says(`{"overrides":null,"namespaces":null,"revokedAt":"2026-09-21T14:13:21.123Z"}`)
	c.adminDo(http.MethodPut, `{"revoked":false}`).is(http.StatusOK).says(`{"revokedAt":null}`)

	// An install that is not registered can be revoked.
	other := c.server.install(t)
	other.adminDo(http.MethodDelete, "").is(http.StatusNoContent)
	other.get("/usage").fails(403, "UNAUTHORIZED")
	other.adminDo(http.MethodGet, "").is(http.StatusOK).says(`{"revokedAt":"2026-09-21T14:13:21.123Z"}`)

	for _, x := range []struct{ body, pointer string }{
		{`[]`, ""},
		{`{"tiers":""}`, "/tiers"},
		{`{"tier":1}`, "/tier"},
		{`{"tier":"gold"}`, "/tier"},
		{`{"overrides":1}`, "/overrides"},
		{`{"overrides":{"byte":1}}`, "/overrides/byte"},
		{`{"overrides":{"bytes":-1}}`, "/overrides/bytes"},
		{`{"overrides":{"bytes":0}}`, "/overrides/bytes"},
		{`{"overrides":{"bytes":1,"namespaces":0}}`, "/overrides/namespaces"},
		{`{"overrides":{"bytes":1,"keys":0}}`, "/overrides/keys"},
		{`{"overrides":{"until":"2026-09-22T00:00:00Z"}}`, "/overrides"},
		{`{"overrides":{"bytes":1,"until":"2026-09-21T14:13:21Z"}}`, "/overrides/until"},
		{`{"overrides":{"bytes":1,"until":"2026-09-21T14:13:21.123Z"}}`, "/overrides/until"},
		{`{"overrides":{"until":"tomorrow"}}`, "/overrides/until"},
		{`{"overrides":{"until":1}}`, "/overrides/until"},
		{`{"overrides":{"bytes":1,"until":"2027-09-22T00:00:00Z"}}`, "/overrides/until"},
		{`{"namespaces":[]}`, "/namespaces"},
		{`{"namespaces":{"a":"x"}}`, "/namespaces/a"},
		{`{"namespaces":{"a":1}}`, "/namespaces/a"},
		{`{"namespaces":{"A":"r"}}`, "/namespaces/A"},
		{`{"namespaces":{"a":"r","a":"w"}}`, "/namespaces/a"},
		{`{"revoked":true}`, "/revoked"},
		{`{"revoked":"false"}`, "/revoked"},
	} {
		c.adminDo(http.MethodPut, x.body).fails(400, "VALIDATION_FAILED", "pointer "+x.pointer)
	}
	c.adminDo(http.MethodPut, `{}`, "Content-Type: text/plain").fails(415, "UNSUPPORTED_MEDIA_TYPE")
	c.adminDo(http.MethodPost, `{}`).fails(405, "METHOD_NOT_ALLOWED").has("Allow", "DELETE, GET, PUT")
	path := "/ext/installs/" + c.install
	c.adminAt(http.MethodGet, path, "").fails(400, "VALIDATION_FAILED", "pointer /tenant")
	c.adminAt(http.MethodGet, path+"?tenant=x", "").fails(400, "VALIDATION_FAILED", "pointer /tenant")
	c.adminAt(http.MethodGet, path+"?tenant="+c.tenant+"&a=1", "").fails(400, "VALIDATION_FAILED", "pointer /a")
	c.adminAt(http.MethodGet, "/ext/installs/x?tenant="+c.tenant, "").fails(400, "VALIDATION_FAILED", "pointer /install")
	c.adminAt(http.MethodGet, "/ext/installs/", "").fails(400, "VALIDATION_FAILED")
	c.adminAt(http.MethodGet, path+"/x", "").fails(404, "NOT_FOUND")
}

// TestRevokedTokens: a revoked token is refused, and no other one.
func TestRevokedTokens(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	o := ext.Owner{Tenant: ext.TenantID(c.tenant), Install: ext.InstallID(c.install)}
	claims := c.claims(everything)
	claims["jti"] = "of/one"
	one := c.with(c.sign(t, claims))
	claims["jti"] = "two"
	two := c.with(c.sign(t, claims))
	one.get("/usage").is(http.StatusOK)
	revoke := func(id string) {
		t.Helper()
		if _, err := c.server.service.RevokeToken(t.Context(), o, id, 0); err != nil {
			t.Fatal(err)
		}
	}
	revoke("of/one")
	one.get("/usage").fails(401, "UNAUTHENTICATED").has("WWW-Authenticate", "Bearer")
	two.get("/usage").is(http.StatusOK)
	revoke("two")
	two.get("/usage").fails(401, "UNAUTHENTICATED")
	c.get("/usage").is(http.StatusOK)
}

// TestOverridesAreQuotas: the public API applies the registered overrides.
func TestOverridesAreQuotas(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.adminPut(`{"overrides":{"keys":2,"until":"2026-09-22T00:00:00Z"}}`).is(http.StatusOK)
	c.put("1", `{"value":1}`).is(http.StatusCreated)
	c.put("2", `{"value":1}`).is(http.StatusCreated)
	c.put("3", `{"value":1}`).fails(429, "QUOTA_EXCEEDED").has("Retry-After", "")
	c.get("/usage").says(`{"keys":{"used":2,"limitPerNamespace":2},"warnings":[{"what":"keys","namespace":"a","used":2,"limit":2,"percent":100}]}`)
	c.clock.Set(time.Date(2026, 9, 22, 0, 0, 0, 0, time.UTC))
	c = c.with(c.sign(t, c.claims(everything)))
	c.put("3", `{"value":1}`).is(http.StatusCreated)
}
