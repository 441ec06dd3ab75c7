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
		return errcode.Wrap(errcode.Unavailable, "the disk is full", err)
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return errcode.Wrap(errcode.Unavailable, "another process has locked the database", err)
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return errcode.Wrap(errcode.Internal, "the database file is damaged", err)
	case sqlite.ResultInterrupt: // statements are interrupted when a context ends
		return errcode.Wrap(errcode.Unavailable, "the request ended before the database had answered", err)
	case sqlite.ResultIOErr, sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultNoMem, sqlite.ResultAuth, sqlite.ResultNoLFS, sqlite.ResultProtocol:
		return errcode.Wrap(errcode.Unavailable, "the database file cannot be used", err)
	}
	if says := fserror.Short(err); says != "" {
		return errcode.Wrap(errcode.Unavailable, says, err)
	}
	return errcode.Wrap(errcode.Internal, "internal error", err)
}
