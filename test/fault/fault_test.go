// Package fault starts the built binary, runs workloads through the real protocols, and kills the server or its
// database at a random moment, or temporarily removes a resource. Afterwards it compares the data with every
// acknowledgement.
//
// The promise: an acknowledged write is stored exactly as sent, with the timestamp from the response. A write whose
// response was lost is stored completely or not at all, including a POST with many records and a batch commit. A
// user's timestamps are unique, and each is greater than every timestamp that was known when its request was sent.
// Counts and usage equal the sums over the listed records.
//
// Extension storage promises the same for revisions and changes. In addition, a request with an idempotency key is
// executed once; the feed contains all changes, in order and without a gap; and the audit contains each change at
// least once. Accounts promise that keys and their storage user stay together.
//
// Buckets promise that an object's body matches the acknowledged MD5, and that an audit finds any file on a storage
// node that is neither an object's body nor garbage.
//
// Guests promise that a change with an idempotency key is executed once and always gets the same response, that
// exactly the committed changes' events are published in order, and that no handoff is consumed twice, even in a copy.
//
// All this also holds for a copy to another engine. Sync and extension storage refuse clients for a short time, a
// refused write has no effect, and the writes acknowledged before and after the switch form one history.
//
// The promise also holds when the power is cut; see TestPowerCut.
//
// A running server responds in bounded time, at worst with 503 and Retry-After. It recovers without help and leaks no
// goroutines or connections.
//
// Each fault test names the engines to which it applies. A service provides a workload: its clients, and the meaning
// of an acknowledgement. One server runs all services' workloads, so every fault is tested with every service on every
// engine that both support; FAULT_SERVICE selects a service. A service's own tests are next to its workload, in the
// folder with its name. Package harness contains the shared code.
//
// All rounds share one data folder, so each round recovers data that the previous round recovered. By default a test
// runs a round per variant, and some tests run on a single engine; FAULT_ROUNDS changes both. A client's random
// choices depend on FAULT_SEED, the round and the client. The timing does not, so a replay repeats the workload and
// the intended moment, but not the instruction at which a process was killed.
package fault

import (
	"os"
	"testing"

	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func TestMain(m *testing.M) {
	becomeProgram()
	binary.Select("TestKill") // every service's workload
	os.Exit(binary.MainOfWaiting(m, 8))
}

// newHarness migrates the databases and returns a harness with all services' workloads.
func newHarness(t *testing.T, data string, vars ...string) *harness.Harness {
	t.Helper()
	return harness.New(t, services(), false, data, vars...)
}
