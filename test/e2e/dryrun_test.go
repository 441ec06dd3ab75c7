package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

func runWith(t *testing.T, temporary string, vars []string, typed ...string) (status int, out, errs string) {
	t.Helper()
	r := binary.Run(t, append(binary.Environ(append(vars, "HOLDFAST_GUEST__ENABLED=true", "HOLDFAST_BUCKETS__ENABLED=true")...), "TMPDIR="+temporary), typed...)
	return r.Status, r.Stdout, r.Stderr
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestDryRunLeavesNothing checks that --dry-run and --verify create no files, folders or tables.
func TestDryRunLeavesNothing(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	source, old := binary.UsedData(t, t.TempDir()), testdb.MariaDBDatabase(t)
	testdb.MariaDBScript(t, old, testdb.MozillaMySQL)
	if status, _, errs := runWith(t, temporary, []string{"HOLDFAST_DATA=" + source}, "migrate"); status != 0 {
		t.Fatal(errs)
	}
	before := strings.Join(files(t, source), " ")
	target := filepath.Join(t.TempDir(), "new")
	copying := func(service string, flag string) []string {
		return []string{"copy", service, "--to", "sqlite:" + filepath.Join(target, "copy.db"), flag}
	}
	importing := func(flag string) []string {
		return []string{"import", "syncstorage", "--from", old, "--accounts-from", old, flag}
	}
	for _, tc := range []struct {
		data   string
		typed  []string
		status int
		want   string
	}{
		{source, copying("syncstorage", "--dry-run"), 0, "would be copied to " + filepath.Join(target, "copy.db")},
		{source, copying("tokenserver", "--dry-run"), 0, "would be copied to "},
		{source, copying("extstorage", "--dry-run"), 0, "would be copied to "},
		{source, copying("buckets", "--dry-run"), 0, "would be copied to "},
		{source, copying("guest", "--dry-run"), 0, "would be copied to "},
		{source, copying("extstorage", "--verify"), 1, "--to: " + filepath.Join(target, "copy.db") + " does not exist"},
		{target, importing("--dry-run"), 0, "to " + filepath.Join(target, "syncstorage.db")},
		{target, importing("--verify"), 1, filepath.Join(target, "syncstorage.db") + " does not exist"},
	} {
		status, out, errs := runWith(t, temporary, []string{"HOLDFAST_DATA=" + tc.data}, tc.typed...)
		if status != tc.status || !strings.Contains(out+errs, tc.want) {
			t.Errorf("%v: status %d\n%s%s", tc.typed, status, out, errs)
		}
		if left := append(files(t, target), files(t, temporary)...); len(left) > 0 {
			t.Errorf("%v left %v", tc.typed, left)
		}
	}
	if after := strings.Join(files(t, source), " "); after != before {
		t.Errorf("the source's folder contains %s, before: %s", after, before)
	}
	// A dry run does not migrate an empty file.
	if err := os.MkdirAll(target, 0o700); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(target, "copy.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := runWith(t, temporary, []string{"HOLDFAST_DATA=" + source}, copying("extstorage", "--dry-run")...); status != 0 {
		t.Error(errs)
	}
	if status, _, errs := runWith(t, temporary, []string{"HOLDFAST_DATA=" + source}, copying("extstorage", "--verify")...); status != 1 || !strings.Contains(errs, "are missing or not up to date") {
		t.Errorf("status %d, %s", status, errs)
	}
	if info, err := os.Stat(empty); err != nil || len(files(t, target)) != 1 {
		t.Errorf("%v, %v, %v", info, err, files(t, target))
	}
}

// TestImportTargets checks that errors name the target and suggest a fix.
func TestImportTargets(t *testing.T) {
	t.Parallel()
	old, empty := testdb.MariaDBDatabase(t), testdb.PostgresDatabase(t)
	testdb.MariaDBScript(t, old, testdb.MozillaMySQL)
	const down = "postgres://u@127.0.0.1:1/d"
	for _, tc := range []struct{ target, flag, want string }{
		{down, "--stopped", "holdfast: postgres://127.0.0.1:1/d: no database connection: 127.0.0.1:1: connection refused; nothing listens at the address: start the server there, or correct host and port: run the same command again when the database can be used\n"},
		{down, "--dry-run", "holdfast: postgres://127.0.0.1:1/d: no database connection"},
		{down, "--verify", "holdfast: postgres://127.0.0.1:1/d: no database connection"},
		{empty, "--verify", "are missing or not up to date: run the command without --verify first"},
	} {
		status, out, errs := runWith(t, t.TempDir(), []string{"HOLDFAST_DATA=" + t.TempDir(), "HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + tc.target, "HOLDFAST_TOKENSERVER__DATABASE_URL=" + tc.target},
			"import", "syncstorage", "--from", old, "--accounts-from", old, tc.flag)
		if status != 1 || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%s to %s: status %d\n%s%s", tc.flag, tc.target, status, out, errs)
		}
	}
}
