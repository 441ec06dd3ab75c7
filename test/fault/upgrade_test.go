package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// One release takes the place of another, which may come back, and nothing that
// was acknowledged is lost on the way. The next release is this one with a
// migration more in every room, see next.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	newer := next(t)
	t.Run("Postgres", func(t *testing.T) { t.Parallel(); rollingUpgrade(t, newer) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); upgradeInPlace(t, newer) })
	t.Run("SQLiteKilled", func(t *testing.T) { t.Parallel(); upgradeKilled(t, newer) })
}

// rollingUpgrade upgrades a database under a server of the release before,
// which serves on and never fails a request.
func rollingUpgrade(t *testing.T, newer string) {
	url := testdb.PostgresDatabase(t)
	h := newHarness(t, t.TempDir(), roomsOn(url)...).installed(1)
	h.server = h.serve()
	old := h.server

	upgraded := binary.LaunchOf(t, newer, t.TempDir(), h.vars...)
	if why := upgraded.Await("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "holdfast migrate") {
		t.Errorf("before the migration the next release says %q", why)
	}
	h.quietly(0, func() {
		if r := binary.RunOf(t, newer, upgraded.Env, "migrate"); r.Status != 0 || strings.Count(r.Stdout, "_future") != 2 {
			t.Errorf("migrate: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		upgraded.Await("/readyz", http.StatusOK)
		h.await(h.load.after(100))
		old.Await("/readyz", http.StatusOK)
	})

	// Writers of one user are at servers of both releases.
	h.second = upgraded
	h.quietly(1, func() { h.await(h.load.after(300)) })

	h.server, h.second = upgraded, nil
	h.quietly(2, func() {
		old.Signal(syscall.SIGTERM)
		<-old.Ended
		h.await(h.load.after(100))
	})
	if code := old.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the old server ended with %d", code)
	}
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	var byOld, byNewer int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE future = 0), count(*) FILTER (WHERE future > 0) FROM bsos`).Scan(&byOld, &byNewer))
	must(t, conn.Close(t.Context()))
	if byNewer == 0 {
		t.Error("no record was put by the function of the next release")
	}
	h.tally.rounds = 3
	t.Logf("%s; at the end %d records were put by the next release, %d otherwise", &h.tally, byNewer, byOld)
}

// quietly lets all write while something happens of which nobody may notice.
func (h *harness) quietly(round int, what func()) {
	h.t.Helper()
	h.round(round, fault{strike: what, recover: h.nobodyNoticed})
	if n := h.tally.refused.Load(); n > 0 {
		h.t.Errorf("%d requests were refused", n)
	}
	if h.t.Failed() {
		h.t.FailNow()
	}
}

// upgradeInPlace changes the release that serves a file, forth, back and forth.
func upgradeInPlace(t *testing.T, newer string) {
	h := newHarness(t, testdb.SQLite(t)).installed(1)
	h.server = h.serve()
	for round, path := range []string{newer, binary.Path(), newer} {
		h.round(round, fault{strike: func() {}, recover: func() {
			h.server.Signal(syscall.SIGTERM)
			<-h.server.Ended
			h.server = binary.LaunchOf(t, path, h.data, h.vars...)
			h.server.Await("/readyz", http.StatusOK)
		}})
		if t.Failed() {
			return
		}
	}
	h.tally.rounds = 3
	t.Log(&h.tally)
}

// upgradeKilled kills upgrades at any moment. Both releases can serve what that
// leaves, and have all.
func upgradeKilled(t *testing.T, newer string) {
	h := newHarness(t, testdb.SQLite(t)).installed(1)
	h.server = h.serve()
	length := time.Second // of a migration
	h.quietly(0, func() {})
	h.server.Kill() // it leaves a log that is not in the file yet
	for i := range 9 {
		data := filepath.Join(t.TempDir(), "data")
		run(t, "cp", "-a", h.data, data)
		cmd := exec.Command(newer, "migrate")
		cmd.Env = binary.Environ(append(h.vars, "HOLDFAST_DATA="+data)...)
		start := time.Now()
		must(t, cmd.Start())
		if i > 0 {
			pause(nil, length*time.Duration(i)/8)
			_ = cmd.Process.Kill() // it may have ended
		}
		if err := cmd.Wait(); i == 0 {
			must(t, err)
			length = time.Since(start)
		}
		path := []string{newer, binary.Path()}[i%2]
		other := binary.LaunchOf(t, path, data, h.vars...)
		other.Await("/readyz", http.StatusOK)
		h.serveAs(other, h.clock.Add(1), h.clock.Add(1), false)
	}
}

// future is what the migrations of the next release do. They only add, which is
// the rule for every migration.
var future = map[string]string{
	"internal/syncstorage/sqlite": `
		ALTER TABLE bsos ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
		UPDATE bsos SET future = length(payload);
		CREATE INDEX bsos_future_idx ON bsos (future, bso_id);`,
	"internal/syncstorage/postgres": `
		ALTER TABLE bsos ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
		CREATE FUNCTION sync_put_v2(
			p_user BIGINT, p_coll INTEGER, p_id TEXT, p_sortindex BIGINT, p_payload BYTEA, p_ttl BIGINT,
			p_now TIMESTAMP, p_modified_since TIMESTAMP, p_unmodified_since TIMESTAMP, p_limit BIGINT, p_enforce BOOLEAN
		) RETURNS BIGINT[] LANGUAGE plpgsql VOLATILE AS $$
		DECLARE
			v BIGINT[] := sync_put_v1(p_user, p_coll, p_id, p_sortindex, p_payload, p_ttl,
				p_now, p_modified_since, p_unmodified_since, p_limit, p_enforce);
		BEGIN
			IF v[1] = 0 THEN
				UPDATE bsos SET future = future + 1 WHERE user_id = p_user AND collection_id = p_coll AND bso_id = p_id;
			END IF;
			RETURN v;
		END $$;`,
	"internal/extstorage/sqlite": `
		ALTER TABLE ext_storage_records ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
		ALTER TABLE ext_storage_usage ADD COLUMN future BIGINT;`,
	"internal/extstorage/postgres": `
		ALTER TABLE ext_storage_records ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
		ALTER TABLE ext_storage_usage ADD COLUMN future BIGINT;`,
	"internal/tokenserver/sqlite":   `ALTER TABLE users ADD COLUMN future BIGINT;`,
	"internal/tokenserver/postgres": `ALTER TABLE users ADD COLUMN future BIGINT;`,
}

// next builds the next release: this tree with future laid over it.
func next(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	lay := func(path, text string) {
		file := filepath.Join(dir, fmt.Sprint(len(replace)))
		must(t, os.WriteFile(file, []byte(text), 0o600))
		replace[filepath.Join(root, path)] = file
	}
	for backend, sql := range future {
		known, err := filepath.Glob(filepath.Join(root, backend, "migrations", "*.sql"))
		must(t, err)
		lay(fmt.Sprintf("%s/migrations/%04d_future.sql", backend, len(known)+1), sql)
	}
	const statements = "internal/syncstorage/postgres/sql.go"
	text, err := os.ReadFile(filepath.Join(root, statements))
	must(t, err)
	calls := strings.Replace(string(text), "sync_put_v1(", "sync_put_v2(", 1)
	if calls == string(text) {
		t.Fatalf("%s does not call sync_put_v1", statements)
	}
	lay(statements, calls)
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	path := filepath.Join(dir, "holdfast")
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", path, "holdfast/cmd/holdfast")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}
