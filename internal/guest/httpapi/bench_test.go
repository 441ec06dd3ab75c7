package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"holdfast/internal/clock"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/backend"
	"holdfast/internal/guest/memory"
	"holdfast/internal/guest/redis"
	"holdfast/internal/ident"
	"holdfast/internal/web"
	"holdfast/internal/web/webtest"
)

// attributeSizes are in bytes.
var attributeSizes = map[string]int{"none": 0, "16KiB": 16<<10 - len(`{"text":""}`)}

// BenchmarkReadSession reads sessions over HTTP, without attributes and with the maximum. The bare handlers only
// read and send as many bytes, from memory or Redis; "bare commands" sends the Redis commands for reading a session.
func BenchmarkReadSession(b *testing.B) {
	inRedis, hot := newParts(b), openRedis(b)
	inRedis.hot = redisHot(hot)
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
			if name == "Redis" {
				id, _, _ := strings.Cut(v.cookie, ".")
				commands := bareServer(b, sessionCommands(inRedis.hot, guest.ID(id), []byte(body)))
				b.Run("Redis/bare commands/"+size, func(b *testing.B) { readOften(b, commands, "/", http.Header{}) })
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

// sessionCommands only takes from the rate limits and reads the session, and returns the answer that the service sent.
func sessionCommands(hot backend.Hot, id guest.ID, body []byte) func(context.Context) ([]byte, error) {
	limit := guest.Limit{Events: 1_000_000, Per: time.Minute, Burst: 333_333}
	return func(ctx context.Context) ([]byte, error) {
		if _, err := hot.Take(ctx, []guest.Bucket{{Key: "session:ip:bare", Limit: limit}, {Key: "session:" + string(id), Limit: limit}}); err != nil {
			return nil, err
		}
		_, err := hot.Session(ctx, id, guest.Change{ReadAttributes: true})
		return body, err
	}
}

// BenchmarkHotSize measures the memory of hot state in Redis per session with preferences, and per recently viewed
// property. BenchmarkMillionSessions measures sessions in this process.
func BenchmarkHotSize(b *testing.B) {
	db := openRedis(b)
	redisBytes := func() (n float64) {
		err := db.RunWithin(b.Context(), "info", 10*time.Second, func(ctx context.Context, c rueidis.Client) error {
			info, err := c.Do(ctx, c.B().Info().Section("memory").Build()).ToString()
			_, rest, _ := strings.Cut(info, "used_memory:")
			number, _, _ := strings.Cut(rest, "\r\n")
			n, _ = strconv.ParseFloat(number, 64)
			return err
		})
		if err != nil || n == 0 {
			b.Fatal(n, err)
		}
		return n
	}
	heapBytes := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for _, where := range []struct {
		name string
		hot  backend.Hot
		used func() float64
	}{{"Redis", redis.New(db, "test-"+ident.New(), clock.System), redisBytes}, {"memory", memory.New(clock.System, 1<<30), heapBytes}} {
		b.Run(where.name, func(b *testing.B) {
			const n, viewed = 10_000, 5
			locale, currency, ids := "de-AT", "EUR", make([]guest.ID, n)
			for i := range ids {
				ids[i] = guest.NewID(guest.SessionPrefix, clock.System())
			}
			measure := func(what string, each int, step func(id guest.ID, i int) error) {
				before := where.used()
				for _, id := range ids {
					for i := range each {
						if err := step(id, i); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric((where.used()-before)/float64(n*each), what)
			}
			measure("B/session", 1, func(id guest.ID, _ int) error {
				_, err := where.hot.Session(b.Context(), id, guest.Change{Locale: &locale, Currency: &currency})
				return err
			})
			measure("B/viewed-property", viewed, func(id guest.ID, i int) error {
				key := fmt.Sprintf("%08d-2222-4333-8444-555555555555", i)
				value := fmt.Appendf(nil, `{"tenantId":%q,"propertyId":%q,"viewedAt":"2026-11-23T04:00:00.123Z"}`, tenant, key)
				return where.hot.Push(b.Context(), id, guest.RecentlyViewed, guest.Item{Key: key, Value: value})
			})
			runtime.KeepAlive(where.hot)
			b.ReportMetric(0, "ns/op")
		})
	}
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
