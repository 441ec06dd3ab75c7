package app_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/app/service"
	"holdfast/internal/clock"
	"holdfast/internal/copying"
	"holdfast/internal/db/rows"
	"holdfast/internal/db/sourcedb"
	"holdfast/internal/importing"
	"holdfast/internal/testdb"
)

// oldServer is a database of Mozilla's server, with the test's statements in its dialect.
type oldServer struct {
	url   string
	mysql bool
}

func newOldServer(t testing.TB, mysql bool) oldServer {
	t.Helper()
	s := oldServer{mysql: mysql}
	if mysql {
		s.url = testdb.MariaDBDatabase(t)
		s.run(t, testdb.MozillaMySQL)
	} else {
		s.url = testdb.PostgresDatabase(t)
		s.run(t, testdb.MozillaPostgres)
	}
	return s
}

func (s oldServer) run(t testing.TB, script string) {
	t.Helper()
	if s.mysql {
		testdb.MariaDBScript(t, s.url, script)
		return
	}
	testdb.Script(t, s.url, script)
}

func (s oldServer) moment(millis int64) string {
	if s.mysql {
		return fmt.Sprint(millis)
	}
	return fmt.Sprintf("to_timestamp(%d) + interval '%d ms'", millis/1000, millis%1000)
}

const (
	forever  = 2_100_000_000_000
	farAhead = 3_300_000_000_000 // in 2074
)

func (s oldServer) touch(user, coll, stamp int64) string {
	if s.mysql {
		return fmt.Sprintf("INSERT INTO user_collections (userid, collection, last_modified) VALUES (%d, %d, %d) ON DUPLICATE KEY UPDATE last_modified = %[3]d;\n", user, coll, stamp)
	}
	return fmt.Sprintf("INSERT INTO user_collections (user_id, collection_id, modified) VALUES (%d, %d, %s) ON CONFLICT (user_id, collection_id) DO UPDATE SET modified = EXCLUDED.modified;\n", user, coll, s.moment(stamp))
}

// bso writes a record; id and payload are SQL expressions.
func (s oldServer) bso(user, coll int64, id, sortindex, payload string, modified, expiry int64) string {
	if s.mysql {
		return fmt.Sprintf("REPLACE INTO bso (userid, collection, id, sortindex, payload, modified, ttl) VALUES (%d, %d, %s, %s, %s, %d, %d);\n", user, coll, id, sortindex, payload, modified, expiry)
	}
	return fmt.Sprintf(`INSERT INTO bsos VALUES (%d, %d, %s, %s, %s, %s, %s) ON CONFLICT (user_id, collection_id, bso_id)
		DO UPDATE SET sortindex = EXCLUDED.sortindex, payload = EXCLUDED.payload, modified = EXCLUDED.modified, expiry = EXCLUDED.expiry;`+"\n",
		user, coll, id, sortindex, payload, s.moment(modified), s.moment(expiry))
}

func (s oldServer) put(user, coll int64, id, payload string, stamp int64) string {
	return s.touch(user, coll, stamp) + s.bso(user, coll, "'"+id+"'", "NULL", "'"+payload+"'", stamp, stamp+forever)
}

func (s oldServer) records() string {
	if s.mysql {
		return "bso"
	}
	return "bsos"
}

func (s oldServer) user() string {
	if s.mysql {
		return "userid"
	}
	return "user_id"
}

const stamp0 = 1_700_000_000_000

func account(n int) string { return fmt.Sprintf("%032x@api.accounts.firefox.com", n) }

