//test:unraced its goroutines share nothing

package openapitest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/internal/openapitest"
)

const described = `{
	"openapi": "3.1.0",
	"paths": {
		"/things/{id}": {
			"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string", "maxLength": 5}}],
			"get": {
				"operationId": "getThing",
				"parameters": [
					{"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 9}, "example": 3},
					{"name": "If-Match", "in": "header", "schema": {"type": "string", "maxLength": 4}}
				],
				"responses": {
					"200": {"headers": {"ETag": {"required": true, "schema": {"type": "string", "pattern": "^\""}}, "Retry-After": {"schema": {"type": "integer"}}},
						"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
					"404": {"$ref": "#/components/responses/NotFound"}
				}
			},
			"head": {"operationId": "headThing", "responses": {"200": {}}},
			"put": {
				"operationId": "putThing",
				"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
				"responses": {"204": {}}
			}
		},
		"/files/{name}": {
			"x-rest": true,
			"parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string", "maxLength": 5}}],
			"get": {"operationId": "getFile", "responses": {"200": {"headers": {"m-*": {"schema": {"type": "string"}}}, "content": {"*/*": {}}}}}
		},
		"/things/all": {"get": {"operationId": "allThings", "responses": {"200": {
			"content": {"application/x-ndjson": {"schema": {"type": "string"}, "x-lines": {"$ref": "#/components/schemas/Thing"}}}}}}}
	},
	"components": {
		"responses": {
			"NotFound": {"x-codes": ["NOT_FOUND"], "content": {"application/json": {"schema": {}}}},
			"MethodNotAllowed": {"headers": {"Allow": {"required": true, "schema": {"type": "string"}}}},
			"Preflight": {}
		},
		"schemas": {"Thing": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}, "additionalProperties": false}}
	}
}`

func load(t *testing.T) *openapitest.Document {
	t.Helper()
	d, err := openapitest.Load([]byte(described))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	jsonType = "Content-Type: application/json"
	etag     = `ETag: "1"`
)

