package firefox

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestImportedFromMozilla checks that browsers continue without uploads after the server has imported the database of
// Mozilla's server from MariaDB. The rows come from another Holdfast that the browsers synced with.
func TestImportedFromMozilla(t *testing.T) {
	testdb.SoakOnly(t, "TestSync has shown that browsers sync; this one takes minutes")
	firefox, mozilla := program(t), testdb.MariaDBDatabase(t)
	h := startPair(t, firefox)
	crossing(t, h)
	h.folder = call[string](t, h.a, "addFolder", "Import", "http://127.0.0.1/import", many)
	h.a.sync(t)
	h.b.sync(t)
	h.b.wantImport(t, h.folder)
	h.a.sync(t) // downloads B's uploads

	endpoint := call[string](t, h.a, "endpoint")
	h.server.Signal(syscall.SIGTERM)
	<-h.server.Ended
	testdb.MariaDBScript(t, mozilla, testdb.MozillaMySQL+mozillaRows(t, h.server.Data, h.server.URL))
	data := t.TempDir()
	secrets, err := os.ReadFile(filepath.Join(h.server.Data, "secrets.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "secrets.toml"), secrets, 0o600); err != nil {
		t.Fatal(err)
	}
	env := binary.Environ("HOLDFAST_DATA="+data, "SYNC_PUBLIC_URL="+h.server.URL)
	r := binary.Run(t, env, "import", "syncstorage", "--from", mozilla, "--accounts-from", mozilla, "--stopped")
	if r.Status != 0 || strings.Contains(r.Stdout, "skipped") {
		t.Fatalf("import: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	next := binary.Launch(t, data, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+h.accounts, "HOLDFAST_SERVER__LISTEN="+strings.TrimPrefix(h.server.URL, "http://"))
	next.Await("/readyz", http.StatusOK)

	mark := h.network.mark()
	h.a.do(t, "forgetToken")
	h.a.sync(t)
	h.b.sync(t) // with the old server's token
	for _, b := range []*browser{h.a, h.b} {
		if got := call[string](t, b, "endpoint"); got != endpoint {
			t.Errorf("%s syncs with %s, want %s", b.name, got, endpoint)
		}
		h.wantUploads(t, mark, b.name, 0)
		if read := h.network.since(mark, b.name, http.MethodGet, "/info/collections"); len(read) == 0 || read[0].status != http.StatusOK {
			t.Errorf("%s asks for the collections: %v", b.name, read)
		}
	}
	renaming(t, h)
	deleting(t, h)
	h.b.wantImport(t, h.folder)
}

// mozillaRows returns statements that write a server's data in the format of Mozilla's server.
func mozillaRows(t *testing.T, data, node string) string {
	t.Helper()
	var b strings.Builder
	query := func(file, sql string, fn func(*sqlite.Stmt)) {
		t.Helper()
		conn, err := sqlite.OpenConn(filepath.Join(data, file), sqlite.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := sqlitex.Execute(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error { fn(s); return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'" }
	fmt.Fprintf(&b, "INSERT INTO nodes VALUES (1, 1, %s, 10, 1, 10, 0, 0);\n", quote(node))
	query("tokenserver.db", `SELECT uid, email, generation, client_state, created_at, keys_changed_at FROM users WHERE replaced_at IS NULL`, func(s *sqlite.Stmt) {
		fmt.Fprintf(&b, "INSERT INTO users VALUES (%d, 1, %s, %d, %s, %d, NULL, 1, %d);\n", s.ColumnInt64(0), quote(s.ColumnText(1)), s.ColumnInt64(2), quote(s.ColumnText(3)), s.ColumnInt64(4), s.ColumnInt64(5))
	})
	query("syncstorage.db", `SELECT collection_id, name FROM collections WHERE collection_id >= 100`, func(s *sqlite.Stmt) {
		fmt.Fprintf(&b, "INSERT INTO collections VALUES (%d, %s);\n", s.ColumnInt64(0)+1, quote(s.ColumnText(1))) // Mozilla's server uses 100
	})
	query("syncstorage.db", `SELECT user_id, collection_id + (collection_id >= 100), modified FROM user_collections WHERE collection_id > 0`, func(s *sqlite.Stmt) {
		fmt.Fprintf(&b, "INSERT INTO user_collections (userid, collection, last_modified) VALUES (%d, %d, %d);\n", s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2))
	})
	query("syncstorage.db", `SELECT user_id, collection_id + (collection_id >= 100), bso_id, sortindex, CAST(payload AS TEXT), modified, coalesce(expiry, modified + 2100000000000) FROM bsos`, func(s *sqlite.Stmt) {
		sortindex := "NULL"
		if !s.ColumnIsNull(3) {
			sortindex = fmt.Sprint(s.ColumnInt64(3))
		}
		fmt.Fprintf(&b, "INSERT INTO bso (userid, collection, id, sortindex, payload, modified, ttl) VALUES (%d, %d, %s, %s, %s, %d, %d);\n",
			s.ColumnInt64(0), s.ColumnInt64(1), quote(s.ColumnText(2)), sortindex, quote(s.ColumnText(4)), s.ColumnInt64(5), s.ColumnInt64(6))
	})
	return b.String()
}
