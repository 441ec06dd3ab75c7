package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/clock"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest/redis"
	"holdfast/internal/ident"
	"holdfast/internal/testdb"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// attributeSizes are in bytes.
var attributeSizes = map[string]int{"none": 0, "16KiB": 16<<10 - len(`{"text":""}`)}

// BenchmarkReadSession reads sessions over HTTP, without attributes and with the maximum. The bare handlers only
// read and send as many bytes, from memory or Redis.
func BenchmarkReadSession(b *testing.B) {
	inRedis := newParts(b)
	hot, err := redisdb.Open(b.Context(), redisdb.Options{URL: testdb.Redis(b), Timeout: 10 * time.Second, Probe: redis.Probe("test")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(hot.Close)
	inRedis.hot = redis.New(hot, "test-"+ident.New(), clock.System)
	servers := map[string]*server{"memory": newServer(b), "Redis": serve(b, inRedis)}
	for size, n := range attributeSizes {
		for name, s := range servers {
			v := s.begin()
			if n > 0 {
				v.want(200, http.MethodPatch, "/session/attributes", `{"text":"`+strings.Repeat("a", n)+`"}`)
			}
			tag := v.want(200, http.MethodGet, "/session/attributes", "").header.Get("Etag")
			for what, read := range map[string]struct{ path, tag string }{"session": {"/session", ""}, "attributes that the page has": {"/session/attributes", tag}, "wishlist": {"/wishlist", ""}} {
				b.Run(name+"/"+what+"/"+size, func(b *testing.B) {
					readOften(b, s.base, api+read.path, http.Header{"Cookie": {"gms=" + v.cookie}, "If-None-Match": {read.tag}})
				})
			}
			body := v.want(200, http.MethodGet, "/session", "").body
			bare := bareServer(b, func(context.Context) ([]byte, error) { return []byte(body), nil })
			if name == "Redis" {
				bare = bareServer(b, inRedisOnly(b, hot, body))
			}
			b.Run(name+"/bare/"+size, func(b *testing.B) { readOften(b, bare, "/", http.Header{}) })
		}
	}
}

func bareServer(b *testing.B, read func(context.Context) ([]byte, error)) (base string) {
	b.Helper()
	return webtest.Serve(b, web.Service{Route: func(string) string { return "/" }, Serve: func(w http.ResponseWriter, r *http.Request, _ web.Address) error {
		body, err := read(r.Context())
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, err = w.Write(body)
		return err
	}}, web.Options{}).URL
}

func inRedisOnly(b *testing.B, db *redisdb.DB, body string) func(context.Context) ([]byte, error) {
	b.Helper()
	key := "test-" + ident.New()
	run := func(ctx context.Context, fn func(context.Context, rueidis.Client) error) error {
		return db.RunWithin(ctx, "bare", 10*time.Second, fn)
	}
	if err := run(b.Context(), func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(key).Value(body).ExSeconds(3600).Build()).Error()
	}); err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context) (text []byte, err error) {
		err = run(ctx, func(ctx context.Context, c rueidis.Client) error {
			text, err = c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
			return err
		})
		return text, err
	}
}

// readOften measures requests on a single connection, including the client.
func readOften(b *testing.B, base, path string, h http.Header) {
	b.Helper()
	for b.Loop() {
		r := webtest.Request(b, base, http.MethodGet, path, nil)
		r.Header = h
		resp, err := webtest.Transport.RoundTrip(r)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode >= http.StatusBadRequest {
			b.Fatal(err, resp.StatusCode)
		}
		_ = resp.Body.Close()
	}
}
