package sqlite

import (
	"context"
	"encoding/json"
	"strings"

	"zombiezen.com/go/sqlite"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/outbox"
)

const (
	sqlClosed = `SELECT closed_seq FROM ext_storage_usage` + mine + `AND closed_seq IS NOT NULL`
	sqlClose  = `INSERT INTO ext_storage_usage
		(tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, change_seq, counted_at, updated_at, closed_seq, floor_seq,
			schema_floor)
		VALUES (?1, ?2, 0, 0, 0, ` + lastSeq + `, ?3, ?3, ` + lastSeq + `, (SELECT seq FROM ext_storage_floor),
			(SELECT min(seq / 100000, 2147483647) FROM ext_storage_floor))
		ON CONFLICT DO UPDATE SET change_seq = max(change_seq, ` + lastSeq + `), closed_seq = max(change_seq, ` + lastSeq + `)
			WHERE closed_seq IS NULL`
	// lastSeq reads the changes, so that numbers are not reused if the counter row was lost and is inserted again.
	lastSeq = `max((SELECT seq FROM ext_storage_floor), (SELECT coalesce(max(seq), 0) FROM ext_storage_changes` + mine + `))`

	sqlStartDeletion = `INSERT INTO ext_storage_installs
		(tenant_id, extension_install_id, tier, overrides, created_at, updated_at, deleting_at, deletion) VALUES (?1, ?2, '', '{}', ?3, ?3, ?3, '{}')
		ON CONFLICT DO UPDATE SET deleting_at = excluded.deleting_at, deletion = excluded.deletion, updated_at = excluded.updated_at
			WHERE deleting_at IS NULL`
	sqlSetDeleted = `UPDATE ext_storage_installs SET deletion = ?3` + mine
	sqlTombstone  = `UPDATE ext_storage_installs
		SET tier = '', overrides = '{}', override_until = NULL, namespaces = NULL, revoked_at = NULL, tokens_after = NULL, deleted_at = ?3,
			kept_until = ?4, created_at = deleting_at, updated_at = ?3` + mine
	sqlCloseCounters = `UPDATE ext_storage_usage SET bytes_used = 0, keys_count = 0, namespaces_count = 0, change_seq = closed_seq + 1,
		closed_seq = closed_seq + 1, updated_at = ?3` + mine + `RETURNING closed_seq`
	sqlReopen        = `UPDATE ext_storage_usage SET closed_seq = NULL, counted_at = ?3` + mine
	sqlReopenInstall = `UPDATE ext_storage_installs SET deleting_at = NULL, deleted_at = NULL, kept_until = NULL, deletion = NULL,
		tokens_after = ?3, created_at = ?3, updated_at = ?3` + mine

	sqlFirstRecords = `SELECT namespace, key, ` + headerColumns + `, rowid FROM ext_storage_records` + mine + `ORDER BY namespace, key LIMIT ?3 + 0`
	sqlFirstSchemas = `SELECT namespace, schema_version FROM ext_storage_schemas` + mine + `ORDER BY namespace, schema_version LIMIT ?3 + 0`
	sqlDropSchema   = `DELETE FROM ext_storage_schemas` + mine + `AND namespace = ?3 AND schema_version = ?4`
	sqlRaiseFloor   = `UPDATE ext_storage_usage SET schema_floor = max(schema_floor, ?3)` + mine
	sqlUncount      = `UPDATE ext_storage_usage SET bytes_used = max(bytes_used - ?3, 0), keys_count = max(keys_count - ?4, 0),
		namespaces_count = max(namespaces_count - ?5, 0), updated_at = ?6` + mine

	sqlSweepTombstones = `DELETE FROM ext_storage_installs WHERE (tenant_id, extension_install_id) IN (
		SELECT tenant_id, extension_install_id FROM ext_storage_installs i WHERE kept_until <= ?1
			AND NOT EXISTS (SELECT 1 FROM ext_storage_outbox e WHERE e.tenant_id = i.tenant_id AND e.extension_install_id = i.extension_install_id)
			AND NOT EXISTS (SELECT 1 FROM ext_storage_outbox_refused e WHERE e.tenant_id = i.tenant_id AND e.extension_install_id = i.extension_install_id)
		ORDER BY kept_until LIMIT ?2) RETURNING tenant_id, extension_install_id`
	sqlForget = `DELETE FROM ext_storage_usage` + mine
)

