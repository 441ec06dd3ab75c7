package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/internal/workload/sync"
)

// grown is a service whose tables are filled by SQL, with writes that overwrite the records.
type grown struct {
	service

	file           string
	lite, postgres []string
	args           func(first, owners, records int) []any
	path           string // of the record with this ID
	body           string
	settle         func(ctx context.Context, s *server) error
	// counts is the address of an owner's number of records, and the answer. A wrong number means that writes created
	// records instead of overwriting them.
	counts, count string
	owners        int // number of the last owner
}

func rowsTable(o *options, out io.Writer) *table {
	fmt.Fprintf(out, "%v windows, median of %d, %d connections, %d B records.\n\n", o.window, o.runs, o.size.rowsCallers, o.size.rowsPayload)
	return newTable(out, "total rows>|rows per owner>|owners>|engine|writes/s>|server CPU µs/op>|engine CPU µs/op>")
}

// line is a row of the table: writes to the records of these owners.
type line struct {
	rows, records int // total rows, and records per owner
	first, owners int // the owners are spread from the first to the last owner
}

// grow adds records to new owners, directly in the stopped server's database.
func (g *grown) grow(ctx context.Context, s *server, owners, records int) error {
	first := g.owners + 1
	g.owners += owners
	return s.fillTables(ctx, g.file, g.lite, g.postgres, g.args(first, owners, records)...)
}

// growing fills the tables step by step and measures writes by a fixed number of owners, spread over the tables.
func (g *grown) growing(ctx context.Context, o *options, s *server, most int, t *table) error {
	for _, rows := range o.rows {
		if err := g.grow(ctx, s, max(1, rows/o.size.manyRecords)-g.owners, o.size.manyRecords); err != nil {
			return err
		}
		if err := g.measure(ctx, o, s, t, line{g.owners * o.size.manyRecords, o.size.manyRecords, 1, most}); err != nil {
			return err
		}
	}
	return nil
}

func (g *grown) measure(ctx context.Context, o *options, s *server, t *table, lines ...line) error {
	var sides []func() (sample, error)
	var loads []func(while) error
	for i := range lines {
		l := &lines[i]
		l.owners = min(l.owners, g.owners+1-l.first)
		var owners []credentials
		for n := range l.owners {
			c, err := g.owner(s, l.first+n*(g.owners+1-l.first)/l.owners)
			if err != nil {
				return err
			}
			owners = append(owners, c)
		}
		op := operation{settle: g.settle, do: func(ctx context.Context, c *caller, _ int) error {
			c.credentials = owners[rand.IntN(len(owners))]
			_, err := c.send(ctx, http.MethodPut, fmt.Sprintf(g.path, id(rand.IntN(l.records))), []byte(g.body))
			return err
		}}
		callers := slices.Repeat(owners[:1], o.size.rowsCallers)
		sides = append(sides, func() (sample, error) { return op.window(ctx, s, callers, o.window) })
		loads = append(loads, func(more while) error {
			_, err := op.load(ctx, s, callers, more)
			return err
		})
	}
	if _, err := alternate(1, sides...); err != nil { // a warm-up
		return err
	}
	all, err := alternate(o.runs, sides...)
	if err != nil {
		return err
	}
	for i, l := range lines {
		owner, err := g.owner(s, l.first)
		if err != nil {
			return err
		}
		err = with(ctx, owner, func(c *caller) error {
			got, err := c.send(ctx, http.MethodGet, g.counts, nil)
			if want := fmt.Sprintf(g.count, l.records); err == nil && !strings.Contains(string(got), want) {
				err = fmt.Errorf("an owner has %s, want %s", got, want)
			}
			return err
		})
		if err != nil {
			return err
		}
		t.row(l.rows, l.records, l.owners, s.engine.name, all[i].ops, micros(all[i].cpu), micros(all[i].engine))
		if o.profiles == "" {
			continue
		}
		if err := s.profile(ctx, o, fmt.Sprintf("rows-%s-%d-%d-%d", s.engine.name, l.rows, l.records, l.owners), loads[i]); err != nil {
			return err
		}
	}
	return nil
}

