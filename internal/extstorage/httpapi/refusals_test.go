package httpapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	ext "holdfast/internal/extstorage"
)

type refusal struct {
	method, target, body string
	headers              []string
	status               int
	code                 string // for an item's error, its cause
	message              string
}

func (x *refusal) check(c *client) {
	c.t.Helper()
	x.checkAnswer(c.do(x.method, x.target, x.body, x.headers...))
}

func (x *refusal) checkAnswer(a *answer) {
	a.t.Helper()
	p := a.problem()
	code := p.Code
	if p.Cause != "" {
		code = p.Cause
	}
	if a.status != x.status || code != x.code || !strings.Contains(p.Message, x.message) {
		a.t.Errorf("%s %v %.80q:\n%d %s %q, want\n%d %s %q", a.what, x.headers, x.body, a.status, code, p.Message, x.status, x.code, x.message)
	}
	if strings.HasSuffix(p.Message, ".") || p.Message != "" && p.Message[0] >= 'A' && p.Message[0] <= 'Z' {
		a.t.Errorf("%s: the message %q is not half a sentence in lower case", a.what, p.Message)
	}
}

var apiRoutes = map[string][]string{
	"/namespaces":                 {"GET"},
	"/namespaces/a/records":       {"GET", "POST"},
	"/namespaces/a/records/k":     {"DELETE", "GET", "HEAD", "PATCH", "PUT"},
	records + "/k/increment":      {"POST"},
	"/namespaces/a/schemas":       {"GET", "POST"},
	"/namespaces/a/schemas/1":     {"GET", "PATCH"},
	"/namespaces/a/schemas/check": {"POST"},
	"/batch":                      {"POST"},
	"/changes":                    {"GET"},
	"/usage":                      {"GET"},
	"/export":                     {"GET"},
	"/import":                     {"POST"},
}

func eachRoute(fn func(method, target string)) {
	for _, target := range slices.Sorted(maps.Keys(apiRoutes)) {
		for _, method := range apiRoutes[target] {
			if method != http.MethodHead {
				fn(method, target)
			}
		}
	}
}

func mediaOf(method, target string) string {
	switch {
	case method == http.MethodGet || method == http.MethodDelete:
		return ""
	case target == "/import":
		return "application/x-ndjson"
	case method == http.MethodPatch && !strings.Contains(target, "/schemas/"):
		return "application/merge-patch+json"
	}
	return "application/json"
}

// bodyOf adds the content type that a route expects, unless the headers begin with another.
func bodyOf(method, target, body string, headers ...string) (string, []string) {
	media := mediaOf(method, target)
	switch {
	case media == "":
		return "", headers
	case len(headers) > 0 && strings.HasPrefix(headers[0], "Content-Type:"):
		return body, headers
	}
	return body, append([]string{"Content-Type: " + media}, headers...)
}

func TestRoutesAreAll(t *testing.T) {
	t.Parallel()
	described := map[string][]string{}
	for _, route := range description(t).Routes() {
		target, ok := strings.CutPrefix(route.Path, "/ext/v1/installs/{install}")
		if ok {
			target = strings.NewReplacer("{namespace}", "a", "{key}", "k", "{version}", "1").Replace(target)
			described[target] = append(described[target], route.Method)
		}
	}
	for _, methods := range described {
		slices.Sort(methods)
	}
	if !maps.EqualFunc(described, apiRoutes, slices.Equal) {
		t.Errorf("routes are %v, described are %v", apiRoutes, described)
	}
}

