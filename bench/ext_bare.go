package main

import (
	"context"
	"fmt"
	"strings"
	"time"
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
	extSetUsage = `UPDATE ext_storage_usage SET bytes_used = ?3, keys_count = ?4, namespaces_count = ?5, change_seq = ?6, counted_at = ?7,
		updated_at = ?8` + extOf
	extExpiring = `SELECT namespace, count(*), sum(value_bytes + metadata_bytes) FROM ext_storage_records` + extOf +
		`AND ttl_expires_at > ?3 AND ttl_expires_at <= ?4 GROUP BY namespace`

	extLive    = extOf + `AND (ttl_expires_at IS NULL OR ttl_expires_at > ?3) `
	extGetOne  = `SELECT namespace, key, ` + extHeader + `, metadata, value FROM ext_storage_records` + extLive + `AND namespace = ?4 AND key = ?5`
	extGetPage = `SELECT namespace, key, ` + extHeader + `, CASE WHEN ?8 THEN metadata END, CASE WHEN ?9 THEN value END FROM ext_storage_records` + extLive +
		`AND namespace = ?4 AND key >= ?5 AND key < ?6 ORDER BY key LIMIT ?7 + 0`
)

const extEvent = `INSERT INTO ext_storage_outbox (tenant_id, extension_install_id, seq, topic, key, payload, created_at, part) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`

// Copied from the service; see TestStatements.
const (
	extPgGet = `SELECT ` + extHeader + `, value::text, coalesce(metadata::text, '')
		FROM ext_storage_records
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND namespace = $3::text AND key = $4::text
			AND (ttl_expires_at IS NULL OR ttl_expires_at > $5::timestamptz)`
	extPgFrom = `SELECT key, ` + extHeader + `, CASE WHEN @values AND value_bytes <= @sent THEN value::text ELSE '' END,
			CASE WHEN @metadata THEN coalesce(metadata::text, '') ELSE '' END
		FROM ext_storage_records
		WHERE tenant_id = @tenant AND extension_install_id = @install AND namespace = @namespace
			AND key > @after AND key >= @from AND key < @before
			AND (ttl_expires_at IS NULL OR ttl_expires_at > @now)
		ORDER BY `

	extPageShare = 1 << 20 / extKeys // bytes per value that are sent together
)

var extPgList = strings.NewReplacer("@tenant", "$1::uuid", "@install", "$2::uuid", "@namespace", "$3::text", "@after", "$4::text", "@from", "$5::text",
	"@before", "$6::text", "@values", "$7::boolean", "@metadata", "$8::boolean", "@now", "$9::timestamptz", "@sent", "$11::bigint").
	Replace(extPgFrom) + "key LIMIT $10::bigint"

// extPgApply calls the service's function. An increment requires that the record is unchanged since it was read.
const extPgApply = `SELECT ext_apply_v1($1::uuid, $2::uuid, $3::smallint[], $4::text[], $5::text[], $6::bigint[], %s, $8::text[],
		$9::text[], $10::text[], $11::timestamptz[], $12::boolean[], $13::integer[], '"token"'::text, '""'::text,
		now(), 268435456::bigint, 32::bigint, 5120::bigint, NULL::text, NULL::bytea, now() - interval '24 hours', NULL::text[])`

// extKinds are operations as numbers for ext_apply_v1, which increments by a put.
var extKinds = map[string]int16{extPut: 0, extIncrement: 0, extCheck: 2}

// stored returns the value that the operation leaves, which is empty after a check.
func (op *extOp) stored() string {
	if op.Op == extIncrement {
		return extCounter
	}
	return string(op.Value)
}

