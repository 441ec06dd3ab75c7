package sourcedb

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/errcode"
)

const (
	// These are MySQL's error numbers (MySQL Server Error Message Reference).
	errTooMany         = 1040
	errDatabaseDenied  = 1044
	errAccessDenied    = 1045
	errNoDatabase      = 1049
	errShutdown        = 1053
	errNoColumn        = 1054
	errHostBlocked     = 1129
	errHostDenied      = 1130
	errTableDenied     = 1142
	errColumnDenied    = 1143
	errNoTable         = 1146
	errUnknownVariable = 1193
	errTooManyOfUser   = 1203
	errLimitOfUser     = 1226
)

var (
	errUnknown   = errors.New("the database does not exist")
	errMissing   = errors.New("the table or one of its columns does not exist: expected the tables of Mozilla's server")
	errGrant     = errors.New("access denied: grant SELECT on all tables of the database to the user")
	errBusy      = errors.New("the database has too many connections: raise its limit, or end some")
	errStopping  = errors.New("the database is starting or shutting down: run the same command again when it is up")
	errClosed    = errors.New("the database closed the connection: check that it is up, then run the same command again")
	errHost      = errors.New("the database does not accept connections from this host: create the user for it, such as 'user'@'%'")
	errPlugin    = errors.New("the user signs in with an authentication plugin that is not supported: create a user with a password for the import")
	errNoConnect = errors.New("access denied: grant CONNECT on the database to the user")
	errNoTLS     = errors.New("the database does not offer TLS: enable it there, or use ssl_mode=DISABLED")
)

// words are the names of the TLS parameters, as the user typed them in the URL.
type words struct{ mode, ca, cert, key, verifyCA string }

func (db *DB) words() words {
	if db.MySQL {
		return words{"ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "ssl_mode=VERIFY_CA"}
	}
	return words{"sslmode", "sslrootcert", "sslcert", "sslkey", "sslmode=verify-ca"}
}

// reason returns an error with advice for an operator, without the driver's text where possible.
func (db *DB) reason(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return db.mysqlReason(e)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return db.postgresReason(e)
	}
	if why := db.certificateReason(err); why != "" {
		return errors.New("the certificate of the database is not trusted: " + why)
	}
	if isClosed(err) {
		return errClosed
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return fmt.Errorf("the database cannot be reached: %s: check that it is up, and the host and the port", errcode.NetworkReason(err))
	}
	return err
}

func isClosed(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, mysql.ErrInvalidConn}, func(closed error) bool { return errors.Is(err, closed) })
}

func (db *DB) mysqlReason(e *mysql.MySQLError) error {
	switch e.Number {
	case errAccessDenied:
		return db.denied()
	case errDatabaseDenied:
		return errors.New("the database does not exist, or the user has no rights on it: grant SELECT on all its tables")
	case errNoDatabase:
		return errUnknown
	case errNoTable, errNoColumn:
		return errMissing
	case errTableDenied, errColumnDenied:
		return errGrant
	case errHostBlocked, errHostDenied:
		return errHost
	case errTooMany, errTooManyOfUser, errLimitOfUser:
		return errBusy
	case errShutdown:
		return errStopping
	}
	return e
}

func (db *DB) postgresReason(e *pgconn.PgError) error {
	switch e.Code {
	case "28000", "28P01":
		return db.denied()
	case "3D000":
		return errUnknown
	case "42P01", "42703":
		return errMissing
	case "42501":
		return errGrant
	case "53300":
		return errBusy
	case "57P01", "57P02", "57P03":
		return errStopping
	}
	return e
}

// denied explains why the server refused the user.
func (db *DB) denied() error {
	w := db.words()
	if db.hasCertificate() {
		return fmt.Errorf("access denied: check the user, the password, and whether %s is the certificate of this user", w.cert)
	}
	return fmt.Errorf("access denied: check the user and the password; if the user requires TLS or a client certificate, set %s, %s and %s", w.mode, w.cert, w.key)
}

func (db *DB) hasCertificate() bool { return db.tls != nil && len(db.tls.Certificates) > 0 }

// connectReason is reason for an error while connecting.
func (db *DB) connectReason(err error) error {
	switch why := db.reason(err); {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, mysql.ErrNoTLS):
		return errNoTLS
	case errors.Is(why, errGrant):
		return errNoConnect
	case slices.ContainsFunc([]error{mysql.ErrUnknownPlugin, mysql.ErrCleartextPassword, mysql.ErrOldPassword}, func(plugin error) bool { return errors.Is(err, plugin) }):
		return errPlugin
	case isDial(err):
		return why
	case db.hasCertificate() && (isClosed(err) || isAlert(err) || isReset(err)):
		// A server that rejects a certificate may close the connection before the client reads the reason.
		w := db.words()
		return fmt.Errorf("the database does not accept the client certificate: check that %s is signed by an authority that the database knows, and has not expired", w.cert)
	case isAlert(err):
		return errors.New("the database ended the TLS handshake: check that it supports TLS 1.2 or later")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(why, err):
		return db.otherServer()
	default:
		return why
	}
}

// isDial reports whether no connection was made.
func isDial(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial"
}

// isAlert reports whether the server sent a TLS alert.
func isAlert(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "remote error"
}

// isReset reports whether the connection broke.
func isReset(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && (e.Op == "read" || e.Op == "write") && !e.Timeout()
}

// otherServer explains a server that speaks another protocol.
func (db *DB) otherServer() error {
	if db.MySQL {
		return errors.New("the server does not respond as MySQL or MariaDB: check the host and the port, and use postgres:// for PostgreSQL")
	}
	return errors.New("the server does not respond as PostgreSQL: check the host and the port; use mysql:// for MySQL or MariaDB, and sslmode=disable if it does not offer TLS")
}

// certificateReason explains a rejected server certificate, or returns "".
func (db *DB) certificateReason(err error) string {
	w := db.words()
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "it is not signed by a known authority: name that authority, or the certificate itself, in " + w.ca
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "it is for another host: use that name in the URL, or " + w.verifyCA
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "it has expired or is not valid yet"
		}
		return "it is not valid for a server"
	}
	return ""
}
