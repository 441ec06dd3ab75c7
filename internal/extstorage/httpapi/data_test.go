package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAdminData: an operator counts and deletes the data of an install and a
// tenant, and clients get errors that say so.
func TestAdminData(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	ids := `"tenant":"` + c.tenant + `","install":"` + c.install + `",`
	none := `{"records":0,"bytes":0,"schemas":0,"changes":0,"answers":0,"tokens":0}`
	one := `{"records":1,"bytes":3,"schemas":1,"changes":1,"answers":0,"tokens":0}`
	path := "/ext/installs/" + c.install + "/data?tenant=" + c.tenant
	is := func(a *answer, want string) {
		t.Helper()
		if a.body != want {
			t.Errorf("the answer is %s, want %s", a.body, want)
		}
	}
	is(c.adminAt(http.MethodGet, path, "").is(http.StatusOK),
		`{`+ids+`"state":"active","startedAt":null,"finishedAt":null,"deleted":`+none+`,"present":`+none+`}`)
	c.adminAt(http.MethodDelete, path, "").fails(404, "NOT_FOUND") // it may be a mistyped ID
	c.adminAt(http.MethodDelete, path+"&allowMissing=yes", "").fails(400, "VALIDATION_FAILED", "pointer /allowMissing")
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	c.post("/namespaces/a/schemas", `{"schema":true}`).is(http.StatusCreated)
	c.adminAt(http.MethodGet, path, "").says(`{"present":` + one + `}`)

	c.adminAt(http.MethodDelete, path, "", "If-Match: *").fails(400, "VALIDATION_FAILED")
	at := `"startedAt":"2026-09-21T14:13:20.123Z","finishedAt":"2026-09-21T14:13:20.123Z",`
	is(c.adminAt(http.MethodDelete, path, "").is(http.StatusOK), `{`+ids+`"state":"deleted",`+at+`"deleted":`+one+`}`)
	is(c.adminAt(http.MethodDelete, path, "").is(http.StatusOK), `{`+ids+`"state":"deleted",`+at+`"deleted":`+one+`}`)
	c.adminAt(http.MethodGet, path, "").is(http.StatusOK).says(`{"state":"deleted","present":` + none + `}`)
	c.get("/usage").fails(403, "INSTALL_DELETED")
	c.put("k", `{"value":1}`).fails(403, "INSTALL_DELETED")
	c.runner().ask(`{"operation":"usage"}`).fails(403, "INSTALL_DELETED")
	c.adminDo(http.MethodGet, "").is(http.StatusOK).says(`{"deletedAt":"2026-09-21T14:13:20.123Z"}`)
	c.adminDo(http.MethodPut, `{}`).fails(403, "INSTALL_DELETED")
	c.adminDo(http.MethodDelete, "").fails(403, "INSTALL_DELETED")

	// After a restore, only newer tokens are accepted.
	c.clock.Advance(10 * time.Second)
	c.adminDo(http.MethodPut, `{"revoked":false}`).is(http.StatusCreated)
	c.get("/usage").fails(401, "UNAUTHENTICATED")
	anew := c.with(c.sign(t, c.claims(everything)))
	anew.get("/usage").is(http.StatusOK).says(`{"keys":{"used":0,"limitPerNamespace":5120}}`)
	anew.put("k", `{"value":1}`).is(http.StatusCreated).has("ETag", `"3"`)

	tenant := "/ext/tenants/" + c.tenant + "/data"
	c.adminAt(http.MethodGet, tenant, "").is(http.StatusOK).says(`{"state":"active","present":{"installs":1,"records":1,"bytes":3,"schemas":0,"changes":1,"answers":0,"tokens":0}}`)
	is(c.adminAt(http.MethodDelete, tenant, "").is(http.StatusOK), strings.Replace(
		`{"tenant":"`+c.tenant+`","state":"deleted",`+strings.ReplaceAll(at, ":20.", ":30.")+`"deleted":{"installs":1,`+one[1:]+`}`,
		`"schemas":1`, `"schemas":0`, 1))
	anew.get("/usage").fails(403, "INSTALL_DELETED")

	unknown := "/ext/tenants/" + c.install + "/data" // no tenant has this ID
	c.adminAt(http.MethodDelete, unknown, "").fails(404, "NOT_FOUND")
	c.adminAt(http.MethodDelete, unknown+"?allowMissing=true", "").is(http.StatusOK).says(`{"state":"deleted"}`)

	for _, x := range []struct{ method, target, code string }{
		{http.MethodGet, "/ext/installs/x/data?tenant=" + c.tenant, "VALIDATION_FAILED"},
		{http.MethodGet, "/ext/installs/" + c.install + "/data", "VALIDATION_FAILED"},
		{http.MethodGet, "/ext/tenants/x/data", "VALIDATION_FAILED"},
		{http.MethodGet, tenant + "?tenant=" + c.tenant, "VALIDATION_FAILED"},
		{http.MethodGet, "/ext/tenants/" + c.tenant, "NOT_FOUND"},
		{http.MethodGet, tenant + "/x", "NOT_FOUND"},
		{http.MethodPut, tenant, "METHOD_NOT_ALLOWED"},
	} {
		if a := c.adminAt(x.method, x.target, ""); !strings.Contains(a.body, x.code) {
			t.Errorf("%s %s: %d %s, want %s", x.method, x.target, a.status, a.body, x.code)
		}
	}
}

