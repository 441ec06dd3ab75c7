package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/buckets/httpapi"
	"holdfast/internal/openapitest"
	"holdfast/internal/web"
)

// FuzzHandler checks every response against the API description. None may be a 5xx.
func FuzzHandler(f *testing.F) {
	s := withBucket(f)
	s.put("k", hello)
	token := s.sign(httpapi.Claims(s.main, true), 100*time.Hour)
	handler := web.Service{Name: "buckets", Serve: (&httpapi.Handler{Service: s.service, Tokens: s.tokens, Clock: s.clock.Now}).Serve, Error: httpapi.WriteError, Route: httpapi.Label, Routes: httpapi.Routes(), Conditions: httpapi.Conditions}.Handler(quiet)
	for _, route := range description(f).Routes() {
		path := strings.NewReplacer("{account}", "main", "{bucket}", "photos", "{object}", "k", "{batch}", buckets.NewUUID()).Replace(route.Path)
		f.Add(route.Method, path, "", `{"headers":{"m-a":"1"},"roles":["`+role+`"],"properties":{"a":1},"content_type":"a/b"}`)
	}
	f.Add("GET", photos+"/objects?prefix=a&delimiter=/&marker=a/&limit=3", "", "")
	f.Add("GET", objects+"k", "Range: bytes=1-2\nIf-Range: \"a\"", "")
	f.Add("GET", objects+"%2e%2E//", "If-None-Match: *\nIf-Modified-Since: Sun, 22 Nov 2026 20:15:00 GMT", "")
	f.Add("PUT", objects+"k", "If-Match: *, W/\"a\"\nm-a: b\nExpires: 0\nContent-Type: ;", "x")
	f.Add("PUT", objects+"a/../b", "Object-Roles: "+role+"\nObject-Properties: {\"a\":[1e9]}\nDurability-Level: 2\nContent-MD5: x\nObject-Checksum: CRC32 AAAAAA==", hello)
	f.Add("POST", batches+"?limit=1", "", "")
	f.Add("A", "/buckets/", "If-:", "0")
	document := description(f)
	f.Fuzz(func(t *testing.T, method, target, header, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/buckets/") || strings.ContainsAny(target, " \r\n\x00#") || method == "" || strings.ContainsFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
			return // net/http rejects it, or another service handles it
		}
		r := &http.Request{
			Method: method, URL: u, RequestURI: target, Host: "example.org", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Authorization": {"Bearer " + token}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}
		if method == http.MethodPatch {
			r.Header.Set("Content-Type", "application/json")
		}
		if method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete || method == http.MethodPost {
			r.Body, r.ContentLength, body = http.NoBody, 0, ""
		}
		for line := range strings.SplitSeq(header, "\n") {
			name, value, ok := strings.Cut(line, ":")
			if ok && validHeader(name, value) {
				r.Header.Add(name, strings.TrimSpace(value))
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code >= 500 && w.Code != http.StatusInsufficientStorage {
			t.Fatalf("%s %s %q %q: %d %s", method, target, header, body, w.Code, w.Body)
		}
		x := openapitest.Exchange{Method: method, Target: target, Header: r.Header, Body: []byte(body), Status: w.Code, AnswerHeader: w.Header(), AnswerBody: w.Body.Bytes()}
		if method == http.MethodHead {
			x.AnswerBody = nil // net/http omits it
		}
		if err := document.Check(&x); err != nil {
			t.Fatal(err)
		}
	})
}

func validHeader(name, value string) bool {
	token := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }
	return name != "" && !strings.ContainsFunc(name, token) && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