// extApply runs a request's operations for caller c. Before an increment, it reads the record.
func (b *bare) extApply(c int, ops []extOp) tx {
	tenant, install := extOwner(1 + c)
	last, increment := len(ops)-1, []stmt(nil)
	if ops[last].Op == extIncrement {
		increment = []stmt{b.extGet(1+c, ops[last].Namespace, ops[last].Key)}
	}
	if b.onSQLite() {
		return extLiteApply(tenant, install, ops, increment)
	}
	n := len(ops)
	kinds, schemas, values, metadata, match := make([]int16, n), make([]int32, n), make([]*string, n), make([]*string, n), make([]*string, n)
	for i, op := range ops {
		kinds[i], schemas[i] = extKinds[op.Op], int32(op.schema)
		if op.Op == extCheck {
			match[i] = &op.IfMatch
			continue
		}
		value, none := op.stored(), `{}`
		values[i], metadata[i] = &value, &none
	}
	args := []any{
		tenant, install, kinds, each(ops, func(op extOp) string { return op.Namespace }), each(ops, func(op extOp) string { return op.Key }), make([]*int64, n), match,
		make([]*string, n), values, metadata, make([]*time.Time, n), make([]bool, n), schemas,
	}
	matches := "$7::text[]"
	if increment != nil {
		args[6], args = match[:last], append(args, cell{0, 1, 0})
		matches = "array_append($7::text[], '{' || $14::bigint || '}')"
	}
	return tx{reads: increment, writes: []stmt{sql(fmt.Sprintf(extPgApply, matches), args...)}}
}

// extEmpty deletes the events of previous windows.
func extEmpty(ctx context.Context, b *bare, _ int) error {
	return b.run(ctx, write(sql(b.either(`DELETE FROM ext_storage_outbox`, `TRUNCATE ext_storage_outbox`))))
}

// extGet reads a record of the n-th install.
func (b *bare) extGet(n int, ns, key string) stmt {
	tenant, install := extOwner(n)
	if b.onSQLite() {
		return sql(extGetOne, tenant, install, time.Now().UnixMilli(), ns, key).want(1)
	}
	return sql(extPgGet, tenant, install, ns, key, time.Now()).want(1)
}

// extList reads a page of any install's records, with or without values.
func (b *bare) extList(values bool) stmt {
	tenant, install := extOwner(b.anyOwner())
	if b.onSQLite() {
		return sql(extGetPage, tenant, install, time.Now().UnixMilli(), extListNamespace, "", "\U0010FFFF", extKeys+1, 0, values).want(extKeys)
	}
	return sql(extPgList, tenant, install, extListNamespace, "", "", "\U0010FFFF", values, false, time.Now(), extKeys+1, extPageShare).want(extKeys)
}

// extLiteApply overwrites records after the service's lookups and the reads of an increment.
func extLiteApply(tenant, install string, ops []extOp, increment []stmt) (t tx) {
	at, part := time.Now().UnixMilli(), int64(install[len(install)-1]%16)
	const usage = 0
	t.reads = append(t.reads, sql(extBegin, tenant, install, ops[0].Namespace, ops[0].Key).want(1), sql(extExpiring, tenant, install, at, at))
	// The cells of the last change and of a record: its revision, the time of its creation, and its rowid.
	seq := cell{usage, 3, 0}
	revision, created, row := cell{usage, 8, 1}, cell{usage, 10, 0}, cell{usage, 15, 0}
	for i, op := range ops {
		if i > 0 {
			if op.Op != extCheck && op.Namespace != ops[i-1].Namespace {
				t.reads = append(t.reads, sql(extActive, tenant, install, op.Namespace))
			}
			revision, created, row = cell{len(t.reads), 0, 1}, cell{len(t.reads), 2, 0}, cell{len(t.reads), 7, 0}
			t.reads = append(t.reads, sql(extFind, tenant, install, op.Namespace, op.Key).want(1))
		}
		if op.Op == extCheck {
			continue
		}
		seq.plus++
		value := op.stored()
		event := fmt.Sprintf(`{"operation":"put","namespace":%q,"key":%q,"schemaVersion":%d,"caller":"token","callerId":"","revision":1}`, op.Namespace, op.Key, op.schema)
		t.writes = append(t.writes,
			sql(extChange, tenant, install, seq, "put", op.Namespace, op.Key, revision, at),
			sql(extEvent, tenant, install, seq, "extstorage.put", op.Namespace+"/"+op.Key, event, at*1000, part),
			sql(extUpdate, row, revision, seq, created, at, nil, len(value), 2, value, `{}`).want(1))
	}
	t.reads = append(t.reads, increment...)
	t.writes = append(t.writes, sql(extSetUsage, tenant, install, cell{usage, 0, 0}, cell{usage, 1, 0}, cell{usage, 2, 0}, seq, at, at).want(1))
	return t
}
