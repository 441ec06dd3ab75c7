package pgdb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/rows"
)

// update implements rows.RawUpdate. Comments in package rows are the contract.
type update struct {
	ctx   context.Context
	tx    pgx.Tx
	known *sync.Map // column types by table: *rows.Table to []uint32
}

func (u update) exec(sql string, args ...any) error {
	_, err := u.tx.Exec(u.ctx, sql, args...)
	return err
}

func (u update) Delete(t *rows.Table, owner int, span rows.Span) error {
	if len(span.Among) > rowsOfStatement {
		return u.deleteAmong(t, owner, span.Among)
	}
	where, args := t.Where(owner, span, parameter)
	return u.exec(`DELETE FROM `+relation(t)+` WHERE `+where, args...)
}

func (u update) Insert(t *rows.Table, all rows.Reader) error {
	if t.PostgresInsert != "" {
		return u.repeat(t, t.PostgresInsert, all)
	}
	oids, err := u.types(t)
	if err != nil {
		return err
	}
	return u.copyRows(t, oids, all)
}

// copyRows inserts rows by COPY.
func (u update) copyRows(t *rows.Table, oids []uint32, all rows.Reader) error {
	for _, c := range t.Columns {
		if c.Kind == rows.Map {
			if err := u.registerHstore(); err != nil {
				return err
			}
		}
	}
	return u.copyFrom(t, &copyReader{columns: t.Columns, oids: oids, types: u.tx.Conn().TypeMap(), rows: all})
}

// copyFrom sends COPY's binary format.
func (u update) copyFrom(t *rows.Table, from io.Reader) error {
	r := failing{Reader: from}
	_, err := u.tx.Conn().PgConn().CopyFrom(u.ctx, &r, `COPY `+relation(t)+` (`+t.Names()+`) FROM STDIN (FORMAT binary)`)
	return cmp.Or(r.err, err)
}

// failing keeps the reader's error, which the server's error would hide.
type failing struct {
	io.Reader
	err error
}

func (r *failing) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// types returns the table's column types, which are read once.
func (u update) types(t *rows.Table) ([]uint32, error) {
	if known, ok := u.known.Load(t); ok {
		return known.([]uint32), nil
	}
	oids, err := u.typesOf(t)
	if err == nil {
		u.known.Store(t, oids)
	}
	return oids, err
}

func (u update) typesOf(t *rows.Table) ([]uint32, error) {
	query, err := u.tx.Conn().Prepare(u.ctx, "", `SELECT `+t.Names()+` FROM `+relation(t))
	if err != nil {
		return nil, err
	}
	oids := make([]uint32, len(query.Fields))
	for i, f := range query.Fields {
		oids[i] = f.DataTypeOID
	}
	return oids, nil
}

// registerHstore makes the driver know hstore, whose OID differs between databases.
func (u update) registerHstore() error {
	types := u.tx.Conn().TypeMap()
	if _, ok := types.TypeForName("hstore"); ok {
		return nil
	}
	var oid uint32
	if err := u.tx.QueryRow(u.ctx, `SELECT 'hstore'::regtype::oid`).Scan(&oid); err != nil {
		return err
	}
	types.RegisterType(&pgtype.Type{Name: "hstore", OID: oid, Codec: pgtype.HstoreCodec{}})
	return nil
}

// arguments returns a row's values as the driver takes them, for a statement or (isCopy) for COPY.
func arguments(columns []rows.Column, row rows.Row, isCopy bool) ([]any, error) {
	args := make([]any, len(row))
	for i, v := range row {
		if v == nil {
			continue
		}
		var err error
		if args[i], err = argument(columns[i].Kind, v, isCopy); err != nil {
			return nil, fmt.Errorf("%s: %w", columns[i].Name, err)
		}
	}
	return args, nil
}

// argument converts a row value for the driver.
func argument(kind rows.Kind, v any, isCopy bool) (any, error) {
	switch kind {
	case rows.Millis, rows.MillisUTC:
		return time.UnixMilli(v.(int64)).UTC(), nil
	case rows.Micros:
		return time.UnixMicro(v.(int64)).UTC(), nil
	case rows.Map:
		var m pgtype.Hstore
		if err := json.Unmarshal([]byte(v.(string)), &m); err != nil || isCopy {
			return m, err
		}
		return m.Value()
	case rows.Texts, rows.UUIDs:
		var all []string
		if err := json.Unmarshal([]byte(v.(string)), &all); err != nil || kind == rows.Texts || !isCopy {
			return all, err
		}
		ids := make([]pgtype.UUID, len(all))
		for i, text := range all {
			var err error
			if ids[i], err = parseUUID(text); err != nil {
				return nil, err
			}
		}
		return ids, nil
	case rows.Bool:
		return v.(int64) != 0, nil
	case rows.Date:
		return time.Parse(time.DateOnly, v.(string))
	case rows.Real:
		x, err := strconv.ParseFloat(v.(string), 32)
		return float32(x), err
	case rows.Integer, rows.Text, rows.Bytes, rows.UUID, rows.JSON, rows.RawJSON:
	}
	return v, nil
}

