package fault

import (
	"net/http"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// An idle server with every service needs little memory.
func TestIdleMemory(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, data string, vars ...string) {
		t.Helper()
		vars = append(vars, binary.GuestsByDefault)
		binary.Migrate(t, data, vars...)
		h := &instance{t: t, server: binary.Start(t, data, vars...)}
		if status, body := h.server.Get("/__heartbeat__"); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		n, start := h.resident("RssAnon"), time.Now()
		for n > idleMemory && time.Since(start) < bound { // what the start took is returned within seconds
			pause(nil, 200*time.Millisecond)
			n = h.resident("RssAnon")
		}
		t.Logf("%d MB after %v", n>>20, time.Since(start).Round(time.Second))
		if n > idleMemory {
			t.Errorf("%d MB, want at most %d MB", n>>20, idleMemory>>20)
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

// Limits of the memory, in bytes.
const (
	// idleMemory is without the pages of the program's file, which the system can drop: up
	// to 60 MB if they are all in its cache.
	idleMemory = 30 << 20

	// loadMemory is for 64 uploads and 16 downloads at once: an upload holds its body of 100 KB
	// and the decoded records, a download a page of 2 MB and up to 4 MB of the file in SQLite's
	// cache. That is 115 MB; garbage may take as much.
	loadMemory = 256 << 20
)
