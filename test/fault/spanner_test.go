package fault

import (
	"net/http"
	"testing"
	"time"

	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// newSpanner returns a harness on a database in an emulator. It has few writers, because the
// emulator runs one transaction at a time and reads whole tables.
func newSpanner(t *testing.T, emulator, database string, vars ...string) *harness.Harness {
	t.Helper()
	h := harness.New(t, withSpanner(), true, t.TempDir(), append(harness.InSpanner(withSpanner(), emulator, database), vars...)...)
	h.Enough = 20
	return h
}

// abandonment is how long a transaction of a killed server may block others. Spanner aborts one
// that is idle for 10 s; the emulator one that blocks others, after they have retried a few times.
const abandonment = 10 * time.Second

// unblocked returns when a write is done, which comes after the transactions of the killed server:
// the emulator runs one at a time.
func unblocked(h *harness.Harness, s *binary.Server) {
	h.T.Helper()
	for _, w := range h.Workloads {
		start := time.Now()
		a, err := w.Probe(h, s)
		took := time.Since(start)
		if err != nil || a.Status >= http.StatusBadRequest || took > abandonment {
			h.T.Fatalf("a write after the end of a server: %d %s %v after %v", a.Status, a.Body, err, took)
		}
	}
}

// patientSpanner starts a server with a limited timeout for the emulator.
func patientSpanner(t *testing.T, emulator, database string) *harness.Harness {
	t.Helper()
	const patience = 8 * time.Second // writes wait for each other, on a busy machine for seconds
	h := newSpanner(t, emulator, database,
		harness.Timeouts(withSpanner(), patience)...)
	// Waits for one of the transactions, for the emulator's only one, and for its answer; and the
	// delays of a busy machine.
	h.Bound = 3*patience + 5*time.Second
	h.Server = h.Serve()
	return h
}
