package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/db/sqlitedb"
)

// stmt is SQL with its arguments.
type stmt struct {
	sql  string
	args []any
	// rows is the number of rows that the statement must return, or change. A limit that touches none would be fast. -1
	// means any number.
	rows int
}

// sql returns a statement that may touch any number of rows.
func sql(text string, args ...any) stmt { return stmt{text, args, -1} }

// want returns the statement with the number of rows that it must return or change.
func (s stmt) want(rows int) stmt {
	s.rows = rows
	return s
}

// bind returns the arguments with numbers instead of cells.
func (s *stmt) bind(number func(cell) int64) []any {
	args := slices.Clone(s.args)
	for i, arg := range args {
		if c, ok := arg.(cell); ok {
			args[i] = number(c) + c.plus
		}
	}
	return args
}

// check returns an error if a statement touched another number of rows than it must.
func (s *stmt) check(rows int) error {
	if s.rows >= 0 && rows != s.rows {
		return fmt.Errorf("%d rows, want %d, for %s", rows, s.rows, s.sql)
	}
	return nil
}

// tx is the least work for an operation: the reads, and then the writes, of a transaction.
type tx struct{ reads, writes []stmt }

// read returns a transaction that only reads; write returns a transaction that only writes.
func read(all ...stmt) tx { return tx{reads: all} }

func write(all ...stmt) tx { return tx{writes: all} }

// cell is an argument for a write: a number in the last row of a read, plus a number.
type cell struct {
	read, column int
	plus         int64
}

// bare is the bare engine with a copy of the server's tables: a SQLite file can have only one writer, and events that
// are never published must not mix with the server's.
type bare struct {
	database

	engine *engine
	owners int    // whose records the tables contain
	dir    string // removed by close
	file   string // the copy, if the engine is SQLite
}

// database is the bare engine.
type database interface {
	run(ctx context.Context, t tx) error
	close() error
}