func TestRefusalsOfEveryRoute(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	c := s.install(t)
	old := c.token
	service := c.sign(t, map[string]any{"tenant_id": c.tenant, "service": "runner"})
	noInstall := c.claims(everything)
	delete(noInstall, "install_id")
	badName := c.claims(`{"A":"r"}`)
	tokens := []struct{ token, message string }{
		{"", "bearer token required: send the header Authorization: Bearer TOKEN"},
		{"x", "the token is malformed: a JWT has three parts in base64url"},
		{old[:len(old)-3], "the token is not signed by a key of this server"},
		{old + strings.Repeat("A", 9000), "the token is malformed: longer than 8192 bytes"},
		{service, "this is a service token, which only the internal listener accepts"},
		{c.sign(t, noInstall), "the token's claims are not valid: install_id is required: a UUID"},
		{c.sign(t, badName), "a name or an access in ns must be 1 to 64 characters from a-z, 0-9 and -"},
	}
	eachRoute(func(method, target string) {
		body, headers := bodyOf(method, target, "{}")
		for _, x := range tokens {
			(&refusal{method, target, body, headers, 401, "UNAUTHENTICATED", x.message}).check(c.with(x.token))
		}
		twice := c.request(method, target, strings.NewReader(body), headers...)
		twice.Header.Add("Authorization", "Bearer "+old)
		(&refusal{method, target, body, headers, 401, "UNAUTHENTICATED", "send the header Authorization: Bearer TOKEN, once"}).checkAnswer(c.send(twice))
		for query, message := range map[string]string{
			"?nope=1":                             "/nope is not a query parameter of this request: ",
			"?" + strings.Repeat("n", 200) + "=1": "unknown query parameter: ",
			"?%zz":                                "the query string is malformed: ",
			"?a;b":                                "the query string is malformed: ",
		} {
			(&refusal{method, target + query, body, headers, 400, "VALIDATION_FAILED", message}).check(c)
		}
		other := "/ext/v1/installs/11111111-1111-4111-8111-999999999999" + target
		(&refusal{method, other, body, headers, 403, "UNAUTHORIZED", "the token is for another install"}).check(c)
	})
	for target, methods := range apiRoutes {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH", "TRACE", "FOO"} {
			if !slices.Contains(methods, method) {
				(&refusal{method, target, "", nil, 405, "METHOD_NOT_ALLOWED", "this path supports " + strings.Join(methods, ", ")}).check(c)
			}
		}
	}
	s.clock.Advance(2 * time.Hour)
	eachRoute(func(method, target string) {
		body, headers := bodyOf(method, target, "{}")
		(&refusal{method, target, body, headers, 401, "UNAUTHENTICATED", "the token has expired"}).check(c)
	})
}

func TestRefusalsOfEveryBody(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	subject := func(target string) string {
		if target == "/import" {
			return "line 1 "
		}
		return "the body "
	}
	eachRoute(func(method, target string) {
		media := mediaOf(method, target)
		if media == "" {
			return
		}
		check := func(body string, status int, code, message string, headers ...string) {
			_, headers = bodyOf(method, target, body, headers...)
			(&refusal{method, target, body, headers, status, code, message}).check(c)
		}
		const invalid = "VALIDATION_FAILED"
		at := subject(target)
		check(`x`, 400, invalid, at+"is not valid JSON")
		check(`{} x`, 400, invalid, at+"is followed by extra data")
		check("\ufeff{}", 400, invalid, at+"is not valid JSON")
		check("{\"\xff\":1}", 400, invalid, "is not valid UTF-8")
		check(`{"a\u0000":1}`, 400, invalid, "contains the character U+0000")
		if method != http.MethodPatch || strings.Contains(target, "/schemas/") {
			check(`[]`, 400, invalid, at+"must be a JSON object")
			check(`null`, 400, invalid, at+"must be a JSON object")
			check(`{"nope":1}`, 400, invalid, "/nope is not a member of this object")
			check(`{"`+strings.Repeat("n", 200)+`":1}`, 400, invalid, at+"has an unknown member")
		}
		if target != "/import" {
			check(` `, 400, invalid, "the body is empty: expected a JSON ")
			large := strings.Repeat(" ", 3<<20)
			check(large, 413, "LIMIT_EXCEEDED", "the body has 3145728 bytes: the limit is ")
		}
		for header, message := range map[string]string{
			"Content-Type:":                               "unsupported content type: send the header Content-Type: " + media,
			"Content-Type: text/plain":                    "unsupported content type: send the header Content-Type: " + media,
			"Content-Type: " + media + "; charset=latin1": "unsupported charset: send the body in UTF-8",
			"Content-Encoding: gzip":                      "unsupported content encoding: send the body without Content-Encoding",
		} {
			check(`{}`, 415, "UNSUPPORTED_MEDIA_TYPE", message, header)
		}
		for _, header := range []string{"If-Modified-Since", "If-Unmodified-Since", "If-Range", "If-Revision-Match"} {
			check(`{}`, 400, invalid, "/"+strings.ToLower(header)+" is not supported by this request: ", header+": 1")
		}
	})
}

