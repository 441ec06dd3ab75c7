package sqlitedb

import (
	"io/fs"
	"syscall"
	"testing"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/errcode"
)

// TestFixableErrors checks that errors which an operator can end get their own sentence instead of "internal error".
func TestFixableErrors(t *testing.T) {
	t.Parallel()
	all := []error{&fs.PathError{Op: "open", Path: "a.db", Err: syscall.EACCES}, &fs.PathError{Op: "open", Path: "a.db", Err: syscall.EMFILE}, &fs.PathError{Op: "open", Path: "a.db", Err: syscall.EROFS}}
	for _, code := range []sqlite.ResultCode{
		sqlite.ResultFull, sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultIOErr, sqlite.ResultIOErrRead, sqlite.ResultIOErrFsync,
		sqlite.ResultIOErrSHMSize, sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultNoMem, sqlite.ResultAuth, sqlite.ResultNoLFS, sqlite.ResultProtocol,
	} {
		all = append(all, code.ToError())
	}
	for _, err := range all {
		if got := classify(err); got == nil || errcode.Message(got) == "internal error" || errcode.Message(got) == "" {
			t.Errorf("%v: %v", err, got)
		}
	}
}
