package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestImportFromMozilla imports from Mozilla's server on MariaDB, with a killed import. A browser that used the old
// server signs in to the new server and finds its data.
func TestImportFromMozilla(t *testing.T) {
	t.Parallel()
	old, fxa, data := testdb.MariaDBDatabase(t), newAccounts(t), t.TempDir()
	const account, node, stamp = "0123456789abcdef0123456789abcdef", "http://sync.example.org/sync", 1_700_000_000_000
	testdb.MariaDBScript(t, old, mozillaDatabase(account, node, stamp))

	vars := []string{
		"HOLDFAST_DATA=" + data, "SYNC_MASTER_SECRET=the secret of the old server, which is kept", "SYNC_PUBLIC_URL=" + node,
		"SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + fxa.URL,
	}
	env := binary.Environ(vars...)
	importing := func(status int, flag string, want ...string) {
		t.Helper()
		args := []string{"import", "syncstorage", "--from", old, "--accounts-from", old}
		if flag != "" {
			args = append(args, flag)
		}
		r := binary.Run(t, env, args...)
		for _, text := range want {
			if !strings.Contains(r.Stdout+r.Stderr, text) {
				t.Errorf("import %s lacks %q", flag, text)
			}
		}
		if r.Status != status || t.Failed() {
			t.Fatalf("import %s: status %d, want %d:\n%s%s", flag, r.Status, status, r.Stdout, r.Stderr)
		}
	}
	importing(0, "--dry-run", "bsos              9004", `skipped, 1 row: records whose ID is not 1 to 64 printable ASCII characters`+"\n  "+`user 4711, bookmarks, "not an id\n"`,
		"user 4711, history, batch 1700000000123, 0 records", "tokenserver would be imported from mysql://root@/test_", "Browsers for 1 account use "+node+", which is server.public_url.")
	if killMozillaImport(t, env, data, old) {
		importing(1, "", "syncstorage: continuing the import that was interrupted", "tokenserver: continuing the import that was interrupted")
	}
	importing(1, "", "Stop the other server, then run the same command with --stopped")
	testdb.MariaDBScript(t, old, putMozilla(4711, 7, "late", stamp+50)+putMozilla(4711, 101, "mine", stamp+60)+"DELETE FROM bso WHERE userid = 2; DELETE FROM user_collections WHERE userid = 2;")
	importing(0, "--stopped", "everything is imported and equal", "skipped, 1 row: open batches",
		"Browsers for 1 account use "+node+", which is server.public_url.\nsyncstorage is imported. Start this server")
	importing(0, "--verify", "in source and target are equal")
	importing(1, "--stopped", "already has a complete import")
	if r := binary.Run(t, env, "check"); !strings.Contains(r.Stdout, `did not import 1 row, records whose ID is not 1 to 64 printable ASCII characters: e.g. user 4711, bookmarks, "not an id\n"`) ||
		strings.Contains(r.Stdout, "open batches") {
		t.Errorf("check does not repeat the import's findings:\n%s%s", r.Stdout, r.Stderr)
	}

	s := binary.Start(t, data, vars...)
	c, a := fxa.signIn(t, s, account, 1)
	if a.Status != http.StatusOK || c.UID != 4711 || c.Endpoint != node+"/1.5/4711" {
		t.Fatalf("the browser signs in: %d %s", a.Status, a.Body)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(s.URL, "http://"))
	}}}
	t.Cleanup(client.CloseIdleConnections)
	want := func(method, path, body string, status int, text string) binary.Answer {
		t.Helper()
		a, err := c.SendBy(t.Context(), client, method, path, body)
		if err != nil || a.Status != status || text != "" && a.Body != text {
			t.Errorf("%s %s: %d %s, %v; want %d %s", method, path, a.Status, a.Body, err, status, text)
		}
		return a
	}
	want("GET", "/info/collections", "", http.StatusOK, `{"meta":1700000000.01,"bookmarks":1700000000.05,"custom":1700000000.06}`)
	want("GET", "/storage/bookmarks?newer=1700000000.05", "", http.StatusOK, `[]`)
	want("GET", "/storage/bookmarks?newer=1700000000.03", "", http.StatusOK, `["late","menu"]`)
	want("GET", "/storage/meta/global", "", http.StatusOK, `{"id":"global","modified":1700000000.01,"payload":"`+strings.Repeat("p", 100)+`"}`)
	want("GET", "/info/collection_counts", "", http.StatusOK, `{"meta":1,"bookmarks":2,"custom":1}`)
	want("PUT", "/storage/bookmarks/menu", `{"payload":"changed"}`, http.StatusOK, "")
	want("PUT", "/storage/another/x", `{"payload":"a new collection"}`, http.StatusOK, "")
	if c, a := fxa.signIn(t, s, strings.Repeat("f", 32), 1); a.Status != http.StatusOK || c.UID <= 4711 || c.Endpoint != fmt.Sprintf("%s/1.5/%d", node, c.UID) {
		t.Errorf("a new account: %d %s", a.Status, a.Body)
	}

	// As in the guide, the server moves to another address. The browser keeps its ID and data.
	const moved = "http://moved.example.org"
	s.Signal(syscall.SIGTERM)
	<-s.Ended
	alter(t, filepath.Join(data, "tokenserver.db"), "UPDATE nodes SET node = '"+moved+"' WHERE node = '"+node+"'")
	s = binary.Start(t, data, append(vars, "SYNC_PUBLIC_URL="+moved)...)
	if c, a = fxa.signIn(t, s, account, 1); a.Status != http.StatusOK || c.UID != 4711 || c.Endpoint != moved+"/1.5/4711" {
		t.Fatalf("the browser signs in at the new address: %d %s", a.Status, a.Body)
	}
	client.CloseIdleConnections()
	want("GET", "/info/collection_counts", "", http.StatusOK, `{"meta":1,"bookmarks":2,"custom":1,"another":1}`)
}

