package fault

import (
	"net/http"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// newSpanner returns a harness on an emulator database. It has few writers, because the emulator runs one transaction
// at a time and reads whole tables.
func newSpanner(t *testing.T, emulator, database string, vars ...string) *harness.Harness {
	t.Helper()
	h := harness.New(t, withSpanner(), true, t.TempDir(), append(harness.InSpanner(withSpanner(), emulator, database), vars...)...)
	h.Enough = 20
	return h
}

// abandonment is how long a killed server's transaction may block others. Spanner aborts a transaction after 10 idle
// seconds. The emulator aborts it after others retry a few times.
const abandonment = 10 * time.Second

// unblocked waits until a write succeeds, when the killed server's transactions are over: the emulator runs one
// transaction at a time.
func unblocked(h *harness.Harness, s *binary.Server) {
	h.T.Helper()
	for _, w := range h.Workloads {
		start := time.Now()
		a, err := w.Probe(h, s)
		took := time.Since(start)
		if err != nil || a.Status >= http.StatusBadRequest || took > abandonment {
			h.T.Fatalf("write after a server was killed: %d %s %v after %v", a.Status, a.Body, err, took)
		}
	}
}

func patientSpanner(t *testing.T, emulator, database string) *harness.Harness {
	t.Helper()
	patience := testdb.Patient(8 * time.Second) // writes wait for each other, for seconds on a busy machine
	h := newSpanner(t, emulator, database,
		harness.Timeouts(withSpanner(), patience)...)
	// The waits for the server's transaction slot, the emulator's only slot, and the response, plus delays on a busy
	// machine.
	h.Bound = 3*patience + testdb.Patient(5*time.Second)
	h.Server = h.Serve()
	return h
}
