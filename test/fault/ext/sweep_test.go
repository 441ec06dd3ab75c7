package ext

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestKilledSweep repeatedly kills a server while it removes expired records. In the end exactly one change has
// removed each record, and the counters are correct.
func TestKilledSweep(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnSQLite, harness.OnPostgres), killedSweep)
}

func killedSweep(t *testing.T, _ harness.Engine, data string, vars ...string) {
	t.Helper()
	const keys = 2000
	vars = append(append(vars, harness.ExtVars()...), "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_LOG__ACCESS=false",
		"HOLDFAST_EXTSTORAGE__SWEEP_INTERVAL=1ms", "HOLDFAST_EXTSTORAGE__SWEEP_AFTER=30m", "HOLDFAST_EXTSTORAGE__SWEEP_LIMIT=50")
	binary.Migrate(t, data, vars...)
	testClock := harness.NewClock(t)
	in := NewInstall(t, 1)
	h := &harness.Harness{T: t, Data: data, Client: &http.Client{Timeout: harness.Bound}, Workloads: []harness.Workload{&extWorkload{installs: []*ext.Install{in}}}, Seed: harness.Number(t, "FAULT_SEED", rand.Uint64()>>1)}
	t.Cleanup(h.Client.CloseIdleConnections)
	h.Server = testClock.Serve(data, vars...)
	for from := 0; from < keys; from += 20 {
		var items []any
		for i := range 20 {
			items = append(items, map[string]any{"key": fmt.Sprint(from + i), "value": map[string]any{"n": i}, "ttlSeconds": 60})
		}
		callExt(h, in, http.StatusOK, ext.Call{Method: http.MethodPost, Path: "/namespaces/settings/records", Body: ext.JSON(map[string]any{"items": items})}, nil)
	}
	checkFeed(h, in, entriesOf(h, in))
	h.Finish() // before killing servers that publish events
	testClock.Set(time.Hour)
	for choose, kills := h.Choice(0), 0; ; kills++ {
		lines := changesOf(h, in, int64(len(in.Feed)))
		for _, err := range ext.Follow(in.Rows, lines) {
			t.Error(err)
		}
		if in.Feed = append(in.Feed, lines...); len(in.Feed) >= 2*keys || t.Failed() {
			break
		}
		harness.Pause(nil, time.Duration(choose.IntN(30))*time.Millisecond)
		if kills < 3 {
			h.Server.Kill()
			h.Server = testClock.Serve(data, vars...)
		}
	}
	checkFeed(h, in, entriesOf(h, in)) // lists skip expired records, swept or not
	expired := 0
	for _, line := range in.Feed {
		if line.Op == "expire" {
			expired++
		}
	}
	if expired != keys || len(in.Feed) != 2*keys || len(in.Rows) != 0 {
		t.Errorf("seed %d: %d changes, %d removed expired records; left: %v", h.Seed, len(in.Feed), expired, in.Rows)
	}
	h.Finish()
}
