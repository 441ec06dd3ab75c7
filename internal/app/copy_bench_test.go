package app_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/canonjson"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durations"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	ss "holdfast/internal/syncstorage"
	syncpg "holdfast/internal/syncstorage/postgres"
	syncsqlite "holdfast/internal/syncstorage/sqlite"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

// benchCopies are services with their tables, parents first, and SQL that fills them: each owner gets 100 records, 150 B
// each. The SQL's parameters are the owner count and the record count.
var benchCopies = []struct {
	service string
	tables  []string
	fill    map[string]string
	writer  func(b *testing.B, url string) func(ctx context.Context, i int) error
}{
	{"syncstorage", []string{"user_collections", "bsos"}, map[string]string{
		"sqlite": `
			WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2 * %[1]d - 1)
			INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes) SELECT 1 + i / 2, i %% 2 * 7, 1700000000000, i %% 2 * 100, i %% 2 * 15000 FROM n;
			WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %[2]d - 1)
			INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload) SELECT 1 + i / 100, 7, 'b' || (i %% 100), 1600000000000 + i %% 100 * 10, CAST(printf('%%0150d', i) AS BLOB) FROM n`,
		"postgres": `
			INSERT INTO user_collections (user_id, collection_id, modified, count, total_bytes)
			SELECT 1 + i / 2, i %% 2 * 7, timestamp '2023-11-14', i %% 2 * 100, i %% 2 * 15000 FROM generate_series(0, 2 * %[1]d - 1) i;
			INSERT INTO bsos (user_id, collection_id, bso_id, modified, payload)
			SELECT 1 + i / 100, 7, 'b' || (i %% 100), timestamp '2020-09-13' + i %% 100 * interval '10 ms', lpad(i::text, 150, '0')::bytea FROM generate_series(0, %[2]d - 1) i`,
	}, syncWriter},
	{"extstorage", []string{"ext_storage_usage", "ext_storage_namespaces", "ext_storage_records", "ext_storage_changes"}, map[string]string{
		"sqlite": `
			WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d - 1)
			INSERT INTO ext_storage_usage (tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, updated_at, change_seq)
			SELECT printf('a0000000-0000-4000-8000-%%012d', i), printf('b0000000-0000-4000-8000-%%012d', i), 15200, 100, 1, unixepoch() * 1000, 100 FROM n;
			INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count) SELECT tenant_id, extension_install_id, 'a', 100 FROM ext_storage_usage;
			WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %[2]d - 1)
			INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, revision, change_seq, created_at, updated_at, value_bytes, metadata_bytes, metadata, value)
			SELECT printf('a0000000-0000-4000-8000-%%012d', i / 100), printf('b0000000-0000-4000-8000-%%012d', i / 100), 'a', 'k' || (i %% 100), 1, 1 + i %% 100, 1700000000000, 1700000000000, 150, 2, '{}',
				printf('"%%0148d"', i) FROM n;
			INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
			SELECT tenant_id, extension_install_id, change_seq, 'put', namespace, key, 1, unixepoch() * 1000 FROM ext_storage_records`,
		"postgres": `
			INSERT INTO ext_storage_usage (tenant_id, extension_install_id, bytes_used, keys_count, namespaces_count, change_seq)
			SELECT ('a0000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, ('b0000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, 15200, 100, 1, 100 FROM generate_series(0, %[1]d - 1) i;
			INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count) SELECT tenant_id, extension_install_id, 'a', 100 FROM ext_storage_usage;
			INSERT INTO ext_storage_records (tenant_id, extension_install_id, namespace, key, value, value_bytes, metadata_bytes, change_seq)
			SELECT ('a0000000-0000-4000-8000-' || lpad((i / 100)::text, 12, '0'))::uuid, ('b0000000-0000-4000-8000-' || lpad((i / 100)::text, 12, '0'))::uuid, 'a', 'k' || (i %% 100),
				('"' || lpad(i::text, 148, '0') || '"')::jsonb, 150, 2, 1 + i %% 100 FROM generate_series(0, %[2]d - 1) i;
			INSERT INTO ext_storage_changes (tenant_id, extension_install_id, seq, op, namespace, key, revision, at)
			SELECT tenant_id, extension_install_id, change_seq, 'put', namespace, key, 1, now() FROM ext_storage_records`,
	}, extWriter},
}

