package e2e

import (
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/internal/workload/sync"
	"holdfast/test/binary"
)

const largeRecord = "HOLDFAST_SYNCSTORAGE__LIMITS__MAX_RECORD_PAYLOAD_BYTES=5242880"

// TestLargeRecord stores a record of 5 MiB on each engine that can, after raising a single setting. info/configuration
// shows all limits that follow it.
func TestLargeRecord(t *testing.T) {
	t.Parallel()
	for name, vars := range map[string]func(t *testing.T) []string{
		"sqlite":   func(*testing.T) []string { return nil },
		"postgres": func(t *testing.T) []string { return onPostgres(testdb.PostgresDatabase(t)) },
		"citus":    func(t *testing.T) []string { return onPostgres(testdb.CitusDatabase(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := binary.Launch(t, t.TempDir(), append(vars(t), noBuckets, largeRecord)...)
			s.Verb("migrate") // SQLite migrates automatically
			s.Await("/readyz", http.StatusOK)
			c := s.Token(1)
			limits := c.Want(t, http.StatusOK, "GET", "/info/configuration", "").Body
			for _, want := range []string{
				`"max_post_bytes":5242880,`, `"max_record_payload_bytes":5242880,`, `"max_request_bytes":5246976,`, `"max_total_bytes":262144000,`,
			} {
				if !strings.Contains(limits, want) {
					t.Errorf("no %s in %s", want, limits)
				}
			}
			payload := strings.Repeat("x", 5<<20)
			record := sync.JSON(sync.Record{ID: "large", Payload: payload})
			c.Want(t, http.StatusOK, "PUT", "/storage/bookmarks/put", sync.JSON(sync.Record{Payload: payload}))
			if a := c.Want(t, http.StatusOK, "POST", "/storage/bookmarks", "["+record+"]"); !strings.Contains(a.Body, `"success":["large"]`) {
				t.Errorf("a POST: %s", a.Body)
			}
			if a := c.Want(t, http.StatusOK, "POST", "/storage/history?batch=true&commit=true", "["+record+"]"); !strings.Contains(a.Body, `"success":["large"]`) {
				t.Errorf("a batch: %s", a.Body)
			}
			for _, path := range []string{"/storage/bookmarks/put", "/storage/bookmarks/large", "/storage/history/large"} {
				if a := c.Want(t, http.StatusOK, "GET", path, ""); !strings.Contains(a.Body, payload) {
					t.Errorf("%s has %d bytes", path, len(a.Body))
				}
			}
			c.Want(t, http.StatusRequestEntityTooLarge, "PUT", "/storage/bookmarks/larger", sync.JSON(sync.Record{Payload: payload + strings.Repeat("x", 8192)}))
		})
	}
}

// TestLargeRecordIsRefused checks that contradictions, and a record that Spanner cannot store, end the start with both
// settings and the fix.
func TestLargeRecordIsRefused(t *testing.T) {
	t.Parallel()
	emulator, database := spannertest.Name(t)
	for _, c := range []struct {
		vars []string
		says string
	}{
		{onSpanner(emulator, database), "MAX_RECORD_PAYLOAD_BYTES: must be at most 2621440 on Spanner, the column size limit"},
		{
			[]string{"HOLDFAST_SYNCSTORAGE__LIMITS__MAX_POST_BYTES=4194304"},
			"MAX_POST_BYTES: must be at least 5242880, which is limits.max_record_payload_bytes: raise or unset it, or lower limits.max_record_payload_bytes",
		},
	} {
		r := binary.Run(t, append(c.vars, "HOLDFAST_DATA="+t.TempDir(), largeRecord), "serve")
		if r.Status == 0 || !strings.Contains(r.Stderr, c.says) {
			t.Errorf("%v: %d\n%s\nwant %s", c.vars, r.Status, r.Stderr, c.says)
		}
	}
}