var sqlDeleteRest = []struct {
	sql   string
	count func(*ext.Holdings) *int64
}{
	{deleteFirst("ext_storage_changes", "seq"), func(h *ext.Holdings) *int64 { return &h.Changes }},
	{deleteFirst("ext_storage_answers", "once_key"), func(h *ext.Holdings) *int64 { return &h.Answers }},
	{deleteFirst("ext_storage_revoked_tokens", "token_id"), func(h *ext.Holdings) *int64 { return &h.Tokens }},
	{deleteFirst("ext_storage_namespaces", "namespace"), func(*ext.Holdings) *int64 { return new(int64) }},
}

// deleteFirst deletes an install's first rows from a table, by a key.
func deleteFirst(table, key string) string {
	return `DELETE FROM ` + table + mine + `AND ` + key + ` IN (SELECT ` + key + ` FROM ` + table + mine + `ORDER BY ` + key + ` LIMIT ?3 + 0)`
}

// sqlNextInstall searches every table, because damaged or old data may lack counters.
var sqlNextInstall = func() string {
	var each []string
	for _, table := range ext.OwnedTables() {
		each = append(each, `SELECT min(extension_install_id) AS id FROM `+table+` WHERE tenant_id = ?1 AND extension_install_id > ?2`)
	}
	return `SELECT coalesce(min(id), '') FROM (` + strings.Join(each, ` UNION ALL `) + `)`
}()

var (
	sqlHoldings       = holdings(mine)
	sqlTenantHoldings = holdings(` WHERE tenant_id = ?1 AND ?2 <> '' `)
)

// holdings counts an install's or a tenant's rows in each table, as whose selects.
func holdings(whose string) string {
	return `SELECT
		(SELECT count(*) FROM (
			SELECT extension_install_id FROM ext_storage_usage` + whose + `AND closed_seq IS NULL
			UNION SELECT extension_install_id FROM ext_storage_installs` + whose + `AND deleted_at IS NULL
		) WHERE extension_install_id <> '00000000-0000-0000-0000-000000000000'),
		(SELECT count(*) FROM ext_storage_records` + whose + `),
		(SELECT coalesce(sum(value_bytes + metadata_bytes), 0) FROM ext_storage_records` + whose + `),
		(SELECT count(*) FROM ext_storage_schemas` + whose + `),
		(SELECT count(*) FROM ext_storage_changes` + whose + `),
		(SELECT count(*) FROM ext_storage_answers` + whose + `),
		(SELECT count(*) FROM ext_storage_revoked_tokens` + whose + `)`
}

// refuseClosed returns ErrInstallDeleted if the install or its tenant is being deleted or was deleted.
func refuseClosed(c *sqlite.Conn, o ext.Owner) error {
	for _, of := range []ext.Owner{o, ext.Services(o.Tenant)} {
		_, closed, err := sqlitedb.QueryRow(c, sqlClosed, scanInt64, of.Tenant, of.Install)
		switch {
		case err != nil:
			return err
		case closed:
			return ext.ErrInstallDeleted
		}
	}
	return nil
}

