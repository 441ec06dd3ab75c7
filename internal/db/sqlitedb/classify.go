package sqlitedb

import (
	"errors"
	"fmt"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/rows"
	"holdfast/internal/fault"
)

// openError is classify for a file that cannot be opened. Errors that an operator can fix
// do not have the text of the engine.
func openError(path string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultNotADB:
		return fault.New(fault.Unavailable, "the file is not a SQLite database, or is damaged: restore it from a backup")
	case sqlite.ResultCorrupt:
		return fault.New(fault.Unavailable, "the database is damaged: restore it from a backup")
	}
	return classify(fmt.Errorf("open %s: %w", filepath.Base(path), err))
}

// classify adds a fault code to an error of the engine by its result code. It returns an
// error with a code, such as one of a service, unchanged.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[fault.Coder](err); ok {
		return err
	}
	code := sqlite.ErrCode(err)
	if code == sqlite.ResultConstraintTrigger { // the only triggers are those of Close
		return rows.ErrReadOnly
	}
	if code == sqlite.ResultIOErrSHMSize { // no space for the index of the WAL
		code = sqlite.ResultFull
	}
	switch code.ToPrimary() {
	case sqlite.ResultFull:
		return fault.Wrap(fault.Unavailable, "the disk is full", err)
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return fault.Wrap(fault.Unavailable, "another process has locked the database", err)
	case sqlite.ResultIOErr, sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultPerm,
		sqlite.ResultNoMem, sqlite.ResultInterrupt, sqlite.ResultAuth:
		return fault.Wrap(fault.Unavailable, "the database file cannot be used", err)
	}
	return fault.Wrap(fault.Internal, "internal error", err)
}
