package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// noBuckets disables buckets, because other tests cover bodies.
const noBuckets = "HOLDFAST_BUCKETS__ENABLED=false"

const otherSigner = "hfsig1ktnfs5ojwztipd5u5ukfn4n4vzne25v5z4fjfvtxxoo55xx3mbzp2glvnq"

// TestRestoreReplica kills a server and deletes its data folder. A single command restores it from its encrypted
// replica, as of the last second or an earlier time.
func TestRestoreReplica(t *testing.T) {
	t.Parallel()
	identity, public := binary.Key(t)
	url := "file://" + t.TempDir() + "/replica"
	replica := []string{noBuckets, "HOLDFAST_REPLICA__URL=" + url, "HOLDFAST_REPLICA__RECIPIENTS=" + public, "HOLDFAST_REPLICA__INTERVAL=100ms"}
	data := filepath.Join(t.TempDir(), "data")
	s := binary.Launch(t, data, replica...)
	s.Await("/readyz", http.StatusOK)
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"first"}`)
	s.AwaitReplica()
	between := time.Now().UTC().Add(time.Millisecond)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"second"}`)
	s.AwaitReplica()
	if out := s.Verb("check"); !strings.Contains(out, "restore points, the newest from") {
		t.Errorf("check does not report the replica:\n%s", out)
	}
	signer := binary.Signer(t, data)
	s.Kill()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}

	wantRefusedRestores(t, s.Env, data, url, identity, signer)
	other, _ := binary.Key(t)
	for _, command := range [][]string{{"backup", "verify", url}, {"restore", url, "--dry-run"}, {"restore", url}} {
		for _, key := range [][]string{nil, {"--identity", other}} {
			r := binary.Run(t, s.Env, slices.Concat(command, []string{"--signed-by", signer}, key)...)
			if want := []string{"is encrypted: name the file", "the private key does not match"}[len(key)/2]; r.Status != 1 || !strings.Contains(r.Stderr, want) || r.Stdout != "" {
				t.Errorf("%v %v: status %d\n%s%s", command, key, r.Status, r.Stdout, r.Stderr)
			}
		}
	}

	if out := s.Verb("restore", url, "--identity", identity, "--signed-by", signer, "--dry-run"); !strings.Contains(out, "would restore") {
		t.Errorf("dry run:\n%s", out)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Fatalf("a dry run left a data folder: %v", err)
	}
	restored := func(want string, args ...string) *binary.Server {
		t.Helper()
		data := filepath.Join(t.TempDir(), "data")
		r := binary.Run(t, binary.Environ(append(slices.Clone(replica), "HOLDFAST_DATA="+data)...), append([]string{"restore", url, "--identity", identity, "--signed-by", signer}, args...)...)
		if r.Status != 0 || !strings.Contains(r.Stdout, "as of 2") || !strings.Contains(r.Stderr, "set replica.url and backup.url to new locations") {
			t.Fatalf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
		}
		again := binary.Launch(t, data, replica...)
		again.Await("/readyz", http.StatusOK)
		mine := c
		mine.Endpoint = strings.Replace(c.Endpoint, s.URL, again.URL, 1)
		if a := mine.Want(t, http.StatusOK, "GET", "/storage/tabs/x", ""); !strings.Contains(a.Body, strconv.Quote(want)) {
			t.Errorf("restored %s: expected %q", a.Body, want)
		}
		return again
	}
	restored("first", "--time", between.Format(time.RFC3339Nano))
	again := restored("second")
	// The new server never overwrites the lost server's replica.
	r := binary.Run(t, again.Env, "check")
	if r.Status != 1 || !strings.Contains(r.Stdout, "has the replica from another server") {
		t.Errorf("check of a restored server: status %d\n%s", r.Status, r.Stdout)
	}
	restored("second")
}