// Close implements extstorage.Deletions.
func (s *Store) Close(ctx context.Context, o ext.Owner, now ext.Moment) (d ext.Deletion, err error) {
	if err := o.Check(); err != nil {
		return d, err
	}
	err = s.db.Write(ctx, "ext.close", func(c *sqlite.Conn) error {
		if err := sqlitedb.Exec(c, sqlClose, o.Tenant, o.Install, now); err != nil {
			return err
		}
		if err := sqlitedb.Exec(c, sqlStartDeletion, o.Tenant, o.Install, now); err != nil {
			return err
		}
		d, _, err = deletionOf(c, o)
		return err
	})
	return d, err
}

// deletionOf returns an install's deletion, if it was ever begun.
func deletionOf(c *sqlite.Conn, o ext.Owner) (d ext.Deletion, found bool, err error) {
	err = sqlitedb.ForEach(c, sqlInstall, func(r *sqlite.Stmt) error {
		in, err := scanInstall(r)
		d, found = in.Deletion, in.Deletion.StartedAt != 0
		return err
	}, o.Tenant, o.Install)
	return d, found, err
}

// DeleteSome implements extstorage.Deletions.
func (s *Store) DeleteSome(ctx context.Context, o ext.Owner, step ext.DeleteStep) (d ext.Deletion, err error) {
	if err := o.Check(); err != nil {
		return d, err
	}
	step = step.Limited()
	err = s.db.Write(ctx, "ext.delete_some", func(c *sqlite.Conn) error {
		_, closed, err := sqlitedb.QueryRow(c, sqlClosed, scanInt64, o.Tenant, o.Install)
		if err != nil {
			return err
		}
		var found bool
		if d, found, err = deletionOf(c, o); err != nil {
			return err
		}
		switch {
		case !closed || !found:
			return ext.ErrNotClosed
		case d.FinishedAt != 0:
			return nil
		}
		deleted, err := deleteSome(c, o, &step, &d.Deleted)
		switch {
		case err != nil:
			return err
		case deleted:
			return setDeleted(c, o, &d.Deleted)
		}
		return s.finish(c, o, &step, &d)
	})
	if err != nil {
		return ext.Deletion{}, err
	}
	if d.FinishedAt != 0 {
		s.waker.Wake(string(o.Tenant), string(o.Install))
	}
	return d, nil
}

// setDeleted stores the numbers of rows deleted so far: they survive a restart and end in the audit event.
func setDeleted(c *sqlite.Conn, o ext.Owner, h *ext.Holdings) error {
	text, err := json.Marshal(h)
	if err != nil {
		return errcode.Wrap(errcode.Internal, "internal error", err)
	}
	return sqlitedb.Exec(c, sqlSetDeleted, o.Tenant, o.Install, string(text))
}

// deleteSome deletes the next rows and adds them to done: records, then schemas, then the rest. It returns false if
// nothing is left.
func deleteSome(c *sqlite.Conn, o ext.Owner, step *ext.DeleteStep, done *ext.Holdings) (bool, error) {
	if n, err := deleteRecords(c, o, sqlFirstRecords, step, done, o.Tenant, o.Install, step.Rows); err != nil || n > 0 {
		return true, err
	}
	if n, err := deleteSchemas(c, o, max(step.Rows/16, 1)); err != nil || n > 0 {
		done.Schemas += n
		return true, err
	}
	for _, kind := range sqlDeleteRest {
		if err := sqlitedb.Exec(c, kind.sql, o.Tenant, o.Install, step.Rows); err != nil {
			return true, err
		}
		if n := int64(c.Changes()); n > 0 {
			*kind.count(done) += n
			return true, nil
		}
	}
	return false, nil
}

