// Package fault starts the built binary, runs a workload through the real protocol, and kills the
// server or its database at a random moment, or takes away for a while what they need. Afterwards
// it checks every acknowledgement against the data.
//
// The promise: an acknowledged write is there, as it was sent and with the timestamp of the
// answer. A write whose answer was lost is there as a whole or not at all, also a POST of many
// records or the commit of a batch. No timestamp of a user is assigned twice, and each is greater
// than those known when its request was sent. Counts and usage are the sums of what is listed.
//
// Extension storage promises the same of its revisions and changes, and more: a request with an
// idempotency key happens once; the feed has all changes, in order and without a gap; and each is
// published to the audit at least once. Accounts promise that keys and storage users belong
// together for good.
//
// Buckets promise that an object is read with the MD5 with which it was acknowledged, and that a
// storage node has no file that is neither a body of an object nor garbage, or an audit finds it.
//
// Guests promise that a change with an idempotency key happens once and has one answer, that its
// event is published, in the order of the changes and if it was committed, and that no handoff is
// consumed twice, also in a copy.
//
// All of this holds across a copy to another engine: clients of sync and extension storage are
// refused for a short time, a refused write is not done, and what was acknowledged before and
// after the switch is one history.
//
// The promise holds when the power is cut, too: see TestPowerCut.
//
// While a server runs it answers in bounded time, at worst with 503 and Retry-After. It recovers
// by itself and leaves nothing open.
//
// A fault is written once, and names the engines to which it applies. A service brings a workload:
// how its clients write and read, and what an acknowledgement promises. One server runs the
// workloads of all services, so every fault is tested with every service on every engine that both
// support; FAULT_SERVICE selects one. Tests of one service are in the folder with its name, beside its
// workload; package harness has what all of them share.
//
// All rounds of a test share one data folder, so each recovers what the one before has recovered.
// By default there are as many rounds as a fault has kinds, and some tests run on one engine only;
// FAULT_ROUNDS changes both. The random
// choices of a client follow from FAULT_SEED, the round and the client. The timing does not, so a
// replay repeats the workload and the intended moment, not the instruction at which a process was
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

// newHarness migrates the databases of the settings, and has the workload of every service.
func newHarness(t *testing.T, data string, vars ...string) *harness.Harness {
	t.Helper()
	return harness.New(t, services(), false, data, vars...)
}
