//test:unraced the race detector makes it ten times as slow

package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	ext "holdfast/internal/extstorage"
)

func (c *client) owner() ext.Owner {
	return ext.Owner{Tenant: ext.TenantID(c.tenant), Install: ext.InstallID(c.install)}
}

func (c *client) set(r ext.Registration, restore bool) {
	c.t.Helper()
	if _, _, err := c.server.service.RegisterInstall(c.t.Context(), c.owner(), r, restore); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) register(r ext.Registration) {
	c.t.Helper()
	c.set(r, false)
}

func (c *client) restore() {
	c.t.Helper()
	c.set(ext.Registration{}, true)
}

func (c *client) revoke() {
	c.t.Helper()
	if err := c.server.service.RevokeInstall(c.t.Context(), c.owner()); err != nil {
		c.t.Fatal(err)
	}
}

func quotas(q ext.Quota) ext.Registration {
	return ext.Registration{Overrides: ext.Overrides{Quota: q}}
}

func TestRevokedInstall(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.revoke()
	c.get("/usage").fails(403, "UNAUTHORIZED")
	c.restore()
	c.get("/usage").is(http.StatusOK)
}

func TestDeletedInstall(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	by, whole := ext.Caller{Kind: "admin"}, func(ext.Deletion) bool { return true }
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	c.post("/namespaces/a/schemas", `{"schema":true}`).is(http.StatusCreated)
	d, err := c.server.service.DeleteInstall(t.Context(), c.owner(), by, whole)
	if err != nil || d.Deleted != (ext.Holdings{Records: 1, Bytes: 3, Schemas: 1, Changes: 1}) || d.FinishedAt == 0 {
		t.Errorf("%+v, %v", d, err)
	}
	c.get("/usage").fails(403, "INSTALL_DELETED")
	c.put("k", `{"value":1}`).fails(403, "INSTALL_DELETED")
	c.runner().ask(`{"operation":"usage"}`).fails(403, "INSTALL_DELETED")

	c.clock.Advance(10 * time.Second)
	c.restore()
	c.get("/usage").fails(401, "UNAUTHENTICATED")
	anew := c.with(c.sign(t, c.claims(everything)))
	anew.get("/usage").is(http.StatusOK).says(`{"keys":{"used":0,"limitPerNamespace":5120}}`)
	anew.put("k", `{"value":1}`).is(http.StatusCreated).has("ETag", `"3"`)

	d, err = c.server.service.DeleteTenant(t.Context(), c.owner().Tenant, by, whole)
	if err != nil || d.Deleted != (ext.Holdings{Installs: 1, Records: 1, Bytes: 3, Changes: 1}) || d.FinishedAt == 0 {
		t.Errorf("%+v, %v", d, err)
	}
	anew.get("/usage").fails(403, "INSTALL_DELETED")
}

func TestRevokedTokens(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	claims := c.claims(everything)
	claims["jti"] = "of/one"
	one := c.with(c.sign(t, claims))
	claims["jti"] = "two"
	two := c.with(c.sign(t, claims))
	one.get("/usage").is(http.StatusOK)
	revoke := func(id string) {
		t.Helper()
		if _, err := c.server.service.RevokeToken(t.Context(), c.owner(), id, 0); err != nil {
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

func TestOverridesAreQuotas(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	until := time.Date(2026, 9, 22, 0, 0, 0, 0, time.UTC)
	c.register(ext.Registration{Overrides: ext.Overrides{Quota: ext.Quota{Keys: 2}, Until: ext.At(until)}})
	c.put("1", `{"value":1}`).is(http.StatusCreated)
	c.put("2", `{"value":1}`).is(http.StatusCreated)
	c.put("3", `{"value":1}`).fails(429, "QUOTA_EXCEEDED").has("Retry-After", "")
	c.get("/usage").says(`{"keys":{"used":2,"limitPerNamespace":2},"warnings":[{"what":"keys","namespace":"a","used":2,"limit":2,"percent":100}]}`)
	c.clock.Set(until)
	c = c.with(c.sign(t, c.claims(everything)))
	c.put("3", `{"value":1}`).is(http.StatusCreated)
}