var errNotUUID = errors.New("not a UUID")

func parseUUID(text string) (id pgtype.UUID, err error) {
	b, err := appendUUID(nil, []byte(text))
	copy(id.Bytes[:], b)
	id.Valid = err == nil
	return id, err
}

const (
	rowsOfStatement    = 50      // rows that Put writes without a temporary table
	statementsOfRepeat = 500     // statements in a message of repeat
	bytesOfRepeat      = 1 << 20 // bytes in a message of repeat, about
)

// withTemporary copies rows into a temporary table with these columns, runs the statement, which gets the table's
// name, and drops the table.
func (u update) withTemporary(t *rows.Table, columns []rows.Column, all *rows.Batch, statement func(name string) string) error {
	part := rows.Table{Name: t.Name, PostgresName: t.PostgresName, Columns: columns}
	temporary := rows.Table{Name: "copied_" + t.Name, Columns: columns}
	if err := u.exec(`CREATE TEMPORARY TABLE ` + temporary.Name + ` ON COMMIT DROP AS SELECT ` + part.Names() + ` FROM ` + relation(t) + ` WITH NO DATA`); err != nil {
		return err
	}
	oids, err := u.typesOf(&part)
	if err != nil {
		return err
	}
	if err := u.copyRows(&temporary, oids, all.Reader()); err != nil {
		return err
	}
	if err := u.exec(statement(temporary.Name)); err != nil {
		return err
	}
	return u.exec(`DROP TABLE ` + temporary.Name)
}

// deleteAmong deletes the rows of many owners.
func (u update) deleteAmong(t *rows.Table, owner int, among []rows.Row) error {
	var all rows.Batch
	for _, ownerKey := range among {
		all.Add(ownerKey.Pack(nil))
	}
	columns := t.Columns[:owner]
	return u.withTemporary(t, columns, &all, func(name string) string {
		names := (&rows.Table{Columns: columns}).Names()
		return `DELETE FROM ` + relation(t) + ` WHERE (` + names + `) IN (SELECT ` + names + ` FROM ` + name + `)`
	})
}

// Put copies many rows into a temporary table first: a statement with many values takes longer to plan than to run,
// and on Citus it sends messages for each shard.
func (u update) Put(t *rows.Table, all *rows.Batch) error {
	if all.Len() == 0 {
		return nil
	}
	into := `INSERT INTO ` + relation(t) + ` (` + t.Names() + `) OVERRIDING SYSTEM VALUE `
	if all.Len() > rowsOfStatement {
		return u.withTemporary(t, t.Columns, all, func(name string) string {
			return into + `SELECT ` + t.Names() + ` FROM ` + name + ` ` + t.OnConflict()
		})
	}
	var lists []string
	var args []any
	for row := range all.All() {
		values, err := arguments(t.Columns, row, false)
		if err != nil {
			return err
		}
		lists = append(lists, "("+t.Parameters(func(i int, c rows.Column) string { return parameter(len(args)+i, c) })+")")
		args = append(args, values...)
	}
	return u.exec(into+`VALUES `+strings.Join(lists, ", ")+` `+t.OnConflict(), args...)
}

func (u update) Remove(t *rows.Table, keys []rows.Row) error {
	together := 1
	if citus, err := isCitus(u.ctx, u.tx); err != nil {
		return err
	} else if citus {
		together = keysOfQuery
	}
	batch := &pgx.Batch{}
	for some := range slices.Chunk(keys, together) {
		where, args, err := whereKeys(t, some)
		if err != nil {
			return err
		}
		batch.Queue(`DELETE FROM `+relation(t)+` WHERE `+where, args...)
	}
	return u.tx.SendBatch(u.ctx, batch).Close()
}

// repeat runs a statement for each row, several in each message.
func (u update) repeat(t *rows.Table, sql string, all rows.Reader) error {
	batch, size := &pgx.Batch{}, 0
	send := func() error {
		if batch.Len() == 0 {
			return nil
		}
		sent := batch
		batch, size = &pgx.Batch{}, 0
		return u.tx.SendBatch(u.ctx, sent).Close()
	}
	for {
		row, err := all.Next()
		if errors.Is(err, io.EOF) {
			return send()
		}
		if err != nil {
			return err
		}
		args, err := arguments(t.Columns, row.Row(), false)
		if err != nil {
			return err
		}
		batch.Queue(sql, args...)
		if size += len(row); batch.Len() < statementsOfRepeat && size < bytesOfRepeat {
			continue
		}
		if err := send(); err != nil {
			return err
		}
	}
}

func (u update) Recount(t *rows.Table, owner int, span rows.Span) error {
	where, args := t.Where(owner, span, parameter)
	return u.exec(`UPDATE `+t.Name+` `+t.Recount+` AND `+where, args...)
}

func (u update) SetLast(t *rows.Table, n int64) error {
	name, err := sequence(u.ctx, u.tx, t)
	if err != nil {
		return err
	}
	return u.exec(`SELECT setval($1::text::regclass, greatest($2::bigint, 1), $2::bigint > 0)`, name, n)
}
