package pgdb

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"holdfast/internal/fault"
)

// isRetryable reports whether the server took back a step so that others could go
// on; nothing of the step is there and it may be tried again.
func isRetryable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// classify codes an error of the driver. Errors that carry a code already,
// which a service's step returned, pass.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, coded := errors.AsType[fault.Coder](err); coded {
		return err
	}
	var pg *pgconn.PgError
	switch {
	// First what the caller did: the driver wraps it in whatever it caused.
	case errors.Is(err, context.DeadlineExceeded): // a step without patience is canceled as well
		return fault.Wrap(fault.Unavailable, "the database took too long", err)
	case errors.Is(err, context.Canceled):
		return fault.Wrap(fault.Unavailable, "the request ended before the database answered", err)
	case errors.As(err, &pg):
		code, message := classifyState(pg.Code)
		return fault.Wrap(code, message, err)
	case lost(err):
		return fault.Wrap(fault.Unavailable, "the database cannot be reached", err)
	}
	return fault.Wrap(fault.Internal, "internal error", err)
}

// lost reports an error of the connection rather than of the server.
func lost(err error) bool {
	var (
		connect *pgconn.ConnectError
		network net.Error
	)
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, puddle.ErrClosedPool)
}

// connectError says in one line why there is no connection. The driver's text has a
// line for each address and each way of encryption that it tried.
type connectError struct{ err error }

func (e *connectError) Unwrap() error { return e.err }

func (e *connectError) Error() string {
	if pg, ok := errors.AsType[*pgconn.PgError](e.err); ok {
		return "PostgreSQL: " + pg.Message
	}
	if dns, ok := errors.AsType[*net.DNSError](e.err); ok && dns.IsNotFound {
		return "unknown host " + dns.Name
	}
	if errors.Is(e.err, context.DeadlineExceeded) {
		return "timed out"
	}
	op, ok := errors.AsType[*net.OpError](e.err)
	errno, known := errors.AsType[syscall.Errno](e.err)
	if ok && known && op.Addr != nil {
		return op.Addr.String() + ": " + errno.Error()
	}
	return e.err.Error()
}

// classifyState is the code and sentence for an SQLSTATE (PostgreSQL manual,
// appendix A).
func classifyState(state string) (fault.Code, string) {
	switch state {
	case "42P01", "42883", "42703", "3F000": // a table, function, column or schema is missing
		return fault.Unavailable, "the database lacks what this release needs: run holdfast migrate"
	case "26000", "42P05": // a prepared statement is on another connection
		return fault.Unavailable, "a connection pooler keeps no prepared statements: add default_query_exec_mode=exec to database_url"
	case "53100":
		return fault.Unavailable, "the database's disk is full"
	case "53300":
		return fault.Unavailable, "the database has no connection left"
	case "25006":
		return fault.Unavailable, "the database is read-only"
	case "57014", "25P03": // the latter of a transaction that was idle for too long
		return fault.Unavailable, "the database took too long"
	case "42501", "3D000":
		return fault.Unavailable, "the database, or the right to use it, is missing"
	case "40001", "40P01", "55P03":
		return fault.Unavailable, "others hold what the request needs"
	}
	switch class(state) {
	case "08", "28", "53", "57", "58": // connection, authorization, resources, operator, system
		return fault.Unavailable, "the database cannot serve"
	}
	return fault.Internal, "internal error"
}

func class(state string) string {
	if len(state) < 2 {
		return ""
	}
	return state[:2]
}
