package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// A server with every room on that has nothing to do is small.
func TestIdleMemory(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, data string, vars ...string) {
		t.Helper()
		if r := binary.Run(t, binary.Environ(append(vars, "HOLDFAST_DATA="+data)...), "migrate"); r.Status != 0 {
			t.Fatalf("migrate: %s%s", r.Stdout, r.Stderr)
		}
		h := &house{t: t, server: binary.Start(t, data, vars...)}
		if status, body := h.server.Get("/__heartbeat__"); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		n := h.resident("VmRSS")
		t.Logf("%d MB", n>>20)
		if n > idleMemory {
			t.Errorf("%d MB, at most %d MB are right", n>>20, idleMemory>>20)
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		run(t, testdb.SQLite(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		url := testdb.PostgresDatabase(t)
		run(t, t.TempDir(), append(roomsOn(url), "HOLDFAST_TOKENSERVER__DATABASE_URL="+url)...)
	})
}

// Memory that is right, in bytes, whatever is measured.
const (
	idleMemory = 60 << 20

	// loadMemory is for 64 uploads and 16 downloads at once: an upload holds
	// its body of 100 KB and what is read from it, a download a page of 2 MB
	// and the 4 MB that SQLite may keep of the file. That is 115 MB; what the
	// collector has not yet taken back may be as much.
	loadMemory = 256 << 20
)

// Many who upload large batches, and many who download a large collection,
// take only the memory of what is under way.
//
// FAULT_RECORDS is how many records a batch has; its tenfold in KB is what the
// collection has, at least 20 MB.
func TestMemoryUnderLoad(t *testing.T) {
	t.Parallel()
	onBoth(t, memoryUnderLoad)
}

func memoryUnderLoad(t *testing.T, data string, vars ...string) {
	t.Helper()
	const uploads, downloads, times = 64, 16, 2
	records := int(number(t, "FAULT_RECORDS", 1000))
	h := openHouse(t, uploads+1, data, vars...)
	h.client.Timeout = 0 // of a whole test: batches and downloads may be large
	size := max(20<<20, records*10<<10)
	large := h.users[uploads]
	h.fill(large, "history", size)
	var clients sync.WaitGroup
	for _, u := range h.users[:uploads] {
		clients.Go(func() {
			if err := h.upload(u, records); err != nil {
				t.Error(err)
			}
		})
	}
	for range downloads {
		clients.Go(func() {
			for range times {
				if n, err := h.download(large, "history"); err != nil || n < int64(size) {
					t.Errorf("%d bytes of %d, %v", n, size, err)
				}
			}
		})
	}
	clients.Wait() // the test's own time bounds them
	peak := h.resident("VmHWM")
	t.Logf("%d MB at the peak", peak>>20)
	if peak > loadMemory {
		t.Errorf("%d MB at the peak, at most %d MB are right", peak>>20, loadMemory>>20)
	}
	for _, u := range h.users[:uploads] {
		a, err := h.credentials(u).SendBy(t.Context(), h.client, http.MethodGet, "/info/collection_counts", "")
		if want := fmt.Sprintf(`{"bookmarks":%d}`, records); err != nil || a.Body != want {
			t.Errorf("%s has %s, want %s (%v)", u.path, a.Body, want, err)
		}
	}
}

// upload writes records as one batch, in requests of a hundred.
func (h *house) upload(u *user, records int) error {
	query := "?batch=true"
	for from := 0; from < records; from += 100 {
		n := min(100, records-from)
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"id":"%d","payload":%q}`, from+i, strings.Repeat("x", 1000))
		}
		if from+n == records {
			query += "&commit=true"
		}
		a, err := h.credentials(u).SendBy(h.t.Context(), h.client, http.MethodPost, "/storage/bookmarks"+query, "["+strings.Join(all, ",")+"]")
		if err != nil || a.Status >= http.StatusBadRequest {
			return fmt.Errorf("%s%s: %d %s %w", u.path, query, a.Status, a.Body, err)
		}
		var ack acknowledgement
		if err := json.Unmarshal([]byte(a.Body), &ack); err != nil || len(ack.Success) != n {
			return fmt.Errorf("%s%s: %s %w", u.path, query, a.Body, err)
		}
		query = "?batch=" + ack.Batch
	}
	return nil
}

// download takes a collection and keeps nothing of it.
func (h *house) download(u *user, collection string) (int64, error) {
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

// fill writes a collection of so many bytes, in full requests.
func (h *house) fill(u *user, collection string, size int) {
	h.t.Helper()
	const perRequest, records = 2 << 20, 20
	payload := strings.Repeat("x", perRequest/records)
	for n := range size / perRequest {
		all := make([]string, records)
		for i := range all {
			all[i] = fmt.Sprintf(`{"id":"%d-%d","payload":%q}`, n, i, payload)
		}
		must(h.t, h.send(u, http.MethodPost, "/storage/"+collection, "["+strings.Join(all, ",")+"]"))
	}
}
