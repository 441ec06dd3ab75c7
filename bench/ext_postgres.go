package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	store "holdfast/internal/extstorage/postgres"
)

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

type extPostgres struct{ pgDatabase }

const extConnections = 20

func openExtPostgres(ctx context.Context, e *engine, installs int) (limit, error) {
	d, err := openPostgres(ctx, e, "bare_ext", extConnections, store.Migrations)
	if err != nil {
		return nil, err
	}
	l := &extPostgres{d}
	for i := range installs {
		tenant, install := owner(i)
		if _, err := l.pool.Exec(ctx, `INSERT INTO ext_storage_schemas (tenant_id, extension_install_id, namespace, schema_version, schema_document, status)
			VALUES ($1::uuid, $2::uuid, $3::text, 1, $4::text::jsonb, 'active')`, tenant, install, extSchemaNamespace, extSchema); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	for _, ops := range extFill() {
		script, vars := extScript(&extWork{ops: ops})
		if _, err := pgbench(ctx, l.url, script, vars, installs, "-t", "1"); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

func (l *extPostgres) window(ctx context.Context, operation string, callers int, d time.Duration) (float64, error) {
	w, err := extWorkOf(operation)
	if err != nil {
		return 0, err
	}
	switch {
	case w.writes():
		if _, err := l.pool.Exec(ctx, `TRUNCATE ext_storage_outbox`); err != nil {
			return 0, err
		}
		script, vars := extScript(w)
		return pgbench(ctx, l.url, script, vars, callers, during(d)...)
	case w.page:
		return rate(ctx, callers, lasting(d), func(ctx context.Context, c, _ int) error { return l.list(ctx, c, w.values) })
	}
	return rate(ctx, callers, lasting(d), l.get)
}

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

type extFound struct {
	key                         string
	revision, seq, size, others int64
	created, updated            time.Time
	expires                     *time.Time
	value, metadata             []byte
}

func (f *extFound) columns() []any {
	return []any{&f.revision, &f.seq, &f.created, &f.updated, &f.expires, &f.size, &f.others, &f.value, &f.metadata}
}

func (l *extPostgres) get(ctx context.Context, caller, i int) error {
	tenant, install := owner(caller)
	rows, err := l.pool.Query(ctx, extPgGet, tenant, install, extListNamespace, id(i%extKeys), now())
	if err != nil {
		return err
	}
	var f extFound
	n := 0
	_, err = pgx.ForEachRow(rows, f.columns(), func() error { n++; return nil })
	return checked(n, 1, err)
}

func (l *extPostgres) list(ctx context.Context, caller int, values bool) error {
	tenant, install := owner(caller)
	rows, err := l.pool.Query(ctx, extPgList, tenant, install, extListNamespace, "", "", "\U0010FFFF", values, false, now(), extKeys+1, extPageShare)
	if err != nil {
		return err
	}
	var f extFound
	all := make([]extFound, 0, extKeys)
	_, err = pgx.ForEachRow(rows, append([]any{&f.key}, f.columns()...), func() error {
		all = append(all, f)
		f.value, f.metadata = nil, nil
		return nil
	})
	return checked(len(all), extKeys, err)
}
