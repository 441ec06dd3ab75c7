package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	ext "holdfast/internal/extstorage"
)

type runner struct {
	*client
}

func (c *client) runner() *runner {
	return &runner{c.with(c.sign(c.t, map[string]any{"tenant_id": c.tenant, "service": "runner-1"}))}
}

func (r *runner) ask(body string, headers ...string) *answer {
	r.t.Helper()
	return r.at(http.MethodPost, "/internal/ext-storage/install/"+r.install, body, headers...)
}

func (r *runner) at(method, target, body string, headers ...string) *answer {
	r.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	return r.sendBy(r.internal.Client(), r.requestTo(r.internal.URL, method, target, reader, headers...)).has("Access-Control-Allow-Origin", "")
}

func TestRunner(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	r := c.runner()
	const in = `"namespace":"a","key":"k"`
	r.ask(`{"operation":"put",`+in+`,"value":{"n":1},"ttlSeconds":60,"ifRevision":0,"metadata":{"m":1}}`).is(http.StatusCreated).
		has("ETag", `"1"`).has("Location", "").says(`{"revision":1,"ttlExpiresAt":"2026-09-21T14:14:20.123Z"}`)
	if a, b := r.ask(`{"operation":"get",`+in+`}`).is(http.StatusOK).has("ETag", `"1"`), c.get(records+"/k"); a.body != b.body {
		t.Errorf("the runner gets %s, a client %s", a.body, b.body)
	}
	r.ask(`{"operation":"get",`+in+`}`, `If-None-Match: "1"`).is(http.StatusNotModified)
	r.ask(`{"operation":"get",`+in+`}`, `If-Revision-Match: 2`).fails(409, "REVISION_MISMATCH", "revision 1")
	r.ask(`{"operation":"patch",` + in + `,"patch":{"m":null,"x":1},"ifRevision":1}`).is(http.StatusOK).says(`{"revision":2}`)
	r.ask(`{"operation":"increment",` + in + `,"pointer":"/n","by":2}`).is(http.StatusOK).says(`{"revision":3,"sum":3}`)
	inc := `{"operation":"increment",` + in + `,"pointer":"/n","by":2}`
	r.ask(inc, "Idempotency-Key: 1").is(http.StatusOK).has("Idempotency-Replayed", "")
	r.ask(inc, "Idempotency-Key: 1").is(http.StatusOK).has("Idempotency-Replayed", "true").says(`{"sum":5}`)
	r.ask(`{"operation":"bulkPut","namespace":"b","items":[{"key":"1","value":1},{"key":"2","value":2},{"key":"3","value":3}]}`).is(http.StatusOK).says(`{"namespace":"b"}`)
	r.ask(`{"operation":"batch","ops":[{"op":"delete","namespace":"b","key":"3"},{"op":"check","namespace":"b","key":"3","ifRevision":0}]}`).
		is(http.StatusOK).says(`{"results":[{"op":"delete","namespace":"b","key":"3","existed":true},{"op":"check","namespace":"b","key":"3","revision":0,"etag":null}]}`)
	keys, next := r.ask(`{"operation":"list","namespace":"b","limit":1,"values":true,"prefix":""}`).keys()
	if fmt.Sprint(keys) != "[1]" || next == "" {
		t.Errorf("the first page is %q, %q", keys, next)
	}
	if keys, next = r.ask(`{"operation":"list","namespace":"b","limit":1,"cursor":"` + next + `"}`).keys(); fmt.Sprint(keys) != "[2]" || next != "" {
		t.Errorf("the second page is %q, %q", keys, next)
	}
	r.ask(`{"operation":"usage"}`).is(http.StatusOK).says(`{"keys":{"used":3,"limitPerNamespace":5120}}`)
	r.ask(`{"operation":"changes","since":4,"limit":2}`).is(http.StatusOK).says(`{"nextSince":6}`)
	r.ask(`{"operation":"delete",` + in + `,"ifRevision":4}`).is(http.StatusNoContent)
	r.ask(`{"operation":"delete",` + in + `}`).is(http.StatusNoContent)
	r.ask(`{"operation":"get",`+in+`}`).fails(404, "NOT_FOUND")
	r.ask(`{"operation":"delete",`+in+`,"ifRevision":4}`).fails(409, "REVISION_MISMATCH", "revision 0")

	for _, x := range []struct{ body, pointer string }{
		{`[]`, ""},
		{`{}`, ""},
		{`{"operation":"drop"}`, "/operation"},
		{`{"operation":1}`, "/operation"},
		{`{"operation":"get","namespace":"a"}`, ""},
		{`{"operation":"get","key":"a"}`, ""},
		{`{"operation":"list","namespace":"a","key":"k"}`, "/key"},
		{`{"operation":"usage","namespace":"a"}`, "/namespace"},
		{`{"operation":"get",` + in + `,"value":1}`, "/value"},
		{`{"operation":"get",` + in + `,"x":1}`, "/x"},
		{`{"operation":"put",` + in + `}`, ""},
		{`{"operation":"put",` + in + `,"value":[1e999]}`, "/value/0"},
		{`{"operation":"patch",` + in + `}`, ""},
		{`{"operation":"list","namespace":"a","limit":"5"}`, "/limit"},
		{`{"operation":"list","namespace":"a","values":1}`, "/values"},
		{`{"operation":"changes","wait":61}`, "/wait"},
	} {
		r.ask(x.body).fails(400, "VALIDATION_FAILED", "pointer "+x.pointer)
	}
	r.ask(`{"operation":"bulkPut","namespace":"b","items":[{"key":"1","value":1},{"key":"2"}]}`).fails(400, "BULK_PARTIAL_FAILURE", "index 1", "pointer /items/1")
	r.ask(`{"operation":"usage"}`, "Content-Type: text/plain").fails(415, "UNSUPPORTED_MEDIA_TYPE")
	path := "/internal/ext-storage/install/" + c.install
	r.at(http.MethodPost, path+"?a=1", `{"operation":"usage"}`).fails(400, "VALIDATION_FAILED", "pointer /a")
	r.at(http.MethodGet, path, "").fails(405, "METHOD_NOT_ALLOWED").has("Allow", "POST")
	r.at(http.MethodPost, path+"/x", "").fails(404, "NOT_FOUND")
	r.at(http.MethodPost, "/internal/ext-storage/install/x", `{"operation":"usage"}`).fails(403, "UNAUTHORIZED")
}

