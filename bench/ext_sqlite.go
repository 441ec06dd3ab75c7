package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	store "holdfast/internal/extstorage/sqlite"
)

// Copied from the service; see TestStatements.
const (
	extOf     = ` WHERE tenant_id = ?1 AND extension_install_id = ?2 `
	extHeader = `revision, change_seq, created_at, updated_at, ttl_expires_at, value_bytes, metadata_bytes`
	extBegin  = `SELECT bytes_used, keys_count, namespaces_count, u.change_seq, counted_at, closed_seq, floor_seq,
			(SELECT schema_version FROM ext_storage_schemas` + extOf + `AND namespace = ?3 AND status = 'active'),
			revision, r.change_seq, created_at, r.updated_at, ttl_expires_at, value_bytes, metadata_bytes, r.rowid
		FROM ext_storage_usage u LEFT JOIN ext_storage_records r
			ON r.tenant_id = ?1 AND r.extension_install_id = ?2 AND namespace = ?3 AND key = ?4
		WHERE u.tenant_id = ?1 AND u.extension_install_id = ?2`
	extFind   = `SELECT ` + extHeader + `, rowid FROM ext_storage_records` + extOf + `AND namespace = ?3 AND key = ?4`
	extActive = `SELECT schema_version FROM ext_storage_schemas` + extOf + `AND namespace = ?3 AND status = 'active'`
	extChange = `INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	extUpdate = `UPDATE ext_storage_records SET revision = ?2, change_seq = ?3, created_at = ?4, updated_at = ?5, ttl_expires_at = ?6,
		value_bytes = ?7, metadata_bytes = ?8, value = ?9, metadata = ?10 WHERE rowid = ?1`
	extInsert = `INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, ` + extHeader + `, value, metadata)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	extSetUsage = `UPDATE ext_storage_usage SET bytes_used = ?3, keys_count = ?4, namespaces_count = ?5, change_seq = ?6, counted_at = ?7,
		updated_at = ?8` + extOf
	extAddUsage = `INSERT INTO ext_storage_usage
		(tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, change_seq, counted_at, updated_at, floor_seq, schema_floor)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT seq FROM ext_storage_floor), (SELECT min(seq / 100000, 2147483647) FROM ext_storage_floor))`
	extExpiring = `SELECT namespace, count(*), sum(value_bytes + metadata_bytes) FROM ext_storage_records` + extOf +
		`AND ttl_expires_at > ?3 AND ttl_expires_at <= ?4 GROUP BY namespace`

	extLive    = extOf + `AND (ttl_expires_at IS NULL OR ttl_expires_at > ?3) `
	extGetOne  = `SELECT namespace, key, ` + extHeader + `, metadata, value FROM ext_storage_records` + extLive + `AND namespace = ?4 AND key = ?5`
	extGetPage = `SELECT namespace, key, ` + extHeader + `, CASE WHEN ?8 THEN metadata END, CASE WHEN ?9 THEN value END FROM ext_storage_records` + extLive +
		`AND namespace = ?4 AND key >= ?5 AND key < ?6 ORDER BY key LIMIT ?7 + 0`
)

const (
	extEvent     = `INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at, part) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`
	extAddSchema = `INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, status, created_at, updated_at, schema_document)
		VALUES (?, ?, ?, 1, 'active', 0, 0, ?)`
)

type extSQLite struct{ liteFile }

func extFile(data string) string { return filepath.Join(data, "extstorage.db") }

