package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	bucketstest "holdfast/internal/buckets/storetest"
	"holdfast/internal/canonjson"
	"holdfast/internal/check"
	"holdfast/internal/copying"
	"holdfast/internal/db/pgdb"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
	extpg "holdfast/internal/extstorage/postgres"
	extsqlite "holdfast/internal/extstorage/sqlite"
	exttest "holdfast/internal/extstorage/storetest"
	syncpg "holdfast/internal/syncstorage/postgres"
	syncsqlite "holdfast/internal/syncstorage/sqlite"
	synctest "holdfast/internal/syncstorage/storetest"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	tokenpg "holdfast/internal/tokenserver/postgres"
	tokensqlite "holdfast/internal/tokenserver/sqlite"
	tokentest "holdfast/internal/tokenserver/storetest"
)

// openOne opens a service's database without its lock, because tests also open it elsewhere. It makes missing tables.
func openOne(t testing.TB, name, url string) *app.One {
	t.Helper()
	open := func(mode app.Mode) (*app.One, error) {
		cfg, _, err := app.Load(onAllEngines(), "", databaseEnv(t, name, url))
		if err != nil {
			t.Fatal(err)
		}
		return app.OpenOne(t.Context(), name, app.Options{Config: cfg, Data: t.TempDir(), LogTo: io.Discard, Mode: mode})
	}
	one, err := open(app.ModeCopyRead)
	if err != nil { // missing or outdated
		made, err := open(app.ModeCopyWrite)
		if err != nil {
			t.Fatal(err)
		}
		_, err = made.Database.Migrate(t.Context())
		if err := errors.Join(err, made.Close()); err != nil {
			t.Fatal(err)
		}
		if one, err = open(app.ModeCopyRead); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	})
	return one
}

func databaseEnv(t testing.TB, name, url string) []string {
	t.Helper()
	env := []string{"HOLDFAST_" + strings.ToUpper(name) + "__DATABASE_URL=" + url, "HOLDFAST_" + strings.ToUpper(name) + "__ENABLED=true"}
	if strings.HasPrefix(url, "spanner:") {
		env = append(env, "HOLDFAST_SYNCSTORAGE__SPANNER_EMULATOR_HOST="+testdb.Spanner(t))
	}
	return env
}

func newCopy(t testing.TB, name, from, to string) *copying.Copy {
	t.Helper()
	source, target := openOne(t, name, from), openOne(t, name, to)
	return &copying.Copy{Service: name, Groups: source.Service.Tables, Source: source.Database, Target: target.Database}
}

func wantEqual(t testing.TB, c *copying.Copy) {
	t.Helper()
	n, err := c.Verify(t.Context(), func(d copying.Difference) { t.Error(d) })
	if err != nil || n == 0 {
		t.Errorf("compared %d rows: %v", n, err)
	}
}

func sqliteURL(t testing.TB) string {
	return "sqlite:" + filepath.Join(testdb.SQLite(t), "test.db")
}

func execute(t testing.TB, url, script string) {
	t.Helper()
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		testdb.Script(t, url, script)
		return
	}
	db := opened.SQLite(t, sqlitedb.Options{Path: path}, nil)
	err := db.Write(t.Context(), "script", func(c *sqlite.Conn) error { return sqlitex.ExecuteScript(c, script, nil) })
	if err != nil {
		t.Fatal(err)
	}
}

// copied are services with data in the newest schema, and the migration suite's check that all data remains and writes
// continue.
var copied = []struct {
	name  string
	files map[string]string
	check func(t *testing.T, url string)
}{
	{"extstorage", map[string]string{"sqlite": "extstorage/sqlite/testdata/schema/0001.sql", "postgres": "extstorage/postgres/testdata/schema/0005.sql"}, func(t *testing.T, url string) {
		exttest.Migrated(t, extHarness(t, url))
	}},
	{"syncstorage", map[string]string{"sqlite": "syncstorage/sqlite/testdata/schema/0001.sql", "postgres": "syncstorage/postgres/testdata/schema/0005.sql"}, func(t *testing.T, url string) {
		if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
			synctest.Migrated(t, syncsqlite.New(opened.SQLite(t, sqlitedb.Options{Path: path}, nil)))
			return
		}
		synctest.Migrated(t, syncpg.New(opened.Postgres(t, pgdb.Options{URL: url}, nil)))
	}},
	{"tokenserver", map[string]string{"sqlite": "tokenserver/sqlite/testdata/schema/0001.sql", "postgres": "tokenserver/postgres/testdata/schema/0001.sql"}, func(t *testing.T, url string) {
		if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
			tokentest.Migrated(t, tokensqlite.New(opened.SQLite(t, sqlitedb.Options{Path: path}, nil)))
			return
		}
		tokentest.Migrated(t, tokenpg.New(opened.Postgres(t, pgdb.Options{URL: url}, nil)))
	}},
	{"buckets", map[string]string{"sqlite": "buckets/sqlite/testdata/schema/0010.sql", "postgres": "buckets/postgres/testdata/schema/0013.sql"}, func(t *testing.T, url string) {
		bucketstest.Migrated(t, bucketsHarness(t, url))
	}},
}

