package httpapi_test

import (
	"net/http"
	"testing"
)

// TestRunnerSchemas checks that only services with write access register and activate schemas.
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
		`{"operation":"registerSchema","namespace":"a"}`:                             "",
		`{"operation":"registerSchema","namespace":"a","schema":{"type":"nothing"}}`: "/schema/type",
		`{"operation":"registerSchema","namespace":"A","schema":true}`:               "/namespace",
		`{"operation":"registerSchema","namespace":"a","schema":true,"key":"k"}`:     "/key",
		`{"operation":"setSchema","namespace":"a","status":"active"}`:                "",
		`{"operation":"setSchema","namespace":"a","version":0,"status":"active"}`:    "/version",
		`{"operation":"setSchema","namespace":"a","version":1,"status":"draft"}`:     "/status",
		`{"operation":"schemas","namespace":"a","limit":0}`:                          "/limit",
	} {
		r.ask(body).fails(400, "VALIDATION_FAILED", "pointer "+pointer)
	}
	r.ask(`{"operation":"setSchema","namespace":"a","version":9,"status":"active"}`).fails(404, "NOT_FOUND")
	r.ask(register, "If-Match: *").fails(400, "VALIDATION_FAILED")
}