func openExtSQLite(ctx context.Context, installs int) (limit, error) {
	f, err := openLite(ctx, extFile(""), store.Migrations)
	if err != nil {
		return nil, err
	}
	l := &extSQLite{f}
	for i := range installs {
		err := l.db.Write(ctx, "fill", func(c *sqlite.Conn) error {
			tenant, install := owner(i)
			zero := int64(0)
			if err := lite(c, extAddUsage, nil, tenant, install, zero, zero, zero, zero, zero, zero); err != nil {
				return err
			}
			return lite(c, extAddSchema, nil, tenant, install, extSchemaNamespace, extSchema)
		})
		for _, ops := range extFill() {
			err = errors.Join(err, l.apply(ctx, i, ops, extInsert))
		}
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

func (l *extSQLite) window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error) {
	w, err := extWorkOf(operation)
	if err != nil {
		return 0, err
	}
	if err := l.db.Write(ctx, "publish", func(c *sqlite.Conn) error { return lite(c, `DELETE FROM ext_storage_outbox`, nil) }); err != nil {
		return 0, err
	}
	return rate(ctx, callers, lasting(d), func(ctx context.Context, c, i int) error {
		switch {
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

func (l *extSQLite) apply(ctx context.Context, caller int, ops []extOp, put string) error {
	tenant, install := owner(caller)
	at := time.Now().UnixMilli()
	w := extWrite{tenant: tenant, install: install, at: at, ops: ops, put: put, created: at, revisions: make([]int64, len(ops)), rows: make([]int64, len(ops))}
	return l.db.WriteChecked(ctx, "apply", w.judge, w.perform)
}

type extWrite struct {
	tenant, install string
	at              int64 // Unix milliseconds
	ops             []extOp
	put             string

	bytes, keys, namespaces, seq, counted int64
	created                               int64
	revisions, rows                       []int64
}

func (w *extWrite) judge(c *sqlite.Conn) error {
	if err := lite(c, extBegin, func(s *sqlite.Stmt) {
		w.bytes, w.keys, w.namespaces, w.seq, w.counted = s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2), s.ColumnInt64(3), s.ColumnInt64(4)
		if w.revisions[0] = s.ColumnInt64(8); w.revisions[0] != 0 {
			w.created, w.rows[0] = s.ColumnInt64(10), s.ColumnInt64(15)
		}
	}, w.tenant, w.install, w.ops[0].ns, w.ops[0].key); err != nil {
		return err
	}
	if err := lite(c, extExpiring, nil, w.tenant, w.install, w.counted, w.at); err != nil {
		return err
	}
	for i := range w.ops {
		if err := w.find(c, i); err != nil {
			return err
		}
		if (w.revisions[i] == 0) != (w.put == extInsert) {
			return fmt.Errorf("a record is at revision %d", w.revisions[i])
		}
	}
	return nil
}

func (w *extWrite) find(c *sqlite.Conn, i int) error {
	if i == 0 {
		return nil
	}
	op := &w.ops[i]
	err := lite(c, extFind, func(s *sqlite.Stmt) {
		w.revisions[i], w.created, w.rows[i] = s.ColumnInt64(0), s.ColumnInt64(2), s.ColumnInt64(7)
	}, w.tenant, w.install, op.ns, op.key)
	if err == nil && op.kind == extPut && op.ns != w.ops[i-1].ns {
		err = lite(c, extActive, nil, w.tenant, w.install, op.ns)
	}
	return err
}

func (w *extWrite) perform(c *sqlite.Conn) error {
	for i := range w.ops {
		op := &w.ops[i]
		if op.kind != extPut {
			continue
		}
		w.seq++
		revision := w.revisions[i] + 1
		if err := lite(c, extChange, nil, w.tenant, w.install, w.seq, "put", op.ns, op.key, revision, w.at); err != nil {
			return err
		}
		head, tail := extAudit(op)
		event := head + op.key + tail + strconv.FormatInt(revision, 10) + "}"
		if err := lite(c, extEvent, nil, w.tenant, w.install, w.seq, "extstorage.put", op.ns+"/"+op.key, event, w.at*1000, int64(w.install[len(w.install)-1]%16)); err != nil {
			return err
		}
		row := []any{revision, w.seq, w.created, w.at, nil, int64(len(op.value)), int64(2), op.value, `{}`}
		if w.put == extInsert {
			row = append([]any{w.tenant, w.install, op.ns, op.key}, row...)
		} else {
			row = append([]any{w.rows[i]}, row...)
		}
		if err := lite(c, w.put, nil, row...); err != nil {
			return err
		}
	}
	return lite(c, extSetUsage, nil, w.tenant, w.install, w.bytes, w.keys, w.namespaces, w.seq, w.at, w.at)
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

func (f *extFound) read(s *sqlite.Stmt) {
	f.key, f.revision, f.seq = s.ColumnText(1), s.ColumnInt64(2), s.ColumnInt64(3)
	f.created, f.updated = time.UnixMilli(s.ColumnInt64(4)), time.UnixMilli(s.ColumnInt64(5))
	f.size, f.others = s.ColumnInt64(7), s.ColumnInt64(8)
	f.metadata, f.value = []byte(s.ColumnText(9)), []byte(s.ColumnText(10))
}
