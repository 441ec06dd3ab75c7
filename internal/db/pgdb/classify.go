package pgdb

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"holdfast/internal/db/rows"
	"holdfast/internal/errcode"
	"holdfast/internal/fserror"
)

// SQLSTATEs that callers act on (PostgreSQL manual, appendix A).
const (
	NoTable          = "42P01"
	LockNotAvailable = "55P03"
)

// IsState reports whether err is an error of the server with one of these SQLSTATEs, e.g. "23505" for a unique violation. It
// takes errors before and after they get an errcode; nil has no state.
func IsState(err error, states ...string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(states, pg.Code)
}

// isRetryable reports a serialization failure or a deadlock, after which the transaction can run again.
func isRetryable(err error) bool { return IsState(err, "40001", "40P01") }

// classify gives an error its errcode and a message that a client may read. All exported methods return its result.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, coded := errors.AsType[errcode.Coder](err); coded {
		return err
	}
	var pg *pgconn.PgError
	switch {
	// This case is first, because the driver wraps the context's error.
	case errors.Is(err, context.DeadlineExceeded):
		return &errcode.Error{Code: errcode.Unavailable, Message: "the database took too long", Cause: err, Fix: "look at its load, at locks (pg_stat_activity), and at the network"}
	case errors.Is(err, context.Canceled):
		return errcode.Wrap(errcode.Unavailable, "the request ended before the database answered", err)
	case errors.As(err, &pg):
		// This error is from refuse_write_v1. Citus drops the code when a COPY to a worker fails.
		if pg.Code == "HF503" || pg.Code == "XX000" && pg.Message == "the service is read-only" {
			return rows.ErrReadOnly
		}
		if nodeFailed(pg) {
			return &errcode.Error{Code: errcode.Unavailable, Message: "a node of the database failed", Cause: err, Fix: "look at the workers of the cluster and at their logs"}
		}
		code, message := classifyState(pg.Code)
		return &errcode.Error{Code: code, Message: message, Cause: err, Fix: fixOfState(pg.Code)}
	case lost(err):
		return errcode.Unreachable("the database cannot be reached", err)
	}
	if known := errcode.Explain(err, fserror.Short(err), fserror.Advice(err)); errcode.Is(known, errcode.Unavailable) {
		return known
	}
	return errcode.Wrap(errcode.Internal, "internal error", err)
}

// fixOfState returns advice about a SQLSTATE whose message does not say it, or "".
func fixOfState(state string) string {
	switch state {
	case "53100":
		return "make space on the disk of the database server"
	case "53200":
		return "give the database server more memory, or lower its work_mem and max_connections"
	case "53300":
		return "raise max_connections of the database server, or lower the connections of its clients"
	case "25006":
		return "it is a standby, or default_transaction_read_only is set: connect to the primary"
	case "57014", "25P03":
		return "look at its load, at locks (pg_stat_activity), and at its statement_timeout"
	case "42501":
		return "give the role of database_url the rights for the schema (docs/postgresql.md)"
	case "3D000":
		return "create the database, or correct database_url"
	case "57P03":
		return "the database server is starting or stopping: wait, or look at its log"
	}
	switch class(state) {
	case "28":
		return "correct user and password in database_url, create the role, or allow it in pg_hba.conf"
	case "54":
		return "look at the log of the database server"
	case "55":
		return "retry when the other operation has ended (pg_stat_activity)"
	case "08", "53", "57", "58", "F0":
		return "look at the log of the database server"
	}
	return ""
}

// lost reports whether the connection failed.
func lost(err error) bool {
	var (
		connect *pgconn.ConnectError
		network net.Error
	)
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, puddle.ErrClosedPool)
}

// nodeFailed reports whether a Citus server lost another server. There is no SQLSTATE for this: libpq's errors use
// XX000, as does a server that shuts down.
func nodeFailed(pg *pgconn.PgError) bool {
	return pg.Code == "XX000" && (strings.Contains(pg.Where, "while executing command on ") ||
		strings.HasPrefix(pg.Message, "could not commit transaction for shard ") ||
		strings.HasPrefix(pg.Message, "postmaster was shut down"))
}

// connectError replaces the driver's error, which has lines for each address with and without TLS, by a single line.
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

// Remedy returns a fix for an error that the server itself sent, e.g. for a missing database, for `holdfast check`, and
// "" for other errors, such as a server that is down. setting names the URL's setting, e.g. "sync.database_url".
func Remedy(err error, setting string) string {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	_, refused := errors.AsType[*connectError](err)
	switch {
	case pg.Code == "26000" || pg.Code == "42P05":
		return "add default_query_exec_mode=exec to " + setting
	case !refused:
		return ""
	case pg.Code == "3D000":
		return "create the database, or correct " + setting
	case strings.HasPrefix(pg.Code, "28"):
		return "correct " + setting + ", create the role, or allow it in pg_hba.conf"
	case pg.Code == "42704":
		return "correct " + setting
	}
	return ""
}

// classifyState returns the errcode and the message for a SQLSTATE (PostgreSQL manual, appendix A).
func classifyState(state string) (errcode.Code, string) {
	switch state {
	case "42P01", "42883", "42703", "3F000":
		return errcode.Unavailable, "the schema of the database is outdated: run holdfast migrate"
	case "26000", "42P05":
		return errcode.Unavailable, "a connection pooler does not support prepared statements: add default_query_exec_mode=exec to database_url"
	case "53100":
		return errcode.Unavailable, "the database's disk is full"
	case "53300":
		return errcode.Unavailable, "the database server has no free connection"
	case "25006":
		return errcode.Unavailable, "the database is read-only"
	case "57014", "25P03": // 25P03: idle in transaction for too long
		return errcode.Unavailable, "the database took too long"
	case "XX001", "XX002":
		return errcode.Unavailable, "the database is damaged: restore it, or follow its manual"
	case "42704": // of a role, a type or an extension
		return errcode.Unavailable, "an object is missing in the database: run holdfast migrate"
	case "42501", "3D000":
		return errcode.Unavailable, "the database does not exist, or access is denied"
	case "40001", "40P01", "55P03":
		return errcode.Unavailable, "lock conflict, retry"
	}
	switch class(state) {
	case "0A": // e.g. a statement that Citus does not distribute, or an older server
		return errcode.Unavailable, "the database server does not support a statement, or a plan has changed: retry, or see the guide for its version"
	case "54":
		return errcode.Unavailable, "a limit of the database server is exceeded"
	case "55":
		return errcode.Unavailable, "the database is in use by another operation"
	case "F0":
		return errcode.Unavailable, "the configuration of the database server is not valid"
	case "08", "28", "53", "57", "58":
		return errcode.Unavailable, "the database is unavailable"
	}
	return errcode.Internal, "internal error"
}

// class returns the first two characters, which name the class.
func class(state string) string {
	if len(state) < 2 {
		return ""
	}
	return state[:2]
}
