package sourcedb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

const connectTimeout = 30 * time.Second

// openMySQL accepts mysql://user:password@host:port/database with two kinds of parameters that Mozilla's server
// knows: unix_socket, and the TLS parameters (see connectTLS).
func openMySQL(u *url.URL) (*DB, error) {
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.Trim(u.Path, "/")
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(orElse(u.Hostname(), "127.0.0.1"), orElse(u.Port(), "3306"))
	cfg.Collation = "utf8mb4_general_ci"
	query := u.Query()
	for name := range query {
		if !slices.Contains(parameters, name) {
			return nil, fmt.Errorf("unknown parameter %q: expected one of %s", name, strings.Join(parameters, ", "))
		}
	}
	if socket := query.Get("unix_socket"); socket != "" {
		cfg.Net, cfg.Addr = "unix", socket
	}
	if err := connectTLS(cfg, u.Hostname(), query); err != nil {
		return nil, err
	}
	if cfg.DBName == "" {
		return nil, errors.New("no name of a database: expected " + examples)
	}
	if _, err := mysql.NewConnector(cfg); err != nil {
		return nil, errors.New("not a URL of a database: expected " + examples)
	}
	db := &DB{Where: where("mysql", cfg.User, u.Host, cfg.DBName), MySQL: true, tls: cfg.TLS, limit: connectTimeout}
	db.connect = func(ctx context.Context) (connection, error) { return connectMySQL(ctx, cfg.Clone(), db.limit) }
	return db, nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// mysqlConn is a connection in a read-only transaction. It uses the driver without database/sql, which would copy
// each row.
type mysqlConn struct {
	driver.Conn
	query driver.QueryerContext
	exec  driver.ExecerContext
	cause *cause
}

// cause is the driver's logger. It keeps the first logged error: the reason why the connection broke, which the
// driver's returned error omits.
type cause struct {
	mu  sync.Mutex
	err error
}

func (c *cause) Print(values ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range values {
		if err, ok := v.(error); ok && c.err == nil {
			c.err = err
		}
	}
}

// of returns the logged reason for an error that the server did not send.
func (c *cause) of(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, fromServer := errors.AsType[*mysql.MySQLError](err); fromServer || c.err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return c.err
}

// signIn connects and signs in within limit.
func signIn(ctx context.Context, cfg *mysql.Config, limit time.Duration) (driver.Conn, error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return connector.Connect(limited)
}

// connectMySQL signs in and begins a consistent snapshot.
func connectMySQL(ctx context.Context, cfg *mysql.Config, limit time.Duration) (_ connection, err error) {
	why := &cause{}
	cfg.Logger = why
	conn, err := signIn(ctx, cfg, limit)
	if err != nil {
		return nil, why.of(err)
	}
	c := mysqlConn{Conn: conn, cause: why}
	var isQueryer, isExecer bool
	c.query, isQueryer = conn.(driver.QueryerContext)
	c.exec, isExecer = conn.(driver.ExecerContext)
	if !isQueryer || !isExecer {
		return nil, errors.Join(errors.New("the driver of MySQL lacks an interface"), conn.Close())
	}
	for _, sql := range []string{
		// A slow target must not end a query.
		`SET SESSION net_write_timeout = 3600, SESSION wait_timeout = 86400`,
		`SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ`,
		`START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY`,
	} {
		if _, err := c.exec.ExecContext(ctx, sql, nil); err != nil {
			return nil, errors.Join(why.of(err), conn.Close())
		}
	}
	for _, sql := range []string{
		`SET SESSION max_statement_time = 0`,
		`SET SESSION max_execution_time = 0`,
		`SET SESSION information_schema_stats_expiry = 0`, // MySQL only, for Last
	} {
		if _, err := c.exec.ExecContext(ctx, sql, nil); err != nil {
			if e, ok := errors.AsType[*mysql.MySQLError](err); !ok || e.Number != errUnknownVariable {
				return nil, errors.Join(why.of(err), conn.Close())
			}
		}
	}
	return c, nil
}

func (c mysqlConn) close() { _ = c.Conn.Close() }

// each runs a query; see connection.
func (c mysqlConn) each(ctx context.Context, sql string, fn func([]any) error) (err error) {
	result, err := c.query.QueryContext(ctx, sql, nil)
	if err != nil {
		return c.cause.of(err)
	}
	ended := false
	defer func() {
		if ended { // otherwise Close would read the remaining rows: the caller closes the connection
			err = errors.Join(err, result.Close())
		}
	}()
	values := make([]driver.Value, len(result.Columns()))
	row := make([]any, len(values))
	for {
		switch err := result.Next(values); {
		case errors.Is(err, io.EOF):
			ended = true
			return nil
		case err != nil:
			return c.cause.of(err)
		}
		for i, v := range values {
			if row[i], err = value(v); err != nil {
				return err
			}
		}
		if err := fn(row); err != nil {
			return err
		}
	}
}

// value converts a driver's value to nil, int64 or []byte.
func value(v driver.Value) (any, error) {
	switch v := v.(type) {
	case nil, int64:
		return v, nil
	case []byte:
		if v == nil {
			return []byte{}, nil
		}
		return v, nil
	case string:
		return []byte(v), nil
	case uint64:
		return int64(min(v, math.MaxInt64)), nil
	}
	return nil, fmt.Errorf("a column has the unexpected type %T", v)
}