// deleteRecords deletes the records that a query finds, up to step.Bytes and at least one, and takes them off the
// counters.
func deleteRecords(c *sqlite.Conn, o ext.Owner, find string, step *ext.DeleteStep, done *ext.Holdings, args ...any) (n int64, err error) {
	type record struct {
		ns    ext.Namespace
		h     ext.Header
		rowid int64
	}
	all, err := sqlitedb.QueryAll(c, find, func(r *sqlite.Stmt) record {
		return record{ext.Namespace(r.ColumnText(0)), scanHeader(r, 2), r.ColumnInt64(9)}
	}, args...)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	countedAt, _, err := sqlitedb.QueryRow(c, sqlInstallUsage, func(r *sqlite.Stmt) ext.Moment { return ext.Moment(r.ColumnInt64(4)) }, o.Tenant, o.Install)
	if err != nil {
		return 0, err
	}
	var bytes int64
	counted := map[ext.Namespace]ext.NamespaceUsage{}
	for i := range all {
		r := &all[i]
		if bytes >= step.Bytes {
			break
		}
		if err := sqlitedb.Exec(c, sqlDeleteRow, r.rowid); err != nil {
			return n, err
		}
		n++
		size := r.h.ValueBytes + r.h.MetadataBytes
		if bytes += size; r.h.Live(countedAt) {
			of := counted[r.ns]
			of.Keys, of.Bytes = of.Keys+1, of.Bytes+size
			counted[r.ns] = of
		}
	}
	done.Records, done.Bytes = done.Records+n, done.Bytes+bytes
	for ns, of := range counted {
		if err := uncount(c, o, ns, of, step.Now); err != nil {
			return n, err
		}
	}
	return n, nil
}

// uncount takes records off the counters of a namespace and its install.
func uncount(c *sqlite.Conn, o ext.Owner, ns ext.Namespace, of ext.NamespaceUsage, now ext.Moment) error {
	keys, _, err := sqlitedb.QueryRow(c, sqlNamespaceKeys, scanInt64, o.Tenant, o.Install, ns)
	if err != nil {
		return err
	}
	emptied := 0
	if keys > of.Keys {
		err = sqlitedb.Exec(c, sqlSetNamespace, o.Tenant, o.Install, ns, keys-of.Keys)
	} else {
		emptied, err = 1, sqlitedb.Exec(c, sqlDeleteNamespace, o.Tenant, o.Install, ns)
	}
	if err != nil {
		return err
	}
	return sqlitedb.Exec(c, sqlUncount, o.Tenant, o.Install, of.Bytes, of.Keys, emptied, now)
}

// deleteSchemas deletes the first schema versions.
func deleteSchemas(c *sqlite.Conn, o ext.Owner, limit int64) (n int64, err error) {
	type version struct {
		ns ext.Namespace
		v  int64
	}
	all, err := sqlitedb.QueryAll(c, sqlFirstSchemas, func(r *sqlite.Stmt) version {
		return version{ext.Namespace(r.ColumnText(0)), r.ColumnInt64(1)}
	}, o.Tenant, o.Install, limit)
	last := int64(0)
	for i := range all {
		if err = sqlitedb.Exec(c, sqlDropSchema, o.Tenant, o.Install, all[i].ns, all[i].v); err != nil {
			return n, err
		}
		last = max(last, all[i].v)
	}
	if err == nil && last > 0 {
		err = sqlitedb.Exec(c, sqlRaiseFloor, o.Tenant, o.Install, last)
	}
	return int64(len(all)), err
}

// finish closes the install for good: it leaves a tombstone, so that late writes are refused, and appends the audit
// event.
func (s *Store) finish(c *sqlite.Conn, o ext.Owner, step *ext.DeleteStep, d *ext.Deletion) error {
	if err := sqlitedb.Exec(c, sqlTombstone, o.Tenant, o.Install, step.Now, step.KeptUntil); err != nil {
		return err
	}
	seq, _, err := sqlitedb.QueryRow(c, sqlCloseCounters, scanInt64, o.Tenant, o.Install, step.Now)
	if err != nil {
		return err
	}
	d.FinishedAt = step.Now
	topic := ext.AuditDeleteTenant
	if whole := ext.Services(o.Tenant); o != whole {
		topic = ext.AuditDeleteInstall
		of, found, err := deletionOf(c, whole)
		if err != nil {
			return err
		}
		if found && of.FinishedAt == 0 {
			of.Deleted.Add(d.Deleted)
			of.Deleted.Installs++
			if err := setDeleted(c, whole, &of.Deleted); err != nil {
				return err
			}
		}
	}
	return s.audit.Append(c, outbox.Event{
		Owner: string(o.Tenant), Stream: string(o.Install), Seq: seq, Topic: topic,
		Payload: ext.DeletionPayload(o, step.Caller, d), At: step.Now.Time(),
	})
}

