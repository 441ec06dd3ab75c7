package fault

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
)

// Clients that request a large collection and read nothing of it are disconnected in time. Until
// then they use neither the server's memory nor all connections of its database: excess ones are
// refused, and others are not affected.
func TestStalledReaders(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		data := testdb.SQLite(t)
		// Each of the possible readers keeps up to 1 MB of the file.
		stalledReaders(t, 192<<20+64<<20, data)
		// The space that the readers' snapshots have kept is reused.
		wal, err := os.Stat(filepath.Join(data, "syncstorage.db-wal"))
		must(t, err)
		t.Logf("the WAL has %d MB", wal.Size()>>20)
		if wal.Size() > 128<<20 { // twice the size kept after a long one
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
	h := startInstance(t, bystanding+1, data, append(vars, "HOLDFAST_SERVER__CLIENT_GRACE=2s", "HOLDFAST_SYNCSTORAGE__DATABASE_STATEMENT_TIMEOUT=5s")...)
	large := h.users[0]
	fillCollection(h, large, "history", size)
	beside := h.startOthers(bystanding)
	request := h.text(large, http.MethodGet, "/storage/history?full=1", "")
	request = bytes.Replace(request, []byte("\r\n"), []byte("\r\nConnection: close\r\n"), 1)
	start := time.Now()
	var clients sync.WaitGroup
	for range stalled {
		conn := h.dial(4 << 10)
		must(t, conn.SetDeadline(time.Now().Add(bound)))
		clients.Go(func() { // and reads only the first line
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
	clients.Wait() // connections have a deadline
	// Each has the grace, 16 s for the piece of 16 KiB in progress, and three times the grace for
	// what the kernel buffered, after it was its turn.
	h.server.AwaitLong(2*bound, "/metrics", func(_ int, body string) bool { return loaded(body) <= bystanding })
	h.server.AwaitAnswer("/livez", func(int, string) bool { return h.sockets() < stalled })
	t.Logf("all requests were cancelled after %v", time.Since(start).Round(time.Second))
	beside.stop()
	if peak := h.resident("VmHWM"); peak > most {
		t.Errorf("%d MB at the peak, want at most %d MB", peak>>20, most>>20)
	} else {
		t.Logf("%d MB at the peak", peak>>20)
	}
	// PostgreSQL was told to cancel and must confirm it.
	h.server.AwaitAnswer("/livez", func(int, string) bool {
		_, body := h.server.Get("/__lbheartbeat__")
		return strings.Contains(body, `"active_connections":0`)
	})
}

// loaded returns the number of requests in progress.
func loaded(metrics string) (n int) {
	for _, found := range underWay.FindAllStringSubmatch(metrics, -1) {
		some, err := strconv.Atoi(found[1])
		if err != nil {
			return math.MaxInt
		}
		n += some
	}
	return n
}

var underWay = regexp.MustCompile(`(?m)^holdfast_http_requests\{.*\} (\d+)$`)