func (s oldServer) fill(t testing.TB) {
	t.Helper()
	var b strings.Builder
	b.WriteString(`INSERT INTO nodes VALUES (3, 1, 'https://sync.example.org', 99, 1, 100, 0, 0), (4, 1, 'https://old.example.org/sync', 0, 1, 100, 1, 1),
		(5, 1, 'sync.example.org', 0, 0, 100, 0, 0), (6, 1, 'https://sync6.example.org', 0, -1, 100, 0, 0);
		INSERT INTO users (uid, service, email, generation, client_state, created_at, replaced_at, nodeid, keys_changed_at) VALUES
		(11, 1, '` + account(1) + `', 1234567, 'aaaa', 1699999999001, NULL, 3, 1234560),
		(12, 1, '` + account(2) + `', 5, 'bbbb', 1600000000000, 1600000000001, 3, NULL),
		(15, 1, '` + account(2) + `', 9223372036854775807, 'cccc', 1600000000001, 1700000000000, 4, 0),
		(16, 1, 'somebody@example.org', 0, '', 1, NULL, 3, NULL),
		(17, 1, '` + account(3) + `', 1, 'dddd', 1, NULL, 99, NULL),
		(18, 1, '` + account(4) + `', -1, 'eeee', 1, NULL, 3, NULL),
		(19, 1, '` + account(5) + `', 1, 'not hex', 1, NULL, 3, NULL);
	`)
	name := "id"
	if !s.mysql {
		name = "collection_id"
	}
	b.WriteString(`INSERT INTO collections (` + name + `, name) VALUES (101, 'My.custom-1'), (102, 'not valid!'), (117, 'later');`)
	// The tombstone is user 11's last time.
	b.WriteString(s.touch(11, 0, stamp0+70) + s.touch(11, 7, stamp0+20) + s.touch(11, 101, stamp0+36) + s.touch(11, 102, stamp0) + s.touch(11, 8, stamp0+10) + s.touch(12, 7, stamp0) + s.touch(-5, 7, stamp0) + s.touch(40, 99, stamp0))
	b.WriteString(s.bso(11, 7, "'menu'", "150", "'{\"a\":1}'", stamp0+10, stamp0+10+forever))
	b.WriteString(s.bso(11, 7, "'{guid} ~'", "-999999999", "''", stamp0+20, stamp0+20+999_999_999_000))
	b.WriteString(s.bso(11, 101, "'x'", "NULL", "'çé'", stamp0+36, stamp0-5000))
	b.WriteString(s.bso(11, 7, "'bad id\t'", "1", "'1'", stamp0, stamp0+forever))
	b.WriteString(s.bso(11, 7, "''", "1", "'1'", stamp0, stamp0+forever))
	b.WriteString(s.bso(11, 7, "'a'", "1", "'1'", 300_000_000_000_000, stamp0+forever))
	b.WriteString(s.bso(11, 7, "'big'", "NULL", "repeat('x', 3000000)", stamp0, stamp0+forever))
	b.WriteString(s.bso(11, 8, "'high'", "1000000000", "'1'", farAhead, stamp0+forever))
	b.WriteString(s.bso(11, 102, "'of an invalid name'", "NULL", "'1'", stamp0, stamp0+forever))
	b.WriteString(s.bso(12, 7, "'of a replaced user'", "NULL", "'1'", stamp0, stamp0+forever))
	if s.mysql {
		// There is no foreign key, and latin1 characters are longer in UTF-8. The predecessor stored expiry in seconds.
		b.WriteString(strings.Replace(s.bso(11, 9, "'orphan'", "NULL", "'1'", stamp0, stamp0+forever), "REPLACE", "INSERT", 1))
		b.WriteString(s.bso(11, 7, "'default'", "NULL", "'é'", stamp0, 3_153_600_000_000))
		b.WriteString(s.bso(11, 7, "'seconds'", "NULL", "'1'", stamp0, 1_900_000_000))
		b.WriteString(s.bso(11, 7, "'never'", "NULL", "'1'", stamp0, 2_100_000_000))
		b.WriteString(s.touch(11, 10, 9_000_000_000_000_000))
		b.WriteString(`INSERT INTO batch_uploads VALUES (1700000000123, 11, 7); INSERT INTO batch_upload_items (batch, userid, id, payload) VALUES (1700000000123, 11, 'a', '1'), (1700000000123, 11, 'b', '1');`)
	} else {
		b.WriteString(`INSERT INTO user_collections (user_id, collection_id, modified) VALUES (11, 12, '0001-01-01'), (11, 10, 'infinity');
			INSERT INTO batches VALUES (11, 12, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', now());
			INSERT INTO batch_bsos (user_id, collection_id, batch_id, batch_bso_id) VALUES (11, 12, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a');`)
		b.WriteString(s.bso(11, 7, "'"+strings.Repeat("l", 65)+"'", "NULL", "'1'", stamp0, stamp0+forever))
		b.WriteString(`INSERT INTO bsos VALUES (11, 7, 'infinite', NULL, '1', to_timestamp(1700000000), 'infinity');`)
	}
	s.run(t, b.String())
}

