package e2e

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// revokedAfterBackup is a buckets server with an access key that is revoked, and locks that are set, after a backup.
// Its storage node survives when the database is lost.
type revokedAfterBackup struct {
	s3
	revoked s3
	key     string
	disks   string

	kept, held string // versions that the backup contains; held gets a legal hold after it
	late       string // a version after the backup
}

var lockedBody = strings.Repeat("a body that is too large to be stored in the database ", 40)

// put returns the new version.
func (r *revokedAfterBackup) put(path, body string, headers ...string) string {
	r.t.Helper()
	digest := md5.Sum([]byte(body)) // locks require it
	a, err := r.Send(r.t.Context(), http.MethodPut, path, body, append(headers, "Content-MD5: "+base64.StdEncoding.EncodeToString(digest[:]))...)
	if err != nil || a.Status != http.StatusOK {
		r.t.Fatalf("PUT %s: %d %s %v", path, a.Status, a.Body, err)
	}
	return a.Header.Get("X-Amz-Version-Id")
}

func (r *revokedAfterBackup) until(d time.Duration) string {
	return "X-Amz-Object-Lock-Retain-Until-Date: " + time.Now().Add(d).UTC().Format(time.RFC3339)
}

func newRevokedAfterBackup(t *testing.T, s *binary.Server, disks string) *revokedAfterBackup {
	t.Helper()
	r := &revokedAfterBackup{s3: s3{t, s.S3(t)}, disks: disks}
	created := s.Verb("buckets", "keys", "create", "main", "--name", "lost laptop", "--json")
	var made struct{ AccessKey, SecretKey string }
	err := json.Unmarshal([]byte(created), &made)
	if err != nil {
		t.Fatalf("%v: %s", err, created)
	}
	r.revoked, r.key = s3{t, &buckets.Client{URL: s.S3URL(), Signer: buckets.Key(made.AccessKey, made.SecretKey)}}, made.AccessKey
	r.put("/locked", "", "X-Amz-Bucket-Object-Lock-Enabled: true")
	r.kept = r.put("/locked/kept", lockedBody, "X-Amz-Object-Lock-Mode: COMPLIANCE", r.until(24*time.Hour))
	r.held = r.put("/locked/held", lockedBody)
	r.revoked.want(http.StatusOK, http.MethodGet, "/locked", nil)
	return r
}

const adminOfRestore = "the admin token of the tests of a restore"

const retention = `<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2099-01-01T00:00:00Z</RetainUntilDate></Retention>`

// lose makes the changes that a restore undoes.
func (r *revokedAfterBackup) lose(s *binary.Server) {
	r.t.Helper()
	// As in the console: the server records operators' changes, but no command does.
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, s.Admin+"/buckets/keys/"+r.key+"/revoke", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+adminOfRestore)
	a, err := http.DefaultClient.Do(request)
	if err != nil || a.StatusCode != http.StatusOK {
		r.t.Fatalf("revoke: %v %v", a, err)
	}
	if err := a.Body.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.revoked.want(http.StatusForbidden, http.MethodGet, "/locked", nil)
	r.put("/locked/kept?retention&versionId="+r.kept, retention)
	r.put("/locked/held?legal-hold&versionId="+r.held, `<LegalHold><Status>ON</Status></LegalHold>`)
	r.late = r.put("/locked/late", lockedBody+" later", "X-Amz-Object-Lock-Mode: COMPLIANCE", r.until(24*time.Hour))
}

// wantReport checks that a restore names each kind of credential, with its number, and the operator's change.
func (r *revokedAfterBackup) wantReport(text string) {
	r.t.Helper()
	for _, want := range []string{
		`what was revoked, limited, locked or deleted after \d{4}-.* is not: check these`,
		`buckets: 2 access keys: holdfast buckets keys revoke, keys limit, accounts delete\n`,
		`buckets: retentions and legal holds of versions: holdfast buckets versions retain, versions hold\n`,
		`undone: \d{4}-.*: buckets keys revoke: key=` + r.key + `\n`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			r.t.Errorf("the restore does not say %q:\n%s", want, text)
		}
	}
}

func (r *revokedAfterBackup) check(s *binary.Server) {
	r.t.Helper()
	was := r.s3
	r.s3 = r.at(s.S3URL())
	defer func() { r.s3 = was }()
	revoked := r.revoked.at(s.S3URL())
	revoked.want(http.StatusOK, http.MethodGet, "/locked", nil)
	s.Verb("buckets", "keys", "revoke", r.key)
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) { // running servers notice a command within a second
		if a, err := revoked.Send(r.t.Context(), http.MethodGet, "/locked", ""); err == nil && a.Status == http.StatusForbidden {
			break
		} else if time.Since(start) > binary.Bound {
			r.t.Fatalf("a key that was revoked again: %d %v", a.Status, err)
		}
	}

	// The copy's lock holds, and later locks are missing.
	if text := r.want(http.StatusOK, http.MethodGet, "/locked/kept?retention&versionId="+r.kept, nil); !strings.Contains(string(text), "COMPLIANCE") || strings.Contains(string(text), "2099") {
		r.t.Errorf("the retention is %s", text)
	}
	r.want(http.StatusForbidden, http.MethodDelete, "/locked/kept?versionId="+r.kept, nil)
	r.want(http.StatusNoContent, http.MethodDelete, "/locked/held?versionId="+r.held, nil)
	r.want(http.StatusNotFound, http.MethodGet, "/locked/late?versionId="+r.late, nil)
}