func extHarness(t testing.TB, url string) exttest.Harness {
	const query = `SELECT seq, topic, key, CAST(payload AS TEXT) FROM ext_storage_outbox WHERE CAST(extension_install_id AS TEXT) = `
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db := opened.SQLite(t, sqlitedb.Options{Path: path}, nil)
		s := extsqlite.New(db, extsqlite.Options{})
		return exttest.Harness{Store: s, Inspector: s, Registry: s, Installs: s, Tokens: s, Deletions: s, Events: func(t testing.TB, o ext.Owner) (all []exttest.Event) {
			if err := db.Read(t.Context(), "events", func(c *sqlite.Conn) error {
				return sqlitedb.ForEach(c, query+`? ORDER BY position`, func(r *sqlite.Stmt) error {
					all = append(all, exttest.Event{Seq: r.ColumnInt64(0), Topic: r.ColumnText(1), Key: r.ColumnText(2), Payload: r.ColumnText(3)})
					return nil
				}, string(o.Install))
			}); err != nil {
				t.Fatal(err)
			}
			return all
		}}
	}
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	s := extpg.New(db, extpg.Options{})
	return exttest.Harness{Store: s, Inspector: s, Registry: s, Installs: s, Tokens: s, Deletions: s, Events: func(t testing.TB, o ext.Owner) (all []exttest.Event) {
		var e exttest.Event
		if err := db.ForEach(t.Context(), pgdb.Statement{Name: "events", SQL: query + `$1::text ORDER BY seq`}, []any{string(o.Install)}, func() { all = nil }, func() error {
			all = append(all, e)
			return nil
		}, &e.Seq, &e.Topic, &e.Key, &e.Payload); err != nil {
			t.Fatal(err)
		}
		return all
	}}
}

// TestCopyKeepsEverything applies the migration checks to copies between engines: the data is equal, and writes
// continue with the next numbers.
func TestCopyKeepsEverything(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "the copies of one service, TestCopyGuest and the like, show most of it")
	for _, s := range copied {
		for _, pair := range []struct {
			name     string
			from     string
			to       func(testing.TB) string
			services string
		}{
			{"sqlite to postgres", "sqlite", testdb.PostgresDatabase, ""},
			{"postgres to sqlite", "postgres", sqliteURL, ""},
			{"postgres to postgres", "postgres", testdb.PostgresDatabase, "extstorage"},
			{"sqlite to citus", "sqlite", testdb.CitusDatabase, "extstorage syncstorage buckets"},
			{"citus to postgres", "citus", testdb.PostgresDatabase, "extstorage syncstorage buckets"},
		} {
			if pair.services != "" && !strings.Contains(pair.services, s.name) {
				continue
			}
			t.Run(s.name+" "+pair.name, func(t *testing.T) {
				t.Parallel()
				from := map[string]func(testing.TB) string{"sqlite": sqliteURL, "postgres": testdb.PostgresDatabase, "citus": testdb.CitusDatabase}[pair.from]
				source, target := from(t), pair.to(t)
				c := newCopy(t, s.name, source, target)
				data, err := os.ReadFile(filepath.Join("..", s.files[strings.Replace(pair.from, "citus", "postgres", 1)]))
				if err != nil {
					t.Fatal(err)
				}
				execute(t, source, string(data))
				besideRows(t, c, s.name)
				if err := c.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantBesideRows(t, c, s.name)
				wantEqual(t, c)
				s.check(t, target)
				if hold, err := c.Source.Rows(nil).ReadOnly(t.Context(), s.name); err != nil || hold.Holder == "" || !hold.Until.IsZero() {
					t.Errorf("the source is read-only: %+v, %v", hold, err)
				}
			})
		}
	}
}

