package sync

import (
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/fault/harness"
)

// TestSyncMemoryBudget checks that a client cannot exceed the memory budget or affect other clients, and that the
// server frees the memory afterwards. FAULT_MINUTE has no effect.
//
//nolint:paralleltest // the garbage collector keeps the limit only if it gets enough CPU
func TestSyncMemoryBudget(t *testing.T) {
	testdb.SoakOnly(t, "it takes a minute or more")
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnPostgres, harness.OnSQLite), syncMemoryBudget)
}

func syncMemoryBudget(t *testing.T, _ harness.Engine, data string, vars ...string) {
	t.Helper()
	h := harness.Start(t, otherCount+1, data, append(vars, harness.MemoryVar, "HOLDFAST_LOG__LEVEL=error")...)
	attacker := h.Users[0]
	FillCollection(h, attacker, "history", 16<<20) // sorted, then streamed
	body := `[{"id":"held","payload":"` + strings.Repeat("x", 2<<20) + `"}]`
	upload := string(h.Text(attacker, http.MethodPost, "/storage/tabs?batch=true", body))
	h.RunAttacks([]harness.Attack{
		{Name: "slow readers", Connections: 200, Request: string(h.Text(attacker, http.MethodGet, "/storage/history?full=1&sort=index", "")), Fills: false},
		{Name: "held bodies", Connections: 170, Request: upload[:len(upload)-10], Fills: true},
	}, func() func() { return h.StartOthers(otherCount).Stop })
}

// otherCount is the number of well-behaved clients during an attack.
const otherCount = 4
