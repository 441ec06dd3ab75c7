package ext

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/ext"
	"holdfast/test/fault/harness"
)

// TestExtensionMemoryBudget checks that a tenant without rate limits cannot exceed the memory budget or affect another
// tenant, and that the server frees the memory afterwards. FAULT_MINUTE has no effect.
//
//nolint:paralleltest // the garbage collector keeps the limit only if it gets enough CPU
func TestExtensionMemoryBudget(t *testing.T) {
	testdb.SoakOnly(t, "it takes a minute or more")
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnSQLite, harness.OnPostgres), extensionMemoryBudget)
}

func extensionMemoryBudget(t *testing.T, _ harness.Engine, data string, vars ...string) {
	t.Helper()
	h := harness.Start(t, 0, data, append(vars, harness.MemoryVar, "HOLDFAST_LOG__LEVEL=error")...)
	in := NewInstall(t, 1)
	fillNamespace(h, in, "log", 100, 65_000) // a page with these records had 6.5 MB before page sizes were limited
	document := `{"schema":{"description":"` + strings.Repeat("x", 65_000) + `"}}`
	for range 17 { // more than a page
		WantExt(h, in, http.StatusCreated, ext.Call{Method: http.MethodPost, Path: "/namespaces/settings/schemas", Body: document})
	}
	held := string(WireExt(h, in, ext.Call{Method: http.MethodPost, Path: "/batch", Body: `{"ops":[{"op":"put","namespace":"log","key":"` + strings.Repeat("x", 2_400_000) + `"}]}`}))
	lines := string(WireExt(h, in, ext.Call{Method: http.MethodPost, Path: "/import", Body: strings.Repeat("x", 290_000)}))
	h.RunAttacks([]harness.Attack{
		{Name: "slow readers of lists", Connections: 200, Request: string(WireExt(h, in, ext.Call{Method: http.MethodGet, Path: "/namespaces/log/records?limit=100&values=true"})), Fills: false},
		{Name: "slow readers of exports", Connections: 200, Request: string(WireExt(h, in, ext.Call{Method: http.MethodGet, Path: "/export"})), Fills: true},
		{Name: "readers of schemas", Connections: 48, Request: string(WireExt(h, in, ext.Call{Method: http.MethodGet, Path: "/namespaces/settings/schemas?limit=100"})), Fills: false},
		{Name: "held batches", Connections: 170, Request: held[:len(held)-10], Fills: true},
		{Name: "held lines of imports", Connections: 170, Request: lines[:len(lines)-10], Fills: false},
	}, func() func() { return startOthersExt(h, 2) })
}

func startOthersExt(h *harness.Instance, n int) (stop func()) {
	in := NewInstall(h.T, n)
	in.Token = tenantToken(h.T, "7e4a4e1c-0000-4000-8000-000000000002", in.ID, map[string]string{"settings": "rw"}, time.Now(), time.Hour)
	ctx, end := context.WithCancel(h.T.Context())
	var all sync.WaitGroup
	var longest time.Duration
	value := strings.Repeat("x", 20_000) // large enough to be charged
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			path := fmt.Sprintf("/namespaces/settings/records/%d", i%20)
			for _, c := range []ext.Call{
				{Method: http.MethodPut, Path: path, Body: `{"value":"` + value + `"}`},
				{Method: http.MethodGet, Path: path},
				{Method: http.MethodGet, Path: "/namespaces/settings/records?values=true"},
				{Method: http.MethodGet, Path: "/export"},
			} {
				start := time.Now()
				a, err := in.Send(h.T.Context(), h.Client, h.Server.URL, c)
				if err != nil || a.Status/100 != 2 {
					h.T.Errorf("another client: %v: %d %.200s %v", c, a.Status, a.Body, err)
					return
				}
				longest = max(longest, time.Since(start))
			}
			harness.Pause(ctx.Done(), 100*time.Millisecond)
		}
	})
	return func() {
		h.T.Helper()
		end()
		all.Wait()
		h.T.Logf("the longest request of another client took %v", longest)
		if longest == 0 || longest > harness.Patience {
			h.T.Errorf("requests of another client took up to %v", longest)
		}
	}
}