func measureSyncRows(ctx context.Context, o *options, e *engine, t *table) error {
	return onServer(ctx, o.binary, e, nil, func(s *server) error {
		g := &grown{
			service: newSync(o.size), file: syncFile, lite: liteGrow, postgres: pgGrow,
			args: func(first, users, records int) []any {
				return []any{first, users, records, o.size.rowsPayload, collectionIDs[putCollection], payload(o.size.rowsPayload)}
			},
			path: "/storage/" + putCollection + "/%s", body: sync.JSON(sync.Record{Payload: payload(o.size.rowsPayload)}),
			counts: "/info/collection_counts", count: `{"` + putCollection + `":%d}`,
		}
		if err := g.growing(ctx, o, s, o.size.users, t); err != nil {
			return err
		}
		big, rows := g.owners+1, g.owners*o.size.manyRecords+o.size.ofOne
		if err := g.grow(ctx, s, 1, o.size.ofOne); err != nil {
			return err
		}
		return g.measure(ctx, o, s, t, line{rows, o.size.manyRecords, 1, 1}, line{rows, o.size.ofOne, big, 1})
	})
}

// Parameters: first user, users, records per user, bytes per payload, collection, payload.
var (
	liteGrow = []string{`
		WITH RECURSIVE u (id) AS (SELECT %[1]d UNION ALL SELECT id + 1 FROM u WHERE id < %[1]d + %[2]d - 1)
		INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes)
		SELECT id, c.collection_id, 1700000000000, c.count, c.count * %[4]d
		FROM u CROSS JOIN (SELECT 0 AS collection_id, 0 AS count UNION ALL SELECT %[5]d, %[3]d) c`, `
		WITH RECURSIVE r (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < %[2]d * %[3]d - 1)
		INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload)
		SELECT %[1]d + i / %[3]d, %[5]d, 100000000000 + i %% %[3]d, 1600000000000 + i %% %[3]d * 10, CAST('%[6]s' AS BLOB) FROM r`,
	}
	pgGrow = []string{
		`SET session_replication_role = replica`, // no foreign key checks
		`INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes)
		SELECT u, c.id, timestamp '2023-11-14', c.n, c.n * %[4]d
		FROM generate_series(%[1]d, %[1]d + %[2]d - 1) u CROSS JOIN (VALUES (0, 0), (%[5]d, %[3]d)) c (id, n)`,
		`INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload)
		SELECT %[1]d + i / %[3]d, %[5]d, (100000000000 + i %% %[3]d)::text, timestamp '2020-09-13' + i %% %[3]d * interval '10 milliseconds', '%[6]s'::bytea
		FROM generate_series(0, %[2]d::bigint * %[3]d - 1) i`,
		`VACUUM ANALYZE user_collections, bsos`, `CHECKPOINT`, // so that no background work remains
	}
)

func measureExtRows(ctx context.Context, o *options, e *engine, t *table) error {
	return onServer(ctx, o.binary, e, nil, func(s *server) error {
		g := &grown{
			service: extLoad{}, settle: extPublished, file: extFile, lite: liteGrowExt, postgres: pgGrowExt,
			// All changes get yesterday's date, because the sweep removes old changes.
			args: func(first, installs, keys int) []any {
				return []any{extFirst + first, installs, keys, o.size.rowsPayload, extPutNamespace, extText(o.size.rowsPayload), time.Now().Add(-24 * time.Hour).UnixMilli()}
			},
			path: "/namespaces/" + extPutNamespace + "/records/%s", body: `{"value":` + extText(o.size.rowsPayload) + `}`,
			counts: "/namespaces", count: `"keys":%d,`,
		}
		if err := g.growing(ctx, o, s, o.size.extInstalls, t); err != nil {
			return err
		}
		return g.measure(ctx, o, s, t, line{g.owners * o.size.manyRecords, o.size.manyRecords, 1, o.size.extSpread})
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