// bookmarks returns the bytes in user 11's bookmarks that are imported and have not expired.
func (s oldServer) bookmarks() int {
	if s.mysql {
		return 3_000_011
	}
	return 3_000_008
}

func (s oldServer) wantProblems() []string {
	all := []string{
		"import: records above max_record_payload_bytes, which browsers can read but not write: user 11, bookmarks, \"big\", 3000000 bytes",
		"import: records with a sortindex beyond 999999999, which is lowered to that: user 11, prefs, \"high\", 1000000000",
		"import: records modified more than a day in the future, which makes all later writes of their user later still: user 11, prefs, \"high\"",
		fmt.Sprintf("import: users above max_user_quota, whose browsers cannot add records: user 11, %d bytes", s.bookmarks()+1),
		fmt.Sprintf("import: collections above max_quota_limit, to which browsers cannot add: user 11, bookmarks, %d bytes", s.bookmarks()),
		"import: nodes whose URL is not an http or https URL without a path of a protocol, a query and a slash at its end: node 5",
		"import: nodes with a negative number of accounts or a negative state: node 6",
		"import: users whose client_state is not that of a browser's keys, who get a new user ID and upload again: user 19",
		"import: replaced users, whose storage is deleted after tokenserver.replaced_user_grace: user 12",
		"import: replaced users, whose storage is deleted after tokenserver.replaced_user_grace: user 15",
		"import: users whose domain is not tokenserver.fxa_email_domain, who get a new user ID and upload again: user 16",
		"import: users with an unknown node, who get a new user ID and upload again: user 17",
		"leave: collections of a user without a positive ID: user -5, bookmarks",
		"leave: user collections without a valid name in the table collections: user 11, collection 102",
		"leave: user collections without a valid name in the table collections: user 40, collection 99",
		"leave: collections with an invalid name, with their records: collection 102, \"not valid!\"",
		"leave: collections with an invalid modification time: user 11, passwords",
		"leave: records whose ID is not 1 to 64 printable ASCII characters: user 11, bookmarks, \"\"",
		"leave: records whose ID is not 1 to 64 printable ASCII characters: user 11, bookmarks, \"bad id\\t\"",
		"leave: records without a valid row in user_collections for their collection: user 11, collection 102, \"of an invalid name\"",
		"leave: records with an invalid modification time: user 11, bookmarks, \"a\"",
		"leave: users with a negative generation: user 18",
	}
	if s.mysql {
		return append(all, "leave: open batches, which browsers begin again: user 11, bookmarks, batch 1700000000123, 2 records",
			"leave: records without a valid row in user_collections for their collection: user 11, tabs, \"orphan\"")
	}
	return append(all, "leave: open batches, which browsers begin again: user 11, addresses, batch a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11, 1 record",
		"leave: records whose ID is not 1 to 64 printable ASCII characters: user 11, bookmarks, \""+strings.Repeat("l", 65)+"\"")
}

