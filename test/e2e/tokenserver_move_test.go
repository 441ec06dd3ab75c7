package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestMoveUser moves an account to a new server on another engine, with a killed import. The browser finds the same
// data and timestamps.
func TestMoveUser(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	from := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL)
	url := testdb.PostgresDatabase(t)
	to := binary.Launch(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "SYNC_TOKENSERVER__ALLOW_NEW_USERS=false",
		"HOLDFAST_SYNCSTORAGE__DATABASE_URL="+url, "HOLDFAST_TOKENSERVER__DATABASE_URL="+url)
	to.Verb("migrate")
	to.Await("/readyz", http.StatusOK)

	const account = "0123456789abcdef0123456789abcdef"
	fxa.signIn(t, from, account, 1)
	c, a := fxa.signIn(t, from, account, 2) // the account has had other keys
	if a.Status != http.StatusOK {
		t.Fatalf("sign in: %d %s", a.Status, a.Body)
	}
	for n := range 30 {
		var records []string
		for i := range 100 {
			records = append(records, fmt.Sprintf(`{"id":"%02d%02d","payload":"%s","sortindex":%d}`, n, i, strings.Repeat("x", 500), i))
		}
		c.Want(t, http.StatusOK, "POST", "/storage/history", "["+strings.Join(records, ",")+"]")
	}
	c.Want(t, http.StatusOK, "PUT", "/storage/meta/global", `{"payload":"{\"syncID\":\"A\"}"}`)
	c.Want(t, http.StatusOK, "PUT", "/storage/clients/me", `{"payload":"żółć","ttl":1000000}`)
	file := filepath.Join(t.TempDir(), "user.ndjson")
	from.Verb("tokenserver", "accounts", "export", account, "-o", file)
	whole := readFile(t, file)
	if text := from.Verb("tokenserver", "accounts", "export", account); len(text) != len(whole) { // equal except exportedAt
		t.Errorf("the file has %d bytes, the standard output %d", len(whole), len(text))
	}

	killUserImport(t, to, account, whole)
	run := func(status int, want string, args ...string) {
		t.Helper()
		r := binary.Run(t, to.Env, append([]string{"tokenserver", "accounts", "import"}, args...)...)
		if r.Status != status || !strings.Contains(r.Stdout+r.Stderr, want) {
			t.Errorf("%q: %d %s%s, want %d %q", args, r.Status, r.Stdout, r.Stderr, status, want)
		}
	}
	run(1, "the user has records here", account, file, "--preserve")
	cut := filepath.Join(t.TempDir(), "cut.ndjson")
	if err := os.WriteFile(cut, []byte(whole[:len(whole)/2]), 0o600); err != nil {
		t.Fatal(err)
	}
	run(1, "of 3002 records received, and the line with complete is missing", account, cut, "--preserve", "--merge")
	run(0, "records: 3002 of 3002, written: 3002, expired: 0, later here: 0; collections: 3", account, file, "--preserve", "--merge")

	moved, a := fxa.signIn(t, to, account, 2)
	if a.Status != http.StatusOK {
		t.Fatalf("sign in at the new server: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{"/info/collections", "/info/collection_counts", "/storage/history?full=1&sort=oldest&limit=100", "/storage/meta/global", "/storage/clients?full=1"} {
		want, got := c.Want(t, http.StatusOK, "GET", path, ""), moved.Want(t, http.StatusOK, "GET", path, "")
		if got.Body != want.Body || got.Header.Get("X-Last-Modified") != want.Header.Get("X-Last-Modified") {
			t.Errorf("%s is\n%.300s\nwas\n%.300s", path, got.Body, want.Body)
		}
	}
	since := c.Want(t, http.StatusOK, "GET", "/storage/history", "").Header.Get("X-Last-Modified")
	if a := moved.Want(t, http.StatusOK, "GET", "/storage/history?newer="+since, ""); a.Body != "[]" {
		t.Errorf("browser with all records gets %.200s", a.Body)
	}
	moved.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"life goes on"}`)

	run(1, "the export belongs to account "+account, strings.Repeat("0", 32), file)
	run(1, "the user has records here", account, file)
	if _, a := fxa.signIn(t, to, account, 3); a.Status != http.StatusOK {
		t.Fatalf("new keys: %d %s", a.Status, a.Body)
	}
	run(1, "the account's keys differ", account, file)
	if out := to.Verb("tokenserver", "users", "import", "4711", file); !strings.Contains(out, "written: 3002") {
		t.Errorf("the import of a storage user: %s", out)
	}
	if n := strings.Count(to.Verb("tokenserver", "users", "export", "4711"), "\n"); n != strings.Count(whole, "\n") {
		t.Errorf("the export of a storage user has %d lines", n)
	}
	run(2, "FILE is required", account)
	run(2, "unexpected argument", account, file, "more")
	run(1, "does not exist", account, file+"x")
}

// killUserImport kills an import that has written some records and waits for more lines.
func killUserImport(t *testing.T, s *binary.Server, account, whole string) {
	t.Helper()
	cmd := exec.Command(binary.Path(), "tokenserver", "accounts", "import", account, "-", "--preserve")
	cmd.Env = s.Env
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, whole[:len(whole)*3/4]); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	// The import has read every line beyond the pipe and the buffer, so it will write them.
	stored := false
	for deadline := time.Now().Add(time.Minute); !stored && time.Now().Before(deadline); {
		stored = !strings.Contains(s.Verb("tokenserver", "accounts", "quota", account), "STORED  0\n")
	}
	if !stored {
		t.Error("nothing was imported before the kill")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("killed import succeeded")
	}
}
