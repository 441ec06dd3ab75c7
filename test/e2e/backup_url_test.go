package e2e

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

type backupPlace struct {
	url    string
	vars   []string
	folder string
}

func backupsIn(b binary.Bucket) backupPlace { return backupPlace{url: b.URL(), vars: b.Vars()} }

// TestBackupURL makes, verifies, lists, restores and prunes encrypted backups of a server that also has a replica. The
// backups are in a folder, in another Holdfast server's buckets, and in MinIO.
func TestBackupURL(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) backupPlace{
		"Folder": func(t *testing.T) backupPlace {
			t.Helper()
			dir := filepath.Join(t.TempDir(), "backups")
			return backupPlace{url: "file://" + dir, folder: dir}
		},
		"Buckets": func(t *testing.T) backupPlace {
			t.Helper()
			return backupsIn(binary.Start(t, t.TempDir()).NewBucket(t, "backups"))
		},
		"MinIO": func(t *testing.T) backupPlace {
			t.Helper()
			testdb.SoakOnly(t, "MinIO is compiled for it")
			return backupsIn(binary.MinIO(t, "backups"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testBackups(t, open(t))
		})
	}
}

func testBackups(t *testing.T, p backupPlace) {
	t.Helper()
	key, public := binary.Key(t)
	vars := append([]string{
		"HOLDFAST_BACKUP__URL=" + p.url, "HOLDFAST_BACKUP__RECIPIENTS=" + public, "HOLDFAST_BACKUP__KEEP=",
		"HOLDFAST_REPLICA__URL=file://" + t.TempDir() + "/replica", "HOLDFAST_REPLICA__INTERVAL=100ms",
	}, p.vars...)
	s := binary.Start(t, filepath.Join(t.TempDir(), "data"), vars...)
	c := s.Token(1)
	bucket := s.S3(t)
	put := func(method, path, body string) {
		t.Helper()
		if a, err := bucket.Send(t.Context(), method, path, body); err != nil || a.Status != http.StatusOK {
			t.Fatalf("%s %s: %d %s, %v", method, path, a.Status, a.Body, err)
		}
	}
	put(http.MethodPut, "/pictures", "")
	put(http.MethodPut, "/pictures/a", strings.Repeat("a picture ", 2000))
	for _, text := range []string{"first", "second", "third"} {
		c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"`+text+`"}`)
		put(http.MethodPut, "/pictures/"+text, strings.Repeat(text, 5000))
		if out := s.Verb("backup", "--identity", key); !strings.Contains(out, "it was restored and read") {
			t.Errorf("backup:\n%s", out)
		}
	}
	all := listedBackups(t, s, "backup", "list", "--json")
	if len(all) != 3 || !slices.Contains(all[0].Has, "syncstorage.db") || !slices.Contains(all[0].Has, "secrets.toml") {
		t.Fatalf("listed: %+v", all)
	}
	if out := s.Verb("backup", "verify", "--identity", key); !strings.Contains(out, "4 files of services can be read") {
		t.Errorf("verify:\n%s", out)
	}
	if r := binary.Run(t, s.Env, "backup", "verify"); r.Status != 1 || !strings.Contains(r.Stderr, "is encrypted: name the file") {
		t.Errorf("verify without a key: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	earlier := all[1].At.UTC().Format(time.RFC3339Nano)
	s.Verb("backup", "verify", "--identity", key, "--time", earlier)
	if out := s.Verb("check"); !strings.Contains(out, "3 backups, the newest from") {
		t.Errorf("check:\n%s", out)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	s.Verb("restore", p.url, "--identity", key, "--signed-by", binary.Signer(t, s.Data), "--time", earlier, "--service", "syncstorage", "--data", restored)
	again := binary.Start(t, restored, noBuckets)
	mine := c
	mine.Endpoint = strings.Replace(c.Endpoint, s.URL, again.URL, 1)
	if a := mine.Want(t, http.StatusOK, "GET", "/storage/tabs/x", ""); !strings.Contains(a.Body, `"second"`) {
		t.Errorf("restored: %s", a.Body)
	}
	// A restored server has another ID, so its backup is refused.
	r := binary.Run(t, append(slices.Clone(again.Env), vars...), "backup")
	if r.Status != 1 || !strings.Contains(r.Stderr, "the target holds another server's data") {
		t.Errorf("from another server: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if r := binary.Run(t, append(slices.Clone(s.Env), "HOLDFAST_REPLICA__URL="+p.url), "backup"); r.Status != 2 || !strings.Contains(r.Stderr, "must differ from replica.url") {
		t.Errorf("to the replica's URL: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if r := binary.Run(t, append(slices.Clone(s.Env), "HOLDFAST_BACKUP__KEEP=1d"), "backup"); r.Status != 0 || !strings.Contains(r.Stdout, "sent data was read back") {
		t.Errorf("backup: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	if all := listedBackups(t, s, "backup", "list", p.url, "--json"); len(all) > 2 { // around midnight there may be two
		t.Errorf("%d backups kept for one day", len(all))
	}
	if p.folder != "" {
		testDamagedBackups(t, s, p.folder, key)
	}
	if _, says := s.Get("/"); says == "" {
		t.Error("the server does not answer")
	}
}

type listedBackup struct {
	At  time.Time `json:"at"`
	Has []string  `json:"has"`
}

func listedBackups(t *testing.T, s *binary.Server, args ...string) (all []listedBackup) {
	t.Helper()
	for line := range strings.Lines(s.Verb(args...)) {
		var one listedBackup
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, one)
	}
	return all
}

// testDamagedBackups checks that verify reports a damaged database and a damaged body. app.TestForgedBackups changes
// every object.
func testDamagedBackups(t *testing.T, s *binary.Server, folder, key string) {
	t.Helper()
	for _, below := range []string{"files/syncstorage.db", "bodies"} {
		object := ""
		if err := filepath.WalkDir(filepath.Join(folder, below), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				object = path
			}
			return err
		}); err != nil || object == "" {
			t.Fatalf("no object in %s: %v", below, err)
		}
		good := readFile(t, object)
		bad := []byte(good)
		bad[len(bad)/2] ^= 1
		if err := os.WriteFile(object, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		r := binary.Run(t, s.Env, "backup", "verify", "--identity", key)
		name, err := filepath.Rel(folder, object)
		if plain := strings.TrimSuffix(name, ".age"); err != nil || r.Status != 1 || !strings.Contains(r.Stdout, plain) {
			t.Errorf("%s is damaged: status %d, %v\n%s%s", name, r.Status, err, r.Stdout, r.Stderr)
		}
		if err := os.WriteFile(object, []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBackupSchedule checks that a server makes its first backup at once and reports a failed backup.
func TestBackupSchedule(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	url := "HOLDFAST_BACKUP__URL=file://" + dir + "/folder/backups"
	if err := os.WriteFile(filepath.Join(dir, "folder"), nil, 0o600); err != nil { // a file cannot contain backups
		t.Fatal(err)
	}
	s := binary.Start(t, data, url, "HOLDFAST_BACKUP__SCHEDULE=6h")
	s.AwaitOutput(`msg="(backup failed)"`)
	r := binary.Run(t, s.Env, "check")
	if !strings.Contains(r.Stdout, "warn  backup") || !strings.Contains(r.Stdout, "/folder/backups failed at") {
		t.Errorf("check after a failure:\n%s", r.Stdout)
	}
	s.Signal(syscall.SIGTERM)
	<-s.Ended
	if err := os.Remove(filepath.Join(dir, "folder")); err != nil {
		t.Fatal(err)
	}
	s = binary.Start(t, data, url, "HOLDFAST_BACKUP__SCHEDULE=6h")
	s.AwaitOutput(`msg="(made a backup)"`)
	if out := s.Verb("check"); !strings.Contains(out, "1 backup, the newest from") {
		t.Errorf("check:\n%s", out)
	}
	s.AwaitAnswer("/metrics", func(_ int, body string) bool { return strings.Contains(body, "\nholdfast_backup_age_seconds ") })
	if all := listedBackups(t, s, "backup", "list", "--json"); len(all) != 1 {
		t.Errorf("listed: %+v", all)
	}
}