func TestWhatIsDescribed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		request, header string
		body            string
		status          int
		answerHeaders   string
		answer          string
		wrong           string // part of the error, or ""
	}{
		{name: "an answer", request: "GET /things/a%2Fb?limit=9", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{"n":1}`},
		{name: "an optional header", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\nRetry-After: 1\n" + etag, answer: `{"n":1}`},
		{name: "a status", request: "GET /things/a", status: 202, wrong: "status is not described"},
		{name: "a header", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\nX-Odd: 1\n" + etag, answer: `{"n":1}`, wrong: "X-Odd is not described"},
		{name: "a header that is missing", request: "GET /things/a", status: 200, answerHeaders: jsonType, answer: `{"n":1}`, wrong: "ETag is missing"},
		{name: "a header of another form", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\nETag: 1", answer: `{"n":1}`, wrong: "header ETag"},
		{name: "a header that is no number", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\nRetry-After: soon\n" + etag, answer: `{"n":1}`, wrong: "header Retry-After"},
		{name: "a header that is there twice", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\n" + etag + "\n" + etag, answer: `{"n":1}`, wrong: "2 times"},
		{name: "a member", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{"n":1,"odd":2}`, wrong: "odd"},
		{name: "a member that is missing", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{}`, wrong: "'n'"},
		{name: "a format", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{"n":1,"at":"today"}`, wrong: "date-time"},
		{name: "no JSON", request: "GET /things/a", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{"n":1}}`, wrong: "body"},
		{name: "a content type", request: "GET /things/a", status: 200, answerHeaders: "Content-Type: text/plain\n" + etag, answer: `{"n":1}`, wrong: "text/plain is not described"},
		{name: "a parameter", request: "GET /things/a?odd=1", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{"n":1}`, wrong: "odd is not described"},
		{name: "a parameter beyond its bounds", request: "GET /things/a?limit=10", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{"n":1}`, wrong: "limit"},
		{name: "a path beyond its bounds", request: "GET /things/abcdef", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{"n":1}`, wrong: "id"},
		{name: "a request's header", request: "GET /things/a", header: "If-Match: 12345", status: 200, answerHeaders: jsonType + "\n" + etag, answer: `{"n":1}`, wrong: "If-Match"},
		{name: "a body", request: "PUT /things/a", header: jsonType, body: `{"n":1}`, status: 204},
		{name: "a body that may not be", request: "PUT /things/a", header: jsonType, body: `{"n":"1"}`, status: 204, wrong: "n"},
		{name: "a body that was not promised", request: "PUT /things/a", header: jsonType, body: `{"n":1}`, status: 204, answer: "x", wrong: "a body is not described"},
		{name: "a code", request: "GET /things/a", status: 404, answerHeaders: jsonType, answer: `{"error":{"code":"NOT_FOUND"}}`},
		{name: "another code", request: "GET /things/a", status: 404, answerHeaders: jsonType, answer: `{"error":{"code":"GONE"}}`, wrong: "GONE"},
		{name: "lines", request: "GET /things/all", status: 200, answerHeaders: "Content-Type: application/x-ndjson", answer: "{\"n\":1}\n\n{\"n\":2}\n"},
		{name: "a line", request: "GET /things/all", status: 200, answerHeaders: "Content-Type: application/x-ndjson", answer: "{\"n\":1}\n{\"m\":2}\n", wrong: "line 1"},
		{name: "no such path", request: "GET /odd", status: 404, answerHeaders: jsonType, answer: `{"error":{"code":"NOT_FOUND"}}`},
		{name: "a path that is not described", request: "GET /odd", status: 200, wrong: "status is not described"},
		{name: "no such method", request: "PATCH /things/a", status: 405, answerHeaders: "Allow: GET, PUT"},
		{name: "no such method and no word of others", request: "PATCH /things/a", status: 405, wrong: "Allow is missing"},
		{name: "a method that is not described", request: "PATCH /things/a", status: 204, wrong: "status is not described"},
		{name: "a preflight", request: "OPTIONS /odd", status: 204},
		{name: "a path with slashes", request: "GET /files/a//..", status: 200, answerHeaders: "M-Of: 1\nM-Any: 2", answer: "bytes"},
		{name: "a path with slashes beyond its bounds", request: "GET /files/a/b%2Fc/d", status: 200, answer: "bytes", wrong: "name"},
		{name: "a header of another prefix", request: "GET /files/a", status: 200, answerHeaders: "N-Of: 1", wrong: "N-Of is not described"},
		{name: "HEAD", request: "HEAD /things/a", status: 200},
		{name: "HEAD with a body", request: "HEAD /things/a", status: 200, answer: "x", wrong: "HEAD has a body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			method, target, _ := strings.Cut(c.request, " ")
			err := load(t).Check(&openapitest.Exchange{
				Method: method, Target: target, Header: headers(c.header), Body: []byte(c.body),
				Status: c.status, AnswerHeader: headers(c.answerHeaders), AnswerBody: []byte(c.answer),
			})
			switch {
			case c.wrong == "" && err != nil:
				t.Error(err)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("%v, want one with %q", err, c.wrong)
			}
		})
	}
}

func headers(lines string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		h.Add(name, value)
	}
	return h
}

func TestTransport(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, `{"n":1,"odd":`+r.URL.Path[len("/things/"):]+`}`)
	}))
	defer server.Close()
	var reported []string
	client := http.Client{Transport: &openapitest.Transport{
		Document: load(t), Next: server.Client().Transport, Report: func(err error) { reported = append(reported, err.Error()) },
	}}
	resp, err := client.Get(server.URL + "/things/7")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if err != nil || string(body) != `{"n":1,"odd":7}` {
		t.Errorf("the client reads %s, %v", body, err)
	}
	for _, body := range []string{`{"n":1}`, `{"n":1,"strange":true}`} {
		r, err := http.NewRequest(http.MethodPut, server.URL+"/things/7", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(reported) != 2 || !strings.Contains(reported[0], "odd") || !strings.Contains(reported[1], "strange") {
		t.Errorf("reported: %q", reported)
	}
}

func TestBrokenDocument(t *testing.T) {
	t.Parallel()
	for _, broken := range [][2]string{
		{"#/components/schemas/Thing", "#/components/schemas/Thin"},
		{"#/components/responses/NotFound", "#/components/responses/Lost"},
		{`"type": "integer", "max`, `"type": "integral", "max`},
		{`"example": 3`, `"example": 10`},
		{"3.1.0", "3.0.3"},
	} {
		if _, err := openapitest.Load([]byte(strings.Replace(described, broken[0], broken[1], 1))); err == nil {
			t.Errorf("a document with %s is loaded", broken[1])
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	var routes []string
	for _, r := range load(t).Routes() {
		routes = append(routes, r.Method+" "+r.Path+" "+r.ID)
	}
	want := "GET /files/{name} getFile, GET /things/all allThings, GET /things/{id} getThing, HEAD /things/{id} headThing, PUT /things/{id} putThing"
	if got := strings.Join(routes, ", "); got != want {
		t.Errorf("routes are %s", got)
	}
}
