package sqlitedb_test

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
)

// TestRemedy checks that advice about a file names its disk, and never a server to start.
func TestRemedy(t *testing.T) {
	t.Parallel()
	for code, want := range map[sqlite.ResultCode]string{
		sqlite.ResultFull: "make space on the disk of /data", sqlite.ResultIOErrSHMSize: "make space on the disk of /data",
		sqlite.ResultCorrupt: "restore the file from a backup", sqlite.ResultNotADB: "restore the file from a backup", sqlite.ResultIOErrRead: "restore the file",
		sqlite.ResultBusy: "the other process", sqlite.ResultReadOnly: "write to /data", sqlite.ResultCantOpen: "the log of the kernel", sqlite.ResultError: "check --deep",
	} {
		if got := sqlitedb.Remedy(code.ToError(), "/data/guest.db"); !strings.Contains(got, want) || strings.Contains(got, "start the database") {
			t.Errorf("%v: %q, want %q", code, got, want)
		}
	}
}
