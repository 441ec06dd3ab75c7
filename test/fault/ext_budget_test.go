package fault

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
)

// A tenant that takes as much memory as it can, without rate limits, gets no more than the
// budget, does not affect another tenant, and leaves nothing behind. FAULT_MINUTE does not
// apply.
//
//nolint:paralleltest // the garbage collector keeps the limit only if it gets enough CPU
func TestExtensionMemoryBudget(t *testing.T) {
	testdb.SoakOnly(t, "it takes a minute or more")
	onEngines(t, []service{extService()}, inTurn(onSQLite, onPostgres), extensionMemoryBudget)
}

func extensionMemoryBudget(t *testing.T, _ engine, data string, vars ...string) {
	t.Helper()
	h := startInstance(t, 0, data, append(vars, memoryVar, "HOLDFAST_LOG__LEVEL=error")...)
	in := newInstall(t, 1)
	fillNamespace(h, in, "log", 100, 65_000) // a page of these had 6.5 MB before pages were limited
	document := `{"schema":{"description":"` + strings.Repeat("x", 65_000) + `"}}`
	for range 17 { // more than a page
		wantExt(h, in, http.StatusCreated, ext.Call{Method: http.MethodPost, Path: "/namespaces/settings/schemas", Body: document})
	}
	held := string(wireExt(h, in, ext.Call{Method: http.MethodPost, Path: "/batch", Body: `{"ops":[{"op":"put","namespace":"log","key":"` + strings.Repeat("x", 2_400_000) + `"}]}`}))
	lines := string(wireExt(h, in, ext.Call{Method: http.MethodPost, Path: "/import", Body: strings.Repeat("x", 290_000)}))
	h.runAttacks([]attack{
		{"slow readers of lists", 200, string(wireExt(h, in, ext.Call{Method: http.MethodGet, Path: "/namespaces/log/records?limit=100&values=true"})), false},
		{"slow readers of exports", 200, string(wireExt(h, in, ext.Call{Method: http.MethodGet, Path: "/export"})), true},
		{"readers of schemas", 48, string(wireExt(h, in, ext.Call{Method: http.MethodGet, Path: "/namespaces/settings/schemas?limit=100"})), false},
		{"held batches", 170, held[:len(held)-10], true},
		{"held lines of imports", 170, lines[:len(lines)-10], false},
	}, func() func() { return startOthersExt(h, 2) })
}

// startOthersExt writes, reads and lists as an install of another tenant until stop is called. It
// expects no error.
func startOthersExt(h *instance, n int) (stop func()) {
	in := newInstall(h.t, n)
	in.Token = tenantToken(h.t, "7e4a4e1c-0000-4000-8000-000000000002", in.ID, map[string]string{"settings": "rw"}, time.Now(), time.Hour)
	ctx, end := context.WithCancel(h.t.Context())
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
				a, err := in.Send(h.t.Context(), h.client, h.server.URL, c)
				if err != nil || a.Status/100 != 2 {
					h.t.Errorf("a other client: %v: %d %.200s %v", c, a.Status, a.Body, err)
					return
				}
				longest = max(longest, time.Since(start))
			}
			pause(ctx.Done(), 100*time.Millisecond)
		}
	})
	return func() {
		h.t.Helper()
		end()
		all.Wait() // requests are bounded
		h.t.Logf("the longest request of another client took %v", longest)
		if longest == 0 || longest > patience {
			h.t.Errorf("requests of another client took up to %v", longest)
		}
	}
}
