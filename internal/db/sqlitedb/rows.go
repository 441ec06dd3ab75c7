package sqlitedb

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/rows"
)

// Rows returns the database for copies, imports and read-only mode.
func (db *DB) Rows() rows.Database { return tables{db} }

// tables implements rows.Database, whose comments are the contract.
type tables struct{ db *DB }

// View runs fn on a snapshot.
func (d tables) View(ctx context.Context, fn func(rows.View) error) error {
	return d.db.Read(ctx, "copy.view", func(c *sqlite.Conn) error { return fn(view{ctx, c}) })
}

// Update runs fn in its own transaction, once.
func (d tables) Update(ctx context.Context, fn func(rows.Update) error) error {
	return d.db.WriteAlone(ctx, "copy.update", func(c *sqlite.Conn) error { return fn(update{c}) })
}

// Settle returns at once: a commit is complete when it is acknowledged.
func (tables) Settle(context.Context) error { return nil }

// view implements rows.View.
type view struct {
	ctx context.Context
	c   *sqlite.Conn
}

func parameter(i int, _ rows.Column) string { return "?" + strconv.Itoa(i) }

func (v view) Each(t *rows.Table, owner int, span rows.Span, fn func(rows.Packed) error) error {
	spans := []rows.Span{span}
	if len(span.Among) > 0 && !t.Unindexed { // ownerKey query per owner, in index order: with a single query, SQLite would sort in memory
		spans = nil
		for _, ownerKey := range span.Among {
			spans = append(spans, rows.Span{Only: ownerKey})
		}
	}
	for _, span := range spans {
		where, args := t.Where(owner, span, parameter)
		if err := v.each(t, `SELECT `+t.Names()+` FROM `+t.Name+` WHERE `+where+` ORDER BY `+t.KeyNames(), fn, args...); err != nil {
			return err
		}
	}
	return nil
}

func (v view) Find(t *rows.Table, keys []rows.Row, fn func(rows.Packed) error) error {
	sql := `SELECT ` + t.Names() + ` FROM ` + t.Name + ` WHERE ` + t.WhereKey(parameter)
	for _, key := range keys {
		if err := v.each(t, sql, fn, key...); err != nil {
			return err
		}
	}
	return nil
}

// each calls fn for a query's rows.
func (v view) each(t *rows.Table, sql string, fn func(rows.Packed) error, args ...any) error {
	var p rows.Packed
	var scratch []byte
	return ForEach(v.c, sql, func(s *sqlite.Stmt) error {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		p = p[:0]
		for i, c := range t.Columns {
			var err error
			if p, scratch, err = appendColumn(p, scratch, s, i, c.Kind); err != nil {
				return err
			}
		}
		return fn(p)
	}, args...)
}

// appendColumn appends column i, counted from 0. scratch is reused for values that are converted.
func appendColumn(p rows.Packed, scratch []byte, s *sqlite.Stmt, i int, kind rows.Kind) (all rows.Packed, after []byte, err error) {
	if s.ColumnIsNull(i) {
		return p.AppendNull(), scratch, nil
	}
	switch kind {
	case rows.Integer, rows.Millis, rows.MillisUTC, rows.Micros, rows.Bool:
		return p.AppendInteger(s.ColumnInt64(i)), scratch, nil
	case rows.Real:
		return p.Append(rows.FormatReal(s.ColumnFloat(i))), scratch, nil
	case rows.JSON, rows.Map, rows.Texts, rows.UUIDs:
		scratch = slices.Grow(scratch[:0], s.ColumnLen(i))[:s.ColumnLen(i)]
		s.ColumnBytes(i, scratch)
		p, err = p.AppendTextBy(func(b []byte) ([]byte, error) { return canonjson.AppendRestored(b, scratch) })
		return p, scratch, err
	case rows.Bytes, rows.Text, rows.UUID, rows.RawJSON, rows.Date:
	}
	p, space := p.AppendSpace(kind != rows.Bytes, s.ColumnLen(i))
	s.ColumnBytes(i, space)
	return p, scratch, nil
}

func (v view) Count(t *rows.Table, limit int64) (n int64, err error) {
	sql, args := `SELECT count(*) FROM `+t.Name, []any(nil)
	if limit > 0 {
		sql, args = `SELECT count(*) FROM (SELECT 1 FROM `+t.Name+` LIMIT ?1)`, []any{limit}
	}
	n, _, err = QueryRow(v.c, sql, func(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) }, args...)
	return n, err
}

func (v view) Total(t rows.Total) (n int64, err error) {
	n, _, err = QueryRow(v.c, t.Query(t.Table.Name), func(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) })
	return n, err
}

