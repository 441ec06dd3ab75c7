package e2e_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestBackupAfterAMove moves a service to PostgreSQL between two backups of the same day. The backup with its database
// stays until an operator dismisses the database, and lists, check and copy say so.
func TestBackupAfterAMove(t *testing.T) {
	t.Parallel()
	url, dir := testdb.PostgresDatabase(t), t.TempDir()
	s := binary.Start(t, t.TempDir(), "HOLDFAST_BACKUP__URL=file://"+filepath.ToSlash(dir)+"/backups")
	s.Verb("backup")
	if out := s.Verb("copy", "extstorage", "--to", url); !strings.Contains(out, "back up the new database with its server's own tools") || !strings.Contains(out, "holdfast databases dismiss extstorage") {
		t.Errorf("copy does not say what backs up the new database:\n%s", out)
	}
	moved := append(slices.Clone(s.Env), "HOLDFAST_EXTSTORAGE__DATABASE_URL="+url)
	run := func(args ...string) string {
		t.Helper()
		r := binary.Run(t, moved, args...)
		if r.Status != 0 {
			t.Fatalf("%q: status %d\n%s%s", args, r.Status, r.Stdout, r.Stderr)
		}
		return r.Stdout + r.Stderr
	}
	if out := run("backup"); !strings.Contains(out, "it replaces no backup") {
		t.Errorf("backup does not say that it replaces nothing:\n%s", out)
	}
	if lines := strings.Split(strings.TrimSpace(run("backup", "list")), "\n"); len(lines) != 3 || !strings.HasSuffix(lines[1], "extstorage.db") || strings.HasSuffix(lines[2], ".db") {
		t.Errorf("the list is\n%s", strings.Join(lines, "\n"))
	}
	const warning = "the newest with an older copy is file://"
	if r := binary.Run(t, moved, "check"); !strings.Contains(r.Stdout, warning) || !strings.Contains(r.Stdout, "holdfast databases dismiss extstorage") {
		t.Errorf("check does not warn:\n%s", r.Stdout)
	}
	if out := run("databases", "list"); !strings.Contains(out, "backups do not contain it") {
		t.Errorf("the databases are\n%s", out)
	}
	if r := binary.Run(t, moved, "databases", "dismiss", "buckets", "--yes"); r.Status != 1 || !strings.Contains(r.Stderr, "backups contain") {
		t.Errorf("a SQLite database: %d, %s", r.Status, r.Stderr)
	}
	if r := binary.Run(t, moved, "databases", "dismiss", "extstorage"); r.Status == 0 {
		t.Error("nothing has to be confirmed")
	}
	if out := run("databases", "dismiss", "extstorage", "--yes"); !strings.Contains(out, "dismissed extstorage") {
		t.Errorf("dismiss prints %s", out)
	}
	if r := binary.Run(t, moved, "check"); strings.Contains(r.Stdout, warning) {
		t.Errorf("check still warns:\n%s", r.Stdout)
	}
	if out := run("backup"); !strings.Contains(out, "it replaces the backup of ") {
		t.Errorf("backup does not say what it replaces:\n%s", out)
	}
	if lines := strings.Split(strings.TrimSpace(run("backup", "list")), "\n"); len(lines) != 2 {
		t.Errorf("the list is\n%s", strings.Join(lines, "\n"))
	}
}
