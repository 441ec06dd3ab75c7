package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

func bucketsOn(t *testing.T, url, disks string) []string {
	t.Helper()
	return append(onlyBuckets(url), "HOLDFAST_CONFIG="+configFile(t, t.TempDir(), []string{"east:1", "west:1"}, func(id string) string { return filepath.Join(disks, id) }))
}

func onlyBuckets(url string) []string {
	return []string{
		"HOLDFAST_BUCKETS__DATABASE_URL=" + url, "HOLDFAST_BUCKETS__DATABASE_POOL_CONNECTION_TIMEOUT=2s", "HOLDFAST_BUCKETS__INLINE=1000",
		"HOLDFAST_BUCKETS__KEY_SECRET=the-same-on-all-machines-32-bytes", "SYNC_MASTER_SECRET=shared",
		"HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false",
	}
}

// TestBucketsOnPostgres starts on an empty database, and then runs two servers with the same database and storage
// nodes. While the database is stopped, they return S3's 503.
func TestBucketsOnPostgres(t *testing.T) {
	t.Parallel()
	db := testdb.DurablePostgres(t)
	s, c := bucketsAtTwo(t, db.URL())
	large := bytes.Repeat([]byte("large"), 10_000)
	for round, end := range []func() error{db.Stop, db.Kill} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		for method, body := range map[string][]byte{http.MethodPut: large, http.MethodGet: nil} { // each request waits until the timeout
			if got := string(c.want(http.StatusServiceUnavailable, method, "/photos/small", body)); !strings.Contains(got, "<Code>ServiceUnavailable</Code>") {
				t.Errorf("round %d: %s: %s", round, method, got)
			}
		}
		s.Await("/readyz", http.StatusServiceUnavailable)
		s.Await("/livez", http.StatusOK)
		if err := db.Start(); err != nil {
			t.Fatal(err)
		}
		s.Await("/readyz", http.StatusOK)
		c.want(http.StatusOK, http.MethodPut, fmt.Sprintf("/photos/after%d", round), large)
	}
	c.wantIntact(5)
	if r := binary.Run(t, s.Env, "check"); strings.Contains(r.Stdout, "WRONG") || strings.Contains(r.Stdout, "without an object") {
		t.Errorf("check: %d\n%s", r.Status, r.Stdout)
	}
	if r := binary.Run(t, s.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 {
		t.Errorf("audit: %+v", r)
	}
}

