package httpapi_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"holdfast/internal/openapitest"
)

// FuzzHandler checks that every response matches the API description and is never a 5xx.
func FuzzHandler(f *testing.F) {
	s := start(f, setup{})
	c := s.install(f)
	c.put("k", `{"value":{"n":1}}`)
	methods := []string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"}
	add := func(method, inner, body string) {
		for i, m := range methods {
			if m == method {
				f.Add(byte(i), inner, "", []byte(body))
			}
		}
	}
	for _, x := range shapes {
		add(x.method, x.inner, x.body)
	}
	for _, route := range description(f).Routes() {
		path := strings.NewReplacer("{install}", c.install, "{namespace}", "a", "{key}", "k", "{version}", "1").Replace(route.Path)
		add(route.Method, strings.TrimPrefix(path, c.path("")), bodyFor[route.ID])
	}
	add("POST", "/import", `{"namespace":"a","key":"i","value":1,"ttlExpiresAt":"2026-09-21T15:13:20.123Z"}`+"\n{\"cursor\":\"x\"}\n\n")
	add("POST", "/import", `{"export":1,"records":1,"lastChange":7}
{"namespace":"a","version":3,"status":"active","schema":{"type":"number"},"createdAt":"2026-09-21T15:13:20Z","updatedAt":"2026-09-21T15:13:20Z","createdBy":null}
{"namespace":"a","key":"i","value":1,"revision":2,"etag":"\"5\"","createdAt":"2026-09-21T15:13:20Z","updatedAt":"2026-09-21T15:13:20Z"}
{"complete":true,"records":1,"schemas":1}`)
	add("POST", "/batch", `{"ops":[{"op":"increment","namespace":"a","key":"k","pointer":"/n","by":1},{"op":"check","namespace":"a","key":"k","ifMatch":"*"}]}`)
	add("GET", records+"/%2E%2e", "")
	f.Add(byte(2), records+"/k", `"1", W/"2",*`, []byte(`{"value":1}`))

	document := description(f)
	f.Fuzz(func(t *testing.T, method byte, inner, tag string, body []byte) {
		target := c.path(inner)
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.ContainsAny(target, " \r\n\x00") || u.Query().Has("wait") {
			return // net/http rejects the request, or it takes long
		}
		name := methods[int(method)%len(methods)]
		if !strings.HasPrefix(name, "P") {
			body = nil
		}
		r := &http.Request{
			Method: name, URL: u, RequestURI: target, Host: "example.org", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		}
		switch {
		case strings.HasSuffix(u.Path, "/import"):
			r.Header.Set("Content-Type", "application/x-ndjson")
		case r.Method == http.MethodPatch && !strings.Contains(u.Path, "/schemas/"):
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
		if tag != "" {
			r.Header.Set("If-Match", tag)
		}
		w := httptest.NewRecorder()
		s.Config.Handler.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code >= 500 {
			t.Fatalf("%s %s %q: %d %s", r.Method, target, body, w.Code, w.Body)
		}
		x := openapitest.Exchange{Method: r.Method, Target: target, Header: r.Header, Body: body, Status: w.Code, AnswerHeader: w.Header(), AnswerBody: w.Body.Bytes()}
		if r.Method == http.MethodHead {
			x.AnswerBody = nil // net/http omits it
		}
		if err := document.Check(&x); err != nil {
			t.Fatal(err)
		}
	})
}
