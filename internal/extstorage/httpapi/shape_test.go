package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/canonjson"
	ext "holdfast/internal/extstorage"
)

var shapes = []struct{ method, inner, body, pointer string }{
	{"PUT", records + "/k", ``, ""},
	{"PUT", records + "/k", `x`, ""},
	{"PUT", records + "/k", `[]`, ""},
	{"PUT", records + "/k", `{"value":1`, ""},
	{"PUT", records + "/k", `{"value":1}}`, ""},
	{"PUT", records + "/k", `{"value":1} x`, ""},
	{"PUT", records + "/k", `{"value":1,}`, ""},
	{"PUT", records + "/k", `{,"value":1}`, ""},
	{"PUT", records + "/k", `{"value":1 "metadata":{}}`, "/value"},
	{"PUT", records + "/k", `{"value" 1}`, ""},
	{"PUT", records + "/k", `{value:1}`, ""},
	{"PUT", records + "/k", `{"value":}`, "/value"},
	{"PUT", records + "/k", `{"value":[1,}`, ""},
	{"PUT", records + "/k", `{"value":[1,]}`, "/value/1"},
	{"PUT", records + "/k", `{"value":1 2}`, "/value"},
	{"PUT", records + "/k", `{"value":"a}`, ""},
	{"PUT", records + "/k", `{"value":nan}`, "/value"},
	{"PUT", records + "/k", `{"metadata":{}}`, ""},
	{"PUT", records + "/k", `{"value":1,"value":1}`, "/value"},
	{"PUT", records + "/k", `{"value":1,"v\u0061lue":1}`, "/value"},
	{"PUT", records + "/k", `{"value":1,"Value":1}`, "/Value"},
	{"PUT", records + "/k", `{"value":1,"a/b~c":1}`, "/a~1b~0c"},
	{"PUT", records + "/k", `{"value":1,"` + strings.Repeat("n", 200) + `":1}`, ""},
	{"PUT", records + "/k", `{"value":1,"namespace":"a"}`, "/namespace"},
	{"PUT", records + "/k", `{"value":{"a":{"b":1,"b":2}}}`, "/value/a/b"},
	{"PUT", records + "/k", `{"value":["` + `\u0000` + `"]}`, "/value/0"},
	{"PUT", records + "/k", `{"value":"` + `\ud800` + `"}`, "/value"},
	{"PUT", records + "/k", "{\"value\":\"\xff\"}", "/value"},
	{"PUT", records + "/k", `{"value":[[1e131071]]}`, "/value/0/0"},
	{"PUT", records + "/k", `{"value":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}`, "/value" + strings.Repeat("/0", 32)},
	{"PUT", records + "/k", `{"value":1,"metadata":[]}`, "/metadata"},
	{"PUT", records + "/k", `{"value":1,"metadata":null}`, "/metadata"},
	{"PUT", records + "/k", `{"value":1,"metadata":{"n":1e999}}`, "/metadata/n"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":"60"}`, "/ttlSeconds"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":null}`, "/ttlSeconds"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":60.5}`, "/ttlSeconds"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":59}`, "/ttlSeconds"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":2592001}`, "/ttlSeconds"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":-60}`, "/ttlSeconds"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":1e300}`, "/ttlSeconds"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":9223372036854775808}`, "/ttlSeconds"},
	{"PUT", records + "/k", `{"value":1,"ifRevision":-1}`, "/ifRevision"},
	{"PUT", records + "/k", `{"value":1,"ifRevision":true}`, "/ifRevision"},
	{"PUT", records + "/k", `{"value":1,"schemaVersion":0}`, "/schemaVersion"},
	{"PUT", records + "/k", `{"value":1,"schemaVersion":1}`, "/schemaVersion"},
	{"PUT", records + "/k", `{"value":1,"schemaVersion":4294967297}`, "/schemaVersion"},
	{"PUT", records + "/k?ifRevision=1", `{"value":1}`, "/ifRevision"},
	{"PATCH", records + "/k", `{"a":`, "/a"},
	{"PATCH", records + "/k", `{} {}`, ""},
	{"PATCH", records + "/k?ifRevision=x", `{}`, "/ifRevision"},
	{"DELETE", records + "/k?ifRevision=-1", "", "/ifRevision"},
	{"DELETE", records + "/k?ifRevision=01", "", "/ifRevision"},
	{"DELETE", records + "/k?ifRevision=", "", "/ifRevision"},
	{"DELETE", records + "/k?ifRevision=1&ifRevision=1", "", "/ifRevision"},
	{"DELETE", records + "/k?revision=1", "", "/revision"},
	{"DELETE", records + "/k", `{"ifRevision":7}`, ""},
	{"GET", records + "/k?a=1", "", "/a"},
	{"GET", records + "/k?%zz", "", ""},
	{"GET", records + "/k?a;b", "", ""},
	{"POST", records + "/k/increment", `{"by":1}`, ""},
	{"POST", records + "/k/increment", `{"pointer":"n","by":1}`, "/pointer"},
	{"POST", records + "/k/increment", `{"pointer":"/~2","by":1}`, "/pointer"},
	{"POST", records + "/k/increment", `{"pointer":1,"by":1}`, "/pointer"},
	{"POST", records + "/k/increment", `{"pointer":"/n"}`, ""},
	{"POST", records + "/k/increment", `{"pointer":"/n","by":"1"}`, "/by"},
	{"POST", records + "/k/increment", `{"pointer":"/n","by":1e999}`, "/by"},
	{"POST", records + "/k/increment", `{"pointer":"/n","by":` + strings.Repeat("1", 5000) + `}`, "/by"},
	{"POST", records + "/k/increment", `{"pointer":"/n","by":1,"create":"true"}`, "/create"},
	{"POST", records + "/k/increment", `{"pointer":"/n","by":1,"min":null}`, "/min"},
	{"POST", records, `{}`, ""},
	{"POST", records, `{"items":[]}`, "/items"},
	{"POST", records, `{"items":{}}`, "/items"},
	{"POST", records, `{"items":[{"key":"a","value":1}`, ""},
	{"POST", records, `{"items":[{"key":"a","value":1}}`, ""},
	{"POST", records, `{"items":[{"key":"a","value":1}] 1}`, "/items"},
	{"POST", records, `{"items":[{"key":"a","value":1}],"namespace":"a"}`, "/namespace"},
	{"POST", "/batch", `{"ops":1}`, "/ops"},
	{"POST", "/batch", `{"ops":[]}`, "/ops"},
	{"GET", records + "?limit=0", "", "/limit"},
	{"GET", records + "?limit=101", "", "/limit"},
	{"GET", records + "?limit=18446744073709551617", "", "/limit"},
	{"GET", records + "?limit=1e1", "", "/limit"},
	{"GET", records + "?limit=+5", "", "/limit"},
	{"GET", records + "?values=1", "", "/values"},
	{"GET", records + "?values=TRUE", "", "/values"},
	{"GET", records + "?values", "", "/values"},
	{"GET", records + "?metadata=yes", "", "/metadata"},
	{"GET", records + "?reverse=no", "", "/reverse"},
	{"GET", records + "?prefix=a/b", "", "/prefix"},
	{"GET", records + "?prefix=%FF", "", "/prefix"},
	{"GET", records + "?cursor=x", "", "/cursor"},
	{"GET", "/changes?since=-1", "", "/since"},
	{"GET", "/changes?since=x", "", "/since"},
	{"GET", "/changes?limit=-1", "", "/limit"},
	{"GET", "/changes?limit=1001", "", "/limit"},
	{"GET", "/changes?wait=61", "", "/wait"},
	{"GET", "/changes?wait=9223372036854775807", "", "/wait"},
	{"GET", "/changes?wait=1.5", "", "/wait"},
	{"GET", "/usage?a=1", "", "/a"},
	{"GET", "/namespaces?a=1", "", "/a"},
	{"GET", "/export?cursor=x", "", "/cursor"},
	{"GET", "/export?limit=1", "", "/limit"},
	{"GET", "/namespaces/a/schemas/x", "", "/version"},
	{"GET", "/namespaces/a/schemas/0", "", "/version"},
	{"GET", "/namespaces/a/schemas/01", "", "/version"},
	{"GET", "/namespaces/a/schemas/4294967297", "", "/version"},
	{"POST", "/namespaces/a/schemas", `{}`, ""},
	{"POST", "/namespaces/a/schemas", `{"schema":1}`, "/schema"},
	{"POST", "/namespaces/a/schemas", `{"schema":{"type":"x"}}`, "/schema/type"},
	{"POST", "/namespaces/a/schemas", `{"schema":{"a":1,"a":2}}`, "/schema/a"},
	{"POST", "/namespaces/a/schemas/check", `{}`, ""},
	{"POST", "/namespaces/a/schemas/check", `{"schema":true,"version":1}`, "/schema"},
	{"POST", "/namespaces/a/schemas/check", `{"version":0}`, "/version"},
	{"PATCH", "/namespaces/a/schemas/1", `{"status":"draft"}`, "/status"},
	{"PATCH", "/namespaces/a/schemas/1", `{"status":1}`, "/status"},
	{"PATCH", "/namespaces/a/schemas/1", `{}`, ""},
}

func TestShapes(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, x := range shapes {
		var body io.Reader
		if x.body != "" || x.method != "GET" && x.method != "DELETE" {
			body = strings.NewReader(x.body)
		}
		headers := []string{}
		if strings.Contains(x.inner, "/schemas/") {
			headers = append(headers, "Content-Type: application/json")
		}
		c.send(c.request(x.method, x.inner, body, headers...)).fails(400, "VALIDATION_FAILED", "pointer "+x.pointer)
		if v, err := canonjson.ParseAround([]byte(x.body), 3); err == nil && !strings.Contains(x.inner, "?") && !strings.Contains(x.inner, "records/") {
			contains(t, x.inner, v, x.pointer)
		}
	}
	if keys, _ := c.get(records).keys(); len(keys) > 0 {
		t.Errorf("something was written: %q", keys)
	}
}

func TestHeaderShapes(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, x := range []struct{ header, pointer string }{
		{"If-Match: 1", "/if-match"},
		{`If-Match: "1`, "/if-match"},
		{`If-None-Match: "1" "2"`, "/if-none-match"},
		{"Idempotency-Key: a b", "/idempotency-key"},
		{"Idempotency-Key: é", "/idempotency-key"},
		{"Idempotency-Key: " + strings.Repeat("k", 256), "/idempotency-key"},
	} {
		c.post(records+"/k/increment", `{"pointer":"","by":1,"create":true}`, x.header).fails(400, "VALIDATION_FAILED", "pointer "+x.pointer)
	}
	for _, header := range []string{`If-Match: "1"`, "If-None-Match: *", "If-Revision-Match: 1"} {
		name, _, _ := strings.Cut(strings.ToLower(header), ":")
		for inner, body := range map[string]string{"": `{"schema":true}`, "/1": `{"status":"active"}`} {
			method := map[string]string{"": "POST", "/1": "PATCH"}[inner]
			c.do(method, "/namespaces/a/schemas"+inner, body, header, "Content-Type: application/json").fails(400, "VALIDATION_FAILED", "pointer /"+name)
		}
	}
	r := c.request("POST", records+"/k/increment", strings.NewReader(`{"pointer":"","by":1,"create":true}`))
	r.Header["Idempotency-Key"] = []string{"a", "a"}
	c.send(r).fails(400, "VALIDATION_FAILED", "pointer /idempotency-key")
	r = c.request("POST", records+"/k/increment", strings.NewReader(`{"pointer":"","by":1,"create":true}`))
	r.Header["Idempotency-Key"] = []string{""}
	c.send(r).fails(400, "VALIDATION_FAILED", "pointer /idempotency-key")
	c.put("k", `{"value":1}`, "Idempotency-Key: a b").is(http.StatusCreated) // a put has no idempotency key
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const media = "UNSUPPORTED_MEDIA_TYPE"
	for _, header := range []string{"Content-Type:", "Content-Type: text/plain", "Content-Type: application/merge-patch+json", "Content-Type: ;", "Content-Encoding: gzip"} {
		c.put("k", `{"value":1}`, header).fails(415, media)
		c.post("/batch", `{"ops":[]}`, header).fails(415, media)
	}
	c.patch(records+"/k", `{}`, "Content-Type: application/json").fails(415, media)
	c.post("/import", `{}`, "Content-Type: application/json").fails(415, media)
	for _, header := range []string{"Content-Type: application/json; charset=utf-8", "Content-Type: APPLICATION/JSON", "Content-Encoding: identity"} {
		c.put("k", `{"value":1}`, header)
		if c.get(records+"/k").status != http.StatusOK {
			t.Errorf("%s is refused", header)
		}
	}
}

// unread is a body that must not be read.
type unread struct{ t testing.TB }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was asked for")
	return 0, io.EOF
}

// TestOversizeIsRefusedUnparsed checks that a large body is rejected before parsing: by its Content-Length without
// reading it, and otherwise once it exceeds the limit.
func TestOversizeIsRefusedUnparsed(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	const small = 16 << 10
	const bound = 4*(ext.MaxValueBytes+ext.MaxMetadataBytes) + small
	const items, schema = 4*ext.MaxItemsBytes + 20*small, 4*ext.MaxSchemaBytes + small
	c.server.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute // a client with Expect waits for the response
	for _, x := range []struct {
		method, inner string
		bound         int
	}{
		{"PUT", records + "/k", bound},
		{"PATCH", records + "/k", 4 * ext.MaxValueBytes},
		{"POST", records + "/k/increment", small},
		{"POST", records, items},
		{"POST", "/batch", items},
		{"POST", "/namespaces/a/schemas", schema},
		{"POST", "/namespaces/a/schemas/check", schema},
		{"PATCH", "/namespaces/a/schemas/1", small},
	} {
		headers := []string{"Expect: 100-continue"}
		if strings.Contains(x.inner, "/schemas/") {
			headers = append(headers, "Content-Type: application/json")
		}
		said := c.request(x.method, x.inner, unread{t}, headers...)
		said.ContentLength = int64(x.bound + 1)
		c.sendBy(c.Client(), said).fails(413, "LIMIT_EXCEEDED")
		unsaid := io.MultiReader(strings.NewReader(strings.Repeat(" ", x.bound+1))) // net/http does not know its length
		c.send(c.request(x.method, x.inner, unsaid, headers...)).fails(413, "LIMIT_EXCEEDED")
		c.do(x.method, x.inner, strings.Repeat(" ", x.bound), headers[1:]...).fails(400, "VALIDATION_FAILED")
	}
	pad := strings.Repeat(" ", bound-len(`{"value":1}`))
	c.put("k", `{"value":1`+pad+`}`).is(http.StatusCreated)
	c.put("k", `{"value":1`+pad+` }`).fails(413, "LIMIT_EXCEEDED")

	// A value's size is the size of its canonical form.
	text := strings.Repeat("x", ext.MaxValueBytes-2)
	c.put("v", `{"value": "`+text+`"}`).is(http.StatusCreated)
	c.put("v", `{"value":"`+text+`x"}`).fails(413, "LIMIT_EXCEEDED")
	c.put("v", `{"value":"`+strings.Repeat(`\u0078`, ext.MaxValueBytes/2)+`"}`).is(http.StatusOK)
	c.put("v", `{"value":1,"metadata":{"m":"`+strings.Repeat("x", ext.MaxMetadataBytes-8)+`"}}`).is(http.StatusOK)
	c.put("v", `{"value":1,"metadata":{"m":"`+strings.Repeat("x", ext.MaxMetadataBytes-7)+`"}}`).fails(413, "LIMIT_EXCEEDED")
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, target := range []string{
		"/ext/", "/ext/v1", "/ext/v1/", "/ext/v1/installs", "/ext/v1/installs/" + c.install, "/ext/v2/installs/" + c.install + "/usage", "/ext/openapi.json/",
		"/nothing", "/usage/", "/namespaces/a", "/namespaces/a/records/k/increment/", "/namespaces/a/records/k/x", "/namespaces/a/schemas/1/x", "/namespaces//", "/records",
	} {
		c.with("").get(target).fails(404, "NOT_FOUND")
	}
	for target, allow := range map[string]string{
		"/namespaces": "GET", records: "GET, POST", records + "/k": "DELETE, GET, HEAD, PATCH, PUT", records + "/k/increment": "POST",
		"/namespaces/a/schemas": "GET, POST", "/namespaces/a/schemas/1": "GET, PATCH", "/namespaces/a/schemas/check": "POST",
		"/batch": "POST", "/changes": "GET", "/usage": "GET", "/export": "GET", "/import": "POST", "/ext/openapi.json": "GET, HEAD",
	} {
		for _, method := range []string{"TRACE", "OPTIONS", "DELETE", "PUT"} {
			if strings.Contains(allow, method) {
				continue
			}
			c.with("").do(method, target, "").fails(405, "METHOD_NOT_ALLOWED").has("Allow", allow)
		}
	}
}