// TestBucketsBehindPgBouncer runs two servers through PgBouncer in transaction mode.
func TestBucketsBehindPgBouncer(t *testing.T) {
	t.Parallel()
	through := testdb.PgBouncer(t, testdb.PostgresDatabase(t), 4)
	s, c := bucketsAtTwo(t, testdb.WithParameter(t, through, "default_query_exec_mode", "exec"))
	c.wantIntact(3)
	if r := binary.Run(t, s.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 {
		t.Errorf("audit: %+v", r)
	}
}

func TestBucketsOnCitus(t *testing.T) {
	t.Parallel()
	s, c := bucketsAtTwo(t, testdb.CitusDatabase(t))
	c.wantIntact(3)
	if r := binary.Run(t, s.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 {
		t.Errorf("audit: %+v", r)
	}
}

// bucketsAtTwo starts a server on an empty database, migrates it, and starts a second server. Each server must read
// the other's writes, even after a kill.
func bucketsAtTwo(t *testing.T, url string) (*binary.Server, s3) {
	t.Helper()
	disks := t.TempDir()
	vars := bucketsOn(t, url, disks)
	s := binary.Launch(t, t.TempDir(), vars...)
	if why := s.Await("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "holdfast migrate") {
		t.Errorf("not migrated: %s", why)
	}
	if out := s.Verb("migrate"); !strings.Contains(out, "buckets: applied 0001") {
		t.Errorf("migrate:\n%s", out)
	}
	s.Await("/readyz", http.StatusOK)
	c := newS3(t, s, s.S3URL())
	data := t.TempDir()
	other := binary.Start(t, data, vars...)
	d := c.at(other.S3URL())

	bodies := map[string][]byte{"/photos/small": []byte("small"), "/photos/a%20%2F..//large": bytes.Repeat([]byte("large"), 300_000)}
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	for name, body := range bodies {
		c.want(http.StatusOK, http.MethodPut, name, body)
	}
	bodies["/photos/parts"] = bytes.Repeat([]byte("parts"), 100_000)
	c.multipart("/photos/parts", bodies["/photos/parts"])
	wantBodies := func(c s3) {
		t.Helper()
		for name, body := range bodies {
			if got := c.want(http.StatusOK, http.MethodGet, name, nil); !bytes.Equal(got, body) {
				t.Errorf("%s has %d bytes, want %d", name, len(got), len(body))
			}
		}
	}
	wantBodies(d)
	if list := string(d.want(http.StatusOK, http.MethodGet, "/photos?list-type=2&delimiter=/", nil)); strings.Count(list, "<Contents>") != 2 || strings.Count(list, "<CommonPrefixes>") != 1 {
		t.Errorf("list: %s", list)
	}
	bodies["/photos/small"] = []byte("overwritten")
	d.want(http.StatusOK, http.MethodPut, "/photos/small", bodies["/photos/small"])
	wantBodies(c)
	d.want(http.StatusOK, http.MethodPut, "/photos/deleted", bodies["/photos/parts"])
	c.want(http.StatusNoContent, http.MethodDelete, "/photos/deleted", nil)
	d.want(http.StatusNotFound, http.MethodGet, "/photos/deleted", nil)
	c.want(http.StatusConflict, http.MethodDelete, "/photos", nil)
	other.Kill()
	d = c.at(binary.Start(t, data, vars...).S3URL())
	wantBodies(d)
	return s, c
}

func background(t *testing.T, s *binary.Server, args ...string) (cmd *exec.Cmd, out *binary.Output, ended chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), binary.Bound)
	out, ended = &binary.Output{}, make(chan struct{})
	cmd = exec.CommandContext(ctx, binary.Path(), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.Env, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return cmd, out, ended
}

// TestBucketsMaintenanceOfTwo checks that only one of two machines runs a drain or an audit, and that the other
// machine continues after a kill.
func TestBucketsMaintenanceOfTwo(t *testing.T) {
	t.Parallel()
	url, disks := testdb.PostgresDatabase(t), t.TempDir()
	vars := bucketsOn(t, url, disks)
	one := binary.Launch(t, t.TempDir(), vars...)
	one.Verb("migrate")
	one.Await("/readyz", http.StatusOK)
	two := binary.Start(t, t.TempDir(), vars...)
	c := newS3(t, one, one.S3URL())
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	const objects = 60
	for i := range objects {
		c.want(http.StatusOK, http.MethodPut, fmt.Sprintf("/photos/o%d", i), bytes.Repeat([]byte{byte(i)}, 20_000+i))
	}
	one.Verb("buckets", "nodes", "add", "east:2", "file://"+filepath.Join(disks, "east:2"))

	// The drain holds the lease while it waits for a backup.
	testdb.Script(t, url, `INSERT INTO manta_bucket_hold VALUES ('test', now() + interval '1 hour')`)
	drain := []string{"buckets", "nodes", "drain", "west:1"}
	cmd, out, ended := background(t, one, drain...)
	if out.Await(regexp.MustCompile(`waiting for a backup to end`), ended) == nil {
		t.Fatalf("the drain does not wait:\n%s", out)
	}
	if r := binary.Run(t, two.Env, "buckets", "audits", "run"); r.Status != 1 || !strings.Contains(r.Stderr, fmt.Sprintf("another audit or drain is running (process %d on ", cmd.Process.Pid)) {
		t.Errorf("an audit on another machine during a drain: %+v", r)
	}
	if r := binary.Run(t, one.Env, "buckets", "audits", "run"); r.Status != 1 || !strings.Contains(r.Stderr, "another audit or drain is running (process ") {
		t.Errorf("an audit on the same machine during a drain: %+v", r)
	}
	testdb.Script(t, url, `DELETE FROM manta_bucket_hold WHERE id = 'test'`)
	west := filepath.Join(disks, "west:1")
	for len(bodiesIn(t, west)) > objects-5 {
		select {
		case <-ended:
			t.Fatalf("the drain ended early:\n%s", out)
		default:
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	c.wantIntact(objects)

	_, out, ended = background(t, two, drain...)
	testdb.Script(t, url, `UPDATE manta_bucket_lease SET expires = now()`) // as after half a minute
	<-ended
	if !strings.Contains(out.String(), "storage node west:1 is removed") {
		t.Errorf("the drain on the other machine:\n%s", out)
	}
	c.wantIntact(objects)

	// The other machine restarts a killed audit.
	damage(t, bodiesIn(t, filepath.Join(disks, "east:2")))
	audit := []string{"buckets", "audits", "run", "--verify", "--repair", "--json"}
	killed(t, one, func() bool {
		_, err := os.Stat(filepath.Join(one.Data, "buckets-maintenance", "work", "audit.json"))
		return err == nil
	}, audit...)
	testdb.Script(t, url, `DELETE FROM manta_bucket_lease`)
	binary.Run(t, two.Env, audit...)
	if r := binary.Run(t, two.Env, "buckets", "audits", "run", "--verify"); r.Status != 0 {
		t.Errorf("after the repair: %+v", r)
	}
	c.wantIntact(objects)
}

// TestBucketsBackupOnPostgres checks that a dump followed by a backup restores all objects. Bodies on cloud nodes are
// not copied, and the backup reports this.
func TestBucketsBackupOnPostgres(t *testing.T) {
	t.Parallel()
	dump, restore := binary.Program(t, "pg_dump"), binary.Program(t, "pg_restore")
	cloud := binary.Start(t, t.TempDir())
	cloudKey := newS3(t, cloud, cloud.S3URL())
	cloudKey.want(http.StatusOK, http.MethodPut, "/bodies", nil)
	database, other, disks := testdb.PostgresDatabase(t), testdb.PostgresDatabase(t), t.TempDir()
	settings := func(url string) []string {
		return append(bucketsOn(t, url, disks), "HOLDFAST_BUCKETS__COPIES=1", "HOLDFAST_BUCKETS__GARBAGE_AFTER=1h", "HOLDFAST_BUCKETS__SWEEP_INTERVAL=10ms",
			"AWS_ACCESS_KEY_ID="+cloudKey.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+cloudKey.Secret)
	}
	s := binary.Launch(t, t.TempDir(), settings(database)...)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)
	c := newS3(t, s, s.S3URL())
	c.want(http.StatusOK, http.MethodPut, "/photos", nil)
	write := func(name string, n int) {
		t.Helper()
		for i := range n {
			c.want(http.StatusOK, http.MethodPut, fmt.Sprintf("/photos/%s%d", name, i), bytes.Repeat([]byte{byte(i)}, 500+i*1000))
		}
	}
	write("file", 20)
	s.Verb("buckets", "nodes", "add", "cloud:1", "s3://bodies?region=us-east-1&use_path_style=true&endpoint="+url.QueryEscape(cloud.S3URL()))
	s.AwaitAnswer("/metrics", func(_ int, body string) bool { return strings.Contains(body, `node="cloud:1"`) })
	for i := 0; len(cloudKey.objects("bodies")) < 4; i++ {
		write(fmt.Sprintf("later%d-", i), 6)
	}
	want := c.objects("photos")

	saved, backup := filepath.Join(t.TempDir(), "dump"), filepath.Join(t.TempDir(), "backup")
	if out, err := exec.CommandContext(t.Context(), dump, "--format=custom", "--file="+saved, database).CombinedOutput(); err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, out)
	}
	for i := range 10 {
		c.want(http.StatusNoContent, http.MethodDelete, fmt.Sprintf("/photos/file%d", i), nil)
	}
	write("file1", 3) // file10 to file12
	inCloud := len(cloudKey.objects("bodies")) - 1
	r := binary.Run(t, s.Env, "backup", backup)
	for _, message := range []string{
		"database not copied, use its server's tools", fmt.Sprintf("%d bodies only on storage node cloud:1, s3://bodies", inCloud),
	} {
		if r.Status != 0 || !strings.Contains(r.Stderr, message) {
			t.Errorf("backup: status %d, want %q:\n%s", r.Status, message, r.Stderr)
		}
	}
	s.Kill()

	if out, err := exec.CommandContext(t.Context(), restore, "--exit-on-error", "--dbname="+other, saved).CombinedOutput(); err != nil {
		t.Fatalf("pg_restore: %v\n%s", err, out)
	}
	disks = filepath.Join(t.TempDir(), "disks")
	if err := os.Mkdir(disks, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"east:1", "west:1"} {
		if err := os.Rename(filepath.Join(backup, "buckets.nodes", strings.Replace(id, ":", ",", 1)), filepath.Join(disks, id)); err != nil {
			t.Fatal(err)
		}
	}
	restored := binary.Start(t, backup, settings(other)...)
	c = c.at(restored.S3URL())
	if got := c.objects("photos"); !maps.Equal(got, want) {
		t.Errorf("restored objects: %v, want %v", got, want)
	}
	c.wantIntact(len(want))
	c.want(http.StatusOK, http.MethodPut, "/photos/new", bytes.Repeat([]byte("new"), 1000))
	// Bodies written after the dump have no row.
	if r := binary.Run(t, restored.Env, "buckets", "audits", "run", "--verify"); strings.Contains(r.Stdout, "missing") || strings.Contains(r.Stdout, "corrupt") {
		t.Errorf("audit: %+v", r)
	}
}
