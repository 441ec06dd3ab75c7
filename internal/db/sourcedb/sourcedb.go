// Package sourcedb reads other servers' MySQL, MariaDB and PostgreSQL databases for imports, in read-only
// transactions: a user with SELECT is enough.
package sourcedb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/db/rows"
)

// DB is another server's database.
type DB struct {
	Where string // URL without the password
	MySQL bool   // or MariaDB; otherwise PostgreSQL

	tls     *tls.Config   // nil: a plain connection
	limit   time.Duration // for connecting and signing in; MySQL only
	connect func(context.Context) (connection, error)
}

type connection interface {
	// each calls fn for each row. Values are nil, int64 or []byte, valid until fn returns.
	each(ctx context.Context, sql string, fn func([]any) error) error
	close()
}

const examples = "mysql://user:password@host/database or postgres://user:password@host/database"

// Open parses a database URL without connecting. Errors omit the URL, which may contain a password.
func Open(address string) (*DB, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("not a URL: expected " + examples + ", with special characters of the password as %XX, such as %2F for /")
	}
	switch u.Scheme {
	case "mysql", "mariadb":
		return openMySQL(u)
	case "postgres", "postgresql":
		return openPostgres(address)
	}
	return nil, fmt.Errorf("the scheme %q is not supported: expected %s", u.Scheme, examples)
}

// Snapshot is a read-only transaction.
type Snapshot struct {
	ctx  context.Context
	conn connection
	db   *DB
}

// Snapshot connects and runs fn in a read-only transaction with a consistent snapshot. Errors name the database and
// contain advice.
func (db *DB) Snapshot(ctx context.Context, fn func(*Snapshot) error) error {
	// Canceling ends a query with unread rows.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := db.connect(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", db.Where, db.connectReason(err))
	}
	defer conn.close()
	if err := fn(&Snapshot{ctx, conn, db}); err != nil {
		cancel()
		return err
	}
	return nil
}

// Each calls fn for each row. Queries must select 64-bit integers, and texts through Bytes. fn must not keep the
// values or run queries.
func (s *Snapshot) Each(sql string, fn func(values []any) error) error {
	return s.each(s.db.Where, sql, fn)
}

// each is Each with another name in errors.
func (s *Snapshot) each(what, sql string, fn func(values []any) error) error {
	var stopped error
	err := s.conn.each(s.ctx, sql, func(values []any) error {
		stopped = fn(values)
		return stopped
	})
	switch {
	case stopped != nil:
		return stopped
	case err != nil:
		return fmt.Errorf("%s: %w", what, s.db.reason(err))
	}
	return nil
}

// Check returns an error that names the table if a column is missing or unreadable.
func (s *Snapshot) Check(table string, columns ...string) error {
	return s.each(s.db.Where+", table "+table, "SELECT "+strings.Join(columns, ", ")+" FROM "+table+" LIMIT 0", func([]any) error { return nil })
}

// Int returns 0 for NULL, or if there is no row.
func (s *Snapshot) Int(sql string) (n int64, err error) {
	err = s.Each(sql, func(v []any) error {
		n, _ = v[0].(int64)
		return nil
	})
	return n, err
}

// Text returns "" for NULL, or if there is no row.
func (s *Snapshot) Text(sql string) (text string, err error) {
	err = s.Each(sql, func(v []any) error {
		b, _ := v[0].([]byte)
		text = string(b)
		return nil
	})
	return text, err
}

// Last returns the last number assigned to a column, or the column's maximum if greater.
func (s *Snapshot) Last(table, column string) (int64, error) {
	greatest, err := s.Int("SELECT " + s.db.Integer("max("+column+")") + " FROM " + table)
	if err != nil {
		return 0, err
	}
	assigned := `SELECT CAST(auto_increment AS SIGNED) - 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = '` + table + `'`
	if !s.db.MySQL {
		// NULL if the user may not read the sequence.
		assigned = `SELECT last_value::bigint FROM pg_sequences
			WHERE format('%I.%I', schemaname, sequencename)::regclass = pg_get_serial_sequence('` + table + `', '` + column + `')::regclass`
	}
	last, err := s.Int(assigned)
	return max(greatest, last), err
}

// Raw reports whether a text column may contain bytes that are not UTF-8.
func (s *Snapshot) Raw(table, column string) (bool, error) {
	if !s.db.MySQL {
		encoding, err := s.Text(`SELECT convert_to(getdatabaseencoding()::text, 'UTF8')`)
		return encoding != "UTF8", err
	}
	charset, err := s.Text(`SELECT character_set_name FROM information_schema.columns
		WHERE table_schema = database() AND table_name = '` + table + `' AND column_name = '` + column + `'`)
	return charset == "" || charset == "binary", err
}

func (db *DB) Integer(expression string) string {
	if db.MySQL {
		return expression
	}
	return "(" + expression + ")::bigint"
}

// Bytes returns an expression that selects a text for Each: in UTF-8, or unchanged if the column is Raw.
func (db *DB) Bytes(expression string) string {
	if db.MySQL {
		return expression
	}
	return "convert_to(" + expression + ", getdatabaseencoding())"
}

func (db *DB) Length(expression string, raw bool) string {
	switch {
	case !db.MySQL:
		return "octet_length(" + expression + ")::bigint"
	case raw:
		return "LENGTH(" + expression + ")"
	}
	return "LENGTH(CONVERT(" + expression + " USING utf8mb4))"
}

func where(scheme, user, host, database string) string {
	u := url.URL{Scheme: scheme, Host: host, Path: "/" + strings.TrimPrefix(database, "/")}
	if user != "" {
		u.User = url.User(user)
	}
	return u.String()
}

// Where returns a condition that is true if the owner column is in the span.
func Where(column string, span rows.Span) string {
	var sql strings.Builder
	sql.WriteString(" WHERE true")
	for _, bound := range []struct {
		operator string
		owner    rows.Row
	}{{" = ", span.Only}, {" > ", span.After}, {" <= ", span.Until}} {
		if len(bound.owner) > 0 {
			sql.WriteString(" AND " + column + bound.operator + strconv.FormatInt(bound.owner[0].(int64), 10))
		}
	}
	if len(span.Among) > 0 {
		all := make([]string, len(span.Among))
		for i, owner := range span.Among {
			all[i] = strconv.FormatInt(owner[0].(int64), 10)
		}
		sql.WriteString(" AND " + column + " IN (" + strings.Join(all, ", ") + ")")
	}
	return sql.String()
}
