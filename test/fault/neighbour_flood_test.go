package fault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/internal/workload/guest"
	program "holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestFloodedNeighbours checks that other accounts and guests are served, never with 503, while an account lists long
// keys and a guest searches on many connections without a pause. It logs their latencies, with FAULT_ROUNDS=10 from ten
// times as many requests.
func TestFloodedNeighbours(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		floodedNeighbours(t, testdb.SQLite(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "SQLite has shown the same")
		url := testdb.PostgresDatabase(t)
		floodedNeighbours(t, t.TempDir(), "HOLDFAST_BUCKETS__DATABASE_URL="+url, "HOLDFAST_GUEST__DATABASE_URL="+url)
	})
}

type flooded struct {
	t      *testing.T
	server *program.Server
	client *http.Client
	keys   [2]*buckets.Client // attacker and neighbour
}

func floodedNeighbours(t *testing.T, data string, vars ...string) {
	t.Helper()
	vars = append(vars, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_GUEST__RATE_LIMITS=false", "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_SERVER__TRUSTED_PROXIES=127.0.0.1", "HOLDFAST_LOG__ACCESS=false", "HOLDFAST_BUCKETS__LISTEN="+testdb.FreeAddress(t))
	f := &flooded{t: t, server: program.Launch(t, data, vars...), client: &http.Client{Timeout: harness.Bound, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(f.client.CloseIdleConnections)
	f.server.Verb("migrate")
	f.server.Await("/readyz", http.StatusOK)
	f.server.Verb("buckets", "accounts", "create", "neighbour")
	for i, account := range []string{"main", "neighbour"} {
		f.keys[i] = &buckets.Client{URL: f.server.S3URL(), Signer: f.server.AccessKey(t, account)}
	}
	f.s3(0, http.MethodPut, "/attacked", "")
	for i := range 300 {
		f.s3(0, http.MethodPut, fmt.Sprintf("/attacked/%04d%s", i, strings.Repeat("%22", 900)), "")
	}
	f.s3(1, http.MethodPut, "/neighbour", "")
	f.s3(1, http.MethodPut, "/neighbour/small", "small")
	guests := [2]*guest.Visitor{f.guest("192.0.2.1"), f.guest("198.51.100.1")}
	for name, attack := range map[string]func(context.Context) (int, error){
		"lists": func(ctx context.Context) (int, error) {
			return f.send(f.s3Request(ctx, 0, http.MethodGet, "/attacked?list-type=2", ""))
		},
		"searches": func(ctx context.Context) (int, error) {
			return f.send(f.guestRequest(ctx, guests[0], http.MethodPost, "/search", `{"country":"AT","region":"Vienna","pageSize":50}`))
		},
		"maps": func(ctx context.Context) (int, error) {
			return f.send(f.guestRequest(ctx, guests[0], http.MethodPost, "/search/map", `{"country":"AT"}`))
		},
	} {
		took := map[string][]time.Duration{}
		stop := f.flood(name, attack)
		for i := range 20 * min(harness.Number(t, "FAULT_ROUNDS", 1), 10) {
			for what, r := range map[string]*http.Request{
				"an object":          f.s3Request(t.Context(), 1, http.MethodGet, "/neighbour/small", ""),
				"a write":            f.s3Request(t.Context(), 1, http.MethodPut, "/neighbour/small", "small"),
				"a guest's wishlist": f.guestRequest(t.Context(), guests[1], http.MethodGet, "/wishlist", ""),
				"a guest's wish": f.guestRequest(t.Context(), guests[1], http.MethodPost, "/wishlist",
					guest.Wish(len(name)*1000+int(i%20))),
			} {
				begun := time.Now()
				if status, err := f.send(r); err != nil || status >= http.StatusMultipleChoices {
					t.Errorf("%s: neighbour's %s: %d, %v", name, what, status, err)
				}
				took[what] = append(took[what], time.Since(begun))
			}
		}
		stop()
		for what, all := range took {
			slices.Sort(all)
			t.Logf("beside %s: %s: median %v, p99 %v of %d requests", name, what, all[len(all)/2], all[len(all)*99/100], len(all))
		}
	}
}

// flood repeats a request on many connections until stop is called. It returns after the first response on each
// connection.
func (f *flooded) flood(name string, attack func(context.Context) (int, error)) (stop func()) {
	const connections = 48
	ctx, cancel := context.WithCancel(f.t.Context())
	var all, begun sync.WaitGroup
	begun.Add(connections)
	for range connections {
		all.Go(func() {
			for first := true; ctx.Err() == nil; first = false {
				status, err := attack(ctx)
				if err == nil && status != http.StatusOK && status != http.StatusServiceUnavailable {
					f.t.Errorf("%s: %d", name, status)
					cancel()
				}
				if first {
					begun.Done()
				}
			}
		})
	}
	begun.Wait()
	return func() {
		cancel()
		all.Wait()
	}
}

func (f *flooded) s3Request(ctx context.Context, of int, method, target, body string) *http.Request {
	r, err := f.keys[of].Request(ctx, method, target, body, buckets.Unsigned)
	harness.Must(f.t, err)
	return r
}

func (f *flooded) s3(of int, method, target, body string) {
	f.t.Helper()
	if status, err := f.send(f.s3Request(f.t.Context(), of, method, target, body)); err != nil || status != http.StatusOK {
		f.t.Fatalf("%s %.40s: %d, %v", method, target, status, err)
	}
}

func (f *flooded) guestRequest(ctx context.Context, v *guest.Visitor, method, path, body string) *http.Request {
	r, err := v.Request(ctx, f.server.URL, guest.Call{Method: method, Path: path, Body: body, Key: fmt.Sprintf("%x", time.Now().UnixNano())})
	harness.Must(f.t, err)
	return r
}

func (f *flooded) guest(from string) *guest.Visitor {
	f.t.Helper()
	v := &guest.Visitor{HTTP: f.client, Header: http.Header{"X-Forwarded-For": {from}}}
	harness.Must(f.t, v.Begin(f.t.Context(), f.server.URL))
	return v
}

func (f *flooded) send(r *http.Request) (int, error) {
	resp, err := f.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
