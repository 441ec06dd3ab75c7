package sync

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/auth/hawk"
	"holdfast/internal/auth/tokenlib"
	syncload "holdfast/internal/workload/sync"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestClockLeap checks that a wrong clock destroys no data, and that clients with refused credentials are accepted
// again when the clock is correct.
func TestClockLeap(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnSQLite, harness.OnPostgres), leap)
}

func leap(t *testing.T, _ harness.Engine, data string, vars ...string) {
	t.Helper()
	vars = append(vars, "SYNC_MASTER_SECRET="+harness.Secret, "SYNC_TOKENSERVER__ENABLED=false", "HOLDFAST_SYNCSTORAGE__SWEEP_INTERVAL=10ms")
	binary.Migrate(t, data, vars...)
	clock := harness.NewClock(t)
	s := clock.Serve(data, vars...)
	lasting, hour := token(t, s, 100*365*24*time.Hour), token(t, s, time.Hour)
	want := func(c binary.Credentials, status int, method, path, body string) binary.Answer {
		t.Helper()
		return c.Want(t, status, method, path, body)
	}
	want(lasting, 200, http.MethodPut, "/storage/tabs/short", `{"payload":"for an hour","ttl":3600}`)
	want(lasting, 200, http.MethodPut, "/storage/forms/short", `{"payload":"for an hour","ttl":3600}`)
	want(lasting, 200, http.MethodPut, "/storage/clients/long", `{"payload":"for ever"}`)
	batch := want(lasting, 202, http.MethodPost, "/storage/tabs?batch=true", `[{"id":"staged","payload":"x"}]`).Body
	_, batch, _ = strings.Cut(batch, `"batch":"`)
	batch, _, _ = strings.Cut(batch, `"`)

	// A day ahead: records that expire within the day are gone, and the server sweeps.
	clock.Set(24 * time.Hour)
	swept(s)
	want(lasting, 404, http.MethodGet, "/storage/tabs/short", "")
	want(lasting, 400, http.MethodPost, "/storage/tabs?batch="+batch, `[]`)
	refused := want(hour, 401, http.MethodGet, "/storage/clients/long", "")
	if now, err := syncload.ParseMoment(refused.Header.Get("X-Weave-Timestamp")); err != nil || time.Duration(now)*10*time.Millisecond < time.Duration(time.Now().Unix())*time.Second+23*time.Hour {
		t.Errorf("server time in a refusal: %v, %v", now, err)
	}
	want(hour, 200, http.MethodGet, "/info/collections", "")
	ahead := stamped(t, want(lasting, 200, http.MethodPut, "/storage/clients/long", `{"payload":"of tomorrow"}`))

	// Back again: all data is there.
	clock.Set(0)
	want(lasting, 200, http.MethodGet, "/storage/tabs/short", "")
	want(lasting, 200, http.MethodPost, "/storage/tabs?batch="+batch+"&commit=true", `[]`)
	want(lasting, 200, http.MethodGet, "/storage/tabs/staged", "")
	want(hour, 200, http.MethodGet, "/storage/clients/long", "")
	after := want(lasting, 200, http.MethodPut, "/storage/clients/brief", `{"payload":"x","ttl":60}`)
	if got := stamped(t, after); got <= ahead {
		t.Errorf("timestamp %v follows %v", got, ahead)
	}
	if now, err := syncload.ParseMoment(after.Header.Get("X-Weave-Timestamp")); err != nil || now < ahead {
		t.Errorf("the server's time is %v, before its timestamp %v (%v)", now, ahead, err)
	}
	want(lasting, 200, http.MethodGet, "/storage/clients/brief", "")

	// A client whose clock is wrong by years is refused and receives the server's time.
	clock.Set(-2 * 365 * 24 * time.Hour)
	want(lasting, 401, http.MethodGet, "/storage/clients/long", "")
	if status := signedAt(t, lasting, "/storage/clients/long", time.Now().Add(-2*365*24*time.Hour)); status != http.StatusOK {
		t.Errorf("signed by the server's clock: %d", status)
	}

	// A clock that is wrong by more than sweep_after deletes expired records.
	clock.Set(0)
	want(lasting, 200, http.MethodGet, "/storage/forms/short", "")
	clock.Set(48 * time.Hour)
	swept(s)
	clock.Set(0)
	want(lasting, 404, http.MethodGet, "/storage/forms/short", "")
	want(lasting, 200, http.MethodGet, "/storage/clients/long", "")
}

// swept waits until a sweep that starts now has finished.
func swept(s *binary.Server) {
	rounds := func(body string) (n int) {
		_, text, _ := strings.Cut(body, `holdfast_sweep_rounds_total{outcome="ok",sweep="expired records and batches"} `)
		_, _ = fmt.Sscan(text, &n)
		return n
	}
	first := -1
	s.AwaitAnswer("/metrics", func(_ int, body string) bool {
		if first < 0 {
			first = rounds(body)
		}
		return rounds(body) >= first+2
	})
}

func token(t *testing.T, s *binary.Server, life time.Duration) binary.Credentials {
	t.Helper()
	c, err := syncload.Issue(harness.Secret, s.URL, tokenlib.Claims{UID: 1, Expires: time.Now().Add(life)})
	harness.Must(t, err)
	return binary.Credentials{Credentials: c}
}

func stamped(t *testing.T, a binary.Answer) syncload.Moment {
	t.Helper()
	m, err := syncload.ParseMoment(a.Header.Get("X-Last-Modified"))
	harness.Must(t, err)
	return m
}

func signedAt(t *testing.T, c binary.Credentials, path string, now time.Time) (status int) {
	t.Helper()
	req, err := c.Request(t.Context(), http.MethodGet, path, "")
	harness.Must(t, err)
	harness.Must(t, hawk.SignHTTP(req, c.ID, c.Key, now, ""))
	resp, err := http.DefaultClient.Do(req)
	harness.Must(t, err)
	harness.Must(t, resp.Body.Close())
	return resp.StatusCode
}
