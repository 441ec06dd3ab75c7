package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/testdb"
)

// engine is the server's own database: a SQLite file, a durable PostgreSQL server, or the Spanner emulator.
type engine struct {
	name     string
	postgres *testdb.PostgresServer
	spanner  *testdb.SpannerServer
	database string
}

var engines = []string{"sqlite", "postgres", "spanner"}

func openEngine(name string) (e *engine, err error) {
	e = &engine{name: name}
	switch name {
	case "postgres":
		e.postgres, err = testdb.StartPostgres(testdb.PostgresOptions{Durable: true})
	case "spanner":
		e.spanner, err = testdb.StartSpanner()
		e.database = newDatabase()
	}
	return e, err
}

func newDatabase() string {
	id := "b" + strings.ToLower(rand.Text()[:16])
	return "projects/bench/instances/" + id + "/databases/" + id
}

func (e *engine) close() {
	if e.postgres != nil {
		e.postgres.Remove()
	}
	if e.spanner != nil {
		e.spanner.Remove()
	}
}

// spannerCallers limits connections to the emulator, which serializes read-write transactions. Batches use a single
// connection and take a minute.
const spannerCallers = 4

func (e *engine) connections(all []int) []int {
	if e.spanner == nil {
		return all
	}
	var fewer []int
	for _, n := range all {
		fewer = append(fewer, min(n, spannerCallers))
	}
	return slices.Compact(fewer)
}

func (e *engine) url(section string) []string {
	if e.postgres == nil {
		return nil
	}
	return []string{"HOLDFAST_" + section + "__DATABASE_URL=" + e.postgres.URL()}
}

// cpu includes background work. SQLite runs in the server process, and figures from the emulator do not apply to
// Spanner.
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

func (e *engine) connect(ctx context.Context, fn func(*pgx.Conn) error) error {
	return connectTo(ctx, e.postgres.URL(), fn)
}

func connectTo(ctx context.Context, url string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(fn(conn), conn.Close(context.WithoutCancel(ctx)))
}

func (e *engine) exec(ctx context.Context, script ...string) error {
	return execOn(ctx, e.postgres.URL(), script...)
}

func execOn(ctx context.Context, url string, script ...string) error {
	return connectTo(ctx, url, func(conn *pgx.Conn) error {
		for _, sql := range script {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle runs a checkpoint, so that none disturbs the next measurement.
func (e *engine) settle(ctx context.Context, file string) error {
	if e.spanner != nil {
		return nil
	}
	if e.postgres != nil {
		return e.exec(ctx, `CHECKPOINT`)
	}
	return withFile(file, func(c *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(c, `PRAGMA wal_checkpoint(TRUNCATE)`, nil)
	})
}

func withFile(file string, fn func(*sqlite.Conn) error) error {
	c, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(fn(c), c.Close())
}
