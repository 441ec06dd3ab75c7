package s3api_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/internal/web"
)

func BenchmarkRequest(b *testing.B) {
	s := serve(b)
	s.options.Limits.Inline = 16 << 10
	s.reopen()
	s.do("PUT", "/photos", "").want(200)
	small, middle := strings.Repeat("x", 4<<10), strings.Repeat("x", 1<<20)
	s.do("PUT", "/photos/small", small).want(200)
	s.do("PUT", "/photos/middle", middle).want(200)
	for i := range 1000 {
		s.do("PUT", fmt.Sprintf("/photos/list/%02d/%d", i/10, i), "x").want(200)
	}
	handler := s.handler.Handler(web.Options{Log: slog.New(slog.DiscardHandler)})
	for name, of := range map[string]func(i int) (method, target, body string){
		"GET 4 KiB":    func(int) (string, string, string) { return "GET", "/photos/small", "" },
		"GET 1 MiB":    func(int) (string, string, string) { return "GET", "/photos/middle", "" },
		"PUT 4 KiB":    func(i int) (string, string, string) { return "PUT", fmt.Sprint("/photos/put/", i), small },
		"PUT 1 MiB":    func(i int) (string, string, string) { return "PUT", fmt.Sprint("/photos/put/", i%16), middle },
		"DELETE":       func(int) (string, string, string) { return "DELETE", "/photos/none", "" },
		"list, page":   func(int) (string, string, string) { return "GET", "/photos?list-type=2&prefix=list", "" },
		"list, groups": func(int) (string, string, string) { return "GET", "/photos?delimiter=%2F&prefix=list%2F", "" },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				method, target, body := of(i)
				r := httptest.NewRequest(method, target, strings.NewReader(body))
				s.main.Sign(r, "UNSIGNED-PAYLOAD", time.Now())
				w := &discard{header: http.Header{}}
				handler.ServeHTTP(w, r)
				if w.status >= 300 {
					b.Fatalf("status %d", w.status)
				}
			}
		})
	}
}

type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkPlainName reads a public object whose bucket is named without its account.
func BenchmarkPlainName(b *testing.B) {
	s := serve(b)
	s.options.Limits.Inline = 16 << 10
	s.reopen()
	s.do("PUT", "/photos", "", "x-amz-acl: public-read").want(200)
	s.do("PUT", "/photos/small", strings.Repeat("x", 4<<10)).want(200)
	handler := s.handler.Handler(web.Options{Log: slog.New(slog.DiscardHandler)})
	for name, sign := range map[string]func(*http.Request){
		"own":             func(r *http.Request) { s.main.Sign(r, "UNSIGNED-PAYLOAD", time.Now()) },
		"another account": func(r *http.Request) { s.other.Sign(r, "UNSIGNED-PAYLOAD", time.Now()) },
		"anonymous":       func(*http.Request) {},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("GET", "/photos/small", nil)
				sign(r)
				w := &discard{header: http.Header{}}
				handler.ServeHTTP(w, r)
				if w.status >= 300 {
					b.Fatalf("status %d", w.status)
				}
			}
		})
	}
}
