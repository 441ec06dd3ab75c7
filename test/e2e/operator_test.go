package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestBackup checks that a server can serve a backup from a running server.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"kept"}`)
	dir := filepath.Join(t.TempDir(), "copy")
	s.Verb("backup", dir)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"after"}`)

	restored := binary.Start(t, dir)
	c.Endpoint = strings.Replace(c.Endpoint, s.URL, restored.URL, 1)
	if a := c.Want(t, http.StatusOK, "GET", "/storage/tabs/x", ""); !strings.Contains(a.Body, `"kept"`) {
		t.Errorf("restored: %s", a.Body)
	}
	if r := binary.Run(t, s.Env, "backup", dir); r.Status != 1 || !strings.Contains(r.Stderr, "already exists") {
		t.Errorf("backup to an existing backup: %d %s", r.Status, r.Stderr)
	}
}

// TestSweep checks that the command sweeps if the server does not.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), "HOLDFAST_SYNCSTORAGE__SWEEP_INTERVAL=0", "HOLDFAST_SYNCSTORAGE__SWEEP_AFTER=0")
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/short", `{"payload":"x","ttl":0}`)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/long", `{"payload":"x","ttl":1000}`)
	for _, want := range []string{"expired records and batches: 1\n", "expired records and batches: 0\n"} {
		if out := s.Verb("sweep"); !strings.Contains(out, want) {
			t.Errorf("sweep: %q, want %q", out, want)
		}
	}
	c.Want(t, http.StatusOK, "GET", "/storage/tabs/long", "")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	data := t.TempDir()
	base := binary.Environ("HOLDFAST_DATA="+data, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL,
		"HOLDFAST_SERVER__LISTEN="+testdb.FreeAddress(t), "HOLDFAST_SERVER__ADMIN_LISTEN="+testdb.FreeAddress(t))
	if r := binary.Run(t, base, "check"); r.Status != 0 || strings.Contains(r.Stdout, "WRONG") {
		t.Errorf("before the first start: %d\n%s", r.Status, r.Stdout)
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 0 {
		t.Errorf("check left %v, %v", entries, err)
	}
	closed := testdb.FreeAddress(t)
	// Before the first sign-in, an unreachable accounts server is only a warning.
	right(t, binary.Run(t, append(slices.Clip(base), "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL=http://"+closed), "check"), "accounts server", "no sign-ins yet", "let the server reach it")
	for _, tc := range []struct{ name, variable, says, mend string }{
		{"database away", "HOLDFAST_SYNCSTORAGE__DATABASE_URL=postgres://u:hunter2@" + closed + "/d", "syncstorage database", "start the database"},
		{"unknown engine", "HOLDFAST_SYNCSTORAGE__DATABASE_URL=mysql://u:hunter2@h/d", `the scheme "mysql" is not supported`, "fix: correct syncstorage.database_url"},
		{"bad setting", "HOLDFAST_SERVER__LISTEN=nowhere", "HOLDFAST_SERVER__LISTEN", ""},
		{"misspelt", "HOLDFAST_SERVER__LISTN=127.0.0.1:1", "HOLDFAST_SERVER__LISTN", "LISTEN"},
	} {
		r := binary.Run(t, append(slices.Clip(base), tc.variable), "check")
		if r.Status != 1 || !strings.Contains(r.Stdout, "WRONG") || !strings.Contains(r.Stdout, tc.says) || !strings.Contains(r.Stdout, tc.mend) {
			t.Errorf("%s: %d\n%s", tc.name, r.Status, r.Stdout)
		}
		if strings.Contains(r.Stdout+r.Stderr, "hunter2") {
			t.Errorf("%s: the password is printed\n%s%s", tc.name, r.Stdout, r.Stderr)
		}
	}
}

func TestWrongCalls(t *testing.T) {
	t.Parallel()
	env := binary.Environ("HOLDFAST_DATA=" + filepath.Join(t.TempDir(), "none"))
	for _, tc := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"serv"}, 2, "unknown command"},
		{[]string{"serve", "--port", "1"}, 2, "unknown flag"},
		{[]string{"serve", "--listen", "8000"}, 2, "--listen: must be host:port"},
		{[]string{"sync", "tokens", "create", "--json"}, 2, "--uid is required"},
		{[]string{"sync", "tokens", "create", "--json", "--uid", "1"}, 1, "start the server once"},
		{[]string{"ext", "tokens", "create", "--tenant", tenant}, 2, "--install is required"},
		{[]string{"ext", "tokens", "create", "--tenant", tenant, "--install", tenant, "--namespace", "a=rw"}, 1, "start the server once"},
		{[]string{"ext", "installs", "show", "--install", tenant}, 2, "--tenant is required"},
		{[]string{"ext", "usage", "audit"}, 1, "start the server once"},
		{[]string{"tokenserver", "accounts", "list"}, 1, "start the server once"},
		{[]string{"serve", "--config", "/nowhere.toml"}, 2, "/nowhere.toml"},
		{[]string{"version"}, 0, ""},
		{[]string{"help"}, 0, ""},
		{[]string{"completion", "bash"}, 0, ""},
	} {
		r := binary.Run(t, env, tc.args...)
		if r.Status != tc.status || !strings.Contains(r.Stderr, tc.says) {
			t.Errorf("holdfast %v: status %d, want %d\n%s", tc.args, r.Status, tc.status, r.Stderr)
		}
	}
}

// TestRefusesToStart checks that the server reports all configuration errors, does not start, and leaves no files.
func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	r := binary.Run(t, binary.Environ("HOLDFAST_SERVER__LISTEN=x", "HOLDFAST_NONSENSE=1", "HOLDFAST_LOG__LEVEL=loud"), "serve", "--data", data)
	if r.Status != 2 {
		t.Errorf("status %d", r.Status)
	}
	for _, want := range []string{"HOLDFAST_SERVER__LISTEN", "HOLDFAST_NONSENSE"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("%s is not reported:\n%s", want, r.Stderr)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data folder was created")
	}
}
