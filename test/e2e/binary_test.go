// Package e2e uses the built binary like an operator and a client.
package e2e

import (
	"os"
	"testing"

	"holdfast/test/binary"
)

func TestMain(m *testing.M) {
	binary.Select(quick...)
	os.Exit(binary.MainOfWaiting(m, 4))
}

// quick are the tests of `make test`: the first hour of a user with each service, and steps that an operator cannot
// undo. All other tests run in `make check`.
var quick = []string{
	// start, stop, and refusals
	"TestFirstStart", "TestCrash", "TestRefusesToStart", "TestWrongCalls", "TestSecondServer", "TestServicesShareFile", "TestLostSecrets",
	"TestCheck", "TestCheckListeners", "TestReload", "TestHealth", "TestTLS", "TestPublicURLWithPrefix", "TestMalformedPaths", "TestStatusPage",
	// backups, restores, migrations, moves
	"TestBackup", "TestBackupAfterAMove", "TestRestoreService", "TestRestoreOrNothing", "TestRestoreDump",
	"TestClientsOfARestoredServer", "TestNewerSchemaOnSQLite", "TestServeMigrates", "TestTwoProcessesOnOnePostgres", "TestDryRunLeavesNothing", "TestSweep",
	// services
	"TestReferenceNames", "TestOwnQuota", "TestAllowAndDeny", "TestNodes", "TestMoveUser",
	"TestExtensionStorage", "TestMoveToPostgres",
	"TestBuckets", "TestBucketsNative", "TestBucketsOnPostgres", "TestBucketsQuota", "TestBucketsBackup", "TestBucketsHTTP2",
	"TestGuest", "TestGuestByDefault", "TestGuestHandoff", "TestGuestEvents", "TestGuestRedis",
}
