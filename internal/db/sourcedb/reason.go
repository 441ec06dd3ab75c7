package sourcedb

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/fault"
)

// Error numbers of MySQL.
const (
	errDatabaseDenied  = 1044
	errAccessDenied    = 1045
	errNoDatabase      = 1049
	errNoColumn        = 1054
	errTableDenied     = 1142
	errColumnDenied    = 1143
	errNoTable         = 1146
	errUnknownVariable = 1193
)

// Errors of the source that the operator can fix.
var (
	errDenied  = errors.New("access denied: check the user and the password")
	errUnknown = errors.New("the database does not exist")
	errMissing = errors.New("a table or a column is missing: expected the tables of Mozilla's server")
	errGrant   = errors.New("a table cannot be read: grant SELECT on all tables to the user")
)

// reason returns an error of the database in words for the operator.
func reason(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch e.Number {
		case errAccessDenied, errDatabaseDenied:
			return errDenied
		case errNoDatabase:
			return errUnknown
		case errNoTable, errNoColumn:
			return errMissing
		case errTableDenied, errColumnDenied:
			return errGrant
		}
		return err
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "28000", "28P01":
			return errDenied
		case "3D000":
			return errUnknown
		case "42P01", "42703":
			return errMissing
		case "42501":
			return errGrant
		}
		return err
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, mysql.ErrInvalidConn) {
		return errors.New("the database cannot be reached: " + fault.NetworkReason(err))
	}
	return err
}
