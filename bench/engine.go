package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/testdb"
)

// engine is where the server keeps its records: a file of its own, or a
// PostgreSQL server that commits durably and has nothing else to do.
type engine struct {
	name     string
	postgres *testdb.PostgresServer // nil: SQLite
}

var engines = []string{"sqlite", "postgres"}

func openEngine(name string) (e *engine, err error) {
	e = &engine{name: name}
	if name == "postgres" {
		e.postgres, err = testdb.StartPostgres(testdb.PostgresOptions{Durable: true})
	}
	return e, err
}

func (e *engine) close() {
	if e.postgres != nil {
		e.postgres.Remove()
	}
}

// env are the settings of a server on this engine. Both rooms are on it.
func (e *engine) env() []string {
	if e.postgres == nil {
		return nil
	}
	url := e.postgres.URL()
	return []string{"HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + url, "HOLDFAST_TOKENSERVER__DATABASE_URL=" + url}
}

// cpu is what the engine's own processes have worked so far, those that write
// and tidy up in the background included. SQLite has none: it works in the
// server's.
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

// exec runs a script on PostgreSQL that is not in a transaction.
func (e *engine) exec(ctx context.Context, scripts ...string) error {
	conn, err := pgx.Connect(ctx, e.postgres.URL())
	if err != nil {
		return err
	}
	for _, sql := range scripts {
		if _, err = conn.Exec(ctx, sql); err != nil {
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// settle writes to the tables what is only in the log so far: whoever does so
// in the middle of a measurement pays for others.
func (e *engine) settle(ctx context.Context, file string) error {
	if e.postgres != nil {
		return e.exec(ctx, `CHECKPOINT`)
	}
	return withFile(file, func(c *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(c, `PRAGMA wal_checkpoint(TRUNCATE)`, nil)
	})
}

// withFile opens a SQLite file beside whoever else has it open.
func withFile(file string, fn func(*sqlite.Conn) error) error {
	c, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(fn(c), c.Close())
}

// file is the sync room's SQLite file in a data folder.
func file(data string) string { return filepath.Join(data, "syncstorage.db") }