// TestRunnerSchemas: a service whose token allows it registers and activates
// schemas like clients; others may only read them.
func TestRunnerSchemas(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	plain := c.runner()
	r := &runner{c.with(c.sign(t, map[string]any{"tenant_id": c.tenant, "service": "deploy", "schemas": true}))}
	register := `{"operation":"registerSchema","namespace":"a","schema":{"type":"integer"}}`
	activate := `{"operation":"setSchema","namespace":"a","version":1,"status":"active"}`
	for _, body := range []string{register, activate} {
		plain.ask(body).fails(403, "UNAUTHORIZED")
		for _, claim := range []any{"true", 1, false, nil} {
			(&runner{c.with(c.sign(t, map[string]any{"tenant_id": c.tenant, "service": "deploy", "schemas": claim}))}).ask(body).fails(403, "UNAUTHORIZED")
		}
	}
	r.ask(register).is(http.StatusCreated).has("Location", "").says(`{"namespace":"a","version":1,"status":"draft","schema":{"type":"integer"},"createdBy":null}`)
	r.ask(activate).is(http.StatusOK).says(`{"status":"active"}`)
	c.put("k", `{"value":"no"}`).fails(400, "VALIDATION_FAILED")
	if a, b := plain.ask(`{"operation":"schemas","namespace":"a"}`).is(http.StatusOK), c.get("/namespaces/a/schemas"); a.body != b.body {
		t.Errorf("a service lists %s, a client %s", a.body, b.body)
	}
	for body, pointer := range map[string]string{
		`{"operation":"registerSchema","namespace":"a"}`:                             "/schema",
		`{"operation":"registerSchema","namespace":"a","schema":{"type":"nothing"}}`: "/schema/type",
		`{"operation":"registerSchema","namespace":"A","schema":true}`:               "/namespace",
		`{"operation":"registerSchema","namespace":"a","schema":true,"key":"k"}`:     "/key",
		`{"operation":"setSchema","namespace":"a","status":"active"}`:                "/version",
		`{"operation":"setSchema","namespace":"a","version":0,"status":"active"}`:    "/version",
		`{"operation":"setSchema","namespace":"a","version":1,"status":"draft"}`:     "/status",
		`{"operation":"schemas","namespace":"a","limit":0}`:                          "/limit",
	} {
		r.ask(body).fails(400, "VALIDATION_FAILED", "pointer "+pointer)
	}
	r.ask(`{"operation":"setSchema","namespace":"a","version":9,"status":"active"}`).fails(404, "NOT_FOUND")
	r.ask(register, "If-Match: *").fails(400, "VALIDATION_FAILED")
}
