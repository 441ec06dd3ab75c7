package pgdb

import (
	"context"
	"io"
	"io/fs"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/errcode"
)

// TestNodeOfCitusFails checks that a client retries after a Citus server lost another server, whatever error this
// causes.
func TestNodeOfCitusFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pgconn.PgError
		code errcode.Code
	}{
		{pgconn.PgError{Code: "08006", Message: "connection to the remote node postgres@worker:5432 failed"}, errcode.Unavailable},
		{pgconn.PgError{Code: "XX000", Message: "SSL SYSCALL error: EOF detected", Where: "while executing command on worker:5432"}, errcode.Unavailable},
		{pgconn.PgError{Code: "XX000", Message: "server closed the connection unexpectedly", Where: "SQL statement\nwhile executing command on worker:5432"}, errcode.Unavailable},
		{pgconn.PgError{Code: "XX000", Message: "could not commit transaction for shard 102008 on at least one active node"}, errcode.Unavailable},
		{pgconn.PgError{Code: "XX000", Message: "postmaster was shut down, exiting"}, errcode.Unavailable},
		{pgconn.PgError{Code: "XX000", Message: "cache lookup failed for type 0"}, errcode.Internal},
		{pgconn.PgError{Code: "23505", Message: "duplicate key", Where: "while executing command on worker:5432"}, errcode.Internal},
	} {
		if got := errcode.Of(classify(&tc.PgError)); got != tc.code {
			t.Errorf("%s %s: %v, want %v", tc.Code, tc.Message, got, tc.code)
		}
		v := &verification{}
		damaged := tc.Code == "XX000" && tc.code == errcode.Internal
		if err := v.note("a table", &tc.PgError); (err == nil) != damaged || (len(v.problems) > 0) != damaged {
			t.Errorf("%s %s: a verification says %q, %v", tc.Code, tc.Message, v.problems, err)
		}
	}
}

// TestRemedy checks that no advice says to start a server that has answered.
func TestRemedy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&connectError{&pgconn.PgError{Code: "3D000"}}, "create the database, or correct guest.database_url"},
		{&connectError{&pgconn.PgError{Code: "28000"}}, "correct guest.database_url, create the role, or allow it in pg_hba.conf"},
		{&connectError{&pgconn.PgError{Code: "28P01"}}, "correct guest.database_url, create the role, or allow it in pg_hba.conf"},
		{&connectError{&pgconn.PgError{Code: "42704"}}, "correct guest.database_url"},
		{&connectError{&pgconn.PgError{Code: "57P03"}}, ""}, // the server is starting
		{&connectError{context.DeadlineExceeded}, ""},
		{&pgconn.PgError{Code: "42704"}, ""},
		{&pgconn.PgError{Code: "42P05"}, "add default_query_exec_mode=exec to guest.database_url"},
		{&pgconn.PgError{Code: "26000"}, "add default_query_exec_mode=exec to guest.database_url"},
	} {
		if got := Remedy(errcode.Wrap(errcode.Unavailable, "no database connection", tc.err), "guest.database_url"); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
}

// TestFixableErrors checks that errors which an operator can end get their own sentence instead of "internal error".
func TestFixableErrors(t *testing.T) {
	t.Parallel()
	all := []error{
		&fs.PathError{Op: "open", Path: "ca.pem", Err: syscall.EMFILE}, &fs.PathError{Op: "open", Path: "ca.pem", Err: syscall.EACCES},
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.DNSError{Name: "db", IsNotFound: true}, &pgconn.ConnectError{Config: &pgconn.Config{}}, io.EOF,
	}
	for _, state := range []string{
		"08006", "0A000", "25006", "28P01", "3D000", "42501", "42704", "42883", "42P01", "53100", "53200", "53300", "54000", "55006", "55P03", "57P03", "58030", "58P01",
		"F0000", "XX001", "XX002",
	} {
		all = append(all, &pgconn.PgError{Code: state, Message: "something"})
	}
	for _, err := range all {
		if got := classify(err); !errcode.Is(got, errcode.Unavailable) || errcode.Message(got) == "internal error" {
			t.Errorf("%T: %s", err, errcode.Message(got))
		}
	}
}
