package sync

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	syncload "holdfast/internal/workload/sync"
	"holdfast/test/fault/harness"
)

// TestMemoryUnderLoad checks that uploads of large batches and downloads of a large collection use memory only for the
// requests in progress.
//
// FAULT_RECORDS is the number of records per batch. The collection has ten times as many KB, at least 20 MB.
func TestMemoryUnderLoad(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnSQLite, harness.OnPostgres), memoryUnderLoad)
}

func memoryUnderLoad(t *testing.T, _ harness.Engine, data string, vars ...string) {
	t.Helper()
	const uploads, downloads, times = 64, 16, 2
	records := int(harness.Number(t, "FAULT_RECORDS", 500))
	h := harness.Start(t, uploads+1, data, vars...)
	h.Client.Timeout = 0 // batches and downloads may be large; the test timeout applies
	size := max(20<<20, records*10<<10)
	large := h.Users[uploads]
	FillCollection(h, large, "history", size)
	var clients sync.WaitGroup
	for _, u := range h.Users[:uploads] {
		clients.Go(func() {
			if err := upload(h, u, records); err != nil {
				t.Error(err)
			}
		})
	}
	for range downloads {
		clients.Go(func() {
			for range times {
				if n, err := Download(h, large, "history"); err != nil || n < int64(size) {
					t.Errorf("%d bytes of %d, %v", n, size, err)
				}
			}
		})
	}
	clients.Wait()
	peak := h.Resident("VmHWM")
	t.Logf("%d MB at the peak", peak>>20)
	if peak > harness.LoadMemory {
		t.Errorf("%d MB at the peak, want at most %d MB", peak>>20, harness.LoadMemory>>20)
	}
	for _, u := range h.Users[:uploads] {
		a, err := h.Credentials(u).SendBy(t.Context(), h.Client, http.MethodGet, "/info/collection_counts", "")
		if want := fmt.Sprintf(`{"bookmarks":%d}`, records); err != nil || a.Body != want {
			t.Errorf("%s has %s, want %s (%v)", u.Path, a.Body, want, err)
		}
	}
}

func upload(h *harness.Instance, u *syncload.User, records int) error {
	batch := ""
	for from := 0; from < records; from += 100 {
		n := min(100, records-from)
		path := syncload.Append("bookmarks", batch)
		if from+n == records {
			path += "&commit=true"
		}
		body := syncload.Records(from, from+n, func(i int) syncload.Record {
			return syncload.Record{ID: strconv.Itoa(i), Payload: strings.Repeat("x", 1000)}
		})
		a, err := h.Credentials(u).SendBy(h.T.Context(), h.Client, http.MethodPost, path, body)
		if err != nil || a.Status >= http.StatusBadRequest {
			return fmt.Errorf("%s%s: %d %s %w", u.Path, path, a.Status, a.Body, err)
		}
		var ack syncload.Acknowledgement
		if err := json.Unmarshal([]byte(a.Body), &ack); err != nil || len(ack.Success) != n {
			return fmt.Errorf("%s%s: %s %w", u.Path, path, a.Body, err)
		}
		batch = ack.Batch
	}
	return nil
}
