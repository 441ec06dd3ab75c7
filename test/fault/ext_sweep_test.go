package fault

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
)

// A server is killed again and again while it removes expired records. In the end each record was
// removed once, by one change, and the counters are right.
func TestKilledSweep(t *testing.T) {
	t.Parallel()
	onEngines(t, []service{extService()}, inTurn(onSQLite, onPostgres), killedSweep)
}

func killedSweep(t *testing.T, _ engine, data string, vars ...string) {
	t.Helper()
	const keys = 2000
	vars = append(append(vars, extVars()...), "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_LOG__ACCESS=false",
		"HOLDFAST_EXTSTORAGE__SWEEP_INTERVAL=1ms", "HOLDFAST_EXTSTORAGE__SWEEP_AFTER=30m", "HOLDFAST_EXTSTORAGE__SWEEP_LIMIT=50")
	binary.Migrate(t, data, vars...)
	testClock := newTestClock(t)
	in := newInstall(t, 1)
	h := &harness{t: t, data: data, client: &http.Client{Timeout: bound}, workloads: []workload{&extWorkload{installs: []*ext.Install{in}}}, seed: number(t, "FAULT_SEED", rand.Uint64()>>1)}
	t.Cleanup(h.client.CloseIdleConnections)
	h.server = testClock.serve(data, vars...)
	for from := 0; from < keys; from += 20 {
		var items []any
		for i := range 20 {
			items = append(items, map[string]any{"key": fmt.Sprint(from + i), "value": map[string]any{"n": i}, "ttlSeconds": 60})
		}
		callExt(h, in, http.StatusOK, ext.Call{Method: http.MethodPost, Path: "/namespaces/settings/records", Body: ext.JSON(map[string]any{"items": items})}, nil)
	}
	checkFeed(h, in, entriesOf(h, in))
	h.finish() // before servers that publish events are killed
	testClock.set(time.Hour)
	for choose, kills := h.choice(0), 0; ; kills++ {
		lines := changesOf(h, in, int64(len(in.Feed)))
		for _, err := range ext.Follow(in.Rows, lines) {
			t.Error(err)
		}
		if in.Feed = append(in.Feed, lines...); len(in.Feed) >= 2*keys || t.Failed() {
			break
		}
		pause(nil, time.Duration(choose.IntN(30))*time.Millisecond)
		if kills < 3 {
			h.server.Kill()
			h.server = testClock.serve(data, vars...)
		}
	}
	checkFeed(h, in, entriesOf(h, in)) // expired, whether swept or not
	expired := 0
	for _, line := range in.Feed {
		if line.Op == "expire" {
			expired++
		}
	}
	if expired != keys || len(in.Feed) != 2*keys || len(in.Rows) != 0 {
		t.Errorf("seed %d: %d changes, of which %d removed expired records; left: %v", h.seed, len(in.Feed), expired, in.Rows)
	}
	h.finish()
}
