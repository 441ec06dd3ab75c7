// Package fault starts the built binary, runs a workload through the real protocol, and kills the server or its
// database at a random moment, or temporarily takes away a resource that they need. Afterwards it compares the data
// with every acknowledgement.
//
// The promise: an acknowledged write is stored exactly as sent, with the timestamp from the response. A write whose
// response was lost is stored completely or not at all, also if it was a POST of many records or the commit of a
// batch. No timestamp of a user is assigned twice, and each is greater than those known when its request was sent.
// Counts and usage equal the sums of the listed records.
//
// Extension storage promises the same for its revisions and changes. In addition, a request with an idempotency key is
// executed once; the feed contains all changes, in order and without a gap; and each change is published to the audit
// at least once. Accounts promise that keys and their storage user stay together.
//
// Buckets promise that the body of an object has the MD5 that was acknowledged, and that each file on a storage node
// is the body of an object or garbage, or an audit finds it.
//
// Guests promise that a change with an idempotency key is executed once and always gets the same response, that the
// events of exactly the committed changes are published in order, and that no handoff is consumed twice, even in a
// copy.
//
// All of this also holds for a copy to another engine. Clients of sync and extension storage are refused for a short
// time, a refused write is not done, and the writes acknowledged before and after the switch form one history.
//
// The promise also holds when the power is cut; see TestPowerCut.
//
// While a server runs it responds in bounded time, at worst with 503 and Retry-After. It recovers without help and
// leaks no goroutines or connections.
//
// A fault is written once, and names the engines to which it applies. A service provides a workload: its clients, and
// the meaning of an acknowledgement. One server runs the workloads of all services, so every fault is tested with
// every service on every engine that both support; FAULT_SERVICE selects one service. Tests of one service are in the
// folder with its name, next to its workload. Package harness contains the shared code.
//
// All rounds of a test share one data folder, so each round recovers data that the previous round has recovered. By
// default the number of rounds is the number of variants of a fault, and some tests run on one engine only;
// FAULT_ROUNDS changes both. The random choices of a client depend on FAULT_SEED, the round and the client. The timing
// does not, so a replay repeats the workload and the intended moment, but not the instruction at which a process was
// killed.
package fault

import (
	"os"
	"testing"

	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

func TestMain(m *testing.M) {
	becomeProgram()
	os.Exit(binary.MainOfWaiting(m, 8))
}

// newHarness migrates the databases and returns a harness with all services' workloads.
func newHarness(t *testing.T, data string, vars ...string) *harness.Harness {
	t.Helper()
	return harness.New(t, services(), false, data, vars...)
}
