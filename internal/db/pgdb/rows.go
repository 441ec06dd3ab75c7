package pgdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"holdfast/internal/db/rows"
)

// Rows returns db as package rows uses it, to copy and count rows; it has no relation to the type Rows. Its transactions
// may take hours.
func (db *DB) Rows() rows.Database { return tables{db.Patient(longestCopy), new(sync.Map)} }

// longestCopy limits a transaction of a copy.
const longestCopy = 6 * time.Hour

// tables is db as a rows.Database, for copies, imports and `holdfast check`.
type tables struct {
	db    *DB
	types *sync.Map // column types by table, see update.known
}

// View runs fn in a read-only transaction with a single snapshot.
func (d tables) View(ctx context.Context, fn func(rows.View) error) error {
	citus, err := d.db.IsCitus(ctx)
	if err != nil {
		return err
	}
	return d.db.run(ctx, "copy.view", nil, func(ctx context.Context, s *session) error {
		v := &view{ctx: ctx, conn: s.Conn, citus: citus}
		if err := v.begin(); err != nil {
			return err
		}
		err := fn(v)
		if end := v.tx.Rollback(ctx); end != nil && !errors.Is(end, pgx.ErrTxClosed) {
			err = errors.Join(err, end)
		}
		return err
	})
}

// Update runs fn in a transaction without a statement timeout.
func (d tables) Update(ctx context.Context, fn func(rows.Update) error) error {
	return d.db.Tx(ctx, "copy.update", func(tx *Tx) error {
		// On Citus, a single connection per node lets statements see each other's changes. INSERT … SELECT opens a
		// connection per shard and keeps it: opening all of them takes 0.4 s.
		if err := tx.script(`SET LOCAL statement_timeout = 0; SET LOCAL citus.multi_shard_modify_mode TO 'sequential';
			SET LOCAL citus.max_cached_conns_per_worker TO 32`); err != nil {
			return err
		}
		return fn(update{tx.ctx, tx.tx, d.types})
	})
}

// view implements rows.RawView. Comments in package rows are the contract.
type view struct {
	ctx   context.Context
	conn  *pgx.Conn
	tx    pgx.Tx
	citus bool
}

// begin opens a snapshot. On Citus each node takes its own snapshot, so only part of a transaction that wrote to
// several nodes may be visible. A single node stores an owner's rows.
func (v *view) begin() (err error) {
	// Queries for spans are expensive enough that PostgreSQL would compile them, which takes longer than reading the
	// rows.
	begin := `BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL jit = off`
	if v.citus {
		// Use a single connection per node, because each connection sees another snapshot.
		begin += `; SET LOCAL citus.max_adaptive_executor_pool_size TO 1`
	}
	v.tx, err = v.conn.BeginTx(v.ctx, pgx.TxOptions{BeginQuery: begin})
	return err
}

// parameter returns parameter i, from 1, with the cast that makes the driver send a text.
func parameter(i int, c rows.Column) string {
	p := "$" + strconv.Itoa(i)
	switch c.Kind {
	case rows.Integer:
		return p + "::bigint"
	case rows.Bytes:
		return p + "::bytea"
	case rows.UUID:
		return p + "::text::uuid"
	case rows.JSON:
		return p + "::text::jsonb"
	case rows.RawJSON:
		return p + "::text::json"
	case rows.Millis, rows.Micros:
		return p + "::timestamptz"
	case rows.MillisUTC:
		return p + "::timestamp"
	case rows.Map:
		return p + "::text::hstore"
	case rows.Texts:
		return p + "::text[]"
	case rows.UUIDs:
		return p + "::text[]::uuid[]"
	case rows.Bool:
		return p + "::boolean"
	case rows.Date:
		return p + "::date"
	case rows.Real:
		return p + "::real"
	case rows.Text:
	}
	return p + "::text"
}

// relation returns the table's name for SQL.
func relation(t *rows.Table) string { return cmp.Or(t.PostgresName, t.Name) }

