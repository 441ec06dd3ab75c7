package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const extKeysBytes = 500

func extKeysHead(o *options, out io.Writer) {
	window, _ := o.brief()
	rowsHead(o, out, window, extKeysBytes)
}

func extRowsHead(o *options, out io.Writer) { rowsHead(o, out, o.window, o.size.rowsPayload) }

func (w *extLoad) rows() *rows {
	return &rows{
		service: w, grow: w.grow, settle: extPublished,
		rewrite: func(bytes int) func(context.Context, *caller, int) error {
			body := []byte(`{"value":` + extText(bytes) + `}`)
			return func(ctx context.Context, c *caller, i int) error {
				_, err := c.send(ctx, http.MethodPut, "/namespaces/"+extPutNamespace+"/records/"+id(i), body, "")
				return err
			}
		},
		check: func(ctx context.Context, c *caller, keys int) error {
			got, err := c.send(ctx, http.MethodGet, "/namespaces", nil, "")
			if want := fmt.Sprintf(`"keys":%d,`, keys); err == nil && !bytes.Contains(got, []byte(want)) {
				err = fmt.Errorf("an install has %s, want %s", got, want)
			}
			return err
		},
	}
}

func (w *extLoad) measureKeys(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		var lines []*line
		r, n, rows := w.rows(), o.size.rowsCallers, 0
		for i, keys := range o.size.extNamespaces {
			if err := r.grow(ctx, s, 1+i*n, n, keys, extKeysBytes); err != nil {
				return err
			}
			rows += n * keys
			lines = append(lines, &line{records: keys, numbers: spread(1+i*n, n, n), bytes: extKeysBytes})
		}
		for _, l := range lines {
			l.rows = rows
		}
		window, _ := o.brief()
		return r.measure(ctx, o, s, window, lines, out)
	})
}

func (w *extLoad) measureRows(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		r := w.rows()
		have, err := r.growing(ctx, o, s, o.size.extInstalls, out)
		if err != nil {
			return err
		}
		many := &line{rows: have * o.size.manyRecords, records: o.size.manyRecords, numbers: spread(1, have, o.size.extSpread), bytes: o.size.rowsPayload}
		return r.measure(ctx, o, s, o.window, []*line{many}, out)
	})
}

// Parameters: first install, installs, keys per install, bytes per value, namespace, value, time.
var (
	liteGrowExt = []string{`
		WITH RECURSIVE o (n) AS (SELECT %[1]d UNION ALL SELECT n + 1 FROM o WHERE n < %[1]d + %[2]d - 1)
		INSERT INTO ext_storage_usage (tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, updated_at, change_seq)
		SELECT '` + extTenant + `' || n, '` + extInstall + `' || n, %[3]d * (%[4]d + 2), %[3]d, 1, %[7]d, %[3]d FROM o`, `
		INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count)
		SELECT tenant_id, extension_install_id, '%[5]s', keys_count FROM ext_storage_usage
		WHERE tenant_id BETWEEN '` + extTenant + `' || %[1]d AND '` + extTenant + `' || (%[1]d + %[2]d - 1)`, `
		WITH RECURSIVE r (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < %[2]d * %[3]d - 1)
		INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, change_seq, created_at, updated_at,
			value_bytes, metadata_bytes, metadata, value)
		SELECT '` + extTenant + `' || (%[1]d + i / %[3]d), '` + extInstall + `' || (%[1]d + i / %[3]d), '%[5]s', 100000000000 + i %% %[3]d, 1, 1 + i %% %[3]d, %[7]d, %[7]d,
			%[4]d, 2, '{}', '%[6]s' FROM r`, `
		WITH RECURSIVE r (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < %[2]d * %[3]d - 1)
		INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
		SELECT '` + extTenant + `' || (%[1]d + i / %[3]d), '` + extInstall + `' || (%[1]d + i / %[3]d), 1 + i %% %[3]d, 'put', '%[5]s', 100000000000 + i %% %[3]d, 1, %[7]d + i / 1000 FROM r`,
	}

	pgGrowExt = []string{`
		INSERT INTO ext_storage_usage (tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, change_seq)
		SELECT ('` + extTenant + `' || n)::uuid, ('` + extInstall + `' || n)::uuid, %[3]d * (%[4]d + 2), %[3]d, 1, %[3]d
		FROM generate_series(%[1]d, %[1]d + %[2]d - 1) n`, `
		INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count)
		SELECT ('` + extTenant + `' || n)::uuid, ('` + extInstall + `' || n)::uuid, '%[5]s', %[3]d
		FROM generate_series(%[1]d, %[1]d + %[2]d - 1) n`, `
		INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, value, value_bytes, metadata_bytes, change_seq)
		SELECT ('` + extTenant + `' || %[1]d + i / %[3]d)::uuid, ('` + extInstall + `' || %[1]d + i / %[3]d)::uuid, '%[5]s',
			(100000000000 + i %% %[3]d)::text, '%[6]s'::jsonb, %[4]d, 2, 1 + i %% %[3]d
		FROM generate_series(0, %[2]d::bigint * %[3]d - 1) i`, `
		INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
		SELECT ('` + extTenant + `' || %[1]d + i / %[3]d)::uuid, ('` + extInstall + `' || %[1]d + i / %[3]d)::uuid, 1 + i %% %[3]d, 'put', '%[5]s',
			(100000000000 + i %% %[3]d)::text, 1, now() - interval '1 day' + i * interval '1 microsecond'
		FROM generate_series(0, %[2]d::bigint * %[3]d - 1) i`,
		`VACUUM ANALYZE ext_storage_records, ext_storage_changes, ext_storage_usage, ext_storage_namespaces`,
		`CHECKPOINT`,
	}
)

// All changes get today's date, because the sweep removes old changes.
func (w *extLoad) grow(ctx context.Context, s *server, first, installs, keys, bytes int) error {
	at := time.Now().Add(-24 * time.Hour).UnixMilli()
	args := []any{extFirst + first, installs, keys, bytes, extPutNamespace, extText(bytes), at}
	return s.past(ctx, extFile(s.data()), script(liteGrowExt, args...), script(pgGrowExt, args...))
}
