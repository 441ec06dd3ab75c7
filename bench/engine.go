package main

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/testdb"
)

// engine is the server's own database: a SQLite file or a durable PostgreSQL server.
type engine struct {
	name     string
	postgres *testdb.PostgresServer
}

var engines = []string{"sqlite", "postgres"}

// onEngine starts an engine for the time that fn runs.
func onEngine(name string, fn func(*engine) error) (err error) {
	e := &engine{name: name}
	if name == "postgres" {
		if e.postgres, err = testdb.StartPostgres(testdb.PostgresOptions{Durable: true}); err != nil {
			return err
		}
		defer e.postgres.Remove()
	}
	return fn(e)
}

// settings let all servers of a run use the same database in turn, without rate limits for extension storage.
func (e *engine) settings() []string {
	all := []string{
		"HOLDFAST_SERVER__MASTER_SECRET=" + ownSecret, "HOLDFAST_EXTSTORAGE__TOKEN_SECRET=" + ownSecret, "HOLDFAST_BUCKETS__KEY_SECRET=" + ownSecret,
		"HOLDFAST_GUEST__COOKIE_SECRET=" + ownSecret, "HOLDFAST_GUEST__HANDOFF_SECRET=" + ownSecret, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false",
	}
	if e.postgres != nil {
		for _, section := range []string{"SYNCSTORAGE", "TOKENSERVER", "EXTSTORAGE", "BUCKETS", "GUEST"} {
			all = append(all, "HOLDFAST_"+section+"__DATABASE_URL="+e.postgres.URL())
		}
	}
	return all
}

var ownSecret = rand.Text() + rand.Text()

// cpu includes background work. SQLite runs in the server process.
func (e *engine) cpu() (worked, error) {
	if e.postgres == nil {
		return worked{}, nil
	}
	pids, err := family(e.postgres.PID())
	if err != nil {
		return nil, err
	}
	return cpu(pids...)
}

// onPostgres opens a connection for the time that fn runs.
func onPostgres(ctx context.Context, url string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(fn(conn), conn.Close(context.WithoutCancel(ctx)))
}

// execPostgres runs a statement without arguments on its own connection.
func execPostgres(ctx context.Context, url, sql string) error {
	return onPostgres(ctx, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// reader returns the first column of a query's only row, as text.
type reader func(sql string) (text string, err error)

// reading opens a SQLite file or PostgreSQL for the time that fn runs.
func (e *engine) reading(ctx context.Context, file string, fn func(reader) error) error {
	if e.postgres == nil {
		return withFile(file, func(c *sqlite.Conn) error {
			return fn(func(sql string) (text string, err error) {
				err = query(c, sql, func(s *sqlite.Stmt) { text = s.ColumnText(0) })
				return text, err
			})
		})
	}
	return onPostgres(ctx, e.postgres.URL(), func(conn *pgx.Conn) error {
		return fn(func(sql string) (text string, err error) {
			err = conn.QueryRow(ctx, sql).Scan(&text)
			return text, err
		})
	})
}

// checkpoint runs a checkpoint, so that none disturbs the next measurement. It writes a SQLite file's whole log to its
// tables.
func (e *engine) checkpoint(ctx context.Context, file string) error {
	if e.postgres != nil {
		return execPostgres(ctx, e.postgres.URL(), `CHECKPOINT`)
	}
	return withFile(file, func(c *sqlite.Conn) error { return query(c, `PRAGMA wal_checkpoint(TRUNCATE)`, nil) })
}

// withFile opens a SQLite file, which a server may use at the same time, for the time that fn runs.
func withFile(file string, fn func(*sqlite.Conn) error) error {
	c, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(fn(c), c.Close())
}

// query calls row for each row; row may be nil.
func query(c *sqlite.Conn, sql string, row func(*sqlite.Stmt), args ...any) error {
	return sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		if row != nil {
			row(s)
		}
		return nil
	}})
}