// mozillaDatabase returns a dump with a browser, large users, and data that imports ignore.
func mozillaDatabase(account, node string, stamp int64) string {
	var b strings.Builder
	b.WriteString(testdb.MozillaMySQL)
	// The old server's migrations insert and delete other services first.
	b.WriteString("UPDATE services SET id = 3;\n")
	fmt.Fprintf(&b, "INSERT INTO nodes VALUES (1, 3, '%s', 10, 1, 10, 0, 0);\n", node)
	// fxa.signIn uses the same keys.
	fmt.Fprintf(&b, "INSERT INTO users VALUES (4711, 3, '%s@api.accounts.firefox.com', 1000, '01%s', %d, NULL, 1, 1000);\n", account, strings.Repeat("0", 30), stamp)
	b.WriteString("INSERT INTO collections VALUES (101, 'custom');\n")
	b.WriteString(putMozilla(4711, 6, "global", stamp+10) + putMozilla(4711, 101, "mine", stamp+20) + putMozilla(4711, 7, "not an id\n", stamp+30) + putMozilla(4711, 7, "menu", stamp+40))
	for user := int64(1); user <= 3; user++ {
		fmt.Fprintf(&b, "INSERT INTO user_collections (userid, collection, last_modified) VALUES (%d, 4, %d);\nINSERT INTO bso (userid, collection, id, payload, modified, ttl) VALUES ", user, stamp+10)
		for i := range 3000 {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "(%d, 4, 'r%d', 'p', %d, %d)", user, i, stamp+10, stamp+10+mozillaTTL)
		}
		b.WriteString(";\n")
	}
	b.WriteString("INSERT INTO batch_uploads VALUES (1700000000123, 4711, 4);\n")
	return b.String()
}

const mozillaTTL = 2_100_000_000_000 // milliseconds

// putMozilla returns statements that write a record like Mozilla's server.
func putMozilla(user, coll int64, id string, at int64) string {
	return fmt.Sprintf("REPLACE INTO bso (userid, collection, id, payload, modified, ttl) VALUES (%d, %d, '%s', '%s', %d, %d);\nREPLACE INTO user_collections (userid, collection, last_modified) VALUES (%[1]d, %[2]d, %[5]d);\n",
		user, coll, id, strings.Repeat("p", 100), at, at+mozillaTTL)
}

// killMozillaImport kills an import after its first writes. It returns false if the import finished earlier.
func killMozillaImport(t *testing.T, env []string, data, old string) bool {
	t.Helper()
	cmd := exec.Command(binary.Path(), "import", "syncstorage", "--from", old, "--accounts-from", old)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := os.Stat(filepath.Join(data, "syncstorage.db-wal")); err == nil && info.Size() > 300<<10 {
			break
		}
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
	}
	_ = cmd.Process.Kill() // an error means that the process exited
	<-ended
	return !cmd.ProcessState.Success()
}
