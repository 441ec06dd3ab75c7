package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	extpostgres "holdfast/internal/extstorage/postgres"
	extsqlite "holdfast/internal/extstorage/sqlite"
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

// Copied from the service; see TestStatements.
const (
	extPgHeader = `revision, change_seq, created_at, updated_at, ttl_expires_at, value_bytes, metadata_bytes`
	extPgGet    = `SELECT ` + extPgHeader + `, value::text, coalesce(metadata::text, '')
		FROM ext_storage_records
		WHERE tenant_id = $1::uuid AND extension_install_id = $2::uuid AND namespace = $3::text AND key = $4::text
			AND (ttl_expires_at IS NULL OR ttl_expires_at > $5::timestamptz)`
	extPgFrom = `SELECT key, ` + extPgHeader + `, CASE WHEN @values AND value_bytes <= @sent THEN value::text ELSE '' END,
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

const extApply = `SELECT ext_apply_v1(('` + extTenant + `' || :owner::text)::uuid, ('` + extInstall + `' || :owner::text)::uuid,
	:kinds::smallint[], :namespaces::text[], %s, :guards::bigint[], %s, :none::text[],
	:values::text[], :metadata::text[], :expiries::timestamptz[], :keeps::boolean[], :schemas::integer[], '"token"'::text, '""'::text,
	now(), 268435456::bigint, 32::bigint, 5120::bigint, NULL::text, NULL::bytea, now() - interval '24 hours', NULL::text[]);
`

// extRead precedes an increment, which requires that this record is unchanged.
const extRead = `SELECT revision AS revision, change_seq AS seq, created_at AS created, updated_at AS updated, ttl_expires_at AS expires,
	value_bytes AS bytes, metadata_bytes AS others, value::text AS value, coalesce(metadata::text, '') AS metadata
	FROM ext_storage_records
	WHERE tenant_id = ('` + extTenant + `' || :owner::text)::uuid AND extension_install_id = ('` + extInstall + `' || :owner::text)::uuid
		AND namespace = :read_namespace::text AND key = %s AND (ttl_expires_at IS NULL OR ttl_expires_at > now())
\gset old_
`

func extScript(w *extWork) (script string, vars map[string]string) {
	n := len(w.ops)
	all := func(field func(*extOp) string) string {
		texts := make([]string, n)
		for i := range w.ops {
			texts[i] = field(&w.ops[i])
		}
		return array(texts)
	}
	null := array(make([]string, n))
	vars = map[string]string{
		"kinds":      all(func(op *extOp) string { return strconv.Itoa(op.kind) }),
		"namespaces": all(func(op *extOp) string { return op.ns }),
		"guards":     null, "none": null, "expiries": null,
		"values":   all(func(op *extOp) string { return op.value }),
		"metadata": all(func(op *extOp) string { return maybe(op.kind == extPut, `{}`) }),
		"keeps":    all(func(*extOp) string { return "f" }),
		"schemas":  all(func(op *extOp) string { return strconv.Itoa(op.schema) }),
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\\set owner %d + :client_id\n", extFirst)
	key, keys, matches := `:read_key::text`, `:keys::text[]`, `:matches::text[]`
	if w.turn {
		key, keys = `:key::text`, `ARRAY[:key::text]`
		fmt.Fprintf(&b, "\\set key random(%s, %s)\n", id(0), id(extKeys-1))
	} else {
		vars["keys"] = all(func(op *extOp) string { return op.key })
	}
	if w.reads != nil {
		vars["read_namespace"] = w.reads.ns
		fmt.Fprintf(&b, extRead, key)
		matches = `array_append(:matches::text[], '{' || :old_seq::text || '}')`
		if !w.turn {
			vars["read_key"] = w.reads.key
		}
	}
	match := make([]string, 0, n)
	for i := range w.ops {
		if w.reads == nil || i < n-1 {
			match = append(match, w.ops[i].match)
		}
	}
	vars["matches"] = array(match)
	fmt.Fprintf(&b, extApply, keys, matches)
	return b.String(), vars
}

func maybe(there bool, text string) string {
	if there {
		return text
	}
	return ""
}

var inArray = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func array(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		if quoted[i] = `NULL`; t != "" {
			quoted[i] = `"` + inArray.Replace(t) + `"`
		}
	}
	return `{` + strings.Join(quoted, ",") + `}`
}

// bare uses its own database, because its events are never published and must not mix with the server's.
func (extLoad) bare(ctx context.Context, _ *options, e *engine, installs int) (*bare, error) {
	s := store{name: "ext", sqlite: extsqlite.Migrations, postgres: extpostgres.Migrations, connections: 20}
	b, err := s.open(ctx, e)
	if err != nil {
		return nil, err
	}
	b.ops = map[string]bareOp{}
	fill, step, clear := fillExtLite, extLiteStep, `DELETE FROM ext_storage_outbox`
	if e.postgres != nil {
		fill, step, clear = fillExtPostgres, extPostgresStep, `TRUNCATE ext_storage_outbox`
	}
	empty := func(ctx context.Context, _ int) error { return b.run(ctx, tx{writes: []stmt{sql(clear)}}) }
	for _, w := range extWorks() {
		op := bareOp{prepare: empty}
		if e.postgres != nil && w.writes() {
			op.script, op.vars = extScript(&w)
		} else {
			op.step = b.each(step(&w, installs))
		}
		b.ops[w.name] = op
	}
	for i := range installs {
		err = errors.Join(err, fill(ctx, b, i))
	}
	for _, ops := range extFill() {
		if e.postgres != nil && err == nil {
			script, vars := extScript(&extWork{ops: ops})
			_, err = pgbench(ctx, b.url, script, vars, installs, "-t", "1")
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill the limit: %w", err), b.close())
	}
	return b, nil
}

func fillExtPostgres(ctx context.Context, b *bare, i int) error {
	tenant, install := extOwner(i)
	return b.fill(ctx, []stmt{sql(`INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, schema_document, status)
		VALUES ($1::uuid, $2::uuid, $3::text, 1, $4::text::jsonb, 'active')`, tenant, install, extSchemaNamespace, extSchema)})
}

func extPostgresStep(w *extWork, installs int) func(c, i int) tx {
	return func(_, i int) tx {
		tenant, install := extOwner(rand.IntN(installs))
		if w.page {
			return tx{reads: []stmt{sql(extPgList, tenant, install, extListNamespace, "", "", "\U0010FFFF", w.values, false, now(), extKeys+1, extPageShare).want(extKeys)}}
		}
		return tx{reads: []stmt{sql(extPgGet, tenant, install, extListNamespace, id(i%extKeys), now()).want(1)}}
	}
}

func fillExtLite(ctx context.Context, b *bare, i int) error {
	tenant, install := extOwner(i)
	all := []stmt{sql(extAddUsage, tenant, install, 0, 0, 0, 0, 0, 0), sql(extAddSchema, tenant, install, extSchemaNamespace, extSchema)}
	at := time.Now().UnixMilli()
	for _, ops := range extFill() {
		for _, op := range ops {
			all = append(all, sql(extInsert, tenant, install, op.ns, op.key, 1, 1, at, at, nil, len(op.value), 2, op.value, `{}`))
		}
	}
	return b.fill(ctx, all)
}

// extSeq is a sequence number of the change feed, which grows in each install.
var extSeq atomic.Int64

func extLiteStep(w *extWork, installs int) func(c, i int) tx {
	wanted := 0
	if w.values {
		wanted = 1
	}
	return func(c, i int) tx {
		at := time.Now().UnixMilli()
		if !w.writes() {
			tenant, install := extOwner(rand.IntN(installs))
			if w.page {
				return tx{reads: []stmt{sql(extGetPage, tenant, install, at, extListNamespace, "", "\U0010FFFF", extKeys+1, 0, wanted).want(extKeys)}}
			}
			return tx{reads: []stmt{sql(extGetOne, tenant, install, at, extListNamespace, id(i%extKeys)).want(1)}}
		}
		return extLiteWrite(c, w.op(i), w.reads != nil, at)
	}
}

// extLiteWrite overwrites records after the service's lookups; reads: also after the last record was read, as before an
// increment.
func extLiteWrite(c int, ops []extOp, reads bool, at int64) (t tx) {
	tenant, install := extOwner(c)
	part := int64(install[len(install)-1] % 16)
	const usage = 0
	t.reads = append(t.reads, sql(extBegin, tenant, install, ops[0].ns, ops[0].key).want(1), sql(extExpiring, tenant, install, at, at))
	// The cells of a record: its revision, the time of its creation, and its rowid.
	revision, created, row := cell{usage, 8, 1}, cell{usage, 10, 0}, cell{usage, 15, 0}
	seq := extSeq.Add(int64(len(ops))) - int64(len(ops))
	for i, op := range ops {
		if i > 0 {
			if op.kind == extPut && op.ns != ops[i-1].ns {
				t.reads = append(t.reads, sql(extActive, tenant, install, op.ns))
			}
			revision, created, row = cell{len(t.reads), 0, 1}, cell{len(t.reads), 2, 0}, cell{len(t.reads), 7, 0}
			t.reads = append(t.reads, sql(extFind, tenant, install, op.ns, op.key).want(1))
		}
		if op.kind != extPut {
			continue
		}
		seq++
		event := fmt.Sprintf(`{"operation":"put","namespace":%q,"key":%q,"schemaVersion":%d,"caller":"token","callerId":"","revision":1}`, op.ns, op.key, op.schema)
		t.writes = append(t.writes,
			sql(extChange, tenant, install, seq, "put", op.ns, op.key, revision, at),
			sql(extEvent, tenant, install, seq, "extstorage.put", op.ns+"/"+op.key, event, at*1000, part),
			sql(extUpdate, row, revision, seq, created, at, nil, len(op.value), 2, op.value, `{}`).want(1))
	}
	if last := &ops[len(ops)-1]; reads {
		t.reads = append(t.reads, sql(extGetOne, tenant, install, at, last.ns, last.key).want(1))
	}
	t.writes = append(t.writes, sql(extSetUsage, tenant, install, cell{usage, 0, 0}, cell{usage, 1, 0}, cell{usage, 2, 0}, seq, at, at).want(1))
	return t
}