// wantLateBody checks that a body whose version the database lacks stays on its node, until an audit removes it a
// day later, although the version was locked.
func (r *revokedAfterBackup) wantLateBody(s *binary.Server) {
	r.t.Helper()
	late := func() (paths []string) {
		for _, path := range bodyFiles(r.t, r.disks) {
			if text, err := os.ReadFile(path); err != nil {
				r.t.Fatal(err)
			} else if strings.Contains(string(text), lockedBody+" later") {
				paths = append(paths, path)
			}
		}
		return paths
	}
	s.Verb("buckets", "audits", "run", "--repair")
	paths := late()
	if len(paths) == 0 {
		r.t.Error("the body of a version after the backup is not on a node")
	}
	yesterday := time.Now().Add(-25 * time.Hour)
	for _, path := range paths {
		if err := os.Chtimes(path, yesterday, yesterday); err != nil {
			r.t.Fatal(err)
		}
	}
	s.Verb("buckets", "audits", "run", "--repair")
	if paths := late(); len(paths) > 0 {
		r.t.Errorf("an audit a day later keeps %v", paths)
	}
}

// TestRevocationsAfterRestore restores a state before a key was revoked and objects were locked. The restore lists the
// checks for an operator, and the recorded changes that are undone.
func TestRevocationsAfterRestore(t *testing.T) {
	t.Parallel()
	disks, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	file := "sqlite:" + filepath.Join(data, "buckets.db")
	vars := append(bucketsOn(t, file, disks), "HOLDFAST_SERVER__ADMIN_TOKEN="+adminOfRestore)
	s := binary.Start(t, data, vars...)
	r := newRevokedAfterBackup(t, s, disks)
	backup := filepath.Join(t.TempDir(), "backup")
	s.Verb("backup", backup)
	r.lose(s)
	s.Kill()
	lost := data + ".lost"
	if err := os.Rename(data, lost); err != nil {
		t.Fatal(err)
	}
	env := binary.Environ(append([]string{"HOLDFAST_DATA=" + data}, vars...)...)
	if got := binary.Run(t, env, "restore", backup, "--changes", filepath.Join(lost, "changes")); got.Status != 1 || !strings.Contains(got.Stderr, "--changes: ") {
		t.Errorf("restore with a wrong list of changes: %d\n%s%s", got.Status, got.Stdout, got.Stderr)
	}
	got := binary.Run(t, env, "restore", backup, "--changes", filepath.Join(lost, "changes.jsonl"))
	if got.Status != 0 {
		t.Fatalf("restore: %d\n%s%s", got.Status, got.Stdout, got.Stderr)
	}
	r.wantReport(got.Stderr)
	alter(t, filepath.Join(data, "buckets.db"), `DELETE FROM manta_bucket_hold`) // as if five minutes had passed since the backup
	again := binary.Start(t, data, vars...)
	r.check(again)
	r.wantLateBody(again)
}

func TestRevocationsAfterRestoreOfDump(t *testing.T) {
	t.Parallel()
	dump := binary.Program(t, "pg_dump")
	disks, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	url, other := testdb.PostgresDatabase(t), testdb.PostgresDatabase(t)
	vars := append(bucketsOn(t, url, disks), "HOLDFAST_SERVER__ADMIN_TOKEN="+adminOfRestore)
	binary.Migrate(t, data, vars...)
	s := binary.Start(t, data, vars...)
	r := newRevokedAfterBackup(t, s, disks)
	saved := filepath.Join(t.TempDir(), "dump")
	if out, err := exec.Command(dump, "--format=custom", "--file="+saved, url).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.lose(s)
	s.Kill()
	vars = append(bucketsOn(t, other, disks), "HOLDFAST_SERVER__ADMIN_TOKEN="+adminOfRestore)
	env := binary.Environ(append([]string{"HOLDFAST_DATA=" + data}, vars...)...)
	got := binary.Run(t, env, "restore", saved, "--trust-dump", "--service", "buckets") // the data folder survived, with its change log
	if got.Status != 0 {
		t.Fatalf("restore: %d\n%s%s", got.Status, got.Stdout, got.Stderr)
	}
	r.wantReport(got.Stderr)
	again := binary.Start(t, data, vars...)
	r.check(again)
	r.wantLateBody(again)
}