// wantRefusedRestores restores a replica with wrong arguments, which leaves no data folder.
func wantRefusedRestores(t *testing.T, env []string, data, url, identity, signer string) {
	t.Helper()
	for _, refused := range []struct {
		args []string
		says string
	}{
		{nil, "nothing proves who wrote"},
		{[]string{"--identity", identity}, "nothing proves who wrote"},
		{[]string{"--signed-by", signer}, "is encrypted"},
		{[]string{"--identity", identity, "--signed-by", "hfsig1" + signer[7:] + "a"}, "mistyped"},
		{[]string{"--identity", identity, "--signed-by", otherSigner}, "was signed with " + signer},
		{[]string{"--identity", identity, "--signed-by", signer, "--unsigned"}, "exclude each other"},
		{[]string{"--signed-by", signer, "--identity", "/nowhere"}, "/nowhere"},
		{[]string{"--identity", identity, "--signed-by", signer, "--time", "2020-01-01T00:00:00Z"}, "no restore point at or before"},
		{[]string{"--identity", identity, "--service", "tokens"}, "unknown service"},
	} {
		r := binary.Run(t, env, append([]string{"restore", url}, refused.args...)...)
		if r.Status == 0 || !strings.Contains(r.Stderr, refused.says) {
			t.Errorf("restore %v: status %d\n%s%s", refused.args, r.Status, r.Stdout, r.Stderr)
		}
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Fatalf("restore %v left a data folder: %v", refused.args, err)
		}
	}
}