// besideRows stores in the source what a copy carries beside the rows: work that the service began, such as telling browsers
// about a restore, and the hash by which a server with another secret is refused.
func besideRows(t *testing.T, c *copying.Copy, service string) {
	t.Helper()
	if err := c.Source.Rows(nil).Update(t.Context(), func(u rows.Update) error { return u.SetState(rows.WorkOf(service), "half done") }); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Source.SetSecretHash(t.Context(), service+".key", "", "hash"); err != nil {
		t.Fatal(err)
	}
}

func wantBesideRows(t *testing.T, c *copying.Copy, service string) {
	t.Helper()
	state := ""
	if err := c.Target.Rows(nil).View(t.Context(), func(v rows.View) (err error) { state, err = v.State(rows.WorkOf(service)); return err }); err != nil || state != "half done" {
		t.Errorf("the target's work is %q, %v", state, err)
	}
	if hashes, err := c.Target.SecretHashes(t.Context()); err != nil || hashes[service+".key"] != "hash" {
		t.Errorf("the target's hashes of secrets are %v, %v", hashes, err)
	}
}

var errCrash = errors.New("crash")

func TestCopyRefusesOtherData(t *testing.T) {
	t.Parallel()
	source, target := sqliteURL(t), sqliteURL(t)
	c := newCopy(t, "tokenserver", source, target)
	execute(t, target, `INSERT INTO account_access VALUES ('a', 'allow', '', 1)`)
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "account_access") {
		t.Errorf("a target with data: %v", err)
	}
	if _, err := c.DryRun(t.Context()); err == nil || !strings.Contains(err.Error(), "account_access") {
		t.Errorf("a dry run to a target with data: %v", err)
	}
	other := newCopy(t, "tokenserver", target, sqliteURL(t))
	if err := other.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := &copying.Copy{Service: other.Service, Groups: other.Groups, Source: other.Target, Target: other.Source}
	if err := back.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "account_access") {
		t.Errorf("back to the source of a copy: %v", err)
	}
	wantEqual(t, other)
	if err := newCopy(t, "tokenserver", source, source).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the same database") {
		t.Errorf("to itself: %v", err)
	}
}

