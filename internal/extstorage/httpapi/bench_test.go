package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func benchmark(b *testing.B, method, inner, body string) {
	s := start(b, setup{alone: true, log: slog.New(slog.DiscardHandler)})
	c := s.install(b)
	c.fill("a", numbered(100)...)
	c.put("k", `{"value":{"n":1,"text":"`+strings.Repeat("x", 1000)+`"}}`)
	target := c.path(inner)
	u, err := url.ParseRequestURI(target)
	if err != nil {
		b.Fatal(err)
	}
	header := http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}}
	b.ReportAllocs()
	for b.Loop() {
		r := &http.Request{
			Method: method, URL: u, RequestURI: target, Host: "example.org", Header: header,
			Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
		}
		w := httptest.NewRecorder()
		if s.Config.Handler.ServeHTTP(w, r.WithContext(b.Context())); w.Code/100 != 2 {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

func BenchmarkGet(b *testing.B) { benchmark(b, http.MethodGet, records+"/k", "") }

func BenchmarkPut(b *testing.B) {
	benchmark(b, http.MethodPut, records+"/k", `{"value":{"n":1,"text":"`+strings.Repeat("x", 1000)+`"}}`)
}

func BenchmarkList(b *testing.B) {
	benchmark(b, http.MethodGet, records+"?limit=100&values=true", "")
}

// BenchmarkLargeBatch measures the memory in addition to a large body; see workCopies.
func BenchmarkLargeBatch(b *testing.B) {
	ops := make([]string, 20)
	for i := range ops {
		ops[i] = fmt.Sprintf(`{"op":"put","namespace":"a","key":"%03d","value":"%s"}`, i, strings.Repeat("x", 25<<10))
	}
	body := `{"ops":[` + strings.Join(ops, ",") + `]}`
	benchmark(b, http.MethodPost, "/batch", body)
	b.ReportMetric(float64(len(body)), "B/body")
}

func BenchmarkBatch(b *testing.B) {
	ops := make([]string, 20)
	for i := range ops {
		ops[i] = fmt.Sprintf(`{"op":"increment","namespace":"a","key":"%03d","pointer":"/n","by":1}`, i)
	}
	benchmark(b, http.MethodPost, "/batch", `{"ops":[`+strings.Join(ops, ",")+`]}`)
}