func syncWriter(b *testing.B, url string) func(context.Context, int) error {
	var s ss.Store
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		s = syncsqlite.New(opened.SQLite(b, sqlitedb.Options{Path: path}, nil))
	} else {
		s = syncpg.New(opened.Postgres(b, pgdb.Options{URL: url}, nil))
	}
	return func(ctx context.Context, i int) error {
		_, err := s.Put(ctx, ss.Owner{UID: int64(1 + i%1000)}, ss.Write{Collection: "bookmarks", Now: ss.At(time.Now())},
			ss.Update{ID: fmt.Sprint("b", i%100), Payload: ss.Some(bytes.Repeat([]byte("x"), 150))})
		return err
	}
}

func extWriter(b *testing.B, url string) func(context.Context, int) error {
	s := extHarness(b, url).Store
	return func(ctx context.Context, i int) error {
		o := ext.Owner{Tenant: ext.TenantID(fmt.Sprintf("a0000000-0000-4000-8000-%012d", i%1000)), Install: ext.InstallID(fmt.Sprintf("b0000000-0000-4000-8000-%012d", i%1000))}
		op := ext.Op{Kind: ext.Put, Namespace: "a", Key: ext.Key(fmt.Sprint("k", i%100)), Value: canonjson.Value(`"` + strings.Repeat("x", 148) + `"`), Metadata: canonjson.EmptyObject}
		_, err := s.Apply(ctx, o, ext.Write{Now: ext.At(time.Now()), Quota: ext.DefaultQuota(), Ops: []ext.Op{op}})
		return err
	}
}