func (s oldServer) wantRows() []string {
	bookmarks, records := "4 3000008", []string{
		"bsos 11 7 big <nil> 1700000000000 <nil> xxxxxxxxxxxxxxxxxxxx",
		"bsos 11 7 infinite <nil> 1700000000000 <nil> 1",
		"bsos 11 7 menu 150 1700000000010 <nil> {\"a\":1}",
	}
	if s.mysql {
		bookmarks, records = "6 3000011", []string{
			"bsos 11 7 big <nil> 1700000000000 <nil> xxxxxxxxxxxxxxxxxxxx",
			"bsos 11 7 default <nil> 1700000000000 <nil> é",
			"bsos 11 7 menu 150 1700000000010 <nil> {\"a\":1}",
			"bsos 11 7 never <nil> 1700000000000 <nil> 1",
			"bsos 11 7 seconds <nil> 1700000000000 1900000000000 1",
		}
	}
	return slices.Concat([]string{
		"collections 1 clients", "collections 2 crypto", "collections 3 forms", "collections 4 history", "collections 5 keys", "collections 6 meta",
		"collections 7 bookmarks", "collections 8 prefs", "collections 9 tabs", "collections 10 passwords", "collections 11 addons",
		"collections 12 addresses", "collections 13 creditcards", "collections 101 My.custom-1", "collections 117 later",
		"user_collections 11 0 1700000000070 0 0 <nil>",
		"user_collections 11 7 1700000000020 " + bookmarks + " <nil>",
		"user_collections 11 8 1700000000010 1 1 <nil>",
		"user_collections 11 101 1700000000030 1 4 <nil>",
		"user_collections 12 0 1700000000000 0 0 <nil>",
		"user_collections 12 7 1700000000000 1 1 <nil>",
		"user_collections 40 0 1700000000000 0 0 <nil>",
	}, records, []string{
		"bsos 11 7 {guid} ~ -999999999 1700000000020 2699999999020 ",
		"bsos 11 8 high 999999999 3300000000000 <nil> 1",
		"bsos 11 101 x <nil> 1700000000030 1699999995000 çé",
		"bsos 12 7 of a replaced user <nil> 1700000000000 <nil> 1",
		"services 1 sync-1.5 {node}/1.5/{uid}",
		"nodes 3 1 https://sync.example.org 99 1 100 0 0",
		"nodes 4 1 https://old.example.org/sync 0 1 100 1 1",
		"nodes 5 1 sync.example.org 0 0 100 0 0",
		"nodes 6 1 https://sync6.example.org 0 -1 100 0 0",
		"users 11 1 " + account(1) + " 1234567 aaaa 1699999999001 <nil> 3 1234560",
		"users 12 1 " + account(2) + " 5 bbbb 1600000000000 1600000000001 3 <nil>",
		"users 15 1 " + account(2) + " 9223372036854775807 cccc 1600000000001 1700000000000 4 0",
		"users 16 1 somebody@example.org 0  1 <nil> 3 <nil>",
		"users 17 1 " + account(3) + " 1 dddd 1 <nil> 99 <nil>",
		"users 19 1 " + account(5) + " 1 not hex 1 <nil> 3 <nil>",
	})
}

