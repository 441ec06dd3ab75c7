package sync

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/fault/harness"
)

// TestStalledReaders checks that the server disconnects clients that request a large collection and do not read it.
// Until then they use neither the server's memory nor all database connections: the server refuses excess clients, and
// other clients are not affected.
func TestStalledReaders(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		data := testdb.SQLite(t)
		// Each possible reader holds up to 1 MB of the file.
		stalledReaders(t, 192<<20+64<<20, data)
		// The server reuses the space that the readers' snapshots held.
		wal, err := os.Stat(filepath.Join(data, "syncstorage.db-wal"))
		harness.Must(t, err)
		t.Logf("the WAL has %d MB", wal.Size()>>20)
		if wal.Size() > 128<<20 { // twice the size that is kept after the WAL was long
			t.Errorf("the WAL has %d MB", wal.Size()>>20)
		}
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		testdb.SoakOnly(t, "SQLite has shown the same")
		stalledReaders(t, 192<<20, t.TempDir(), "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+testdb.PostgresDatabase(t))
	})
}

func stalledReaders(t *testing.T, most int64, data string, vars ...string) {
	t.Helper()
	const stalled, bystanding, size = 64, 4, 50 << 20
	h := harness.Start(t, bystanding+1, data, append(vars, "HOLDFAST_SERVER__CLIENT_GRACE=2s", "HOLDFAST_SYNCSTORAGE__DATABASE_STATEMENT_TIMEOUT=5s")...)
	large := h.Users[0]
	FillCollection(h, large, "history", size)
	beside := h.StartOthers(bystanding)
	request := h.Text(large, http.MethodGet, "/storage/history?full=1", "")
	request = bytes.Replace(request, []byte("\r\n"), []byte("\r\nConnection: close\r\n"), 1)
	start := time.Now()
	var clients sync.WaitGroup
	for range stalled {
		conn := h.Dial(4 << 10)
		harness.Must(t, conn.SetDeadline(time.Now().Add(harness.Bound)))
		clients.Go(func() { // reads only the status line
			_, err := conn.Write(request)
			answer := make([]byte, len("HTTP/1.1 200"))
			if err == nil {
				_, err = io.ReadFull(conn, answer)
			}
			if status := string(answer[9:]); err != nil || status != "200" && status != "503" {
				t.Errorf("a large listing: %q %v", answer, err)
			}
		})
	}
	clients.Wait()
	// From its turn, a reader is allowed the grace, 16 s for the 16 KiB chunk in progress, and three times the grace for
	// the data that the kernel buffered.
	h.Server.AwaitLong(2*harness.Bound, "/metrics", func(_ int, body string) bool { return harness.Loaded(body) <= bystanding })
	h.Server.AwaitAnswer("/livez", func(int, string) bool { return h.Sockets() < stalled })
	t.Logf("all requests were cancelled after %v", time.Since(start).Round(time.Second))
	beside.Stop()
	if peak := h.Resident("VmHWM"); peak > most {
		t.Errorf("%d MB at the peak, want at most %d MB", peak>>20, most>>20)
	} else {
		t.Logf("%d MB at the peak", peak>>20)
	}
	// PostgreSQL was asked to cancel and must confirm it.
	h.Server.AwaitAnswer("/livez", func(int, string) bool {
		_, body := h.Server.Get("/__lbheartbeat__")
		return strings.Contains(body, `"active_connections":0`)
	})
}
