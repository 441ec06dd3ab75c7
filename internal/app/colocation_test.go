package app_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
	bucketspg "holdfast/internal/buckets/postgres"
	"holdfast/internal/canonjson"
	"holdfast/internal/check"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/extstorage/inspection"
	extpg "holdfast/internal/extstorage/postgres"
	ss "holdfast/internal/syncstorage"
	syncpg "holdfast/internal/syncstorage/postgres"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
)

func groups(t testing.TB, db *pgdb.DB) (all map[string]string) {
	t.Helper()
	all = map[string]string{}
	for _, line := range opened.Lines(t, db, `
		SELECT 'table ' || logicalrelid::text || '|' || colocationid FROM pg_dist_partition WHERE partmethod = 'h'
		UNION ALL SELECT 'function ' || objid::regprocedure::text || '|' || coalesce(colocationid, 0) FROM pg_dist_object
			WHERE classid = 'pg_proc'::regclass AND distribution_argument_index IS NOT NULL`) {
		name, group, _ := strings.Cut(line, "|")
		all[name] = group
	}
	return all
}

// placements returns the range and node of each shard whose table matches a pattern.
func placements(t testing.TB, db *pgdb.DB, pattern string) []string {
	t.Helper()
	return opened.Lines(t, db, `
		SELECT concat_ws(' ', s.logicalrelid::text, s.shardid, s.shardminvalue, s.shardmaxvalue, p.groupid) FROM pg_dist_shard s
		JOIN pg_dist_placement p USING (shardid) WHERE s.logicalrelid::text ~ $1::text ORDER BY s.shardid`, pattern)
}

func onCitus(t testing.TB, url string) {
	t.Helper()
	for _, s := range onAllEngines() {
		openOne(t, s.Name, url)
	}
}

// TestColocation checks that each service has its own Citus colocation group with all its distributed tables and
// delegated functions, even in a database shared with other services and tables.
func TestColocation(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	for _, key := range []string{"bigint", "integer", "uuid", "text"} { // Citus colocates tables with these by default
		testdb.Script(t, url, `CREATE TABLE theirs_`+key+` (id `+key+` PRIMARY KEY)`)
		testdb.Script(t, url, `SELECT create_distributed_table('theirs_`+key+`', 'id')`)
	}
	known := groups(t, db)
	owners := map[string]string{}
	for table, group := range known {
		owners[group] = table
	}
	distributed := 0
	for _, s := range onAllEngines() {
		one := openOne(t, s.Name, url)
		now := groups(t, db)
		var tables []string
		var group string
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(now))) { // tables come before functions
			if _, old := known[name]; old {
				continue
			}
			group = cmp.Or(group, now[name])
			if now[name] != group {
				t.Errorf("%s: %s is in the colocation group %s, others in %s", s.Name, name, now[name], group)
			}
			if other := owners[now[name]]; other != "" && other != s.Name {
				t.Errorf("%s: %s shares the colocation group of %s: distribute the first table with colocate_with => 'none'", s.Name, name, other)
			}
			if table, ok := strings.CutPrefix(name, "table "); ok {
				tables = append(tables, table)
			}
		}
		owners[group], known = s.Name, now
		d, err := one.Database.Distribution(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(d.Tables)
		slices.Sort(tables)
		if !slices.Equal(d.Tables, tables) || len(d.Others) > 0 || len(d.Problems) > 0 || len(tables) > 0 && d.Shards < 2 {
			t.Errorf("%s: the distribution is %+v; the catalog has the tables %v", s.Name, d, tables)
		}
		if len(tables) > 0 {
			distributed++
		}
	}
	if distributed < 3 {
		t.Errorf("%d services have distributed tables", distributed)
	}
}

const loneTenant = "5a1e0f6c-93d7-4c2b-8f64-0b7d21c9e3a8"