// newImport considers the other server stopped.
func newImport(t testing.TB, from oldServer, storage, accounts string) *importing.Import {
	t.Helper()
	cfg, _, err := app.Load(onAllEngines(), "", []string{
		"HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + storage, "HOLDFAST_TOKENSERVER__DATABASE_URL=" + accounts, "HOLDFAST_SYNCSTORAGE__ENFORCE_QUOTA=true",
		"HOLDFAST_SYNCSTORAGE__LIMITS__MAX_QUOTA_LIMIT=3000000", "HOLDFAST_SYNCSTORAGE__LIMITS__MAX_USER_QUOTA=3000000",
	})
	if err != nil {
		t.Fatal(err)
	}
	parts, closing, err := app.OpenParts(t.Context(), "syncstorage", map[string]string{"from": from.url, "accounts-from": from.url},
		app.Options{Config: cfg, Data: t.TempDir(), LogTo: io.Discard, Mode: app.ModeCopyWrite})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closing(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range parts {
		if _, err := p.Database.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return &importing.Import{Parts: parts, Report: func(line string) { t.Log(line) }, Stopped: func(context.Context, int, func(context.Context) error) error { return nil }}
}

func dump(t testing.TB, m *importing.Import) (lines []string) {
	t.Helper()
	for _, p := range m.Parts {
		if err := p.Database.Rows(nil).View(t.Context(), func(v rows.View) error {
			for _, g := range p.Service.Tables {
				for _, table := range g.Tables {
					if err := v.Each(table, g.Owner, rows.All, func(p rows.Packed) error {
						lines = append(lines, table.Name+dumpRow(p.Row()))
						return nil
					}); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

func dumpRow(r rows.Row) string {
	var b strings.Builder
	for _, value := range r {
		if payload, ok := value.([]byte); ok {
			value = string(payload[:min(len(payload), 20)])
		}
		fmt.Fprintf(&b, " %v", value)
	}
	return b.String()
}

func problems(t testing.TB, m *importing.Import) (all []string) {
	t.Helper()
	for _, p := range m.Parts {
		if err := p.Source.Problems(t.Context(), func(found service.Problem) {
			verb := "import: "
			if found.Left {
				verb = "leave: "
			}
			all = append(all, verb+found.What+": "+found.Row)
		}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return all
}

func wantImported(t testing.TB, m *importing.Import) {
	t.Helper()
	n, err := m.Verify(t.Context(), func(d copying.Difference) { t.Error(d) })
	if err != nil || n == 0 {
		t.Errorf("compared %d rows: %v", n, err)
	}
}

// TestImport checks that each valid row keeps its values, and that each invalid row is reported.
func TestImport(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct {
		name  string
		mysql bool
		to    func(testing.TB) string
		soak  bool
	}{
		{"mariadb to sqlite", true, sqliteURL, false},
		{"mariadb to postgres", true, testdb.PostgresDatabase, true},
		{"mariadb to citus", true, testdb.CitusDatabase, false},
		{"postgres to sqlite", false, sqliteURL, true},
		{"postgres to postgres", false, testdb.PostgresDatabase, false},
	} {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			if pair.soak {
				testdb.SoakOnly(t, "other pairs have shown both sides")
			}
			storage, accounts := pair.to(t), sqliteURL(t)
			from := newOldServer(t, pair.mysql)
			from.fill(t)
			m := newImport(t, from, storage, accounts)
			if sizes, err := m.DryRun(t.Context()); err != nil || len(sizes) == 0 {
				t.Errorf("a dry run: %v, %v", sizes, err)
			}
			if err := m.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantImported(t, m)
			want := from.wantProblems()
			slices.Sort(want)
			if got := problems(t, m); !slices.Equal(got, want) {
				t.Errorf("problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if got, want := dump(t, m), from.wantRows(); !slices.Equal(got, want) {
				t.Errorf("rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			wantLast(t, m, map[string]int64{"collections": 117, "users": 40, "nodes": 6}) // user 40 lacks an account
		})
	}
}

func wantLast(t testing.TB, m *importing.Import, want map[string]int64) {
	t.Helper()
	for _, p := range m.Parts {
		if err := p.Database.Rows(nil).View(t.Context(), func(v rows.View) error {
			for _, g := range p.Service.Tables {
				for _, table := range g.Tables {
					if n, ok := want[table.Name]; ok {
						if got, err := v.Last(table); err != nil || got != n {
							t.Errorf("the last number of %s is %d, %v; want %d", table.Name, got, err, n)
						}
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func (s oldServer) many(user int64, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(s.put(user, 4, fmt.Sprintf("r%05d", i), strings.Repeat("p", i%50), stamp0+int64(i)*10))
	}
	return b.String()
}

// TestImportContinues interrupts an import at each step. The target receives all concurrent writes, deletions and
// purges, although the old server has no change log.
func TestImportContinues(t *testing.T) {
	t.Parallel()
	for _, mysql := range []bool{true, false} {
		t.Run(fmt.Sprintf("mysql=%v", mysql), func(t *testing.T) {
			t.Parallel()
			if !mysql {
				testdb.SoakOnly(t, "MariaDB has shown the same")
			}
			from := newOldServer(t, mysql)
			from.run(t, from.many(1, 30)+from.many(2, 30)+from.many(3, 3))
			m := newImport(t, from, sqliteURL(t), sqliteURL(t))
			if !mysql {
				m = newImport(t, from, testdb.PostgresDatabase(t), sqliteURL(t))
			}
			steps := crashEverywhere(t, m, func(steps int) {
				stamp := int64(stamp0 + 10_000_000 + steps*10)
				switch user, id := int64(steps%5+1), fmt.Sprint("new", steps); steps % 4 {
				case 0:
					from.run(t, from.put(user, 7, id, "new", stamp)+fmt.Sprintf("UPDATE users SET generation = %d;", steps))
				case 1:
					from.run(t, from.touch(user, 4, stamp)+fmt.Sprintf("DELETE FROM %s WHERE %s = %d AND payload = 'p';", from.records(), from.user(), user))
				case 2:
					from.run(t, fmt.Sprintf("DELETE FROM %s WHERE %s = %d; DELETE FROM user_collections WHERE %s = %[3]d;", from.records(), from.user(), user, from.user())+
						fmt.Sprintf("INSERT INTO users (service, email, generation, client_state, created_at, nodeid) VALUES (1, '%s', 1, '', %d, 1);", account(steps), stamp))
				case 3: // purging expired records does not change the time
					from.run(t, fmt.Sprintf("DELETE FROM %s WHERE payload = 'pp';", from.records()))
				}
			})
			if steps < 12 {
				t.Errorf("only %d steps", steps)
			}
			m.BeforeStep = nil
			wantImported(t, m)
			if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "complete import") {
				t.Errorf("an import to a complete one: %v", err)
			}
		})
	}
}

// TestImportProgress checks that a resumed import shows the remaining rows.
func TestImportProgress(t *testing.T) {
	t.Parallel()
	from := newOldServer(t, true)
	from.run(t, from.many(1, 1000)+fmt.Sprintf("INSERT INTO users (service, email, generation, client_state, created_at, nodeid) VALUES (1, '%s', 1, '', 1, 1);", account(1)))
	m := newImport(t, from, sqliteURL(t), sqliteURL(t))
	var rows int64
	m.Progress = func(what string, _, total int64) {
		if what == "rows" {
			rows = total
		}
	}
	spans := 0
	m.BeforeStep = func(point string) error {
		if point == "span" {
			spans++
		}
		if spans > len(m.Parts[0].Service.Tables) {
			return errCrash
		}
		return nil
	}
	if err := m.Run(t.Context()); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	whole := rows
	m.BeforeStep, rows = nil, 0
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if whole < 1000 || rows == 0 || rows > 10 {
		t.Errorf("%d rows, then %d", whole, rows)
	}
	wantImported(t, m)
}

// crashEverywhere runs an import that crashes a point later each time, until it completes.
func crashEverywhere(t *testing.T, m *importing.Import, write func(steps int)) (steps int) {
	t.Helper()
	for ; ; steps++ {
		left := steps
		m.BeforeStep = func(string) error {
			if left--; left < 0 {
				return errCrash
			}
			return nil
		}
		err := m.Run(t.Context())
		if err == nil {
			return steps
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if steps < 12 {
			write(steps)
		}
	}
}

// TestImportUnderWrites checks that an import notices writes after the operator's claim that the old server is
// stopped, asks again, and includes them.
func TestImportUnderWrites(t *testing.T) {
	t.Parallel()
	from := newOldServer(t, true)
	from.run(t, from.many(1, 20))
	m := newImport(t, from, testdb.PostgresDatabase(t), sqliteURL(t))
	writes, late := 0, true
	write := func() {
		writes++
		from.run(t, from.put(int64(writes%3+1), 7, fmt.Sprint("w", writes), fmt.Sprint(writes), stamp0+10_000+int64(writes)*10))
	}
	m.BeforeStep = func(point string) error {
		if late && (point == "verify" || writes < 30) { // a pass that finds more changes would be repeated
			write()
		}
		return nil
	}
	asked := []int{}
	m.Stopped = func(ctx context.Context, n int, pass func(context.Context) error) error {
		asked = append(asked, n)
		if n == 1 {
			late = false
		}
		write()
		if err := pass(ctx); err != nil { // while the question is open
			return err
		}
		write()
		return nil
	}
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []int{0, 1}) {
		t.Errorf("asked %v, want twice", asked)
	}
	wantImported(t, m)
	n := 0
	for _, line := range dump(t, m) {
		if strings.Contains(line, " 7 w") {
			n++
		}
	}
	if n != writes {
		t.Errorf("%d of %d writes are imported", n, writes)
	}
}

// TestImportOfRunningServer checks that an import notices a server that was not stopped, but writes only now and then.
func TestImportOfRunningServer(t *testing.T) {
	t.Parallel()
	from := newOldServer(t, true)
	from.run(t, from.many(1, 20))
	m := newImport(t, from, sqliteURL(t), sqliteURL(t))
	m.Quiet = 2 * time.Second
	wrote := make(chan struct{})
	m.BeforeStep = func(point string) error {
		select {
		case <-wrote:
		default:
			if point == "quiet" {
				time.AfterFunc(100*time.Millisecond, func() {
					defer close(wrote)
					from.run(t, from.put(1, 7, "late", "new", stamp0+10_000))
				})
			}
		}
		return nil
	}
	questions := 0
	m.Stopped = func(context.Context, int, func(context.Context) error) error { questions++; return nil }
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-wrote
	if questions != 2 || !slices.ContainsFunc(dump(t, m), func(row string) bool { return strings.HasPrefix(row, "bsos 1 7 late ") }) {
		t.Errorf("asked %d times, want 2, and the late record", questions)
	}
}

// TestImportOfBusyServer checks that an import asks to stop a server that writes as fast as passes copy.
func TestImportOfBusyServer(t *testing.T) {
	t.Parallel()
	from := newOldServer(t, true)
	from.run(t, from.many(1, 20))
	m := newImport(t, from, sqliteURL(t), sqliteURL(t))
	passes, asked := 0, false
	manual := clock.NewManual(time.Unix(1_700_000_000, 0))
	m.Clock = manual.Now
	m.BeforeStep = func(point string) error {
		if point != "pass" || asked {
			return nil
		}
		if passes++; passes > 20 {
			t.Fatal("passes do not end while the other server writes")
		}
		manual.Advance(7 * time.Second)
		from.run(t, from.put(1, 7, fmt.Sprint("w", passes), "new", stamp0+10_000+int64(passes)*10)+from.put(2, 7, fmt.Sprint("w", passes), "new", stamp0+10_000+int64(passes)*10))
		return nil
	}
	var lines, shown []string
	m.Report = func(line string) { lines = append(lines, line) }
	m.Progress = func(what string, _, _ int64) { shown = append(shown, what) }
	m.Stopped = func(context.Context, int, func(context.Context) error) error { asked = true; return nil }
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"every owner is copied once: comparing all owners",
		"copied changed data for 2 owners, in 14s",
		"the other server writes as fast as changes are copied: stop it now; the rest takes about 14s",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in %q", want, lines)
		}
	}
	if !slices.Contains(shown, "changed owners") {
		t.Errorf("the progress of a pass is not shown: %q", slices.Compact(shown))
	}
	wantImported(t, m)
}

// TestImportRefusesOtherData checks that a target must be empty, except for the node from a server's first start.
func TestImportRefusesOtherData(t *testing.T) {
	t.Parallel()
	from := newOldServer(t, true)
	from.run(t, from.many(1, 3)+`INSERT INTO nodes VALUES (1, 1, 'https://a.example.org', 1, 1, 1, 0, 0)`)
	storage, accounts := sqliteURL(t), sqliteURL(t)
	m := newImport(t, from, storage, accounts)
	execute(t, accounts, `INSERT INTO nodes VALUES (1, 1, 'self', 1, 0, 1, 0, 0); INSERT INTO first_node VALUES ('self'); INSERT INTO account_access VALUES ('a', 'deny', '', 1)`)
	refused := func(want string) {
		t.Helper()
		if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := m.DryRun(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a dry run: %v, want %q", err, want)
		}
	}
	refused("account_access")
	execute(t, accounts, `DELETE FROM account_access; INSERT INTO nodes VALUES (2, 1, 'https://b.example.org', 1, 0, 1, 0, 0)`)
	refused("the table nodes")
	execute(t, accounts, `DELETE FROM nodes WHERE id = 2`)
	execute(t, storage, `INSERT INTO user_collections (user_id, collection_id, modified) VALUES (9, 0, 10)`)
	refused("user_collections")
	execute(t, storage, `DELETE FROM user_collections`)
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantImported(t, m)
	if got := dump(t, m); slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "self") }) {
		t.Errorf("the node of the new server is left: %v", got)
	}
}

func TestImportSources(t *testing.T) {
	t.Parallel()
	from := newOldServer(t, true)
	cfg, _, err := app.Load(onAllEngines(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(from.url, "?")
	socket := "?" + query
	testdb.MariaDBScript(t, from.url, `CREATE TABLE later (a INT); CREATE USER IF NOT EXISTS reader IDENTIFIED BY 'secret';
		DROP TABLE bso; GRANT SELECT ON `+"`"+databaseOf(from.url)+"`"+`.collections TO reader`)
	for url, want := range map[string]string{
		"sqlite:x":                                     `the scheme "sqlite" is not supported`,
		"mysql://h":                                    "no name of a database",
		"mysql://h/d?x=1":                              `unknown parameter "x"`,
		"mysql://h/d?ssl_mode=maybe":                   "ssl_mode: expected",
		"mysql://h/d?ssl_ca=/none":                     "ssl_ca: open /none: no such file",
		"mysql://h/d?ssl_ca=" + os.DevNull:             "ssl_ca: " + os.DevNull + " has no certificate",
		"mysql://h/d?ssl_mode=required&ssl_cert=/none": "ssl_cert, ssl_key: expected both",
		"mysql://h/d?ssl_cert=/none&ssl_key=/none":     "ssl_cert, ssl_key: a client certificate requires TLS",
		"mysql://h/d?ssl_mode=required&ssl_cert=/none&ssl_key=/none":    "ssl_cert, ssl_key: cannot read /none: no such file",
		"mysql://root:secret@/d?unix_socket=/none":                      "the database cannot be reached: no such file or directory",
		"mysql://h:se#cret@h/d":                                         "special characters of the password",
		"postgres://u@h":                                                "no name of a database",
		"postgres://u:secret@h/d?sslmode=maybe":                         "sslmode: expected one of disable",
		"postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=/none": "cannot read /none: no such file",
		"postgres://u:secret@h/d?sslcert=/none":                         "sslcert, sslkey: expected both",
		"postgres://u:secret@h/d?sslrootcert=" + os.DevNull:             "expected PEM files",
		"mysql://nobody:secret@/d" + socket:                             "access denied: check the user and the password",
		"mysql://root@/none" + socket:                                   "the database does not exist",
		"postgres://u:secret@127.0.0.1:1/d":                             "the database cannot be reached: connection refused",
		strings.Replace(from.url, "root@", "reader:secret@", 1):         "table user_collections: access denied: grant SELECT",
		"mysql://reader:secret@/mysql" + socket:                         "the database does not exist, or the user has no rights on it",
		from.url:                                                        ", table bso: the table or one of its columns does not exist",
	} {
		parts, closing, err := app.OpenParts(t.Context(), "syncstorage", map[string]string{"from": url, "accounts-from": from.url},
			app.Options{Config: cfg, Data: t.TempDir(), LogTo: io.Discard, Mode: app.ModeCopyWrite})
		if err == nil {
			_, err = (&importing.Import{Parts: parts}).DryRun(t.Context())
			if err := closing(); err != nil {
				t.Error(err)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// TestImportTLS checks that the URL parameters select how the old database's certificate is verified.
func TestImportTLS(t *testing.T) {
	t.Parallel()
	from := newOldServer(t, true)
	ca, wrong := testdb.MariaDBCertificate(t, from.url), filepath.Join(t.TempDir(), "wrong.pem")
	other := httptest.NewUnstartedServer(nil)
	other.StartTLS()
	defer other.Close()
	if err := os.WriteFile(wrong, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	client := clientCertificate(t)
	user := "tls_" + databaseOf(from.url)
	testdb.MariaDBScript(t, from.url, `CREATE USER `+user+` IDENTIFIED BY 'secret' REQUIRE SSL; GRANT SELECT ON `+"`"+databaseOf(from.url)+"`"+`.collections TO `+user)
	t.Cleanup(func() { testdb.MariaDBScript(t, from.url, `DROP USER `+user) })
	const host, identity = testdb.MariaDBHost, "&ssl_mode=VERIFY_IDENTITY"
	for _, tc := range []struct{ host, parameters, want string }{
		{host, "", "access denied"},
		{host, "&ssl_mode=DISABLED", "access denied"},
		{host, "&ssl_mode=PREFERRED", ""},
		{host, "&ssl_mode=required", ""},
		{host, "&ssl_ca=" + ca, ""},
		{host, identity + "&ssl_ca=" + ca, ""},
		{host, "&ssl_mode=VERIFY_CA", "not signed by a known authority"},
		{host, identity, "not signed by a known authority"},
		{host, "&ssl_ca=" + wrong, "not signed by a known authority"},
		{host, identity + "&ssl_ca=" + wrong, "not signed by a known authority"},
		{"other.example.org", "&ssl_ca=" + ca, ""},
		{"other.example.org", identity + "&ssl_ca=" + ca, "for another host"},
		{host, "&ssl_ca=" + ca + "&ssl_cert=" + client + "&ssl_key=" + client, "does not accept the client certificate: check that ssl_cert"},
	} {
		db, err := sourcedb.Open(strings.Replace(from.url, "root@", user+":secret@"+tc.host, 1) + tc.parameters)
		if err != nil {
			t.Fatalf("%s: %v", tc.parameters, err)
		}
		err = db.Snapshot(t.Context(), func(s *sourcedb.Snapshot) error {
			return s.Each("SELECT id FROM collections", func([]any) error { return nil })
		})
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s at %s: %v, want %q", tc.parameters, tc.host, err, tc.want)
		}
	}
}

func clientCertificate(t *testing.T) string {
	t.Helper()
	cert, key, err := testdb.SelfSigned(&x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "client.pem")
	if err := os.WriteFile(path, slices.Concat(cert, key), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func databaseOf(url string) string {
	_, rest, _ := strings.Cut(url, "@/")
	name, _, _ := strings.Cut(rest, "?")
	return name
}