// from returns the table or query to read.
func from(t *rows.Table) string {
	if t.PostgresFrom != "" {
		return "(" + t.PostgresFrom + ") AS copied"
	}
	return relation(t)
}

// selected returns the columns as expressions that reader understands.
func selected(t *rows.Table) string {
	all := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		all[i] = cmp.Or(t.Postgres[c.Name], c.Name)
		switch c.Kind {
		case rows.Integer:
			all[i] += "::bigint"
		case rows.Bool:
			all[i] += "::integer::bigint"
		case rows.JSON, rows.RawJSON, rows.Text:
			all[i] += "::text"
		case rows.Map:
			all[i] = "hstore_to_json(" + all[i] + ")::text"
		case rows.Texts, rows.UUIDs:
			all[i] = "array_to_json(" + all[i] + ")::text"
		case rows.Date:
			all[i] = "to_char(" + all[i] + ", 'YYYY-MM-DD')"
		case rows.Bytes, rows.UUID, rows.Millis, rows.MillisUTC, rows.Micros, rows.Real:
		}
	}
	return strings.Join(all, ", ")
}

// newTarget returns a variable that the driver scans a column into, if reader does not decode it.
func newTarget(kind rows.Kind) any {
	switch kind {
	case rows.Integer, rows.Bool:
		return new(pgtype.Int8)
	case rows.Real:
		return new(pgtype.Float4)
	case rows.Bytes:
		return new([]byte)
	case rows.Millis, rows.Micros:
		return new(pgtype.Timestamptz)
	case rows.MillisUTC:
		return new(pgtype.Timestamp)
	case rows.UUID, rows.JSON, rows.RawJSON, rows.Text, rows.Map, rows.Texts, rows.UUIDs, rows.Date:
	}
	return new(pgtype.Text)
}

// value returns a scanned target as a row value.
func value(target any, c rows.Column) (any, error) {
	switch t := target.(type) {
	case *pgtype.Int8:
		if t.Valid {
			return t.Int64, nil
		}
	case *[]byte:
		if *t != nil {
			return *t, nil
		}
	case *pgtype.Text:
		if t.Valid {
			return t.String, nil
		}
	case *pgtype.Float4:
		if t.Valid {
			return rows.FormatReal(float64(t.Float32)), nil
		}
	case *pgtype.Timestamptz:
		if t.Valid {
			return momentOf(t.Time, t.InfinityModifier, c)
		}
	case *pgtype.Timestamp:
		if t.Valid {
			return momentOf(t.Time, t.InfinityModifier, c)
		}
	}
	return nil, nil
}

// momentOf is moment for a scanned time.
func momentOf(t time.Time, infinity pgtype.InfinityModifier, c rows.Column) (any, error) {
	switch {
	case infinity != pgtype.Finite:
		return nil, fmt.Errorf("%s is infinite", c.Name)
	case c.Kind == rows.Micros:
		return t.UnixMicro(), nil
	}
	return t.UnixMilli(), nil
}

func (v *view) Each(t *rows.Table, owner int, span rows.Span, fn func(rows.Packed) error) error {
	query := func(span rows.Span) (sql string, args []any) {
		where, args := t.Where(owner, span, parameter)
		return `SELECT ` + selected(t) + ` FROM ` + from(t) + ` WHERE ` + where + ` ORDER BY ` + t.KeyNames(), args
	}
	if len(span.Among) == 0 || v.citus || t.Unindexed {
		sql, args := query(span)
		return v.each(t.Columns, sql, fn, args...)
	}
	// One query per owner, sent together, reads rows in index order. A single query would sort them.
	batch := &pgx.Batch{}
	for _, ownerKey := range span.Among {
		sql, args := query(rows.Span{Only: ownerKey})
		batch.Queue(sql, args...)
	}
	return v.batch(t, batch, fn)
}