// TestRestoreService restores a single service and the secrets.
func TestRestoreService(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir(), noBuckets)
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"kept"}`)
	backups := t.TempDir()
	s.Verb("backup", filepath.Join(backups, "1"), "--no-bodies")
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"newer"}`)
	s.Verb("backup", filepath.Join(backups, "2"), "--no-bodies")
	if err := os.Mkdir(filepath.Join(backups, "3.partial-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	env := binary.Environ(noBuckets, "HOLDFAST_DATA="+data)
	r := binary.Run(t, env, "restore", backups, "--service", "syncstorage") // from the newest complete backup
	if r.Status != 0 || !strings.Contains(r.Stdout, "restored syncstorage from "+filepath.Join(backups, "2")) {
		t.Fatalf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	found, err := filepath.Glob(filepath.Join(data, "*"))
	if err != nil || fmt.Sprint(found) != fmt.Sprint([]string{filepath.Join(data, "secrets.toml"), filepath.Join(data, "syncstorage.db")}) {
		t.Errorf("restored %v, %v", found, err)
	}
	again := binary.Start(t, data, noBuckets)
	c.Endpoint = strings.Replace(c.Endpoint, s.URL, again.URL, 1)
	if a := c.Want(t, http.StatusOK, "GET", "/storage/tabs/x", ""); !strings.Contains(a.Body, `"newer"`) {
		t.Errorf("restored %s", a.Body)
	}

	// A restore does not touch an existing data folder.
	r = binary.Run(t, env, "restore", backups)
	if r.Status != 1 || !strings.Contains(r.Stderr, "is not empty") {
		t.Errorf("into existing data: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
}

// TestRestoreOrNothing checks that a damaged backup is not restored, and that no server starts on a partial restore.
func TestRestoreOrNothing(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	s.Token(1).Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"kept"}`)
	dir := filepath.Join(t.TempDir(), "backup")
	s.Verb("backup", dir, "--no-bodies")
	path := filepath.Join(dir, "syncstorage.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4096 {
		content[len(content)-1-i] ^= 0xff // the last page is in use
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	env := binary.Environ("HOLDFAST_DATA=" + data)
	r := binary.Run(t, env, "restore", dir)
	if r.Status != 1 || !strings.Contains(r.Stderr, path+" is damaged") {
		t.Errorf("status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the data folder is left: %v", err)
	}

	// A killed restore leaves its work folder.
	if err := os.MkdirAll(filepath.Join(data, ".restoring"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"serve", "migrate", "restore"} {
		args := []string{command}
		if command == "restore" {
			args = append(args, dir)
		}
		if r := binary.Run(t, env, args...); r.Status != 1 || !strings.Contains(r.Stderr, "was not restored completely") {
			t.Errorf("%s on a partial restore: status %d\n%s%s", command, r.Status, r.Stdout, r.Stderr)
		}
	}
}

// TestRestoreDump checks that a restore accepts only an empty database.
func TestRestoreDump(t *testing.T) {
	t.Parallel()
	dump := binary.Program(t, "pg_dump")
	binary.Program(t, "pg_restore")
	url, other := testdb.PostgresDatabase(t), testdb.PostgresDatabase(t)
	on := func(url string) []string {
		return []string{noBuckets, "HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + url, "HOLDFAST_EXTSTORAGE__DATABASE_URL=" + url}
	}
	s := binary.Launch(t, t.TempDir(), on(url)...)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"kept"}`)
	c.Want(t, http.StatusOK, "PUT", "/storage/meta/global", fmt.Sprintf(`{"payload":%q}`, metaGlobal))
	file := filepath.Join(t.TempDir(), "dump")
	if out, err := exec.Command(dump, "--format=custom", "--file="+file, url).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := binary.Run(t, s.Env, "restore", file); r.Status != 1 || !strings.Contains(r.Stderr, "--trust-dump") {
		t.Errorf("as a superuser: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if r := binary.Run(t, s.Env, "restore", file, "--trust-dump"); r.Status != 1 || !strings.Contains(r.Stderr, "is not empty") {
		t.Errorf("into the dumped database: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}

	// The secrets come from a backup folder, the databases from the dump.
	backup := filepath.Join(t.TempDir(), "backup")
	s.Verb("backup", backup, "--no-bodies")
	data := filepath.Join(t.TempDir(), "data")
	name := path.Base(strings.SplitN(other, "?", 2)[0])
	role := "plain_" + name
	execute(t, other, `CREATE ROLE `+role+` LOGIN; ALTER DATABASE `+name+` OWNER TO `+role)
	t.Cleanup(func() {
		execute(t, other, `REASSIGN OWNED BY `+role+` TO CURRENT_USER; DROP OWNED BY `+role+`; DROP ROLE `+role)
	})
	env := binary.Environ(append(on(testdb.WithParameter(t, other, "user", role)), "HOLDFAST_DATA="+data)...)
	if r := binary.Run(t, env, "restore", backup); r.Status != 0 {
		t.Fatalf("the secrets: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	for _, right := range []string{"SUPERUSER", "CREATEROLE", "IN ROLE pg_execute_server_program", "IN ROLE pg_write_server_files"} {
		grant, revoke := `ALTER ROLE `+role+` `+right, `ALTER ROLE `+role+` NO`+right
		if granted, ok := strings.CutPrefix(right, "IN ROLE "); ok {
			grant, revoke = `GRANT `+granted+` TO `+role, `REVOKE `+granted+` FROM `+role
		}
		execute(t, url, grant)
		if r := binary.Run(t, env, "restore", file, "--dry-run"); r.Status != 1 || !strings.Contains(r.Stderr, "--trust-dump") {
			t.Errorf("%s: status %d\n%s%s", right, r.Status, r.Stdout, r.Stderr)
		}
		execute(t, url, revoke)
	}
	for _, args := range [][]string{{"restore", file, "--dry-run"}, {"restore", file}} {
		if r := binary.Run(t, env, args...); r.Status != 0 {
			t.Fatalf("%v: status %d\n%s%s", args, r.Status, r.Stdout, r.Stderr)
		}
	}
	again := binary.Start(t, data, on(other)...)
	c.Endpoint = strings.Replace(c.Endpoint, s.URL, again.URL, 1)
	if a := c.Want(t, http.StatusOK, "GET", "/storage/tabs/x", ""); !strings.Contains(a.Body, `"kept"`) {
		t.Errorf("restored %s", a.Body)
	}
	again.AwaitOutput(toldAll)
	if id := (syncUser{c}).syncID(t, again); id == "BBBBBBBBBBBB" {
		t.Error("the browsers do not compare their data")
	}
}
