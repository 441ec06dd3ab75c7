package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest/redis"
	"holdfast/internal/ident"
	"holdfast/internal/testdb"
	"holdfast/internal/web/webtest"
)

// BenchmarkReadSession reads over HTTP what a session has, without attributes and with the most.
func BenchmarkReadSession(b *testing.B) {
	inRedis := newParts(b)
	hot, err := redisdb.Open(b.Context(), redisdb.Options{URL: testdb.Redis(b), Timeout: 10 * time.Second, Probe: redis.Probe("test")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(hot.Close)
	inRedis.hot = redis.New(hot, "test-"+ident.New(), clock.System)
	for name, s := range map[string]*server{"memory": newServer(b), "Redis": serve(b, inRedis)} {
		for of, n := range map[string]int{"none": 0, "16KiB": 16<<10 - len(`{"text":""}`)} {
			v := s.begin()
			if n > 0 {
				v.want(200, http.MethodPatch, "/session/attributes", `{"text":"`+strings.Repeat("a", n)+`"}`)
			}
			tag := v.want(200, http.MethodGet, "/session/attributes", "").header.Get("Etag")
			for what, read := range map[string]struct{ path, tag string }{"session": {"/session", ""}, "attributes that the page has": {"/session/attributes", tag}, "wishlist": {"/wishlist", ""}} {
				b.Run(name+"/"+what+"/"+of, func(b *testing.B) {
					for b.Loop() {
						r := webtest.Request(b, s.base, http.MethodGet, api+read.path, nil)
						r.Header.Set("Cookie", "gms="+v.cookie)
						r.Header.Set("If-None-Match", read.tag)
						resp, err := webtest.Transport.RoundTrip(r)
						if err != nil {
							b.Fatal(err)
						}
						if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode >= http.StatusBadRequest {
							b.Fatal(err, resp.StatusCode)
						}
						_ = resp.Body.Close()
					}
				})
			}
		}
	}
}