// batch sends queries together and calls fn for all their rows.
func (v *view) batch(t *rows.Table, batch *pgx.Batch, fn func(rows.Packed) error) error {
	answers := v.tx.SendBatch(v.ctx, batch)
	r := v.reader(t.Columns)
	for range batch.Len() {
		result, err := answers.Query()
		if err == nil {
			err = r.each(result, fn)
		}
		if err != nil {
			return errors.Join(err, answers.Close())
		}
	}
	return answers.Close()
}

// each calls fn for a query's rows.
func (v *view) each(columns []rows.Column, sql string, fn func(rows.Packed) error, args ...any) error {
	result, err := v.tx.Query(v.ctx, sql, args...)
	if err != nil {
		return err
	}
	return v.reader(columns).each(result, fn)
}

func (v *view) reader(columns []rows.Column) *reader {
	return &reader{columns: columns, types: v.conn.TypeMap()}
}

// keysOfQuery limits the keys of a query on Citus, where each query costs network messages.
const keysOfQuery = 200

func (v *view) Find(t *rows.Table, keys []rows.Row, fn func(rows.Packed) error) error {
	together := 1
	if v.citus {
		together = keysOfQuery
	}
	batch := &pgx.Batch{}
	for some := range slices.Chunk(keys, together) {
		where, args, err := whereKeys(t, some)
		if err != nil {
			return err
		}
		batch.Queue(`SELECT `+selected(t)+` FROM `+from(t)+` WHERE `+where, args...)
	}
	return v.batch(t, batch, fn)
}

// whereKeys returns a condition for rows with these keys.
func whereKeys(t *rows.Table, keys []rows.Row) (where string, args []any, err error) {
	alternatives := make([]string, len(keys))
	for i, key := range keys {
		values, err := arguments(t.Columns, key, false)
		if err != nil {
			return "", nil, err
		}
		alternatives[i] = t.WhereKey(func(i int, c rows.Column) string { return parameter(len(args)+i, c) })
		args = append(args, values...)
	}
	return strings.Join(alternatives, " OR "), args, nil
}

func (v *view) Count(t *rows.Table, limit int64) (n int64, err error) {
	sql := `SELECT count(*) FROM ` + from(t)
	if limit > 0 {
		sql = `SELECT count(*) FROM (SELECT 1 FROM ` + from(t) + ` LIMIT ` + strconv.FormatInt(limit, 10) + `) AS found`
	}
	return n, v.tx.QueryRow(v.ctx, sql).Scan(&n)
}

func (v *view) Total(t rows.Total) (n int64, err error) {
	return n, v.tx.QueryRow(v.ctx, `SELECT (`+t.Query(relation(t.Table))+`)::bigint`).Scan(&n)
}

func (v *view) NthOwner(t *rows.Table, owner int, after rows.Row, n int) (bound rows.Row, err error) {
	where, args := t.Where(owner, rows.Span{After: after}, parameter)
	of := rows.Table{Columns: t.Columns[:owner]}
	err = v.each(of.Columns, `SELECT `+selected(&of)+` FROM `+from(t)+` WHERE `+where+` ORDER BY `+of.Names()+` LIMIT 1 OFFSET `+strconv.Itoa(n),
		func(p rows.Packed) error { bound = p.Row(); return nil }, args...)
	return bound, err
}

// sequence returns the name of the sequence behind the table's number column.
func sequence(ctx context.Context, tx pgx.Tx, t *rows.Table) (name string, err error) {
	return name, tx.QueryRow(ctx, `SELECT pg_get_serial_sequence($1::text, $2::text)`, relation(t), t.NumberName()).Scan(&name)
}

func (v *view) Last(t *rows.Table) (n int64, err error) {
	name, err := sequence(v.ctx, v.tx, t)
	if err != nil {
		return 0, err
	}
	return n, v.tx.QueryRow(v.ctx, `SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM `+name).Scan(&n)
}
