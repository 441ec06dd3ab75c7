package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	buckets "holdfast/internal/buckets/postgres"
	"holdfast/internal/cli"
	"holdfast/internal/db/migrate"
	"holdfast/internal/db/pgdb"
	extstorage "holdfast/internal/extstorage/postgres"
	guest "holdfast/internal/guest/postgres"
	syncstorage "holdfast/internal/syncstorage/postgres"
	"holdfast/internal/testdb"
	"holdfast/internal/testdb/opened"
	tokenserver "holdfast/internal/tokenserver/postgres"
)

// olderSchemas are the services' migrations on PostgreSQL. Each one's folder contains data for some schemas.
var olderSchemas = map[string]opened.Migrations{
	"syncstorage": syncstorage.Migrations, "tokenserver": tokenserver.Migrations, "extstorage": extstorage.Migrations,
	"buckets": buckets.Migrations, "guest": guest.Migrations,
}

// makeOlder makes the tables that a release had when each service had at most k migrations, and older ones than now, with
// that schema's data. It counts the migrations that services lack.
func makeOlder(t *testing.T, url string, k int) (lacking int) {
	t.Helper()
	db := opened.Postgres(t, pgdb.Options{URL: url}, pgdb.ServerMigrations)
	for name, migrations := range olderSchemas {
		set, err := migrations()
		if err != nil {
			t.Fatal(err)
		}
		of := max(1, min(k, len(set.Migrations)-1))
		if _, err := db.Migrate(t.Context(), migrate.Set{Service: set.Service, Migrations: set.Migrations[:of]}); err != nil {
			t.Fatal(err)
		}
		lacking += len(set.Migrations) - of
		script, err := os.ReadFile(fmt.Sprintf("../%s/postgres/testdata/schema/%04d.sql", name, of))
		if errors.Is(err, os.ErrNotExist) {
			continue // empty tables
		}
		if err != nil {
			t.Fatal(err)
		}
		testdb.Script(t, url, string(script))
	}
	return lacking
}

// TestRestoreDumpOfEachOlderSchema restores dumps with every earlier schema that a service had. All steps and reports of the
// restore work, and the tables are up to date.
func TestRestoreDumpOfEachOlderSchema(t *testing.T) {
	t.Parallel()
	testdb.CheckOnly(t, "it restores a dump of every earlier schema")
	dump := testdb.PostgresProgram(t, "pg_dump")
	most := 0
	for _, migrations := range olderSchemas {
		set, err := migrations()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(set.Migrations)-1)
	}
	vars := []string{
		"HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__MASTER_SECRET=" + strings.Repeat("5a", 32),
		"HOLDFAST_SERVER__ADMIN_TOKEN=" + strings.Repeat("5a", 32), "HOLDFAST_TOKENSERVER__FXA_METRICS_HASH_SECRET=" + strings.Repeat("5a", 32),
		"HOLDFAST_GUEST__HANDOFF_URL=https://book.example/{tenantId}/{propertyId}#{token}",
	}
	for _, s := range onAllEngines() {
		for _, secret := range s.Secrets {
			if secret.Name == "master_secret" {
				continue // the server's
			}
			vars = append(vars, fmt.Sprintf("HOLDFAST_%s__%s=%s", strings.ToUpper(s.Name), strings.ToUpper(secret.Name), strings.Repeat("5a", 32)))
		}
	}
	for k := 1; k <= most; k++ {
		t.Run(fmt.Sprintf("%04d", k), func(t *testing.T) {
			t.Parallel()
			if k > 1 && k < most {
				testdb.CheckOnly(t, "the oldest and the newest earlier schema have shown most of it")
			}
			restoreOlder(t, dump, k, vars)
		})
	}
}

// restoreOlder restores a dump with at most k migrations for each service. dump is pg_dump's path.
func restoreOlder(t *testing.T, dump string, k int, vars []string) {
	t.Helper()
	old, url := testdb.PostgresDatabase(t), testdb.PostgresDatabase(t)
	lacking := makeOlder(t, old, k)
	file := filepath.Join(t.TempDir(), "dump")
	if out, err := exec.Command(dump, "--format=custom", "--file="+file, old).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vars = append([]string{"HOLDFAST_DATA=" + t.TempDir()}, vars...)
	for name := range olderSchemas {
		vars = append(vars, "HOLDFAST_"+strings.ToUpper(name)+"__DATABASE_URL="+url)
	}
	run := func(args ...string) (status int, stdout, stderr string) {
		var out, errs bytes.Buffer
		status = cli.Run(t.Context(), cli.Env{Args: args, Environ: vars, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Services: onAllEngines()})
		return status, out.String(), errs.String()
	}
	status, stdout, stderr := run("restore", file, "--trust-dump")
	if status != 0 || strings.Contains(stderr, "warning") {
		t.Fatalf("restore: status %d\n%s%s", status, stdout, stderr)
	}
	if got := strings.Count(stderr, ": applied "); got != lacking {
		t.Errorf("%d migrations were applied, want %d\n%s", got, lacking, stderr)
	}
	for name := range olderSchemas {
		if !strings.Contains(stderr, "reading the tables for "+name) || !strings.Contains(stdout, name) {
			t.Errorf("%s was not restored\n%s%s", name, stdout, stderr)
		}
	}
	if status, stdout, stderr := run("migrate"); status != 0 || !strings.Contains(stdout, "all tables are up to date") {
		t.Errorf("migrate after the restore: status %d\n%s%s", status, stdout, stderr)
	}
}
