package pgdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxProblems is how many problems Verify reports.
const maxProblems = 20

const (
	verifiedTables = `SELECT c.oid::int8, c.oid::regclass::text FROM pg_class c
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace AND NOT c.relispartition ORDER BY 2`

	verifiedIndexes = `SELECT i.indexrelid::int8, i.indexrelid::regclass::text, i.indrelid::int8 FROM pg_index i
		JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'btree' AND c.relkind = 'i' AND i.indisvalid AND c.relnamespace = current_schema()::regnamespace ORDER BY 2`

	amcheckSchema = `SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck'`
)

// Verify reads every row, and with the extension amcheck checks tables and indexes. It returns up to 20 problems,
// each with the table or index, and how describes the check and its extension. It may take hours, and writes
// nothing.
func (db *DB) Verify(ctx context.Context) (problems []string, how string, err error) {
	err = db.Patient(longestCopy).run(ctx, "server.verify", nil, func(ctx context.Context, s *session) error {
		v := &verification{ctx: ctx, conn: s.Conn}
		if err := v.all(); err != nil {
			return err
		}
		problems, how = v.problems, v.how
		return nil
	})
	return problems, how, err
}

// verification collects the problems.
type verification struct {
	ctx      context.Context
	conn     *pgx.Conn
	problems []string
	how      string
}

// verified is a table or index.
type verified struct {
	id   int64
	name string
}

type verifiedIndex struct {
	verified
	table int64
}

// all checks everything.
func (v *verification) all() error {
	tables, err := v.list(verifiedTables)
	if err != nil {
		return err
	}
	for _, t := range tables {
		_, err := v.conn.PgConn().CopyTo(v.ctx, io.Discard, `COPY (TABLE `+t.name+`) TO STDOUT (FORMAT binary)`)
		if err := v.note(t.name, err); err != nil {
			return err
		}
	}
	v.how = "every row was read; to check indexes too: CREATE EXTENSION amcheck"
	var schema string
	switch err := v.conn.QueryRow(v.ctx, amcheckSchema).Scan(&schema); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	v.how = "every row was read, and amcheck has checked tables and indexes"
	placed, err := v.placed()
	if err != nil {
		return err
	}
	err = v.amcheck(schema, slices.DeleteFunc(tables, func(t verified) bool { return slices.Contains(placed, t) }))
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
		v.how = "every row was read; amcheck is installed, and this role may not use it: GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema
		return nil
	}
	if err != nil || len(placed) == 0 {
		return err
	}
	return v.amcheckShards(placed)
}

// amcheck checks the tables on this server and their indexes; schema contains the extension.
func (v *verification) amcheck(schema string, tables []verified) error {
	here := map[int64]bool{}
	for _, t := range tables {
		here[t.id] = true
		rows, err := v.conn.Query(v.ctx, `SELECT format('block %s: %s', blkno, msg) FROM `+schema+`.verify_heapam($1::oid::regclass) LIMIT 20`, t.id)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, line := range lines {
			v.add(t.name, line)
		}
		if err := v.note(t.name, err); err != nil {
			return err
		}
	}
	rows, err := v.conn.Query(v.ctx, verifiedIndexes)
	if err != nil {
		return err
	}
	indexes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x verifiedIndex, err error) {
		return x, row.Scan(&x.id, &x.name, &x.table)
	})
	if err != nil {
		return err
	}
	for _, x := range indexes {
		if !here[x.table] {
			continue
		}
		_, err := v.conn.Exec(v.ctx, `SELECT `+schema+`.bt_index_check($1::oid::regclass, true)`, x.id)
		if err := v.note(x.name, err); err != nil {
			return err
		}
	}
	return nil
}

// list returns OIDs with names.
func (v *verification) list(sql string) ([]verified, error) {
	rows, err := v.conn.Query(v.ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r verified, err error) {
		return r, row.Scan(&r.id, &r.name)
	})
}

// note records an error that says that data is damaged (SQLSTATE class XX, or 58030: I/O error), and returns any
// other error.
func (v *verification) note(name string, err error) error {
	damage, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || nodeFailed(damage) || !strings.HasPrefix(damage.Code, "XX") && damage.Code != "58030" {
		return err
	}
	v.add(name, damage.Message)
	return nil
}

// add records a problem.
func (v *verification) add(name, problem string) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, fmt.Sprintf("%s: %s", name, problem))
	}
}