// BenchmarkCopy copies records, with the comparison; then again while 16 writers write 500 records per second until the
// last pass. The limit is a COPY per table from binary files; on SQLite, an INSERT from an attached file. BENCH_RECORDS
// sets the record count; the default is 100,000.
//
//	BENCH_RECORDS=1000000 bin/testservers -- go test -run ^$ -bench Copy -benchtime 1x ./internal/app
func BenchmarkCopy(b *testing.B) {
	records := 100_000
	if text := os.Getenv("BENCH_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range benchCopies {
		for _, pair := range []struct {
			name, from string
			source, to func(testing.TB) string
		}{
			{"sqlite to sqlite", "sqlite", sqliteURL, sqliteURL},
			{"sqlite to postgres", "sqlite", sqliteURL, testdb.PostgresDatabase},
			{"postgres to citus", "postgres", testdb.PostgresDatabase, testdb.CitusDatabase},
		} {
			b.Run(c.service+"/"+pair.name, func(b *testing.B) {
				source, target := pair.source(b), pair.to(b)
				openOne(b, c.service, source)
				execute(b, source, fmt.Sprintf(c.fill[pair.from], records/100, records))
				took, _ := timedCopy(b, c.service, source, target)
				rows, bare := bareCopy(b, target, c.tables)
				b.ReportMetric(float64(rows)/took.Seconds(), "rows/s")
				b.ReportMetric(float64(rows)/bare.Seconds(), "limit-rows/s")
				b.ReportMetric(bare.Seconds()/took.Seconds(), "ratio")

				stop := pacedWrites(b, c.writer(b, source))
				took, pass := timedCopy(b, c.service, source, pair.to(b))
				b.ReportMetric(float64(stop())/took.Seconds(), "writes/s")
				b.ReportMetric(float64(pass.Milliseconds()), "last-pass-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

var lastPass = regexp.MustCompile(`the last pass took (\S+)`)

// timedCopy returns how long a copy and its last pass took. Then the source accepts writes again.
func timedCopy(b *testing.B, service, from, to string) (took, pass time.Duration) {
	b.Helper()
	c := newCopy(b, service, from, to)
	c.Report = func(line string) {
		if found := lastPass.FindStringSubmatch(line); found != nil {
			pass, _ = durations.Parse(found[1])
		}
	}
	begun := time.Now()
	if err := c.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	took = time.Since(begun)
	if pass == 0 {
		b.Error("the copy does not report how long its last pass took")
	}
	if err := c.Source.Rows(nil).Reopen(b.Context(), service, c.Groups); err != nil {
		b.Fatal(err)
	}
	return took, pass
}

// pacedWrites writes until the service is read-only. The returned function waits, and counts the writes.
func pacedWrites(b *testing.B, write func(ctx context.Context, i int) error) (stop func() int64) {
	b.Helper()
	const writers, rate = 16, 500
	var n atomic.Int64
	var all sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		all.Go(func() {
			tick := time.NewTicker(writers * time.Second / rate)
			defer tick.Stop()
			for i := w; ; i += writers {
				select {
				case <-done:
					return
				case <-tick.C:
				}
				err := write(b.Context(), i)
				if errcode.Is(err, errcode.Unavailable) {
					return
				}
				if err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	return func() int64 {
		close(done)
		all.Wait()
		return n.Load()
	}
}

// bareCopy empties a copy's tables, and fills them again.
func bareCopy(b *testing.B, target string, tables []string) (rows int, took time.Duration) {
	b.Helper()
	var err error
	if path, ok := strings.CutPrefix(target, "sqlite:"); ok {
		rows, took, err = bareCopySQLite(path, filepath.Join(b.TempDir(), "rows.db"), tables)
	} else {
		rows, took, err = bareCopyPostgres(b.Context(), target, b.TempDir(), tables)
	}
	if err != nil {
		b.Fatal(err)
	}
	return rows, took
}

func bareCopySQLite(path, other string, tables []string) (rows int, took time.Duration, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close() }()
	do := func(sql string, args ...any) {
		if err == nil {
			err = sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
				rows += s.ColumnInt(0)
				return nil
			}})
		}
	}
	do(`VACUUM INTO ?`, other)
	do(`ATTACH ? AS other`, other)
	for _, t := range slices.Backward(tables) {
		do(`SELECT count(*) FROM ` + t)
		do(`DELETE FROM ` + t)
	}
	begun := time.Now()
	for _, t := range tables {
		// Without a condition, SQLite would copy B-tree cells instead of rows.
		do(`INSERT INTO ` + t + ` SELECT * FROM other.` + t + ` WHERE true`) //nolint:unqueryvet // a copy of the same table
	}
	return rows, time.Since(begun), err
}

func bareCopyPostgres(ctx context.Context, target, dir string, tables []string) (rows int, took time.Duration, err error) {
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close(ctx)
	files := map[string]*os.File{}
	for _, t := range tables {
		if files[t], err = os.Create(filepath.Join(dir, t)); err != nil {
			return 0, 0, err
		}
		defer files[t].Close()
		tag, err := conn.PgConn().CopyTo(ctx, files[t], `COPY `+t+` TO STDOUT (FORMAT binary)`)
		if err != nil {
			return 0, 0, err
		}
		rows += int(tag.RowsAffected())
		if _, err := files[t].Seek(0, 0); err != nil {
			return 0, 0, err
		}
	}
	for _, t := range slices.Backward(tables) {
		if _, err := conn.Exec(ctx, `TRUNCATE `+t+` CASCADE`); err != nil {
			return 0, 0, err
		}
	}
	if _, err := conn.Exec(ctx, `CHECKPOINT`); err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	for _, t := range tables {
		if _, err := conn.PgConn().CopyFrom(ctx, files[t], `COPY `+t+` FROM STDIN (FORMAT binary)`); err != nil {
			return 0, 0, err
		}
	}
	return rows, time.Since(begun), nil
}
