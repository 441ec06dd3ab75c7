package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
)

func unknown(operation string) error { return fmt.Errorf("no limit for %s", operation) }

// checked returns an error for an unexpected row count, because a limit that reads nothing would be fast.
func checked(rows, want int, err error) error {
	if err == nil && rows != want {
		err = fmt.Errorf("read %d rows, want %d", rows, want)
	}
	return err
}

// liteFile is a SQLite file with only the group-commit writer. It cannot be the server's file, because a file can have
// only one writer.
type liteFile struct {
	dir, path string
	db        *sqlitedb.DB
}

func openLite(ctx context.Context, name string, migrations func() (migrate.Set, error)) (f liteFile, err error) {
	if f.dir, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return f, err
	}
	f.path = filepath.Join(f.dir, name)
	if f.db, err = sqlitedb.Open(ctx, sqlitedb.Options{Path: f.path}); err != nil {
		return f, errors.Join(err, os.RemoveAll(f.dir))
	}
	set, err := migrations()
	if err == nil {
		_, err = f.db.Migrate(ctx, set)
	}
	if err != nil {
		return f, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *liteFile) close() error { return errors.Join(f.db.Close(), os.RemoveAll(f.dir)) }

func lite(c *sqlite.Conn, sql string, fn func(*sqlite.Stmt), args ...any) error {
	stmt, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case nil:
			stmt.BindNull(i + 1)
		case int64:
			stmt.BindInt64(i+1, v)
		case string:
			stmt.BindText(i+1, v)
		case []byte:
			stmt.BindBytes(i+1, v)
		default:
			return fmt.Errorf("argument %d: no binding for its type %T", i+1, arg)
		}
	}
	for {
		found, err := stmt.Step()
		if err != nil || !found {
			return errors.Join(err, stmt.Reset())
		}
		if fn != nil {
			fn(stmt)
		}
	}
}

type pgDatabase struct {
	url  string
	pool *pgxpool.Pool
}

func openPostgres(ctx context.Context, e *engine, name string, connections int32, migrations func() (migrate.Set, error)) (d pgDatabase, err error) {
	if err := e.exec(ctx, `CREATE DATABASE `+name); err != nil {
		return d, err
	}
	d.url = strings.Replace(e.postgres.URL(), "@/postgres?", "@/"+name+"?", 1)
	db, err := pgdb.Open(ctx, pgdb.Options{URL: d.url})
	if err != nil {
		return d, err
	}
	defer db.Close()
	set, err := migrations()
	if err != nil {
		return d, err
	}
	if _, err := db.Migrate(ctx, set); err != nil {
		return d, err
	}
	conf, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return d, err
	}
	conf.MaxConns = connections
	d.pool, err = pgxpool.NewWithConfig(ctx, conf)
	return d, err
}

//nolint:unparam // close of a SQLite limit can fail
func (d *pgDatabase) close() error {
	d.pool.Close()
	return nil
}
