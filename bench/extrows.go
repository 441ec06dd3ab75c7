package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const extRowsColumns = "| rows of the server | keys of a namespace | installs | engine | put/s | server CPU µs/op | engine CPU µs/op |\n|--:|--:|--:|---|--:|--:|--:|\n"

// extKeysBytes are those of a value where it is the number of keys that matters.
const extKeysBytes = 500

func extKeysHead(o *options, out io.Writer) {
	window, _ := o.brief()
	fmt.Fprintf(out, "Windows of %v, medians of %d, %d connections, values of %d B.\n\n%s", window, o.runs, o.size.rowsCallers, extKeysBytes, extRowsColumns)
}

func extRowsHead(o *options, out io.Writer) {
	fmt.Fprintf(out, "Windows of %v, medians of %d, %d connections, values of %d B.\n\n%s", o.window, o.runs, o.size.rowsCallers, o.size.rowsPayload, extRowsColumns)
}

// measureExtKeys tells what a put costs by how many keys its namespace has: of
// as many installs as there are connections, each number in turn.
func measureExtKeys(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		var lines []*extLine
		n, rows := o.size.rowsCallers, 0
		for i, keys := range o.size.extNamespaces {
			if err := s.growExt(ctx, i*n, n, keys, extKeysBytes); err != nil {
				return err
			}
			rows += n * keys
			lines = append(lines, &extLine{keys: keys, numbers: numbered(i*n, n, n), bytes: extKeysBytes})
		}
		for _, l := range lines {
			l.rows = rows
		}
		window, _ := o.brief()
		return measureExtLines(ctx, o, s, window, lines, out)
	})
}

// measureExtRows lets the tables grow and tells what a put costs at each size:
// always to as many installs, which are spread over the tables, and at the end
// to many more.
func measureExtRows(ctx context.Context, o *options, e *engine, out io.Writer) error {
	return onServer(ctx, o, e, nil, func(s *server) error {
		have := 0
		line := func(most int) error {
			l := extLine{rows: have * o.size.extMany, keys: o.size.extMany, numbers: numbered(0, have, most), bytes: o.size.rowsPayload}
			return measureExtLines(ctx, o, s, o.window, []*extLine{&l}, out)
		}
		for _, rows := range o.rows {
			installs := max(1, rows/o.size.extMany)
			if err := s.growExt(ctx, have, installs-have, o.size.extMany, o.size.rowsPayload); err != nil {
				return err
			}
			have = installs
			if err := line(o.size.extInstalls); err != nil {
				return err
			}
		}
		return line(o.size.extSpread)
	})
}

// numbered is every so-many-th of n installs from a number on, at most so many.
func numbered(from, n, most int) (all []int) {
	for _, uid := range spread(n, most) {
		all = append(all, from+int(uid)-1)
	}
	return all
}

// extLine is a line of a table: what it costs to put over a record of one of
// some installs.
type extLine struct {
	rows, keys int
	numbers    []int // of the installs
	bytes      int   // of a value

	installs []credentials
	samples  []sample
}

// measureExtLines measures lines in turn, so that they meet the same machine.
func measureExtLines(ctx context.Context, o *options, s *server, window time.Duration, lines []*extLine, out io.Writer) error {
	for _, l := range lines {
		for _, n := range l.numbers {
			c, err := s.install(n)
			if err != nil {
				return err
			}
			l.installs = append(l.installs, c)
		}
	}
	for _, l := range lines { // warms the caches
		if _, err := l.load(ctx, o, s, lasting(window), atOnce); err != nil {
			return err
		}
	}
	for range o.runs {
		for _, l := range lines {
			p, err := l.load(ctx, o, s, lasting(window), s.published)
			if err != nil {
				return err
			}
			l.samples = append(l.samples, p.sample())
		}
	}
	for _, l := range lines {
		for _, c := range []credentials{l.installs[0], l.installs[len(l.installs)-1]} {
			if err := l.check(ctx, c); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %.0f | %d | %s |\n", thousands(l.rows), thousands(l.keys), thousands(len(l.installs)), s.engine.name,
			median(l.samples, func(s sample) float64 { return s.ops }),
			median(l.samples, func(s sample) time.Duration { return s.cpu }).Microseconds(),
			engineCPU(median(l.samples, func(s sample) time.Duration { return s.engine })))
		name := fmt.Sprintf("ext-%s-%d-%d-%d", s.engine.name, l.rows, l.keys, len(l.installs))
		err := s.profile(ctx, o, name, func(more more) error {
			_, err := l.load(ctx, o, s, more, atOnce)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// load puts over records of any of the installs, until done.
func (l *extLine) load(ctx context.Context, o *options, s *server, more more, done func(context.Context) error) (phase, error) {
	callers, hangUp, err := dialAll(ctx, slices.Repeat(l.installs[:1], o.size.rowsCallers))
	if err != nil {
		return phase{}, err
	}
	defer hangUp()
	body := []byte(`{"value":` + extText(l.bytes) + `}`)
	return s.measuredUntil(ctx, len(callers), more, func(ctx context.Context, c, _ int) error {
		callers[c].credentials = l.installs[rand.IntN(len(l.installs))]
		_, err := callers[c].send(ctx, http.MethodPut, "/namespaces/"+extPutNamespace+"/records/"+id(rand.IntN(l.keys)), body, "")
		return err
	}, done)
}

// check refuses puts that have made records instead of writing over those that
// are there.
func (l *extLine) check(ctx context.Context, install credentials) error {
	c, err := dial(ctx, install)
	if err != nil {
		return err
	}
	defer c.hangUp()
	got, err := c.send(ctx, http.MethodGet, "/namespaces", nil, "")
	if want := fmt.Sprintf(`"keys":%d,`, l.keys); err == nil && !bytes.Contains(got, []byte(want)) {
		err = fmt.Errorf("an install has %s, want %s", got, want)
	}
	return err
}

// extText is a JSON string of so many bytes.
func extText(bytes int) string { return `"` + strings.Repeat("x", bytes-2) + `"` }

// growExt gives installs from a number on so many records each, past the server,
// which is stopped meanwhile. Each record has a change of its own, which is of
// today: the sweep would take it away otherwise.
func (s *server) growExt(ctx context.Context, first, installs, keys, bytes int) error {
	return s.fill(ctx, func() error {
		if s.engine.postgres != nil {
			return s.engine.growExtPostgres(ctx, first, installs, keys, bytes)
		}
		return growExtSQLite(extFile(s.data()), first, installs, keys, bytes)
	})
}

// The tables as a server would have filled them. Parameters: the first install,
// how many, keys of each, bytes of a value, namespace, value, moment.
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

func growExtSQLite(file string, first, installs, keys, bytes int) error {
	return fillFile(file, func(c *sqlite.Conn) error {
		at := time.Now().Add(-24 * time.Hour).UnixMilli()
		for _, sql := range liteGrowExt {
			sql = fmt.Sprintf(sql, extFirst+first, installs, keys, bytes, extPutNamespace, extText(bytes), at)
			if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// growExtPostgres leaves nothing to be tidied up or written in the background.
func (e *engine) growExtPostgres(ctx context.Context, first, installs, keys, bytes int) error {
	for _, sql := range pgGrowExt {
		if strings.Contains(sql, "%") {
			sql = fmt.Sprintf(sql, extFirst+first, installs, keys, bytes, extPutNamespace, extText(bytes))
		}
		if err := e.exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
