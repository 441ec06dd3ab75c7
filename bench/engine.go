package main

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"

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

// address returns where the engine stores the tables of a SQLite file.
func (e *engine) address(file string) string {
	if e.postgres != nil {
		return e.postgres.URL()
	}
	return file
}

// checkpoint runs a checkpoint, so that none disturbs the next measurement. It writes a SQLite file's whole log to its
// tables.
func (e *engine) checkpoint(ctx context.Context, file string) error {
	statement := `PRAGMA wal_checkpoint(TRUNCATE)`
	if e.postgres != nil {
		statement = `CHECKPOINT`
	}
	_, err := ask(ctx, e.address(file), statement)
	return err
}

// query runs a statement, and returns the first column of its row as text; "" without rows.
type query func(sql string) (text string, err error)

// connect opens PostgreSQL at a URL, or a SQLite file, which a server may use at the same time, while fn runs.
func connect(ctx context.Context, address string, fn func(query) error) error {
	if filepath.IsAbs(address) {
		c, err := sqlite.OpenConn(address, sqlite.OpenReadWrite)
		if err != nil {
			return err
		}
		return errors.Join(fn(func(sql string) (text string, err error) {
			err = sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error { text = s.ColumnText(0); return nil }})
			return text, err
		}), c.Close())
	}
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	return errors.Join(fn(func(sql string) (text string, err error) {
		if err = c.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(&text); errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return text, err
	}), c.Close(context.WithoutCancel(ctx)))
}

// ask runs a single statement on its own connection; see connect.
func ask(ctx context.Context, address, sql string) (text string, err error) {
	err = connect(ctx, address, func(run query) (err error) {
		text, err = run(sql)
		return err
	})
	return text, err
}