func TestRunnersToken(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.put("k", `{"value":"secret"}`).is(http.StatusCreated)
	r := c.runner()
	const get = `{"operation":"get","namespace":"a","key":"k"}`
	r.ask(get, "Authorization:", "X-Runner-Auth: "+r.token).is(http.StatusOK)
	for name, headers := range map[string][]string{
		"none":                {"Authorization:"},
		"a client's":          {"Authorization: Bearer " + c.token},
		"a client's, beside":  {"Authorization:", "X-Runner-Auth: " + c.token},
		"with a word":         {"Authorization:", "X-Runner-Auth: Bearer " + r.token},
		"a service's and not": {"X-Runner-Auth: x"},
	} {
		if a := r.ask(get, headers...); a.status != http.StatusUnauthorized || a.problem().Code != "UNAUTHENTICATED" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, claims := range []map[string]any{
		{"tenant_id": c.tenant}, {"service": "runner"}, {"tenant_id": "x", "service": "runner"}, {"tenant_id": c.tenant, "service": ""},
		{"tenant_id": c.tenant, "service": "Runner"}, {"tenant_id": c.tenant, "service": strings.Repeat("r", 65)},
		{"tenant_id": c.tenant, "service": "runner", "install_id": c.install}, {"tenant_id": c.tenant, "service": 1},
	} {
		(&runner{c.with(c.sign(t, claims))}).ask(get).fails(401, "UNAUTHENTICATED")
	}
	r.get(records+"/k").fails(401, "UNAUTHENTICATED") // on the public listener

	stranger := c.server.install(t).runner()
	stranger.install = c.install
	stranger.ask(get).fails(404, "NOT_FOUND")

	c.register(ext.Registration{Namespaces: map[ext.Namespace]ext.Access{"a": ext.Read}})
	r.ask(get).is(http.StatusOK)
	r.ask(`{"operation":"put","namespace":"a","key":"k","value":1}`).fails(403, "UNAUTHORIZED")
	r.ask(`{"operation":"put","namespace":"b","key":"k","value":1}`).fails(403, "NAMESPACE_DENIED")
	c.revoke()
	r.ask(get).fails(403, "UNAUTHORIZED")
}

// TestRunnersName checks that the audit contains the invocation ID, or else the service name.
func TestRunnersName(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	c := s.install(t)
	var callers []ext.Caller
	s.store.wrote = func(w ext.Write) { callers = append(callers, w.Caller) }
	const put = `{"operation":"put","namespace":"a","key":"k","value":1}`
	c.runner().ask(put)
	c.runner().ask(put, "X-Invocation-Id: "+strings.Repeat("~", 128)).is(http.StatusOK)
	for _, id := range []string{"a b", "é", strings.Repeat("a", 129)} {
		c.runner().ask(put, "X-Invocation-Id: "+id).fails(400, "VALIDATION_FAILED", "pointer /x-invocation-id")
	}
	c.put("k", `{"value":1}`)
	claims := c.claims(everything)
	delete(claims, "sub")
	claims["jti"] = "token 7"
	c.with(c.sign(t, claims)).put("k", `{"value":1}`)
	want := []ext.Caller{{Kind: "runner", ID: "runner-1"}, {Kind: "runner", ID: strings.Repeat("~", 128)}, {Kind: "token", ID: "5b0c11c1-ab6c-4c5e-9b0c-0d7a3b1d2e3f"}, {Kind: "token", ID: "token 7"}}
	if fmt.Sprint(callers) != fmt.Sprint(want) {
		t.Errorf("the callers are %v, want %v", callers, want)
	}
}

func TestRunnersRates(t *testing.T) {
	t.Parallel()
	s := start(t, setup{rates: &ext.Rates{Reads: 60, ReadBurst: 2, Writes: 60, WriteBurst: 1, Tenant: 100, TenantBurst: 100}})
	c := s.install(t)
	r := c.runner()
	c.put("k", `{"value":1}`).is(http.StatusCreated)
	r.ask(`{"operation":"put","namespace":"a","key":"k","value":1}`).fails(429, "RATE_LIMITED").has("RateLimit-Limit", "1")
	r.ask(`not JSON`).fails(429, "RATE_LIMITED")
	r.ask(`{"operation":"list","namespace":"a"}`).is(http.StatusOK).has("RateLimit-Limit", "2").has("RateLimit-Remaining", "1")
	c.get(records).is(http.StatusOK)
	r.ask(`{"operation":"get","namespace":"a","key":"k"}`).fails(429, "RATE_LIMITED")
}
