package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/clock"
	ss "holdfast/internal/syncstorage"
	"holdfast/internal/syncstorage/httpapi"
	"holdfast/internal/web"
)

// bench returns a function that sends a signed request to the handler or, with options, to a mux.
func bench(b *testing.B, store ss.Store, o ...web.Options) (serve func(method, target, body string, status int)) {
	b.Helper()
	conf := ss.DefaultConfig()
	keys := keyring(b, secret)
	addresses, err := web.NewResolver("http://localhost", nil)
	if err != nil {
		b.Fatal(err)
	}
	s := &server{clock: clock.NewManual(t0)}
	service, err := ss.NewService(ss.Options{Store: store, Config: conf, Clock: s.clock.Now, Connections: 32})
	if err != nil {
		b.Fatal(err)
	}
	h := &httpapi.Handler{
		Service: service, Keyring: keys, Clock: s.clock.Now, TimeSkew: conf.HawkTimeSkew,
	}
	handle := func(w *sink, r *http.Request) error { return h.Serve(w, r, addresses.Resolve(r)) }
	if len(o) > 0 {
		m := &web.Mux{Resolver: addresses, Options: o[0], Default: web.Service{Serve: h.Serve, Error: h.WriteError, Route: httpapi.Label}}
		handle = func(w *sink, r *http.Request) error { m.ServeHTTP(w, r); return nil }
	}
	id, key := s.token(b, keys, claims(1))
	headers := map[string]http.Header{}
	return func(method, target, body string, status int) {
		head := headers[method+target]
		if head == nil {
			head = http.Header{"Content-Type": {"application/json"}}
			a := hawk.Header{ID: id, TS: t0.Unix(), Nonce: "nonce"}
			a = a.Sign(key, hawk.Request{Method: method, Target: target, Host: "localhost", Port: 80})
			head.Set("Authorization", a.String())
			headers[method+target] = head
		}
		path, query, _ := strings.Cut(target, "?")
		r := &http.Request{
			Method: method, RequestURI: target, URL: &url.URL{Path: path, RawQuery: query}, Header: head,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}
		w := &sink{header: http.Header{}}
		if err := handle(w, r.WithContext(b.Context())); err != nil || w.status != status {
			b.Fatalf("%s %s: %d, %v", method, target, w.status, err)
		}
	}
}

type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }

func (s *sink) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return len(p), nil
}

func BenchmarkPut(b *testing.B) {
	serve := bench(b, openStore(b, 0))
	body := sized("a", 450)
	b.ReportAllocs()
	for b.Loop() {
		serve("PUT", "/1.5/1/storage/toys/a", body, 200)
	}
}

func BenchmarkPost100(b *testing.B) {
	serve := bench(b, openStore(b, 0))
	body := hundred(0)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		serve("POST", "/1.5/1/storage/toys", body, 200)
	}
}

func BenchmarkGet(b *testing.B) {
	serve := bench(b, openStore(b, 0))
	serve("PUT", "/1.5/1/storage/toys/a", sized("a", 450), 200)
	b.ReportAllocs()
	for b.Loop() {
		serve("GET", "/1.5/1/storage/toys/a", "", 200)
	}
}

func BenchmarkGet1000(b *testing.B) {
	serve := bench(b, openStore(b, 0))
	for i := range 10 {
		serve("POST", "/1.5/1/storage/toys", hundred(i), 200)
	}
	b.SetBytes(1000 * 500)
	b.ReportAllocs()
	for b.Loop() {
		serve("GET", "/1.5/1/storage/toys?full=1", "", 200)
	}
}

// BenchmarkManyRecords measures the maximum memory per record; see itemBytes. The records contain only an ID, and all
// but a hundred fail.
func BenchmarkManyRecords(b *testing.B) {
	serve := bench(b, openStore(b, 0))
	const n = 100000
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"%x"}`, i)
	}
	body := "[" + strings.Join(list, ",") + "]"
	serve("POST", "/1.5/1/storage/toys", body, 200)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		serve("POST", "/1.5/1/storage/toys", body, 200)
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N*n), "B/record")
	b.ReportMetric(float64(len(body))/n, "B/body")
}

// BenchmarkLargeBody measures the memory of a large body; see workCopies.
func BenchmarkLargeBody(b *testing.B) {
	serve := bench(b, openStore(b, 0))
	list := make([]string, 20)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":"%d","payload":"%s"}`, i, strings.Repeat("x", 100<<10))
	}
	body := "[" + strings.Join(list, ",") + "]"
	b.ReportAllocs()
	for b.Loop() {
		serve("POST", "/1.5/1/storage/toys", body, 200)
	}
	b.ReportMetric(float64(len(body)), "B/body")
}

// hundred returns 100 records of about 500 bytes in Firefox's form: the payload is itself JSON.
func hundred(n int) string {
	list := make([]string, 100)
	for i := range list {
		payload := `{\"ciphertext\":\"` + strings.Repeat("Ab0/", 80) + `\",\"IV\":\"AbcdefghijklmnopqrstuA==\",\"hmac\":\"` + strings.Repeat("0a", 32) + `\"}`
		list[i] = fmt.Sprintf(`{"id":"record-%03d-%03d","sortindex":%d,"payload":"%s"}`, n, i, i, payload)
	}
	return "[" + strings.Join(list, ",") + "]"
}

func BenchmarkBudget(b *testing.B) {
	store := openStore(b, 0)
	serve := bench(b, store)
	small, large := sized("a", 450), sized("b", 100<<10)
	serve("PUT", "/1.5/1/storage/toys/a", small, 200)
	serve("PUT", "/1.5/1/storage/toys/b", large, 200)
	for _, c := range []struct{ name, method, target, body string }{
		{"get", "GET", "/1.5/1/storage/toys/a", ""},
		{"get100K", "GET", "/1.5/1/storage/toys/b", ""},
		{"list", "GET", "/1.5/1/storage/toys?full=1&limit=1", ""},
		{"put", "PUT", "/1.5/1/storage/toys/a", small},
		{"put100K", "PUT", "/1.5/1/storage/toys/b", large},
	} {
		o := web.Options{Log: quiet, Gate: web.NewGate(256, time.Second)}
		for _, name := range []string{"without", "with"} {
			serve := bench(b, store, o)
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					serve(c.method, c.target, c.body, 200)
				}
			})
			o.Memory = web.NewMemory(256<<20, 256, time.Second)
		}
	}
}
