package sqlitedb

import (
	"errors"
	"fmt"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/fault"
)

// openError is classify for a file that cannot be opened. It names what an operator
// can do something about without the engine's text.
func openError(path string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultNotADB:
		return fault.New(fault.Unavailable, "the file is not a SQLite database, or is damaged: restore it from a backup")
	case sqlite.ResultCorrupt:
		return fault.New(fault.Unavailable, "the database is damaged: restore it from a backup")
	}
	return classify(fmt.Errorf("open %s: %w", filepath.Base(path), err))
}

// classify codes an error of the engine by its result code. Errors that carry
// a code already, which a service's step returned, pass.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[fault.Coder](err); ok {
		return err
	}
	code := sqlite.ErrCode(err)
	if code == sqlite.ResultIOErrSHMSize { // the index of the log finds no space
		code = sqlite.ResultFull
	}
	switch code.ToPrimary() {
	case sqlite.ResultFull:
		return fault.Wrap(fault.Unavailable, "the disk is full", err)
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return fault.Wrap(fault.Unavailable, "another process holds the database", err)
	case sqlite.ResultIOErr, sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultPerm,
		sqlite.ResultNoMem, sqlite.ResultInterrupt, sqlite.ResultAuth:
		return fault.Wrap(fault.Unavailable, "the database file cannot be used", err)
	}
	return fault.Wrap(fault.Internal, "internal error", err)
}