// NextInstall implements extstorage.Deletions.
func (s *Store) NextInstall(ctx context.Context, t ext.TenantID, after ext.InstallID) (id ext.InstallID, err error) {
	if err := ext.Services(t).Check(); err != nil {
		return "", err
	}
	err = s.db.Read(ctx, "ext.next_install", func(c *sqlite.Conn) error {
		id, _, err = sqlitedb.QueryRow(c, sqlNextInstall, func(r *sqlite.Stmt) ext.InstallID { return ext.InstallID(r.ColumnText(0)) }, t, after)
		return err
	})
	return id, err
}

// Holdings implements extstorage.Deletions.
func (s *Store) Holdings(ctx context.Context, o ext.Owner) (h ext.Holdings, err error) {
	if err := o.Check(); err != nil {
		return h, err
	}
	sql := sqlHoldings
	if o == ext.Services(o.Tenant) {
		sql = sqlTenantHoldings
	}
	err = s.db.Read(ctx, "ext.holdings", func(c *sqlite.Conn) error {
		h, _, err = sqlitedb.QueryRow(c, sql, func(r *sqlite.Stmt) ext.Holdings {
			return ext.Holdings{
				Installs: r.ColumnInt64(0), Records: r.ColumnInt64(1), Bytes: r.ColumnInt64(2), Schemas: r.ColumnInt64(3),
				Changes: r.ColumnInt64(4), Answers: r.ColumnInt64(5), Tokens: r.ColumnInt64(6),
			}
		}, o.Tenant, o.Install)
		return err
	})
	if o != ext.Services(o.Tenant) {
		h.Installs = 0
	}
	return h, err
}

// Reopen implements extstorage.Deletions.
func (s *Store) Reopen(ctx context.Context, o ext.Owner, now ext.Moment) (reopened bool, err error) {
	if err := o.Check(); err != nil {
		return false, err
	}
	err = s.db.Write(ctx, "ext.reopen", func(c *sqlite.Conn) error {
		reopened, err = reopen(c, o, now)
		return err
	})
	return reopened, err
}

// reopen makes a deleted install usable again, and reports whether it was deleted. While its deletion runs, it returns
// ErrInstallDeleted.
func reopen(c *sqlite.Conn, o ext.Owner, now ext.Moment) (bool, error) {
	d, found, err := deletionOf(c, o)
	switch {
	case err != nil || !found:
		return false, err
	case d.FinishedAt == 0:
		return false, ext.ErrInstallDeleted
	}
	if err := sqlitedb.Exec(c, sqlReopen, o.Tenant, o.Install, now); err != nil {
		return false, err
	}
	return true, sqlitedb.Exec(c, sqlReopenInstall, o.Tenant, o.Install, now)
}

// sweepTombstones forgets deleted installs whose DeleteStep.KeptUntil is past.
func sweepTombstones(c *sqlite.Conn, due ext.Moment, limit int) (int, error) {
	all, err := sqlitedb.QueryAll(c, sqlSweepTombstones, func(r *sqlite.Stmt) ext.Owner {
		return ext.Owner{Tenant: ext.TenantID(r.ColumnText(0)), Install: ext.InstallID(r.ColumnText(1))}
	}, due, limit)
	for _, o := range all {
		if err == nil {
			err = sqlitedb.Exec(c, sqlForget, o.Tenant, o.Install)
		}
	}
	return len(all), err
}
