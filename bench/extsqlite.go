package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	store "holdfast/internal/extstorage/sqlite"
)

// The statements of the room, which the limit runs in the room's order, as a
// step of the group-commit writer or on a snapshot.
const (
	extOf     = ` WHERE tenant_id = ?1 AND extension_install_id = ?2 `
	extRecord = extOf + `AND namespace = ?3 AND key = ?4`
	extHeader = `revision, change_seq, created_at, updated_at, ttl_expires_at, value_bytes, metadata_bytes`

	extUsage  = `SELECT bytes_used, keys_count, namespaces_count, change_seq FROM ext_storage_usage` + extOf
	extFind   = `SELECT ` + extHeader + ` FROM ext_storage_records` + extRecord
	extActive = `SELECT schema_version FROM ext_storage_schemas` + extOf + `AND namespace = ?3 AND status = 'active'`
	extChange = `INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at) VALUES (?, ?, ?, 'put', ?, ?, ?, ?)`
	extEvent  = `INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`
	extUpdate = `UPDATE ext_storage_records SET revision = ?5, change_seq = ?6, created_at = ?7, updated_at = ?8, ttl_expires_at = NULL,
		value_bytes = ?9, metadata_bytes = ?10, value = ?11, metadata = ?12` + extRecord
	extInsert = `INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, change_seq, created_at, updated_at,
		value_bytes, metadata_bytes, value, metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	extSetUsage = `UPDATE ext_storage_usage SET change_seq = ?3, updated_at = ?4` + extOf
	extAddUsage = `INSERT OR IGNORE INTO ext_storage_usage
		(tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, change_seq, updated_at) VALUES (?, ?, 0, 0, 0, 0, 0)`
	extAddSchema = `INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, status, created_at, updated_at, schema_document)
		VALUES (?, ?, ?, 1, 'active', 0, 0, ?)`

	extLive    = extOf + `AND (ttl_expires_at IS NULL OR ttl_expires_at > ?3) `
	extGetOne  = `SELECT namespace, key, ` + extHeader + `, metadata, value FROM ext_storage_records` + extLive + `AND namespace = ?4 AND key = ?5`
	extGetPage = `SELECT namespace, key, ` + extHeader + `, CASE WHEN ?8 THEN metadata END, CASE WHEN ?9 THEN value END FROM ext_storage_records` + extLive +
		`AND namespace = ?4 AND key >= ?5 AND key < ?6 ORDER BY key LIMIT ?7`
)

// extSQLite is SQLite by the group-commit writer alone, in a file of its own.
type extSQLite struct {
	dir string
	db  *sqlitedb.DB
}

// extFile is the room's SQLite file in a data folder.
func extFile(data string) string { return filepath.Join(data, "extstorage.db") }

func openExtSQLite(ctx context.Context, installs int) (extLimit, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	db, err := sqlitedb.Open(ctx, sqlitedb.Options{Path: extFile(dir)})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	l := &extSQLite{dir, db}
	if err := l.fill(ctx, installs); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *extSQLite) close() error { return errors.Join(l.db.Close(), os.RemoveAll(l.dir)) }

func (l *extSQLite) fill(ctx context.Context, installs int) error {
	set, err := store.Migrations()
	if err != nil {
		return err
	}
	if _, err := l.db.Migrate(ctx, set); err != nil {
		return err
	}
	for i := range installs {
		err := l.db.Write(ctx, "fill", func(c *sqlite.Conn) error {
			tenant, install := owner(i)
			if err := lite(c, extAddUsage, nil, tenant, install); err != nil {
				return err
			}
			return lite(c, extAddSchema, nil, tenant, install, extSchemaNamespace, extSchema)
		})
		for _, ops := range extFill() {
			err = errors.Join(err, l.apply(ctx, i, ops, extInsert))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *extSQLite) window(ctx context.Context, w *extWork, callers int, d time.Duration) (float64, error) {
	if err := l.db.Write(ctx, "publish", func(c *sqlite.Conn) error { return lite(c, `DELETE FROM ext_storage_outbox`, nil) }); err != nil {
		return 0, err
	}
	return rate(ctx, callers, lasting(d), func(ctx context.Context, c, i int) error {
		switch { // readers go from install to install, as with anyOf
		case w.page:
			return l.list(ctx, rand.IntN(callers), w.values)
		case !w.writes():
			return l.get(ctx, rand.IntN(callers), extListNamespace, id(i%extKeys))
		case w.reads == nil:
			return l.apply(ctx, c, w.op(i), extUpdate)
		}
		ops := w.op(i)
		last := &ops[len(ops)-1]
		if err := l.get(ctx, c, last.ns, last.key); err != nil {
			return err
		}
		return l.apply(ctx, c, ops, extUpdate)
	})
}

// apply is all that the room does for a write, in its two parts, of records that
// are there, or with extInsert of such that are not.
func (l *extSQLite) apply(ctx context.Context, caller int, ops []extOp, put string) error {
	tenant, install := owner(caller)
	at := time.Now().UnixMilli()
	var seq int64
	revisions, created := make([]int64, len(ops)), at
	judge := func(c *sqlite.Conn) error {
		if err := lite(c, extUsage, func(s *sqlite.Stmt) { seq = s.ColumnInt64(3) }, tenant, install); err != nil {
			return err
		}
		for i, op := range ops {
			err := lite(c, extFind, func(s *sqlite.Stmt) { revisions[i], created = s.ColumnInt64(0), s.ColumnInt64(2) }, tenant, install, op.ns, op.key)
			if err == nil && op.kind == extPut {
				err = lite(c, extActive, nil, tenant, install, op.ns)
			}
			if err != nil {
				return err
			}
			if (revisions[i] == 0) != (put == extInsert) {
				return fmt.Errorf("a record is at revision %d", revisions[i])
			}
		}
		return nil
	}
	return l.db.WriteJudged(ctx, "apply", judge, func(c *sqlite.Conn) error {
		for i, op := range ops {
			if op.kind != extPut {
				continue
			}
			seq++
			revision := revisions[i] + 1
			if err := lite(c, extChange, nil, tenant, install, seq, op.ns, op.key, revision, at); err != nil {
				return err
			}
			head, tail := extAudit(&op)
			event := head + op.key + tail + strconv.FormatInt(revision, 10) + "}"
			if err := lite(c, extEvent, nil, tenant, install, seq, "extstorage.put", op.ns+"/"+op.key, event, at*1000); err != nil {
				return err
			}
			if err := lite(c, put, nil, tenant, install, op.ns, op.key, revision, seq, created, at, int64(len(op.value)), int64(2), op.value, `{}`); err != nil {
				return err
			}
		}
		return lite(c, extSetUsage, nil, tenant, install, seq, at)
	})
}

func (l *extSQLite) get(ctx context.Context, caller int, ns, key string) error {
	tenant, install := owner(caller)
	n := 0
	err := l.db.Read(ctx, "get", func(c *sqlite.Conn) error {
		var f extFound
		return lite(c, extGetOne, func(s *sqlite.Stmt) { n++; f.read(s) }, tenant, install, time.Now().UnixMilli(), ns, key)
	})
	return checked(n, 1, err)
}

func (l *extSQLite) list(ctx context.Context, caller int, values bool) error {
	tenant, install := owner(caller)
	wanted := int64(0)
	if values {
		wanted = 1
	}
	all := make([]extFound, 0, extKeys)
	err := l.db.Read(ctx, "list", func(c *sqlite.Conn) error {
		return lite(c, extGetPage, func(s *sqlite.Stmt) {
			var f extFound
			f.read(s)
			all = append(all, f)
		}, tenant, install, time.Now().UnixMilli(), extListNamespace, "", "\U0010FFFF", int64(extKeys+1), int64(0), wanted)
	})
	return checked(len(all), extKeys, err)
}

// read takes the columns of a record.
func (f *extFound) read(s *sqlite.Stmt) {
	f.key, f.revision, f.seq = s.ColumnText(1), s.ColumnInt64(2), s.ColumnInt64(3)
	f.created, f.updated = time.UnixMilli(s.ColumnInt64(4)), time.UnixMilli(s.ColumnInt64(5))
	f.size, f.others = s.ColumnInt64(7), s.ColumnInt64(8)
	f.metadata, f.value = []byte(s.ColumnText(9)), []byte(s.ColumnText(10))
}
