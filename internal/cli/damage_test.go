package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/app"
)

func wrongLine(out, what string) string {
	return regexp.MustCompile(`(?m)^WRONG +` + regexp.QuoteMeta(what) + ` .*(\n +fix: .*)?`).FindString(out)
}

func migrated(t *testing.T, vars ...string) (data string, env []string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	env = append([]string{"HOLDFAST_DATA=" + data, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=", "HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0"}, vars...)
	cfg, _, err := app.Load(app.Services(), "", append(secrets(), env...))
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.Open(t.Context(), app.Options{Config: cfg, Data: data, LogTo: io.Discard, Mode: app.ModeServe})
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return data, env
}

// secrets returns all secrets of the server, so that commands need no secrets file.
func secrets() []string {
	return []string{
		"HOLDFAST_SERVER__MASTER_SECRET=" + strings.Repeat("m", 32), "HOLDFAST_SERVER__ADMIN_TOKEN=" + strings.Repeat("a", 32),
		"HOLDFAST_EXTSTORAGE__TOKEN_SECRET=" + strings.Repeat("t", 32), "HOLDFAST_BUCKETS__KEY_SECRET=" + strings.Repeat("k", 32),
		"HOLDFAST_GUEST__HANDOFF_SECRET=" + strings.Repeat("h", 32), "HOLDFAST_GUEST__COOKIE_SECRET=" + strings.Repeat("c", 32),
		"HOLDFAST_TOKENSERVER__FXA_METRICS_HASH_SECRET=" + strings.Repeat("x", 32),
	}
}

func overwrite(t *testing.T, path string, page int64) {
	t.Helper()
	const size = 4096
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte("junk"), size/4), (page-1)*size); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

var embedded = []string{"syncstorage", "tokenserver", "extstorage", "buckets", "guest"}

// TestDamageIsFound checks that check --deep and backup verify report a damaged page in each service's database, with
// a bounded line, and nothing about other services.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	data, env := migrated(t)
	backup := filepath.Join(t.TempDir(), "backup")
	if status, out, errs := run(t, append(secrets(), env...), "backup", backup, "--no-bodies"); status != 0 {
		t.Fatalf("backup: exit status %d\n%s%s", status, out, errs)
	}
	_, out, _ := run(t, env, "check", "--deep")
	for _, name := range embedded {
		if line := wrongLine(out, name+" database"); line != "" || !strings.Contains(out, name+".db: every page and index was read") {
			t.Errorf("%s is intact: %s\n%s", name, line, out)
		}
	}
	if status, out, errs := run(t, nil, "backup", "verify", backup); status != 0 || strings.Count(out, "every page and index was read") != len(embedded) {
		t.Errorf("an intact backup: exit status %d\n%s%s", status, out, errs)
	}
	for _, name := range embedded {
		overwrite(t, filepath.Join(data, name+".db"), 3)
		overwrite(t, filepath.Join(backup, name+".db"), 3)
		for where, args := range map[string][]string{data: {"check", "--deep"}, backup: {"backup", "verify", backup}} {
			status, out, errs := run(t, env, args...)
			line := wrongLine(out, name+" database")
			if status != 1 || !strings.Contains(line, filepath.Join(where, name+".db")+" is damaged: ") || !strings.Contains(line, "fix: ") || len(line) > 1200 {
				t.Errorf("%s of %s: exit status %d\n%s%s", args, name, status, out, errs)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(backup, "*-*")); err != nil || len(left) > 0 {
		t.Errorf("backup verify left %v, %v", left, err)
	}
}

func newBackup(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secrets.toml"), []byte("[server]\nmaster_secret = \"0123456789abcdef\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestVerifyOfOtherFolders(t *testing.T) {
	t.Parallel()
	if status, _, errs := run(t, nil, "backup", "verify", filepath.Join(t.TempDir(), "none")); status != 1 || !strings.Contains(errs, "no such file or directory") {
		t.Errorf("no folder: exit status %d, %s", status, errs)
	}
	other := t.TempDir()
	if status, out, _ := run(t, nil, "backup", "verify", other); status != 1 || !strings.Contains(wrongLine(out, "backup"), other+" is not a backup") {
		t.Errorf("an empty folder: exit status %d\n%s", status, out)
	}
	backup := newBackup(t)
	if status, out, _ := run(t, nil, "backup", "verify", backup); status != 0 || !strings.Contains(out, backup+" contains no SQLite database") {
		t.Errorf("a backup of a server on PostgreSQL: exit status %d\n%s", status, out)
	}
	partial := filepath.Join(t.TempDir(), "day.partial-123")
	if err := os.Mkdir(partial, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(partial, "secrets.toml"), []byte("[server"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(partial, "guest.db"), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, _ := run(t, nil, "backup", "verify", partial)
	for _, what := range []string{"backup", "secrets", "guest database"} {
		if status != 1 || wrongLine(out, what) == "" {
			t.Errorf("%s is not wrong: exit status %d\n%s", what, status, out)
		}
	}
}

// TestCheckWithoutSecretsKeepsKeys checks that an unreadable or missing secrets file is not reported as a reason to
// revoke access keys.
func TestCheckWithoutSecretsKeepsKeys(t *testing.T) {
	t.Parallel()
	data, env := migrated(t)
	if status, out, errs := run(t, append(secrets(), env...), "buckets", "accounts", "create", "photos"); status != 0 {
		t.Fatalf("exit status %d\n%s%s", status, out, errs)
	}
	path := filepath.Join(data, "secrets.toml")
	for name, write := range map[string]func() error{
		"missing":    func() error { return nil },
		"unreadable": func() error { return os.WriteFile(path, []byte("[server"), 0o600) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		_, out, errs := run(t, env, "check")
		if !strings.Contains(out, "1 access key; not decrypted without the secret") || strings.Contains(out, "another buckets.key_secret") || strings.Contains(out, "new keys") {
			t.Errorf("%s:\n%s%s", name, out, errs)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBackupIntoData checks that every path to the data folder is refused for backups.
func TestBackupIntoData(t *testing.T) {
	t.Parallel()
	data, env := migrated(t)
	elsewhere := t.TempDir()
	below := filepath.Join(data, "backups", "daily")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"data": data, "below": below} {
		if err := os.Symlink(to, filepath.Join(elsewhere, name)); err != nil {
			t.Fatal(err)
		}
	}
	before := files(t, data)
	for _, env := range [][]string{env, append([]string{"HOLDFAST_DATA=" + filepath.Join(elsewhere, "data")}, env[1:]...)} {
		for _, to := range []string{data + "/new", below + "/new", elsewhere + "/data/new", elsewhere + "/below/new", below + "/../new"} {
			status, out, errs := run(t, append(secrets(), env...), "backup", to)
			if status != 1 || out != "" || !strings.Contains(errs, "is in the data folder ") || !strings.Contains(errs, "name a folder outside") {
				t.Errorf("to %s: exit status %d\n%s%s", to, status, out, errs)
			}
		}
	}
	if after := files(t, data); after != before {
		t.Errorf("the data folder has %s, before %s", after, before)
	}
}

func files(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(all)
}

// TestCommandsOfOneService checks that commands for buckets, extension storage and guests do not open other services'
// databases.
func TestCommandsOfOneService(t *testing.T) {
	t.Parallel()
	data, env := migrated(t)
	env = append(secrets(), env...)
	if status, out, errs := run(t, env, "buckets", "accounts", "create", "photos"); status != 0 {
		t.Fatalf("exit status %d\n%s%s", status, out, errs)
	}
	for _, name := range []string{"syncstorage", "tokenserver"} {
		if err := os.Remove(filepath.Join(data, name+".db")); err != nil {
			t.Fatal(err)
		}
	}
	for _, typed := range []string{"buckets keys list photos", "buckets accounts list", "ext installs list", "guest keys list"} {
		if status, out, errs := run(t, env, strings.Fields(typed)...); status != 0 {
			t.Errorf("%s: exit status %d\n%s%s", typed, status, out, errs)
		}
	}
	if status, out, errs := run(t, env, "buckets", "tokens", "create", "photos", "--ttl", "1m"); status != 0 || strings.Count(out, ".") != 2 || strings.Count(out, "\n") != 1 {
		t.Errorf("buckets token: exit status %d, %s%s", status, out, errs)
	}
	if status, _, errs := run(t, env, "tokenserver", "accounts", "list"); status != 1 || !strings.Contains(errs, "does not exist") {
		t.Errorf("sync user list: exit status %d, %s", status, errs)
	}
}

func TestNodeAddAsks(t *testing.T) {
	t.Parallel()
	_, env := migrated(t)
	env = append(secrets(), env...)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/node/__heartbeat__" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, tc := range []struct {
		typed, says string
		status      int
	}{
		{s.URL, s.URL + "/__heartbeat__ answers 404, not 200: correct the URL", 1},
		{gone.URL, "no answer from " + gone.URL, 1},
		{s.URL + "/node/1.0/sync/1.5", "expected the node's server.public_url", 1},
		{"https://a.example:99999", "expected a host name and a port", 1},
		{s.URL + "/node", s.URL + "/node", 0},
		{gone.URL + " --no-check", gone.URL, 0},
	} {
		status, out, errs := run(t, env, append([]string{"tokenserver", "nodes", "add"}, strings.Fields(tc.typed)...)...)
		if status != tc.status || !strings.Contains(out+errs, tc.says) {
			t.Errorf("%s: exit status %d\n%s%s", tc.typed, status, out, errs)
		}
	}
	_, out, _ := run(t, env, "tokenserver", "nodes", "list")
	if n := strings.Count(out, "\n"); n < 3 || strings.Contains(out, s.URL+"\n") {
		t.Errorf("the list is\n%s", out)
	}
}

// TestCheckWithoutInternet checks that an unreachable accounts server is a warning before the first sign-in, and an
// error afterwards.
func TestCheckWithoutInternet(t *testing.T) {
	t.Parallel()
	data, env := migrated(t, "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL=http://127.0.0.1:1")
	env = append(secrets(), env...)
	status, out, errs := run(t, env, "check")
	if status != 0 || !regexp.MustCompile(`(?m)^warn +accounts server +no answer .*no sign-ins yet`).MatchString(out) {
		t.Errorf("new: exit status %d\n%s%s", status, out, errs)
	}
	c, err := sqlite.OpenConn(filepath.Join(data, "tokenserver.db"), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(c, `INSERT INTO users (service, email, generation, client_state, created_at, nodeid, keys_changed_at) VALUES (1, 'a@example.org', 1, 'aa', 1, 1, 1)`, nil)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := run(t, env, "check"); status != 1 || !strings.Contains(wrongLine(out, "accounts server"), "nobody can sign in") {
		t.Errorf("in use: exit status %d\n%s", status, out)
	}
}

// TestCommandsShowDisguisedNames checks that commands escape characters that alter the text around them.
func TestCommandsShowDisguisedNames(t *testing.T) {
	t.Parallel()
	const name, shown = "photo\u202egpj\a\x1b[31m", `photo\u202egpj\u0007\u001b[31m`
	_, env := migrated(t)
	env = append(secrets(), env...)
	if status, out, errs := run(t, env, "tokenserver", "access", "allow", uid, "--note", name); status != 0 {
		t.Fatalf("exit status %d\n%s%s", status, out, errs)
	}
	for _, args := range [][]string{
		{"tokenserver", "access", "list"},
		{"tokenserver", "nodes", "add", "https://" + name}, {"buckets", "keys", "list", name}, {"buckets", "quota", name}, {"backup", "verify", name}, {"check"}, {"migrate"},
	} {
		env := env
		if args[0] == "check" || args[0] == "migrate" {
			env = append([]string{"HOLDFAST_SERVER__TLS_CERT_FILE=" + name, "HOLDFAST_SERVER__TLS_KEY_FILE=" + name}, env...)
		}
		_, out, errs := run(t, env, args...)
		if strings.ContainsAny(out+errs, "\u202e\a\x1b") {
			t.Errorf("%q prints\n%q%q", args, out, errs)
		}
		if args[0] == "sync" && args[1] == "user" && !strings.Contains(out, shown) {
			t.Errorf("%q does not show the name:\n%s%s", args, out, errs)
		}
	}
}

// TestCommandsPrintByPrinter checks in the source that all commands print only constants, escaped names, or output for
// programs.
func TestCommandsPrintByPrinter(t *testing.T) {
	t.Parallel()
	direct := regexp.MustCompile(`fmt\.Fprintf?\((c|sh|l|s)\.(env\.)?Stdout, .*%|tabwriter\.NewWriter`)
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "service/printable.go") {
			return err
		}
		text, err := os.ReadFile(path)
		seen++
		for i, line := range strings.Split(string(text), "\n") {
			if direct.MatchString(line) {
				t.Errorf("%s:%d prints names as they are; use Printf of the Shell or of its Table: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || seen < 50 {
		t.Errorf("%d files, %v", seen, err)
	}
}
