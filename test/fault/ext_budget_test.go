package fault

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// One tenant that takes as much memory as it can, with rates that are not limited, gets
// no more than the budget, does not keep another from its own, and leaves nothing
// behind. FAULT_MINUTE does not make it longer.
//
//nolint:paralleltest // the collector keeps to the limit as far as it gets processors
func TestExtensionMemoryBudget(t *testing.T) {
	onEngines(t, []service{extService()}, both(), extensionMemoryBudget)
}

func extensionMemoryBudget(t *testing.T, _ engine, data string, vars ...string) {
	t.Helper()
	h := openHouse(t, 0, data, append(vars, memoryVar, "HOLDFAST_LOG__LEVEL=error")...)
	in := newInstall(t, 1)
	h.stock(in, "log", 100, 65_000) // of which a page had 6.5 MB before pages were bounded
	document := `{"schema":{"description":"` + strings.Repeat("x", 65_000) + `"}}`
	for range 17 { // more than a page
		h.want(in, http.StatusCreated, call{method: http.MethodPost, path: "/namespaces/settings/schemas", body: document})
	}
	held := string(h.call(in, call{method: http.MethodPost, path: "/batch", body: `{"ops":[{"op":"put","namespace":"log","key":"` + strings.Repeat("x", 2_400_000) + `"}]}`}))
	lines := string(h.call(in, call{method: http.MethodPost, path: "/import", body: strings.Repeat("x", 290_000)}))
	h.withstand([]attack{
		{"slow readers of lists", 200, string(h.call(in, call{method: http.MethodGet, path: "/namespaces/log/records?limit=100&values=true"})), false},
		{"slow readers of exports", 200, string(h.call(in, call{method: http.MethodGet, path: "/export"})), true},
		{"readers of schemas", 48, string(h.call(in, call{method: http.MethodGet, path: "/namespaces/settings/schemas?limit=100"})), false},
		{"held batches", 170, held[:len(held)-10], true},
		{"held lines of imports", 170, lines[:len(lines)-10], false},
	}, func() func() { return h.bystandExt(2) })
}

// bystandExt has an install of another tenant write, read and list until stop is called.
// It must meet no error.
func (h *house) bystandExt(n int) (stop func()) {
	in := newInstall(h.t, n)
	in.token = tenantToken(h.t, "7e4a4e1c-0000-4000-8000-000000000002", in.id, map[string]string{"settings": "rw"}, time.Now(), time.Hour)
	ctx, end := context.WithCancel(h.t.Context())
	var all sync.WaitGroup
	var longest time.Duration
	value := strings.Repeat("x", 20_000) // which is charged
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			path := fmt.Sprintf("/namespaces/settings/records/%d", i%20)
			for _, c := range []call{
				{method: http.MethodPut, path: path, body: `{"value":"` + value + `"}`},
				{method: http.MethodGet, path: path},
				{method: http.MethodGet, path: "/namespaces/settings/records?values=true"},
				{method: http.MethodGet, path: "/export"},
			} {
				start := time.Now()
				a, err := in.send(h.t.Context(), h.client, h.server.URL, c)
				if err != nil || a.Status/100 != 2 {
					h.t.Errorf("a bystander: %v: %d %.200s %v", c, a.Status, a.Body, err)
					return
				}
				longest = max(longest, time.Since(start))
			}
			pause(ctx.Done(), 20*time.Millisecond)
		}
	})
	return func() {
		h.t.Helper()
		end()
		all.Wait() // requests are bounded
		h.t.Logf("the longest request of a bystander took %v", longest)
		if longest == 0 || longest > patience {
			h.t.Errorf("a bystander's requests took up to %v", longest)
		}
	}
}
