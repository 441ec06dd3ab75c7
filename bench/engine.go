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

// engine is where the server keeps its records: a file of its own, a
// PostgreSQL server that commits durably, or the emulator of Spanner, which have
// nothing else to do.
type engine struct {
	name     string
	postgres *testdb.PostgresServer
	spanner  *testdb.SpannerServer
	database string // of Spanner, the server's
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

// newDatabase is a name that no database of Spanner has.
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

// spannerCallers is the most connections of the emulator, which takes one
// read-write transaction at a time: more only wait. Batches have a single one,
// which takes a minute already.
const spannerCallers = 4

// connections are the numbers of them that the engine is measured at.
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

// url is the setting of a service's database on PostgreSQL; on other engines the
// service has a file of its own.
func (e *engine) url(section string) []string {
	if e.postgres == nil {
		return nil
	}
	return []string{"HOLDFAST_" + section + "__DATABASE_URL=" + e.postgres.URL()}
}

// cpu is what the engine's own processes have worked so far, those that write
// and tidy up in the background included. SQLite has none: it works in the
// server's. What the emulator works says nothing of Spanner.
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

// connect runs fn with a connection to PostgreSQL.
func (e *engine) connect(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, e.postgres.URL())
	if err != nil {
		return err
	}
	return errors.Join(fn(conn), conn.Close(context.WithoutCancel(ctx)))
}

// exec runs a script on PostgreSQL that is not in a transaction.
func (e *engine) exec(ctx context.Context, script ...string) error {
	return e.connect(ctx, func(conn *pgx.Conn) error {
		for _, sql := range script {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// settle writes to the tables what is only in the log so far: whoever does so
// in the middle of a measurement pays for others.
func (e *engine) settle(ctx context.Context, file string) error {
	if e.spanner != nil {
		return nil // all of it is in memory
	}
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