// TestCopyToFirstStart checks that a copy replaces only data that a server's first start left in the target.
func TestCopyToFirstStart(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "each service is copied between engines: 2 s of processor time")
	for engine, database := range map[string]func(testing.TB) string{"sqlite": sqliteURL, "postgres": testdb.PostgresDatabase} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			from, to := afterFirstStart(t, sqliteURL), afterFirstStart(t, database)
			for _, tc := range firstStarts {
				target := to[tc.name]
				c := newCopy(t, tc.name, from[tc.name], target)
				on := func(script string) {
					if engine == "postgres" {
						script = strings.NewReplacer("bff_consumer_", "bff_consumer.", "x''", "''::bytea").Replace(script)
					}
					execute(t, target, script)
				}
				on(tc.left)
				on(tc.other)
				if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tc.table) {
					t.Errorf("%s: a target with other rows: %v", tc.name, err)
				}
				on(tc.undo)
				if err := c.Run(t.Context()); err != nil {
					t.Errorf("%s: to the database of a first start: %v", tc.name, err)
					continue
				}
				if _, err := c.Verify(t.Context(), func(d copying.Difference) { t.Error(d) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func afterFirstStart(t *testing.T, database func(testing.TB) string) (urls map[string]string) {
	t.Helper()
	urls = map[string]string{}
	env := []string{"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0"}
	for _, tc := range firstStarts {
		urls[tc.name] = database(t)
		env = append(env, "HOLDFAST_"+strings.ToUpper(tc.name)+"__DATABASE_URL="+urls[tc.name])
	}
	_, _, stop := started(t, t.TempDir(), env...)
	// With PostgreSQL, the start continues after the announcement.
	for _, tc := range firstStarts {
		one := openOne(t, tc.name, urls[tc.name])
		for _, g := range one.Service.Tables {
			for _, table := range g.Tables {
				for n := int64(0); n == 0 && table.Name == tc.first; {
					if err := one.Database.Rows(nil).View(t.Context(), func(v rows.View) (err error) { n, err = v.Count(table, 1); return err }); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	stop()
	return urls
}

// firstStarts lists services with the table that the first start fills last, rows that a killed server may leave, and
// other rows with their table.
var firstStarts = []struct{ name, first, left, other, undo, table string }{
	{
		"buckets", "manta_bucket_node", `INSERT INTO manta_bucket_lease SELECT 'background', 'x', 'a process that was killed', CURRENT_TIMESTAMP WHERE NOT EXISTS (SELECT 1 FROM manta_bucket_lease WHERE name = 'background')`,
		`INSERT INTO manta_bucket_node SELECT 'other', 's3://b', 'active', added FROM manta_bucket_node`, `DELETE FROM manta_bucket_node WHERE id = 'other'`, "manta_bucket_node",
	},
	{
		"guest", "bff_consumer_handoff_keys", "", `INSERT INTO bff_consumer_handoff_keys (id, secret, state, not_before, not_after, retired_at) SELECT 'other', x'', 'retired', not_before, not_after, not_before FROM bff_consumer_handoff_keys`,
		`DELETE FROM bff_consumer_handoff_keys WHERE id = 'other'`, "handoff_keys",
	},
	{"tokenserver", "", "", `INSERT INTO account_access VALUES ('a', 'allow', '', 1)`, `DELETE FROM account_access`, "account_access"},
	{
		"syncstorage", "", "", `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (1, 1, CURRENT_TIMESTAMP)`, `DELETE FROM user_collections`, "user_collections",
	},
	{
		"extstorage", "", "", `INSERT INTO ext_storage_namespaces (tenant_id, extension_install_id, namespace, keys_count)
			VALUES ('a0000000-0000-4000-8000-000000000001', 'b0000000-0000-4000-8000-000000000001', 'a', 1)`,
		`DELETE FROM ext_storage_namespaces`, "ext_storage_namespaces",
	},
}

// TestHalfACopy checks that a database with a partial copy is neither written by a server nor copied, and that check and
// the command tell it from a complete one.
func TestHalfACopy(t *testing.T) {
	t.Parallel()
	source, target, data := sqliteURL(t), sqliteURL(t), t.TempDir()
	c := newCopy(t, "extstorage", source, target)
	script, err := os.ReadFile("../extstorage/sqlite/testdata/schema/0001.sql")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, source, string(script))
	points := 0
	c.BeforeStep = func(string) error {
		if points++; points == 3 {
			return errCrash
		}
		return nil
	}
	if err := c.Run(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	wantCheck(t, target, service.Wrong, "only part of a copy")
	cfg, _, err := app.Load(onAllEngines(), "", []string{"HOLDFAST_EXTSTORAGE__DATABASE_URL=" + target, "HOLDFAST_BUCKETS__ENABLED=false"})
	if err != nil {
		t.Fatal(err)
	}
	server, err := app.Open(t.Context(), app.Options{Config: cfg, Data: data, LogTo: t.Output(), Mode: app.ModeServeMigrating})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a server that accepts the database would serve on
	defer cancel()
	if err := errors.Join(server.Serve(ctx, io.Discard), server.Close()); err == nil || !strings.Contains(err.Error(), "extstorage: its database contains only part of a copy") {
		t.Errorf("a server on half a copy: %v", err)
	}
	third := newCopy(t, "extstorage", target, sqliteURL(t))
	if err := third.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "only part of an unfinished copy") {
		t.Errorf("a copy of half a copy: %v", err)
	}
	if _, err := c.DryRun(t.Context()); err != nil {
		t.Errorf("a dry run of a copy that continues: %v", err)
	}
	c.BeforeStep = nil
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, c)
	wantCheck(t, target, service.OK, "reached")
	wantCheck(t, source, service.Warning, "holdfast copy extstorage --reopen")
	serveOnce(t, data, target, "false", func(ask func(string, string) (int, string)) {
		if status, text := ask(http.MethodGet, "/readyz"); status != http.StatusOK {
			t.Errorf("the whole copy: %d %s", status, text)
		}
	})
	if err := c.Run(t.Context()); err != nil {
		t.Errorf("a copy that was interrupted when it was complete: %v", err)
	}
	if err := c.Source.Rows(nil).Reopen(t.Context(), c.Service, c.Groups); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "complete copy") {
		t.Errorf("a copy to a complete one, after Reopen: %v", err)
	}
}

// wantCheck expects a finding by holdfast check about an extension storage database.
func wantCheck(t *testing.T, url string, state service.State, text string) {
	t.Helper()
	cfg, _, err := app.Load(onAllEngines(), "", append(databaseEnv(t, "extstorage", url), "HOLDFAST_SYNCSTORAGE__ENABLED=false",
		"HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_BUCKETS__ENABLED=false", "HOLDFAST_GUEST__ENABLED=false"))
	if err != nil {
		t.Fatal(err)
	}
	found := app.Check(t.Context(), cfg, t.TempDir(), check.Options{})
	if !slices.ContainsFunc(found, func(f service.Finding) bool { return f.State == state && strings.Contains(f.Says+": "+f.Fix, text) }) {
		t.Errorf("no finding %q in %v", text, found)
	}
}

// TestCopyUnderWrites checks that the target contains all acknowledged writes in order.
func TestCopyUnderWrites(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct {
		name     string
		from, to func(testing.TB) string
	}{{"sqlite to postgres", sqliteURL, testdb.PostgresDatabase}, {"postgres to sqlite", testdb.PostgresDatabase, sqliteURL}, {"citus to sqlite", testdb.CitusDatabase, sqliteURL}} {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			copyUnderWrites(t, pair.from(t), pair.to(t))
		})
	}
}

func copyUnderWrites(t *testing.T, source, target string) {
	t.Helper()
	c := newCopy(t, "extstorage", source, target)
	writers := make([]*copyWriter, 4)
	begun, done := make(chan struct{}, len(writers)), make(chan error, len(writers))
	store := extHarness(t, source).Store
	for i := range writers {
		w := &copyWriter{owner: ext.Owner{Tenant: "a0000000-0000-4000-8000-000000000001", Install: ext.InstallID(fmt.Sprintf("b0000000-0000-4000-8000-%012d", i))}}
		writers[i] = w
		go w.run(t.Context(), store, begun, done)
	}
	for range writers {
		<-begun
	}
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range writers {
		if err := <-done; !errcode.Is(err, errcode.Unavailable) {
			t.Errorf("a writer ended with %v", err)
		}
	}
	wantEqual(t, c)
	store = extHarness(t, target).Store
	for _, w := range writers {
		w.check(t, store)
		for range 3 {
			if err := w.write(t.Context(), store); err != nil {
				t.Error(err)
			}
		}
		w.check(t, store)
	}
	if err := c.Source.Rows(nil).Reopen(t.Context(), "extstorage", c.Groups); err != nil {
		t.Fatal(err)
	}
	fresh := &copyWriter{owner: ext.Owner{Tenant: writers[0].owner.Tenant, Install: "c0000000-0000-4000-8000-000000000001"}}
	if err := fresh.write(t.Context(), extHarness(t, source).Store); err != nil {
		t.Errorf("after Reopen: %v", err)
	}
}

func (w *copyWriter) run(ctx context.Context, s ext.Store, begun chan<- struct{}, done chan<- error) {
	for {
		err := w.write(ctx, s)
		if err != nil {
			if w.written < 20 {
				begun <- struct{}{}
			}
			done <- err
			return
		}
		if w.written == 20 {
			begun <- struct{}{}
		}
	}
}

type copyWriter struct {
	owner   ext.Owner
	written int
	seq     ext.Seq
	values  [5]int
}

func (w *copyWriter) write(ctx context.Context, s ext.Store) error {
	i, n := w.written%len(w.values), w.written+1
	op := ext.Op{Kind: ext.Put, Namespace: "a", Key: ext.Key(fmt.Sprint("k", i)), Value: canonjson.Value(strconv.Itoa(n)), Metadata: "{}"}
	if n%4 == 0 {
		op = ext.Op{Kind: ext.Delete, Namespace: "a", Key: op.Key}
	}
	applied, err := s.Apply(ctx, w.owner, ext.Write{Now: ext.Moment(1_700_000_000_000 + n), Quota: ext.DefaultQuota(), Ops: []ext.Op{op}})
	if err != nil {
		return err
	}
	w.written = n
	if op.Kind == ext.Delete {
		w.values[i] = 0
		return nil
	}
	w.values[i] = n
	if seq := applied.Items[0].Seq; seq > w.seq {
		w.seq = seq
		return nil
	}
	return fmt.Errorf("change %d was numbered %d after %d", n, applied.Items[0].Seq, w.seq)
}

func (w *copyWriter) check(t *testing.T, s ext.Store) {
	t.Helper()
	for i, n := range w.values {
		rec, err := s.Get(t.Context(), w.owner, "a", ext.Key(fmt.Sprint("k", i)), ext.Moment(1_700_000_000_000+w.written))
		switch {
		case n == 0 && errcode.Is(err, errcode.NotFound):
		case err != nil || string(rec.Value) != strconv.Itoa(n):
			t.Errorf("k%d of %s is %s, %v; want %d", i, w.owner.Install, rec.Value, err, n)
		}
	}
}
