package ext

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestPollsAtStop checks that a stopping server answers clients that wait for changes, and does not wait for them.
func TestPollsAtStop(t *testing.T) {
	t.Parallel()
	const polls = 40 // more than the slots, but no more than slots plus queue
	h := harness.Start(t, 0, testdb.SQLite(t), "HOLDFAST_SERVER__MAX_REQUESTS=25", "HOLDFAST_EXTSTORAGE__CHANGES_POLL_INTERVAL=1h")
	in := NewInstall(t, 1)
	h.Client.Timeout = 2 * time.Minute
	var asking sync.WaitGroup
	for range polls {
		asking.Go(func() {
			a, err := in.Send(t.Context(), h.Client, h.Server.URL, ext.Call{Method: http.MethodGet, Path: "/changes?since=0&wait=60"})
			if want := `{"changes":[],"nextSince":0}`; err != nil || a.Status != http.StatusOK || strings.TrimSpace(a.Body) != want {
				t.Errorf("%d %s %v, want %s", a.Status, a.Body, err, want)
			}
		})
	}
	// Each poll reads once, and again after it releases its slot.
	h.Server.AwaitMetric(fmt.Sprintf(`holdfast_db_statement_duration_seconds_count{engine="sqlite",outcome="ok",service="extstorage",statement="ext.changes"} %d`, 2*polls))
	WantExt(h, in, http.StatusOK, ext.Call{Method: http.MethodGet, Path: "/usage"}) // other requests still get slots
	start := time.Now()
	h.Server.Signal(syscall.SIGTERM)
	asking.Wait()
	harness.Ended(&harness.Harness{T: t, Server: h.Server})
	if took := time.Since(start); took > harness.Bound/3 {
		t.Errorf("it took %v", took)
	}
}

// TestPollsThroughOutage checks that a waiting client gets changes from another process. While the database is
// unavailable the server asks the client to retry, and the client misses no change.
func TestPollsThroughOutage(t *testing.T) {
	t.Parallel()
	db := testdb.PostgresDatabase(t)
	n := harness.NewNetwork(t, db)
	slow := []string{"HOLDFAST_EXTSTORAGE__DATABASE_POOL_CONNECTION_TIMEOUT=" + harness.DbPatience.String(), "HOLDFAST_EXTSTORAGE__DATABASE_STATEMENT_TIMEOUT=" + harness.DbPatience.String()}
	const alone = "HOLDFAST_BUCKETS__ENABLED=false" // each server needs its own buckets folder
	near := harness.Start(t, 0, t.TempDir(), append(harness.Settings([]harness.Service{Service()}, "DATABASE_URL", db), alone)...)
	far := harness.Start(t, 0, t.TempDir(), append(append(slow, alone), harness.Settings([]harness.Service{Service()}, "DATABASE_URL", n.URL)...)...)
	in := NewInstall(t, 1)
	poll := func(since int64) (binary.Answer, time.Duration) {
		start := time.Now()
		a, err := in.Send(t.Context(), far.Client, far.Server.URL, ext.Call{Method: http.MethodGet, Path: fmt.Sprintf("/changes?since=%d&wait=20", since)})
		harness.Must(t, err)
		return a, time.Since(start)
	}
	hears := func(since int64) {
		t.Helper()
		written := make(chan struct{})
		go func() {
			defer close(written)
			WantExt(near, in, http.StatusCreated, ext.Call{Method: http.MethodPut, Path: fmt.Sprintf("/namespaces/settings/records/%d", since), Body: `{"value":1}`})
		}()
		a, took := poll(since)
		<-written
		var f ext.Feed
		harness.Must(t, json.Unmarshal([]byte(a.Body), &f))
		if lines, err := f.After(since); err != nil || len(lines) != 1 || took > 15*time.Second {
			t.Errorf("after %v: %d %s %v", took, a.Status, a.Body, err)
		}
	}
	hears(0)
	for since, away := range []func(){n.Cut, func() {}} { // connections closed, or notifications lost
		n.Silence()
		away()
		a, took := poll(int64(since) + 1)
		if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || took > 15*time.Second {
			t.Errorf("the database is unavailable: after %v %d %s", took, a.Status, a.Body)
		}
		n.Cut()
		n.Heal()
		far.Server.Await("/readyz", http.StatusOK)
		hears(int64(since) + 1)
	}
}
