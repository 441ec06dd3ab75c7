package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	syncload "holdfast/internal/workload/sync"
)

// Many uploads of large batches and downloads of a large collection need only the memory of the
// requests in progress.
//
// FAULT_RECORDS is the number of records of a batch; the collection has ten times as many KB, at
// least 20 MB.
func TestMemoryUnderLoad(t *testing.T) {
	t.Parallel()
	onEngines(t, []service{syncService()}, inTurn(onSQLite, onPostgres), memoryUnderLoad)
}

func memoryUnderLoad(t *testing.T, _ engine, data string, vars ...string) {
	t.Helper()
	const uploads, downloads, times = 64, 16, 2
	records := int(number(t, "FAULT_RECORDS", 500))
	h := startInstance(t, uploads+1, data, vars...)
	h.client.Timeout = 0 // batches and downloads may be large; the timeout of the test applies
	size := max(20<<20, records*10<<10)
	large := h.users[uploads]
	fillCollection(h, large, "history", size)
	var clients sync.WaitGroup
	for _, u := range h.users[:uploads] {
		clients.Go(func() {
			if err := upload(h, u, records); err != nil {
				t.Error(err)
			}
		})
	}
	for range downloads {
		clients.Go(func() {
			for range times {
				if n, err := download(h, large, "history"); err != nil || n < int64(size) {
					t.Errorf("%d bytes of %d, %v", n, size, err)
				}
			}
		})
	}
	clients.Wait() // the timeout of the test limits them
	peak := h.resident("VmHWM")
	t.Logf("%d MB at the peak", peak>>20)
	if peak > loadMemory {
		t.Errorf("%d MB at the peak, want at most %d MB", peak>>20, loadMemory>>20)
	}
	for _, u := range h.users[:uploads] {
		a, err := h.credentials(u).SendBy(t.Context(), h.client, http.MethodGet, "/info/collection_counts", "")
		if want := fmt.Sprintf(`{"bookmarks":%d}`, records); err != nil || a.Body != want {
			t.Errorf("%s has %s, want %s (%v)", u.Path, a.Body, want, err)
		}
	}
}

// upload writes records as one batch, in requests of a hundred.
func upload(h *instance, u *syncload.User, records int) error {
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
		a, err := h.credentials(u).SendBy(h.t.Context(), h.client, http.MethodPost, path, body)
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

// download reads a collection and discards it.
func download(h *instance, u *syncload.User, collection string) (int64, error) {
	req, err := h.credentials(u).Request(h.t.Context(), http.MethodGet, "/storage/"+collection+"?full=1", "")
	if err != nil {
		return 0, err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s", resp.Status)
	}
	return io.Copy(io.Discard, resp.Body)
}

// fillCollection writes a collection of at least so many bytes, in full requests.
func fillCollection(h *instance, u *syncload.User, collection string, size int) {
	h.t.Helper()
	const perRequest, records = 2 << 20, 20
	payload := strings.Repeat("x", perRequest/records)
	for n := range (size + perRequest - 1) / perRequest {
		body := syncload.Records(0, records, func(i int) syncload.Record { return syncload.Record{ID: fmt.Sprintf("%d-%d", n, i), Payload: payload} })
		must(h.t, h.send(u, http.MethodPost, "/storage/"+collection, body))
	}
}
