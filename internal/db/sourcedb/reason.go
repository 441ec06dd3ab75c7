package sourcedb

import (
	"context"
	"crypto/x509"
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
	errDenied  = errors.New("access denied: check the user, the password, the rights on the database, and the client certificate (ssl_cert, ssl_key; PostgreSQL: sslcert, sslkey) if the user requires one")
	errUnknown = errors.New("the database does not exist")
	errMissing = errors.New("a table or a column is missing: expected the tables of Mozilla's server")
	errNoTLS   = errors.New("the database does not offer TLS: enable it there, or use ssl_mode=DISABLED")
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
	if why := certificateReason(err); why != "" {
		return errors.New("the certificate of the database is not trusted: " + why)
	}
	if errors.Is(err, mysql.ErrNoTLS) {
		return errNoTLS
	}
	if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, mysql.ErrInvalidConn) {
		return errors.New("the database cannot be reached: " + fault.NetworkReason(err))
	}
	return err
}

// certificateReason returns why the certificate of a server was refused, or "".
func certificateReason(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "it is not signed by a known authority: name that authority, or the certificate itself, in ssl_ca (PostgreSQL: sslrootcert)"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "it is for another host: use that name in the URL, or ssl_mode=VERIFY_CA (PostgreSQL: sslmode=verify-ca)"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "it has expired or is not valid yet"
		}
		return "it is not valid for a server"
	}
	return ""
}
