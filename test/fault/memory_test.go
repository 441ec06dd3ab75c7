package fault

import (
	"net/http"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func TestIdleMemory(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, data string, vars ...string) {
		t.Helper()
		vars = append(vars, binary.GuestsByDefault)
		binary.Migrate(t, data, vars...)
		h := &harness.Instance{T: t, Server: binary.Start(t, data, vars...)}
		if status, body := h.Server.Get("/__heartbeat__"); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		n, start := h.Resident("RssAnon"), time.Now()
		for n > harness.IdleMemory && time.Since(start) < harness.Bound { // the runtime frees the start's memory within seconds
			harness.Pause(nil, 200*time.Millisecond)
			n = h.Resident("RssAnon")
		}
		t.Logf("%d MB after %v", n>>20, time.Since(start).Round(time.Second))
		if n > harness.IdleMemory {
			t.Errorf("%d MB, want at most %d MB", n>>20, harness.IdleMemory>>20)
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		run(t, testdb.SQLite(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		url := testdb.PostgresDatabase(t)
		run(t, t.TempDir(), append(servicesOn(url), "HOLDFAST_TOKENSERVER__DATABASE_URL="+url)...)
	})
}