// copy copies the server's tables, which contain the records of owners. On PostgreSQL the server restarts, because only an
// unused database can be copied.
func (l *load) copy(ctx context.Context, s *server, owners int) (b *bare, err error) {
	b = &bare{engine: s.engine, owners: owners}
	if b.dir, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return nil, err
	}
	if s.engine.postgres != nil {
		b.database, err = copyPostgres(ctx, s, l.connections)
	} else {
		b.file = filepath.Join(b.dir, "bare.db")
		b.database, err = copyLite(ctx, s.file(l.file), b.file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy the tables: %w", err), os.RemoveAll(b.dir))
	}
	if l.open != nil {
		if err := l.open(b); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

// checkpoint keeps the engine's checkpoints out of the next measurement, as on the server's side.
func (b *bare) checkpoint(ctx context.Context) error { return b.engine.checkpoint(ctx, b.file) }

// close also deletes the copy's folder. On PostgreSQL the copied database remains until its server is removed.
func (b *bare) close() error { return errors.Join(b.database.close(), os.RemoveAll(b.dir)) }

func (b *bare) onSQLite() bool { return b.engine.postgres == nil }

// either returns the statement for the engine.
func (b *bare) either(lite, postgres string) string {
	if b.onSQLite() {
		return lite
	}
	return postgres
}

// anyOwner returns an owner's number, from 1. A caller gets its last connection again. Varying owners make its cache similar
// to the server's caches, because the server's connections serve all callers.
func (b *bare) anyOwner() int { return 1 + rand.IntN(b.owners) }

// transactions returns an operation's limit that runs a transaction.
func transactions(do func(b *bare, caller, i int) tx) func(*bare) step {
	return func(b *bare) step {
		return func(ctx context.Context, c, i int) error { return b.run(ctx, do(b, c, i)) }
	}
}

// window repeats an operation's statements with callers in parallel.
func (b *bare) window(ctx context.Context, of *operation, callers int, d time.Duration) (sample, error) {
	p, err := rounds(lasting(d), of.times, func(more while) (phase, error) {
		if of.prepareLimit != nil {
			if err := of.prepareLimit(ctx, b, callers); err != nil {
				return phase{}, err
			}
		}
		return drive(ctx, callers, more, of.limit(b))
	})
	if err != nil {
		return sample{}, err
	}
	return p.sample(), nil
}

// liteFile is a SQLite file with only the group-commit writer.
type liteFile struct{ db *sqlitedb.DB }

// copyLite copies a server's file, while the server runs, to a new file, and opens the copy like the server.
func copyLite(ctx context.Context, from, to string) (database, error) {
	if _, err := ask(ctx, from, `VACUUM INTO '`+strings.ReplaceAll(to, "'", "''")+`'`); err != nil {
		return nil, err
	}
	db, err := sqlitedb.Open(ctx, sqlitedb.Options{Path: to})
	return liteFile{db}, err
}

func (f liteFile) close() error { return f.db.Close() }

// run commits the writes in a group with other callers' writes. Without writes, it reads a snapshot.
func (f liteFile) run(ctx context.Context, t tx) error {
	got := make([][]value, len(t.reads))
	reads := func(c *sqlite.Conn) (err error) {
		for i := 0; i < len(got) && err == nil; i++ {
			got[i], err = t.reads[i].onSQLite(c, nil)
		}
		return err
	}
	writes := func(c *sqlite.Conn) (err error) {
		for i := 0; i < len(t.writes) && err == nil; i++ {
			_, err = t.writes[i].onSQLite(c, got)
		}
		return err
	}
	switch {
	case len(t.writes) == 0:
		return f.db.Read(ctx, "bare", reads)
	case len(t.reads) == 0:
		return f.db.Write(ctx, "bare", writes)
	}
	return f.db.WriteChecked(ctx, "bare", reads, writes)
}

// value is a column as a Go value.
type value struct {
	number int64
	text   []byte
}

// onSQLite reads all rows as Go values, and returns the last row. A write gets the reads' last rows.
func (s *stmt) onSQLite(c *sqlite.Conn, got [][]value) (last []value, err error) {
	var all []value
	rows, columns := 0, 0
	err = sqlitex.Execute(c, s.sql, &sqlitex.ExecOptions{
		Args: s.bind(func(c cell) int64 { return got[c.read][c.column].number }),
		ResultFunc: func(row *sqlite.Stmt) error {
			rows, columns = rows+1, row.ColumnCount()
			for i := range columns {
				v := value{}
				switch row.ColumnType(i) {
				case sqlite.TypeInteger:
					v.number = row.ColumnInt64(i)
				case sqlite.TypeText, sqlite.TypeBlob:
					v.text = make([]byte, row.ColumnLen(i))
					row.ColumnBytes(i, v.text)
				}
				all = append(all, v)
			}
			return nil
		},
	})
	if got != nil {
		rows = c.Changes()
	}
	return all[len(all)-columns:], errors.Join(err, s.check(rows))
}

// pgPool are connections of pgx, without the server's turns and retries.
type pgPool struct{ *pgxpool.Pool }

// copyPostgres copies the server's database to the database bare, which must not exist, and connects to it. It stops the
// server and starts it again. ANALYZE gives the copy the statistics for its plans.
func copyPostgres(ctx context.Context, s *server, connections int32) (database, error) {
	at := func(database string) string {
		return strings.Replace(s.engine.postgres.URL(), "@/postgres?", "@/"+database+"?", 1)
	}
	s.stop()
	if _, err := ask(ctx, at("template1"), `CREATE DATABASE bare TEMPLATE postgres`); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if _, err := ask(ctx, at("bare"), `ANALYZE`); err != nil {
		return nil, err
	}
	conf, err := pgxpool.ParseConfig(at("bare"))
	if err != nil {
		return nil, err
	}
	conf.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	return pgPool{pool}, err
}

func (p pgPool) close() error {
	p.Close()
	return nil
}

// run copies all rows that it reads, and sends all writes together.
func (p pgPool) run(ctx context.Context, t tx) error {
	got := make([][][]byte, len(t.reads)) // last rows
	for i := range t.reads {
		rows, err := p.Query(ctx, t.reads[i].sql, t.reads[i].args...)
		if err != nil {
			return err
		}
		var all [][]byte
		n := 0
		for ; rows.Next(); n++ {
			for _, v := range rows.RawValues() {
				all = append(all, bytes.Clone(v))
			}
		}
		if err := errors.Join(rows.Err(), t.reads[i].check(n)); err != nil {
			return err
		}
		got[i] = all[max(0, len(all)-len(rows.FieldDescriptions())):]
	}
	if len(t.writes) == 0 {
		return nil
	}
	var b pgx.Batch
	for i := range t.writes {
		s := &t.writes[i]
		args := s.bind(func(c cell) int64 { return int64(binary.BigEndian.Uint64(got[c.read][c.column])) })
		b.Queue(s.sql, args...).Exec(func(tag pgconn.CommandTag) error { return s.check(int(tag.RowsAffected())) })
	}
	return p.SendBatch(ctx, &b).Close()
}
