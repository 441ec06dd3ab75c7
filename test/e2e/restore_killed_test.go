package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// preparing is the line before extension storage's step, in which these tests stop a restore.
const preparing = "extstorage: skipping change numbers"

// killRestore kills a restore after it printed a line. What follows the line must not be able to end.
func killRestore(t *testing.T, env []string, line string, args ...string) {
	t.Helper()
	out, ended := &binary.Output{}, make(chan struct{})
	cmd := exec.Command(binary.Path(), append([]string{"restore"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(ended) }() // killed
	found := out.Await(regexp.MustCompile(regexp.QuoteMeta(line)), ended)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its pg_restore, which would go on; or both have ended
	<-ended
	if found == nil || cmd.ProcessState.Success() {
		t.Fatalf("the restore was not stopped after %q:\n%s", line, out)
	}
}

// wantRefused checks that commands that use the data end with a text.
func wantRefused(t *testing.T, env []string, says string, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if r := binary.Run(t, env, strings.Fields(command)...); r.Status != 1 || !strings.Contains(r.Stdout+r.Stderr, says) {
			t.Errorf("%s: status %d, want %q\n%s%s", command, r.Status, says, r.Stdout, r.Stderr)
		}
	}
}

// TestKilledRestore kills a restore with SQLite files in a step for clients, and lets a step fail. No server starts with
// the unprepared copy, and another restore is complete.
func TestKilledRestore(t *testing.T) {
	t.Parallel()
	vars := []string{noBuckets, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false"}
	s := binary.Start(t, filepath.Join(t.TempDir(), "data"), vars...)
	feed := newRestoredFeed(t, s)
	backup := filepath.Join(t.TempDir(), "backup")
	s.Verb("backup", backup)
	feed.lose()
	s.Kill()
	env := func(data string) []string {
		return binary.Environ(append([]string{"HOLDFAST_DATA=" + data}, vars...)...)
	}

	trigger := func(body string) {
		alter(t, filepath.Join(backup, "extstorage.db"), `CREATE TRIGGER stop BEFORE UPDATE ON ext_storage_floor BEGIN SELECT `+body+`; END`)
	}
	trigger(`(WITH RECURSIVE endless(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM endless) SELECT count(*) FROM endless)`)
	killed := filepath.Join(t.TempDir(), "killed")
	killRestore(t, env(killed), preparing, backup)
	wantRefused(t, env(killed), "was not restored completely", "serve", "migrate", "restore "+backup)

	alter(t, filepath.Join(backup, "extstorage.db"), `DROP TRIGGER stop`)
	trigger(`RAISE(ABORT, 'the disk is broken')`)
	failed := filepath.Join(t.TempDir(), "failed")
	wantRefused(t, env(failed), preparing, "restore "+backup)
	if _, err := os.Stat(failed); !os.IsNotExist(err) {
		t.Errorf("a failed restore left a data folder: %v", err)
	}

	alter(t, filepath.Join(backup, "extstorage.db"), `DROP TRIGGER stop`)
	if r := binary.Run(t, env(failed), "restore", backup); r.Status != 0 {
		t.Fatalf("restore: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	feed.check(binary.Start(t, failed, vars...))
}

// heldLock is an advisory lock, with which a dump stops its own restore.
type heldLock struct {
	t    *testing.T
	url  string
	conn *pgx.Conn
}

const waitsForTest = `pg_advisory_xact_lock(4711)`

func holdLock(t *testing.T, url string) *heldLock {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_, err = conn.Exec(t.Context(), `SELECT pg_advisory_lock(4711)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &heldLock{t, url, conn}
}

// release ends the killed restore's sessions, which wait for the lock, and then releases it.
func (l *heldLock) release() {
	l.t.Helper()
	for _, sql := range []string{
		`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`,
		`SELECT pg_advisory_unlock(4711)`,
	} {
		if _, err := l.conn.Exec(l.t.Context(), sql); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := l.conn.Close(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
}

// TestKilledRestoreOfDump kills a dump's restore in pg_restore and in a step for clients, and lets a step fail. No
// server starts on the database: before pg_restore has ended, the restore is run again; afterwards finish-restore is
// required, also for services that the restore was not asked to prepare.
func TestKilledRestoreOfDump(t *testing.T) {
	t.Parallel()
	dump := binary.Program(t, "pg_dump")
	binary.Program(t, "pg_restore")
	on := func(url string) []string {
		return []string{
			noBuckets, "HOLDFAST_EXTSTORAGE__RATE_LIMITS=false", "HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + url, "HOLDFAST_EXTSTORAGE__DATABASE_URL=" + url,
		}
	}
	url, data := testdb.PostgresDatabase(t), filepath.Join(t.TempDir(), "data")
	binary.Migrate(t, data, on(url)...)
	s := binary.Start(t, data, on(url)...)
	feed := newRestoredFeed(t, s)
	// A dump that stops in pg_restore, one that stops in a step, and one whose step fails.
	saved := func(sql string) string {
		t.Helper()
		execute(t, url, sql)
		file := filepath.Join(t.TempDir(), "dump")
		if out, err := exec.Command(dump, "--format=custom", "--file="+file, url).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return file
	}
	inDump := saved(`CREATE TABLE stops (n int); CREATE FUNCTION stop() RETURNS int LANGUAGE sql AS 'SELECT 1 FROM (SELECT ` + waitsForTest + `) AS waits';
		CREATE MATERIALIZED VIEW stopped AS SELECT stop()`)
	inStep := saved(`DROP MATERIALIZED VIEW stopped; DROP FUNCTION stop; DROP TABLE stops;
		CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM ` + waitsForTest + `; RETURN new; END';
		CREATE TRIGGER stop BEFORE UPDATE ON ext_storage_floor FOR EACH ROW EXECUTE FUNCTION stop()`)
	failing := saved(`CREATE OR REPLACE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''the disk is broken''; END'`)
	execute(t, url, `DROP TRIGGER stop ON ext_storage_floor`)
	feed.lose()
	s.Kill()
	env := func(url string) []string {
		return binary.Environ(append([]string{"HOLDFAST_DATA=" + data}, on(url)...)...)
	}

	t.Run("in pg_restore", func(t *testing.T) {
		t.Parallel()
		other := testdb.PostgresDatabase(t)
		lock := holdLock(t, other)
		killRestore(t, env(other), "running pg_restore", inDump, "--trust-dump")
		lock.release()
		wantRefused(t, env(other), "before it wrote anything: run holdfast restore again", "serve", "migrate", "check")
		if r := binary.Run(t, env(other), "restore", inDump, "--trust-dump"); r.Status != 0 {
			t.Fatalf("restore: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		wantPrepared(t, env(other), other)
	})
	t.Run("in a step", func(t *testing.T) {
		t.Parallel()
		other := testdb.PostgresDatabase(t)
		lock := holdLock(t, other)
		killRestore(t, env(other), preparing, inStep, "--trust-dump")
		lock.release()
		wantFinished(t, env(other), other, "extstorage", "syncstorage")
		feed.check(binary.Start(t, data, on(other)...))
	})
	t.Run("failing step", func(t *testing.T) {
		t.Parallel()
		other := testdb.PostgresDatabase(t)
		wantRefused(t, env(other), "run holdfast finish-restore --time ", "restore --trust-dump "+failing)
		execute(t, other, `DROP TRIGGER stop ON ext_storage_floor`)
		wantFinished(t, env(other), other, "extstorage", "syncstorage")
	})
	t.Run("a service that was not named", func(t *testing.T) {
		t.Parallel()
		other := testdb.PostgresDatabase(t)
		if r := binary.Run(t, env(other), "restore", failing, "--trust-dump", "--service", "syncstorage"); r.Status != 0 {
			t.Fatalf("restore: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		execute(t, other, `DROP TRIGGER stop ON ext_storage_floor`)
		wantFinished(t, env(other), other, "extstorage")
	})
}

// wantFinished checks that servers refuse the services until the command that they name has prepared each.
func wantFinished(t *testing.T, env []string, url string, services ...string) {
	t.Helper()
	command := regexp.MustCompile(`run holdfast (finish-restore --time \S+ --service (\S+))`)
	for len(services) > 0 {
		wantRefused(t, env, "the restore of its database was interrupted", "serve", "migrate", "check")
		r := binary.Run(t, env, "serve")
		found := command.FindStringSubmatch(r.Stderr)
		if found == nil {
			t.Fatalf("serve does not say how to prepare %v:\n%s", services, r.Stderr)
		}
		if r := binary.Run(t, env, strings.Fields(found[1])...); r.Status != 0 || !strings.Contains(r.Stdout, "prepared "+found[2]) {
			t.Fatalf("%s: status %d\n%s%s", found[1], r.Status, r.Stdout, r.Stderr)
		}
		left := services[:0]
		for _, one := range services {
			if one != found[2] {
				left = append(left, one)
			}
		}
		if len(left) == len(services) {
			t.Fatalf("%s is refused again", found[2])
		}
		services = left
	}
	wantPrepared(t, env, url)
}

// wantPrepared checks that a database is without restore mark, and that commands may use it.
func wantPrepared(t *testing.T, env []string, url string) {
	t.Helper()
	if err := try(t, url, `SELECT 1 FROM unfinished_restore`); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("the mark of the restore: %v", err)
	}
	if r := binary.Run(t, env, "migrate"); r.Status != 0 {
		t.Error(fmt.Sprint("migrate: ", r.Status, r.Stdout, r.Stderr))
	}
}