var fieldRefusals = []refusal{
	{"PUT", records + "/a%2Fb", `{"value":1}`, nil, 400, "VALIDATION_FAILED", "/key must not contain / or control characters"},
	{"PUT", records + "/%00", `{"value":1}`, nil, 400, "VALIDATION_FAILED", "/key must not contain / or control characters"},
	{"PUT", records + "/%FF", `{"value":1}`, nil, 400, "VALIDATION_FAILED", "/key must be valid UTF-8"},
	{"PUT", records + "/" + strings.Repeat("k", 129), `{"value":1}`, nil, 400, "VALIDATION_FAILED", "/key must be 1 to 128 characters"},
	{"GET", "/namespaces/A/records", "", nil, 400, "VALIDATION_FAILED", "/namespace must be 1 to 64 characters from a-z, 0-9 and -, and must not start with -"},
	{"GET", "/nope", "", nil, 404, "NOT_FOUND", "no such path: the routes are listed in /ext/openapi.json"},
	{"GET", "/namespaces/z/records/k", "", nil, 403, "NAMESPACE_DENIED", "the token grants no access to this namespace"},
	{"PUT", "/namespaces/c/records/k", `{"value":1}`, nil, 403, "UNAUTHORIZED", "the token does not allow this operation on the namespace: reads need r, writes need w"},

	{"PUT", records + "/k", `{}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member value"},
	{"PUT", records + "/k", `{"value":1,"value":2}`, nil, 400, "VALIDATION_FAILED", "/value is a duplicate name"},
	{"PUT", records + "/k", `{"value":{"a":1,"a":2}}`, nil, 400, "VALIDATION_FAILED", "/value/a is a duplicate name"},
	{"PUT", records + "/k", `{"value":"\ud800"}`, nil, 400, "VALIDATION_FAILED", "/value contains an unpaired surrogate in a string"},
	{"PUT", records + "/k", "{\"value\":\"\x01\"}", nil, 400, "VALIDATION_FAILED", "/value contains an unescaped control character"},
	{"PUT", records + "/k", `{"value":1e999}`, nil, 400, "VALIDATION_FAILED", "/value is a number out of range: exponents from -308 to 308 are supported"},
	{"PUT", records + "/k", `{"value":` + strings.Repeat("1", 401) + `}`, nil, 400, "VALIDATION_FAILED", "/value is a number with more than 400 digits"},
	{"PUT", records + "/k", `{"value":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}`, nil, 400, "VALIDATION_FAILED", "is nested too deeply: the limit is 32 levels"},
	{"PUT", records + "/k", `{"value":1,"metadata":[]}`, nil, 400, "VALIDATION_FAILED", "/metadata must be a JSON object"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":"60"}`, nil, 400, "VALIDATION_FAILED", "/ttlSeconds must be a whole number from 60 to 2592000"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":59}`, nil, 400, "VALIDATION_FAILED", "/ttlSeconds must be a whole number from 60 to 2592000"},
	{"PUT", records + "/k", `{"value":1,"ttlSeconds":61.5}`, nil, 400, "VALIDATION_FAILED", "/ttlSeconds must be a whole number from 60 to 2592000"},
	{"PUT", records + "/k", `{"value":1,"ifRevision":-1}`, nil, 400, "VALIDATION_FAILED", "/ifRevision must be a whole number of at least 0"},
	{"PUT", records + "/k", `{"value":1,"schemaVersion":"1"}`, nil, 400, "VALIDATION_FAILED", "/schemaVersion must be a whole number from 1 to 2147483647"},
	{"PUT", records + "/k", `{"value":1}`, []string{"If-Match: 1"}, 400, "VALIDATION_FAILED", `/if-match must be * or a list of quoted entity tags, e.g. "17"`},
	{"PUT", records + "/k", `{"value":1}`, []string{"If-None-Match: x"}, 400, "VALIDATION_FAILED", `/if-none-match must be * or a list of quoted entity tags`},
	{"GET", records + "/k", "", []string{"If-Revision-Match: x"}, 400, "VALIDATION_FAILED", "/if-revision-match must be a single revision in digits, e.g. 3"},
	{"DELETE", records + "/k?ifRevision=x", "", nil, 400, "VALIDATION_FAILED", "/ifRevision must be a whole number of at least 0"},
	{"DELETE", records + "/k?ifRevision=1&ifRevision=1", "", nil, 400, "VALIDATION_FAILED", "/ifRevision occurs more than once in the query"},
	{"DELETE", records + "/k", `{"ifRevision":1}`, nil, 400, "VALIDATION_FAILED", "the body must be empty: send ifRevision in the query"},

	{"POST", records + "/k/increment", `{"by":1}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member pointer: a JSON pointer to a number"},
	{"POST", records + "/k/increment", `{"pointer":"n","by":1}`, nil, 400, "VALIDATION_FAILED", "/pointer must be a JSON pointer: empty, or starting with /"},
	{"POST", records + "/k/increment", `{"pointer":"/~2","by":1}`, nil, 400, "VALIDATION_FAILED", "/pointer must be a JSON pointer: ~ is escaped as ~0"},
	{"POST", records + "/k/increment", `{"pointer":1,"by":1}`, nil, 400, "VALIDATION_FAILED", "/pointer must be a string"},
	{"POST", records + "/k/increment", `{"pointer":"` + strings.Repeat("a", 9000) + `","by":1}`, nil, 400, "VALIDATION_FAILED", "/pointer must be at most 8192 bytes long"},
	{"POST", records + "/k/increment", `{"pointer":""}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member by: a number"},
	{"POST", records + "/k/increment", `{"pointer":"","by":"1"}`, nil, 400, "VALIDATION_FAILED", "/by must be a number"},
	{"POST", records + "/k/increment", `{"pointer":"","by":` + strings.Repeat("1", 5000) + `}`, nil, 400, "VALIDATION_FAILED", "/by must be a number of at most 400 digits"},
	{"POST", records + "/k/increment", `{"pointer":"","by":1,"create":"true"}`, nil, 400, "VALIDATION_FAILED", "/create must be true or false"},
	{"POST", records + "/k/increment", `{"pointer":"","by":1,"create":true}`, []string{"Idempotency-Key: a b"}, 400, "VALIDATION_FAILED", "/idempotency-key must be a single key with 1 to 255 printable ASCII characters"},

	{"POST", records, `{}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member items: a JSON array"},
	{"POST", records, `{"items":[{"value":1}]}`, nil, 400, "VALIDATION_FAILED", "/items/0 lacks the member key"},
	{"POST", records, `{"items":{}}`, nil, 400, "VALIDATION_FAILED", "/items must be a JSON array"},
	{"POST", records, `{"items":[]}`, nil, 400, "VALIDATION_FAILED", "/items must not be empty"},
	{"POST", records, `{"items":[1]}`, nil, 400, "VALIDATION_FAILED", "/items/0 must be a JSON object"},
	{"POST", records, `{"items":[{"key":1,"value":1}]}`, nil, 400, "VALIDATION_FAILED", "/items/0/key must be a string"},
	{"POST", records, `{"items":[{"key":"q","value":1},{"key":"q","value":1}]}`, nil, 400, "VALIDATION_FAILED", "/items/1/key is a duplicate: each key may occur once"},
	{"POST", records, `{"items":[` + strings.Repeat(`{"key":"k","value":1},`, 20) + `{}]}`, nil, 413, "LIMIT_EXCEEDED", "/items has 21 items: the limit is 20"},
	{"POST", "/batch", `{"ops":[{}]}`, nil, 400, "VALIDATION_FAILED", "/ops/0 lacks the member op: put, delete, check or increment"},
	{"POST", "/batch", `{"ops":[{"namespace":"a","key":"k","value":1}]}`, nil, 400, "VALIDATION_FAILED", "/ops/0 lacks the member op: put, delete, check or increment"},
	{"POST", "/batch", `{"ops":[{"op":"put","key":"k","value":1}]}`, nil, 400, "VALIDATION_FAILED", "/ops/0 lacks the member namespace"},
	{"POST", "/batch", `{"ops":[{"op":"delete","namespace":"a"}]}`, nil, 400, "VALIDATION_FAILED", "/ops/0 lacks the member key"},
	{"POST", "/batch", `{"ops":[{"op":"set","namespace":"a","key":"k","value":1}]}`, nil, 400, "VALIDATION_FAILED", "/ops/0/op must be put, delete, check or increment"},
	{"POST", "/batch", `{"ops":[{"op":"check","namespace":"a","key":"k"}]}`, nil, 400, "VALIDATION_FAILED", "/ops/0 lacks the member ifRevision: a check requires it, or ifMatch"},
	{"POST", "/batch", `{"ops":[{"op":"delete","namespace":"a","key":"k","value":1}]}`, nil, 400, "VALIDATION_FAILED", "/ops/0/value is not a member of this object: expected op, namespace, key, ifRevision, ifMatch"},
	{"POST", "/batch", `{"ops":[{"op":"delete","namespace":"z","key":"k"}]}`, nil, 403, "NAMESPACE_DENIED", "the token grants no access to this namespace"},

	{"GET", records + "?limit=0", "", nil, 400, "VALIDATION_FAILED", "/limit must be a whole number from 1 to 100"},
	{"GET", records + "?limit=101", "", nil, 400, "VALIDATION_FAILED", "/limit must be a whole number from 1 to 100"},
	{"GET", records + "?limit=", "", nil, 400, "VALIDATION_FAILED", "/limit must be a whole number from 1 to 100"},
	{"GET", records + "?values=1", "", nil, 400, "VALIDATION_FAILED", "/values must be true or false"},
	{"GET", records + "?cursor=x", "", nil, 400, "VALIDATION_FAILED", "/cursor must be a cursor from an earlier response to the same request"},
	{"GET", "/namespaces/a/schemas?limit=101", "", nil, 400, "VALIDATION_FAILED", "/limit must be a whole number from 1 to 100"},
	{"GET", "/namespaces/a/schemas?cursor=x", "", nil, 400, "VALIDATION_FAILED", "/cursor must be a cursor from an earlier response to the same request"},
	{"GET", "/export?cursor=x", "", nil, 400, "VALIDATION_FAILED", "/cursor must be a cursor from an earlier response to the same request"},
	{"GET", "/changes?limit=1001", "", nil, 400, "VALIDATION_FAILED", "/limit must be a whole number from 0 to 1000"},
	{"GET", "/changes?wait=61", "", nil, 400, "VALIDATION_FAILED", "/wait must be a whole number from 0 to 60"},
	{"GET", "/changes?since=-1", "", nil, 400, "VALIDATION_FAILED", "/since must be a whole number of at least 0"},
	{"GET", "/namespaces/a/schemas/x", "", nil, 400, "VALIDATION_FAILED", "/version must be a whole number from 1 to 2147483647"},

	{"POST", "/namespaces/a/schemas", `{}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member schema: a JSON Schema document"},
	{"POST", "/namespaces/a/schemas", `{"schema":1}`, nil, 400, "VALIDATION_FAILED", "/schema must be a schema: a JSON object or a boolean"},
	{"POST", "/namespaces/a/schemas", `{"schema":{"type":"x"}}`, nil, 400, "VALIDATION_FAILED", "/schema/type must be null, boolean, object, array,"},
	{"POST", "/namespaces/a/schemas", `{"schema":{"multipleOf":0}}`, nil, 400, "VALIDATION_FAILED", "/schema/multipleOf must be a number greater than 0"},
	{"POST", "/namespaces/a/schemas", `{"schema":{"pattern":"(?=a)"}}`, nil, 400, "VALIDATION_FAILED", "/schema/pattern is not a valid regular expression: use RE2 syntax"},
	{"POST", "/namespaces/a/schemas", `{"schema":{"$ref":"http://x/y"}}`, nil, 400, "VALIDATION_FAILED", "/schema/$ref refers to another document: only references within the document are supported"},
	{"PATCH", "/namespaces/a/schemas/1", `{"status":"draft"}`, []string{"Content-Type: application/json"}, 400, "VALIDATION_FAILED", "/status must be active or deprecated"},
	{"PATCH", "/namespaces/a/schemas/1", `{}`, []string{"Content-Type: application/json"}, 400, "VALIDATION_FAILED", "the body lacks the member status"},
	{"POST", "/namespaces/a/schemas/check", `{}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member schema: a JSON Schema document, or version"},
	{"POST", "/namespaces/a/schemas/check", `{"schema":true,"version":1}`, nil, 400, "VALIDATION_FAILED", "/schema must not be combined with version"},

	{"POST", "/import", "", []string{lines}, 400, "IMPORT_INCOMPLETE", "incomplete import: received 0 records and no last line with complete: send every line of the export"},
	{"POST", "/import", `{"namespace":"a","key":"x","value":1}`, []string{lines}, 400, "IMPORT_INCOMPLETE", "received 1 record and no last line"},
	{"POST", "/import", `{"namespace":"a","key":"x"}`, []string{lines}, 400, "VALIDATION_FAILED", "line 1 lacks the member value"},
	{"POST", "/import", `{"key":"x","value":1}`, []string{lines}, 400, "VALIDATION_FAILED", "line 1 lacks the member namespace"},
	{"POST", "/import", `{"namespace":"a","value":1}`, []string{lines}, 400, "VALIDATION_FAILED", "line 1 lacks the member key"},
	{"POST", "/import", `{"namespace":"a","status":"draft","schema":true}`, []string{lines}, 400, "VALIDATION_FAILED", "line 1 lacks the member version"},
	{"POST", "/import", `{"complete":true}`, []string{lines}, 400, "VALIDATION_FAILED", "line 1 lacks the member records"},
	{"POST", "/import", `{"export":2}`, []string{lines}, 400, "VALIDATION_FAILED", "line 1: /export must be 1, the only format version that this server supports"},
	{"POST", "/import", "{\"cursor\":\"c\"}\n{\"complete\":false}", []string{lines}, 400, "VALIDATION_FAILED", "line 2: /complete must be true"},
	{"POST", "/import", `{"namespace":"a","key":"x","value":1,"ttlExpiresAt":"x"}`, []string{lines}, 400, "VALIDATION_FAILED", "line 1: /ttlExpiresAt must be an RFC 3339 time, e.g. "},
}

func TestRefusalsOfFields(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for i := range fieldRefusals {
		fieldRefusals[i].check(c)
	}
	if keys, _ := c.get(records).keys(); len(keys) != 1 || keys[0] != "x" { // from the incomplete import
		t.Errorf("something was written: %q", keys)
	}
}

// storedRefusals are requests rejected because of stored data: the record k with revision 2, an idempotency key, and
// an active schema.
var storedRefusals = []refusal{
	{"GET", records + "/absent", "", nil, 404, "NOT_FOUND", "record not found"},
	{"PATCH", records + "/absent", `{}`, nil, 404, "NOT_FOUND", "record not found"},
	{"GET", records + "/k", "", []string{"If-Revision-Match: 9"}, 409, "REVISION_MISMATCH", "revision mismatch: the current revision is 2"},
	{"PUT", records + "/k", `{"value":1,"ifRevision":9}`, nil, 409, "REVISION_MISMATCH", "revision mismatch: the current revision is 2"},
	{"PUT", records + "/k", `{"value":1}`, []string{"If-None-Match: *"}, 412, "REVISION_MISMATCH", "revision mismatch: the current revision is 2"},
	{"PUT", records + "/absent", `{"value":1}`, []string{`If-Match: "9"`}, 412, "REVISION_MISMATCH", "revision mismatch: the record does not exist"},
	{"DELETE", records + "/absent?ifRevision=1", "", nil, 409, "REVISION_MISMATCH", "revision mismatch: the record does not exist"},
	{"POST", "/batch", `{"ops":[{"op":"check","namespace":"a","key":"k","ifRevision":9}]}`, nil, 409, "REVISION_MISMATCH", "revision mismatch: the current revision is 2"},
	{"POST", "/batch", `{"ops":[{"op":"put","namespace":"a","key":"k","value":9}]}`, []string{"Idempotency-Key: used"}, 422, "IDEMPOTENCY_KEY_REUSED", "already used for a different request: use a new key"},
	{"POST", records + "/k/increment", `{"pointer":"/n","by":9,"max":3}`, nil, 409, "BOUND_REACHED", "the sum would be greater than max"},
	{"POST", records + "/k/increment", `{"pointer":"/a","by":1}`, nil, 400, "VALIDATION_FAILED", "/pointer does not exist in the value: set create to start"},
	{"POST", records + "/k/increment", `{"pointer":"/s","by":1}`, nil, 400, "VALIDATION_FAILED", "/pointer does not point to a number"},
	{"PATCH", records + "/k", `{"b":"` + strings.Repeat("x", 65_525) + `"}`, nil, 413, "LIMIT_EXCEEDED", "bytes after the merge: the limit is 65536"},
	{"PUT", records + "/new", `{"value":1}`, nil, 429, "QUOTA_EXCEEDED", "the quota of 2 keys in a namespace is used up: delete records, or ask the operator"},
	{"PUT", "/namespaces/b/records/k", `{"value":{}}`, nil, 400, "VALIDATION_FAILED", "/value lacks a required member: id"},
	{"PUT", "/namespaces/b/records/k", `{"value":{"id":"x"}}`, nil, 400, "VALIDATION_FAILED", "/value/id must be of type integer"},
	{"PUT", "/namespaces/b/records/k", `{"value":{"id":1},"schemaVersion":2}`, nil, 400, "VALIDATION_FAILED", "/schemaVersion must be the active schema version"},
	{"GET", "/namespaces/b/schemas/9", "", nil, 404, "NOT_FOUND", "schema version not found"},
	{"PATCH", "/namespaces/b/schemas/9", `{"status":"active"}`, []string{"Content-Type: application/json"}, 404, "NOT_FOUND", "schema version not found"},
	{"GET", "/changes?since=9999", "", nil, 410, "CHANGES_EXPIRED", "changes after this number are not available: read all records again"},
}

func TestRefusalsByEngine(t *testing.T) {
	t.Parallel()
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, setup{open: open, config: func(config *ext.Config) { config.Quota.Keys = 2 }}).install(t)
			c.put("k", `{"value":1}`).is(http.StatusCreated)
			c.put("k", `{"value":{"n":1,"s":"x"}}`).is(http.StatusOK)
			c.post("/batch", `{"ops":[{"op":"put","namespace":"a","key":"i","value":1}]}`, "Idempotency-Key: used").is(http.StatusOK)
			c.post("/namespaces/b/schemas", `{"schema":{"required":["id"],"properties":{"id":{"type":"integer"}}}}`).is(http.StatusCreated)
			c.patch("/namespaces/b/schemas/1", `{"status":"active"}`, "Content-Type: application/json").is(http.StatusOK)
			for i := range storedRefusals {
				storedRefusals[i].check(c)
			}
			c.revoke()
			(&refusal{"GET", "/usage", "", nil, 403, "UNAUTHORIZED", "access to this install has been revoked"}).check(c)
		})
	}
}

func TestRefusalsOfServices(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	r := c.runner()
	own := "/internal/ext-storage/install/" + c.install
	for _, x := range []refusal{
		{"POST", own, `[]`, nil, 400, "VALIDATION_FAILED", "the body must be a JSON object"},
		{"POST", own, `{}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member operation: put, get, list, delete, bulkPut, patch,"},
		{"POST", own, `{"operation":1}`, nil, 400, "VALIDATION_FAILED", "/operation must be a string"},
		{"POST", own, `{"operation":"get","namespace":"a","key":"k","value":1}`, nil, 400, "VALIDATION_FAILED", "/value is not a member of this object: expected operation, namespace, key"},
		{"POST", own, `{"operation":"get","nope":1}`, nil, 400, "VALIDATION_FAILED", "/nope is not a member of this object"},
		{"POST", own, `{"operation":"get","key":"k"}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member namespace"},
		{"POST", own, `{"operation":"get","namespace":"a"}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member key"},
		{"POST", own, `{"operation":"patch","namespace":"a","key":"k"}`, nil, 400, "VALIDATION_FAILED", "the body lacks the member patch: a JSON merge patch"},
		{"POST", own, `{"operation":"list","namespace":"a","limit":"1"}`, nil, 400, "VALIDATION_FAILED", "/limit must be a whole number from 1 to 100"},
		{"POST", own + "?a=1", `{}`, nil, 400, "VALIDATION_FAILED", "/a is not a query parameter of this request: this request takes none"},
		{"POST", own, `{}`, []string{"X-Invocation-Id: a b"}, 400, "VALIDATION_FAILED", "/x-invocation-id must be 1 to 128 printable ASCII characters"},
		{"POST", own, `{}`, []string{"Content-Type: text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE", "send the header Content-Type: application/json"},
		{"POST", own, `{}`, []string{"Authorization:"}, 401, "UNAUTHENTICATED", "bearer token required"},
		{"POST", own, `{}`, []string{"Authorization: Bearer " + c.token}, 401, "UNAUTHENTICATED", "this is an install token, services need a token with tenant_id and service"},
		{"GET", own, "", nil, 405, "METHOD_NOT_ALLOWED", "this path supports POST"},
		{"POST", "/internal/ext-storage/x", `{}`, nil, 404, "NOT_FOUND", "no such path: expected /internal/ext-storage/install/INSTALL"},
		{"POST", "/internal/ext-storage/install/x", `{}`, nil, 403, "UNAUTHORIZED", "the install ID in the path is not valid"},
	} {
		x.checkAnswer(r.at(x.method, x.target, x.body, x.headers...))
	}
}
