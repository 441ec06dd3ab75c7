package sqlitedb

import (
	"errors"
	"fmt"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
)

// openError returns Open's error: for a file that is damaged or not a database without SQLite's text.
func openError(path string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultNotADB:
		return quiet{errcode.New(errcode.Unavailable, "the file is not a SQLite database, or is damaged: restore it from a backup"), err}
	case sqlite.ResultCorrupt:
		return quiet{errcode.New(errcode.Unavailable, "the database is damaged: restore it from a backup"), err}
	}
	return classify(fmt.Errorf("open %s: %w", filepath.Base(path), err))
}

// quiet prints only its message, and still unwraps to the cause.
type quiet struct {
	said  *errcode.Error
	cause error
}

func (q quiet) Error() string { return q.said.Error() }

func (q quiet) Unwrap() []error { return []error{q.said, q.cause} }

// classify gives SQLite's errors their errcode. All exported methods return its result.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[errcode.Coder](err); ok {
		return err
	}
	code := sqlite.ErrCode(err)
	if code == sqlite.ResultConstraintTrigger { // only Close creates such triggers
		return rows.ErrReadOnly
	}
	if code == sqlite.ResultIOErrSHMSize { // no space for the WAL index
		code = sqlite.ResultFull
	}
	switch code.ToPrimary() {
	case sqlite.ResultFull:
		return &errcode.Error{Code: errcode.Unavailable, Message: "the disk is full", Cause: err, Fix: "make space on the disk of the database, and compare df and df -i"}
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return &errcode.Error{Code: errcode.Unavailable, Message: "another process has locked the database", Cause: err, Fix: "end that process, e.g. a second server or an open sqlite3 shell"}
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return &errcode.Error{Code: errcode.Internal, Message: "the database file is damaged", Cause: err, Fix: "restore it from a backup, and check the disk"}
	case sqlite.ResultInterrupt: // statements are interrupted when a context ends
		return errcode.Wrap(errcode.Unavailable, "the request ended before the database had answered", err)
	case sqlite.ResultIOErr, sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultNoMem, sqlite.ResultAuth, sqlite.ResultNoLFS, sqlite.ResultProtocol:
		return &errcode.Error{Code: errcode.Unavailable, Message: "the database file cannot be used", Cause: err, Fix: "look at its owner and mode (ls -l), at the mount options, and at the log of the kernel (dmesg)"}
	}
	if known := errcode.Explain(err, fserror.Short(err), fserror.Advice(err)); errcode.Is(known, errcode.Unavailable) {
		return known
	}
	return errcode.Wrap(errcode.Internal, "internal error", err)
}
