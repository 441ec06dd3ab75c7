package sqlitedb

import (
	"errors"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/fault"
)

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