func (v view) NthOwner(t *rows.Table, owner int, after rows.Row, n int) (rows.Row, error) {
	where, args := t.Where(owner, rows.Span{After: after}, parameter)
	of := rows.Table{Columns: t.Columns[:owner]}
	var bound rows.Row
	err := v.each(&of, `SELECT `+of.Names()+` FROM `+t.Name+` WHERE `+where+` ORDER BY `+of.Names()+` LIMIT 1 OFFSET `+strconv.Itoa(n),
		func(p rows.Packed) error { bound = p.Row(); return nil }, args...)
	return bound, err
}

func (v view) Last(t *rows.Table) (int64, error) {
	n, _, err := QueryRow(v.c, `SELECT seq FROM sqlite_sequence WHERE name = ?`, func(s *sqlite.Stmt) int64 { return s.ColumnInt64(0) }, t.Name)
	return n, err
}

func (v view) State(service string) (string, error) { return state(v.c, service) }

func (u update) State(service string) (string, error) { return state(u.c, service) }

func state(c *sqlite.Conn, service string) (string, error) {
	text, _, err := QueryRow(c, `SELECT state FROM copy_state WHERE service = ?`, func(s *sqlite.Stmt) string { return s.ColumnText(0) }, service)
	return text, err
}

// update implements rows.Update.
type update struct{ c *sqlite.Conn }

func (u update) Delete(t *rows.Table, owner int, span rows.Span) error {
	where, args := t.Where(owner, span, parameter)
	return Exec(u.c, `DELETE FROM `+t.Name+` WHERE `+where, args...)
}

func (u update) Insert(t *rows.Table, all rows.Reader) error { return u.insert(t, all, "") }

func (u update) Put(t *rows.Table, all *rows.Batch) error {
	return u.insert(t, all.Reader(), t.OnConflict())
}

// insert inserts rows; end is the conflict clause. It fills the columns in Table.SQLite by their expressions.
func (u update) insert(t *rows.Table, all rows.Reader, end string) error {
	names, values := t.Names(), t.Parameters(parameter)
	for _, name := range slices.Sorted(maps.Keys(t.SQLite)) {
		expression := t.SQLite[name]
		for i, c := range t.Columns {
			expression = strings.ReplaceAll(expression, "{"+c.Name+"}", parameter(i+1, c))
		}
		names, values = names+", "+name, values+", "+expression
	}
	stmt, err := u.c.Prepare(`INSERT INTO ` + t.Name + ` (` + names + `) VALUES (` + values + `) ` + end)
	if err != nil {
		return err
	}
	for {
		row, err := all.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := 1; len(row) > 0; i++ {
			var v rows.Value
			v, row = row.Cut()
			bindValue(stmt, i, v)
		}
		_, err = stmt.Step()
		if err := reset(stmt, err); err != nil {
			return err
		}
	}
}

// bindValue binds parameter i, counted from 1.
func bindValue(stmt *sqlite.Stmt, i int, v rows.Value) {
	switch {
	case v.IsNull():
		stmt.BindNull(i)
	case v.IsInteger():
		stmt.BindInt64(i, v.Integer)
	case v.IsText():
		stmt.BindText(i, string(v.Data))
	default:
		stmt.BindBytes(i, v.Data)
	}
}

func (u update) Remove(t *rows.Table, keys []rows.Row) error {
	return u.repeat(`DELETE FROM `+t.Name+` WHERE `+t.WhereKey(parameter), slices.Values(keys))
}

// repeat runs a statement with each row as its arguments.
func (u update) repeat(sql string, all iter.Seq[rows.Row]) error {
	for row := range all {
		if err := Exec(u.c, sql, row...); err != nil {
			return err
		}
	}
	return nil
}

func (u update) Recount(t *rows.Table, owner int, span rows.Span) error {
	where, args := t.Where(owner, span, parameter)
	return Exec(u.c, `UPDATE `+t.Name+` `+t.Recount+` AND `+where, args...)
}

func (u update) SetLast(t *rows.Table, n int64) error {
	err := Exec(u.c, `DELETE FROM sqlite_sequence WHERE name = ?`, t.Name)
	if err != nil {
		return err
	}
	return Exec(u.c, `INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)`, t.Name, n)
}

func (u update) SetState(service, state string) error {
	return Exec(u.c, `INSERT INTO copy_state (service, state, log_until) VALUES (?1, ?2, 0) ON CONFLICT (service) DO UPDATE SET state = ?2`, service, state)
}

// key returns the key as the log stores it; of is NEW or OLD.
func key(t *rows.Table, of string) string {
	var b bytes.Buffer
	for i, c := range t.Columns[:t.Key] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(of + "." + c.Name)
	}
	return "json_array(" + b.String() + ")"
}