// isolate gives an extension storage tenant its own shard, with the statement in the guide.
func isolate(t *testing.T, url string) {
	t.Helper()
	guide, err := os.ReadFile("../../docs/extension-storage-operate.md")
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile(`(?s)SELECT isolate_tenant_to_new_shard\('ext_storage_records', '` + loneTenant + `'.*?;`).FindString(string(guide))
	if statement == "" {
		t.Fatal("the guide does not have the statement")
	}
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	const others, ours = `^(?!ext_storage_)`, `^ext_storage_`
	before, own := placements(t, db, others), placements(t, db, ours)
	testdb.Script(t, url, statement)
	if after := placements(t, db, others); len(before) == 0 || !slices.Equal(after, before) {
		t.Errorf("the shards of other services were\n%s\nand are\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if after := placements(t, db, ours); len(after) <= len(own) {
		t.Errorf("extension storage has %d shards after %d", len(after), len(own))
	}
}

func TestIsolateTenant(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	onCitus(t, url)
	w, store := &copyWriter{owner: ext.Owner{Tenant: loneTenant, Install: "b0000000-0000-4000-8000-000000000001"}}, extHarness(t, url).Store
	for range 3 {
		if err := w.write(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	isolate(t, url)
	w.check(t, store)
	if err := w.write(t.Context(), store); err != nil {
		t.Error(err)
	}
}

// former returns the migrations of releases whose services shared a colocation group.
func former(t testing.TB, migrations opened.Migrations) opened.Migrations {
	t.Helper()
	set, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	first := &set.Migrations[0]
	first.SQL = strings.ReplaceAll(first.SQL, `, colocate_with => 'none'`, "")
	return func() (migrate.Set, error) { return set, nil }
}

type writer struct {
	service string
	call    string // PL/pgSQL function of a write, without its version
	write   func(ctx context.Context, n int) error
	count   func() (int64, error)
	written atomic.Int64
}

func writersOf(t testing.TB, url string) (all []*writer) {
	t.Helper()
	db := func() *pgdb.DB { return opened.Postgres(t, pgdb.Options{URL: url}, nil) }
	exts, objects, sync := extpg.New(db(), extpg.Options{}), bucketspg.New(db()), syncpg.New(db())
	quota, now := ext.DefaultQuota(), ext.Moment(1_700_000_000_000)
	quota.Keys = 1 << 30
	for i := range 4 {
		tenant := ext.TenantID(fmt.Sprintf("a0000000-0000-4000-8000-%012d", i))
		all = append(all, &writer{
			service: "extstorage", call: "ext_apply",
			write: func(ctx context.Context, n int) error {
				_, err := exts.Apply(ctx, ext.Owner{Tenant: tenant, Install: "b0000000-0000-4000-8000-000000000001"}, ext.Write{
					Now: now, Quota: quota, Ops: []ext.Op{{Namespace: "a", Key: ext.Key(fmt.Sprint(n)), Value: "1", Metadata: canonjson.EmptyObject}},
				})
				return err
			},
			count: func() (int64, error) {
				page, err := exts.ListUsage(t.Context(), inspection.Span{Tenant: tenant}, 2)
				if err != nil || len(page) != 1 {
					return 0, err
				}
				return page[0].Keys, nil
			},
		})
		owner, bucket := buckets.AccountID(tenant), buckets.BucketRef{Name: "bucket", ID: buckets.BucketID(buckets.NewUUID())}
		if err := objects.CreateAccount(t.Context(), buckets.Account{ID: owner, Name: fmt.Sprint(i), Created: 1_700_000_000_000}); err != nil {
			t.Fatal(err)
		}
		if _, err := objects.CreateBucket(t.Context(), owner, bucket, 1_700_000_000_000); err != nil {
			t.Fatal(err)
		}
		all = append(all, &writer{
			service: "buckets", call: "bucket_put",
			write: func(ctx context.Context, n int) error {
				o := buckets.Object{Name: fmt.Sprint(n), Body: buckets.Body{ID: buckets.ObjectID(buckets.NewUUID()), Length: 1, MD5: make([]byte, 16), Inline: []byte{1}}}
				_, err := objects.Put(ctx, owner, bucket, buckets.Put{Object: o, Now: 1_700_000_000_000})
				return err
			},
			count: func() (int64, error) {
				u, err := objects.Usage(t.Context(), owner)
				return u.Total.Objects, err
			},
		})
		user := ss.Owner{UID: int64(1 + i)}
		all = append(all, &writer{
			service: "syncstorage", call: "sync_put",
			write: func(ctx context.Context, n int) error {
				w := ss.Write{Collection: "bookmarks", Now: 1_700_000_000_000, MaxNames: 10}
				_, err := sync.Put(ctx, user, w, ss.Update{ID: fmt.Sprint(n), Payload: ss.Some([]byte("x"))})
				return err
			},
			count: func() (int64, error) {
				u, err := sync.Usage(t.Context(), user, 1_700_000_000_000)
				if err != nil || len(u.Collections) != 1 {
					return 0, err
				}
				return u.Collections[0].Records, nil
			},
		})
	}
	return all
}

// during runs do while all writers write. Each writer continues for some writes afterwards.
func during(t *testing.T, all []*writer, do func()) {
	t.Helper()
	const some = 5
	var warm, group sync.WaitGroup
	var done atomic.Bool
	warm.Add(len(all))
	for _, w := range all {
		group.Go(func() {
			isWarm := sync.OnceFunc(warm.Done)
			defer isWarm()
			for before, after := 0, 0; after < some; {
				if done.Load() {
					after++
				}
				if err := w.write(t.Context(), int(w.written.Load())); err != nil {
					t.Errorf("%s: write %d: %v", w.service, w.written.Load(), err)
					return
				}
				w.written.Add(1)
				if before++; before == some {
					isWarm()
				}
			}
		})
	}
	defer group.Wait()
	defer done.Store(true)
	warm.Wait()
	do()
}

// wantDelegated checks that no acknowledged write is lost, and that a write is a single message to a worker.
func wantDelegated(t *testing.T, watch *testdb.CitusWatch, all []*writer) {
	t.Helper()
	for _, w := range all {
		if n, err := w.count(); err != nil || n != w.written.Load() {
			t.Errorf("%s: %d rows after %d writes, %v", w.service, n, w.written.Load(), err)
		}
		watch.Sent()
		if err := w.write(t.Context(), int(w.written.Load())); err != nil {
			t.Errorf("%s: %v", w.service, err)
			continue
		}
		w.written.Add(1)
		if sent := watch.Sent(); len(sent) != 1 || !strings.Contains(sent[0], "."+w.call+"_v") {
			t.Errorf("%s: the messages of a write are\n%s", w.service, strings.Join(sent, "\n"))
		}
	}
}

func checkTables(t *testing.T, url string) (all map[string]service.Finding) {
	t.Helper()
	var env []string
	for _, s := range onAllEngines() {
		env = append(env, databaseEnv(t, s.Name, url)...)
	}
	const tries = 10
	for try, late := 1, true; late; try++ {
		cfg, _, err := app.Load(onAllEngines(), "", env)
		if err != nil {
			t.Fatal(err)
		}
		all, late = map[string]service.Finding{}, false
		for _, f := range app.Check(t.Context(), cfg, t.TempDir(), check.Options{}) {
			name, what, _ := strings.Cut(f.What, " ")
			switch {
			case what == "database" && f.State == service.Wrong:
				if late = true; try == tries {
					t.Fatalf("%+v", f)
				}
			case what != "tables":
			case all[name] != service.Finding{}:
				t.Errorf("two findings: %+v and %+v", all[name], f)
			default:
				all[name] = f
			}
		}
	}
	return all
}

// wantTables checks findings. Findings for the services in warned are warnings with a statement.
func wantTables(t *testing.T, found map[string]service.Finding, want map[string]string, warned ...string) {
	t.Helper()
	for name, says := range want {
		f := found[name]
		if _, got, _ := strings.Cut(f.Says, ": "); got != says {
			t.Errorf("%s: %+v, want %s", name, f, says)
		}
		warns := f.State == service.Warning
		if warns != slices.Contains(warned, name) || warns != (f.Fix != "") {
			t.Errorf("%s: %+v, want warnings of %v", name, f, warned)
		}
	}
}

func wantAlone(t *testing.T, url string) {
	t.Helper()
	for name, f := range checkTables(t, url) {
		if f.State != service.OK || strings.Contains(f.Says, "shared") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func wantSeparate(t *testing.T, db *pgdb.DB) {
	t.Helper()
	services := map[string]string{
		"ext": "extstorage", "manta": "buckets", "bucket": "buckets",
		"sync": "syncstorage", "user": "syncstorage", "bsos": "syncstorage", "batches": "syncstorage", "batch": "syncstorage",
	}
	owners, known := map[string]string{}, map[string]string{} // services by group, groups by service
	for name, group := range groups(t, db) {
		_, name, _ := strings.Cut(name, " ")
		word := regexp.MustCompile(`^[a-z]+`).FindString(name)
		of := cmp.Or(services[word], name)
		if owner := cmp.Or(owners[group], of); owner != of {
			t.Errorf("%s is in the colocation group of %s", name, owner)
		}
		if other := cmp.Or(known[of], group); other != group {
			t.Errorf("%s is in the colocation group %s, others of %s in %s", name, group, of, other)
		}
		owners[group], known[of] = of, group
	}
	if len(known) < 3 {
		t.Errorf("the groups are %v", known)
	}
}

// TestSeparate checks that migrate does not move shards if services share a colocation group. The statement printed by
// check separates them during writes, without moving shards either.
func TestSeparate(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	testdb.FewShards(t, url)
	for _, migrations := range []opened.Migrations{syncpg.Migrations, extpg.Migrations, bucketspg.Migrations} {
		opened.Postgres(t, pgdb.Options{URL: url}, former(t, migrations))
	}
	db := opened.Postgres(t, pgdb.Options{URL: url}, nil)
	shards, shared := placements(t, db, "."), groups(t, db)
	if shared["table manta_bucket"] != shared["table ext_storage_records"] {
		t.Fatalf("the former migrations separate the services: %v", shared)
	}
	onCitus(t, url)
	if now := placements(t, db, "."); !slices.Equal(now, shards) || !maps.Equal(groups(t, db), shared) {
		t.Errorf("migrate has changed the placement of shards:\n%s", strings.Join(now, "\n"))
	}
	watch := testdb.WatchCitus(t, url)
	all := writersOf(t, watch.URL)
	during(t, all, func() {})
	wantDelegated(t, watch, all)

	found, group := checkTables(t, url), shared["table manta_bucket"]
	wantTables(t, found, map[string]string{
		"syncstorage": "4 distributed tables with 4 shards each, colocation group " + shared["table bsos"],
		"tokenserver": "all on the coordinator",
		"extstorage":  "10 distributed tables with 4 shards each, colocation group " + group + ", shared with buckets",
		"buckets":     "12 distributed tables with 4 shards each, colocation group " + group + ", shared with extstorage: shards are moved and split together",
		"guest":       "all on the coordinator",
	}, "buckets")
	during(t, all, func() { testdb.Script(t, url, found["buckets"].Fix) })
	if now := placements(t, db, "."); !slices.Equal(now, shards) {
		t.Errorf("the statement has moved shards:\n%s", strings.Join(now, "\n"))
	}
	wantSeparate(t, db)
	wantAlone(t, url)
	wantDelegated(t, watch, all)
	isolate(t, url)
	wantDelegated(t, watch, all)
}

// TestDistributionProblems checks findings about tables and functions in the wrong colocation group, and the
// statements that fix them.
func TestDistributionProblems(t *testing.T) {
	t.Parallel()
	url := testdb.CitusDatabase(t)
	onCitus(t, url)
	wantAlone(t, url)
	db, one := opened.Postgres(t, pgdb.Options{URL: url}, nil), openOne(t, "extstorage", url)
	problems := func() (says, fixes []string) {
		t.Helper()
		d, err := one.Database.Distribution(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range d.Problems {
			says, fixes = append(says, p.Problem), append(fixes, p.Fix)
		}
		return says, fixes
	}
	fix := func(fixes []string) {
		t.Helper()
		for _, sql := range fixes {
			testdb.Script(t, url, sql)
		}
		if says, _ := problems(); len(says) > 0 {
			t.Errorf("after the statements: %v", says)
		}
		wantAlone(t, url)
		wantSeparate(t, db)
	}

	for _, sql := range []string{
		`SELECT undistribute_table('ext_storage_answers')`,
		`SELECT update_distributed_table_colocation('ext_storage_changes', colocate_with => 'none')`,
		`SELECT create_distributed_function('ext_leap_v1(uuid, uuid, timestamptz, bigint)', 'p_tenant', colocate_with => 'manta_bucket')`,
	} {
		testdb.Script(t, url, sql)
	}
	says, fixes := problems()
	if want := []string{
		"ext_storage_changes is not colocated with ext_storage_records",
		"ext_storage_answers is not distributed by tenant_id",
		"calls of ext_leap_v1 are not delegated to the node of ext_storage_records",
	}; !slices.Equal(says, want) {
		t.Errorf("the problems are %q, want %q", says, want)
	}
	fix(fixes)

	// Run only the first statement of the transaction that separates the tables.
	testdb.Script(t, url, `SELECT update_distributed_table_colocation('ext_storage_records', colocate_with => 'none')`)
	says, fixes = problems()
	if len(says) < 20 {
		t.Errorf("the problems of a first table alone are %q", says)
	}
	fix(fixes)

	for _, c := range []struct{ service, table, key string }{{"extstorage", "ext_storage_records", "uuid"}, {"syncstorage", "user_collections", "bigint"}} {
		theirs := "theirs_" + c.key
		testdb.Script(t, url, `CREATE TABLE `+theirs+` (id `+c.key+` PRIMARY KEY)`)
		testdb.Script(t, url, `SELECT create_distributed_table('`+theirs+`', 'id', colocate_with => '`+c.table+`')`)
		f := checkTables(t, url)[c.service]
		if f.State != service.Warning || !strings.Contains(f.Says, ", shared with "+theirs+": ") {
			t.Errorf("%s: %+v", c.service, f)
		}
		fix([]string{f.Fix})
	}
}
