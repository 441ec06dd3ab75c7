// Package s3clients tests the built binary with real S3 clients: they create a bucket, copy and synchronize files,
// upload in parts and from a pipe, presign URLs, list, move and delete. The clients are programs (aws-cli, s3cmd,
// rclone, restic) and SDKs (Python, old and new; JavaScript; Go).
package s3clients

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // drivers of both engines
	_ "modernc.org/sqlite"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// most is the timeout per client, including its installation. All clients together take half a minute on two cores.
const most = 3 * time.Minute

func TestMain(m *testing.M) { os.Exit(binary.MainOfWaiting(m, 6)) }

// clients are ordered from slow to fast. Each client deletes its data. The clients in locking have a server of their own,
// on which they let hours pass.
var clients = []struct {
	name string
	day  func(c *client)
}{
	{"aws-cli", awsCLI},
	{"aws-cli-versions", awsVersions},
	{"s3cmd", s3cmd},
	{"s3cmd-versions", s3cmdVersions},
	{"rclone", rclone},
	{"restic", restic},
	{"boto3-old", func(c *client) { boto3(c, "old") }},
	{"boto3-new", func(c *client) { boto3(c, "new") }},
	{"javascript", javaScript},
	{"go", goSDK},
	{"minio-go", minIOSDK},
	{"terraform", terraform},
	{"terraform-locks", terraformLocks},
	{"minio-go-locks", minIOLocks},
	{"locked-backups", lockedBackups},
	{"locked-snapshots", lockedSnapshots},
	{"volume-backups", volumeBackups},
	{"presigned-uploads", presignedUploads},
}

var locking = []string{"minio-go-locks", "locked-backups", "locked-snapshots"}

func TestOneNode(t *testing.T) {
	t.Parallel()
	onSQLite := func(testing.TB) string { return "" }
	work(t, 1, []string{"boto3-old", "aws-cli-versions"}, "[buckets.nodes.\"home:1\"]\nurl = \"file://%s/1\"\n", onSQLite)
}

// TestThreeNodes uses PostgreSQL, like an installation of this size; TestOneNode uses SQLite.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	work(t, 2, []string{"aws-cli", "aws-cli-versions", "boto3-old", "boto3-new", "javascript", "restic", "s3cmd", "s3cmd-versions"}, "[buckets]\ncopies = 2\n[buckets.nodes.\"east:1\"]\nurl = \"file://%[1]s/1\"\n[buckets.nodes.\"east:2\"]\nurl = \"file://%[1]s/2\"\n[buckets.nodes.\"west:1\"]\nurl = \"file://%[1]s/3\"\n", testdb.PostgresDatabase)
}

// node is a server with its storage nodes.
type node struct {
	*binary.Server
	s3       *buckets.Client
	bodies   string // folder of the storage nodes
	database string // URL, "" for SQLite
}

// startNode starts a server for buckets. database returns the URL of a new database, or "" for SQLite.
func startNode(t *testing.T, config string, database func(testing.TB) string, events *hook) *node {
	t.Helper()
	dir, url := t.TempDir(), database(t)
	file, nodes := filepath.Join(dir, "holdfast.toml"), filepath.Join(dir, "nodes")
	write(t, file, fmt.Appendf(nil, config, nodes))
	if err := os.Mkdir(nodes, 0o700); err != nil {
		t.Fatal(err)
	}
	vars := []string{"HOLDFAST_BUCKETS__DESTINATIONS__HOOK__URL=" + events.url, "HOLDFAST_CONFIG=" + file, "HOLDFAST_BUCKETS__ENABLED=true",
		"HOLDFAST_BUCKETS__LISTEN=127.0.0.1:0", "HOLDFAST_BUCKETS__GARBAGE_AFTER=0s", "HOLDFAST_BUCKETS__SWEEP_INTERVAL=0s", "HOLDFAST_LOG__ACCESS=false",
		"HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_GUEST__ENABLED=false"}
	if url != "" {
		vars = append(vars, "HOLDFAST_BUCKETS__DATABASE_URL="+url)
	}
	server := binary.LaunchFlags(t, []string{"--migrate"}, filepath.Join(dir, "data"), vars...)
	server.Await("/readyz", http.StatusOK)
	return &node{server, server.S3(t), nodes, url}
}

// pass lets time pass for object locks. They end by the clock of the database, which a test cannot move, so it moves
// their ends.
func (n *node) pass(t *testing.T, d time.Duration) {
	t.Helper()
	driver, source := "pgx", n.database
	statement := `UPDATE %s SET properties = jsonb_set(properties, '{s3,lock,until}', to_jsonb((properties #>> '{s3,lock,until}')::bigint - $1::bigint))
		WHERE properties #>> '{s3,lock,until}' IS NOT NULL`
	if source == "" {
		driver, source = "sqlite", "file:"+filepath.Join(n.Data, "buckets.db")+"?_pragma=busy_timeout(10000)"
		statement = `UPDATE %s SET properties = json_set(properties, '$.s3.lock.until', (properties ->> '$.s3.lock.until') - $1)
			WHERE properties ->> '$.s3.lock.until' IS NOT NULL`
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	moved := int64(0)
	for _, table := range []string{"manta_bucket_object", "manta_bucket_version"} {
		result, err := db.ExecContext(t.Context(), fmt.Sprintf(statement, table), d.Microseconds())
		if err != nil {
			t.Fatal(err)
		}
		rows, err := result.RowsAffected()
		if err != nil {
			t.Fatal(err)
		}
		moved += rows
	}
	if moved == 0 {
		t.Fatal("no version is locked")
	}
}

// work runs the clients, and in a soak also those in soak. Afterwards the storage nodes must be empty.
func work(t *testing.T, copies int, soak []string, config string, database func(testing.TB) string) {
	t.Helper()
	events := newHook(t)
	server := startNode(t, config, database, events)
	s3, nodes := server.s3, server.bodies
	t.Run("clients", func(t *testing.T) {
		for _, c := range clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if slices.Contains(soak, c.name) {
					testdb.SoakOnly(t, "other clients, or the same with other nodes, have shown the same")
				}
				if !slices.Contains(locking, c.name) {
					c.day(newClient(t, s3, events))
					return
				}
				own := startNode(t, config, database, events)
				locker := newClient(t, own.s3, events)
				locker.node = own
				c.day(locker)
				own.Verb("sweep")
				if n := files(t, own.bodies); n != 0 && !t.Failed() {
					t.Errorf("%d bodies on the nodes after the client has deleted everything", n)
				}
			})
		}
	})
	swept := func() int {
		t.Helper()
		server.Verb("sweep")
		return files(t, nodes)
	}
	if n := swept(); n != 0 && !t.Failed() {
		t.Errorf("%d bodies on the nodes after the clients have deleted everything", n)
	}
	ctx := t.Context()
	sdk := newSDK(s3)
	if left := sdk.buckets(ctx, t); len(left) > 0 && !t.Failed() {
		t.Errorf("left buckets %q", left)
	}
	sdk.create(ctx, t, "last")
	sdk.put(ctx, t, "last", "object", bytes.Repeat([]byte("x"), 100_000))
	if n := swept(); n != copies && !t.Failed() {
		t.Errorf("%d copies of a body on the nodes, want %d", n, copies)
	}
	sdk.purge(ctx, t, "last")
	if bad := server.Output.String(); strings.Contains(bad, "level=ERROR") || strings.Contains(bad, "bad body copy") {
		t.Errorf("the log has errors:\n%s", bad)
	}
}

func files(t *testing.T, nodes string) (n int) {
	t.Helper()
	err := filepath.WalkDir(nodes, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != ".holdfast-node" {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type client struct {
	t      *testing.T
	s3     *buckets.Client
	hook   *hook
	node   *node // the client's own server; nil if it has none
	dir    string
	bucket string
	env    []string
}

// Times of locks.
const (
	lockTime   = time.Hour
	longerLock = 3 * time.Hour
)

const (
	big     = "big.bin"
	bigSize = 20 << 20
)

// newClient creates the client's folder, with files in the subfolder day.
func newClient(t *testing.T, s3 *buckets.Client, events *hook) *client {
	t.Helper()
	c := &client{t: t, s3: s3, hook: events, dir: t.TempDir(), bucket: "day-of-" + filepath.Base(t.Name())}
	random := rand.NewChaCha8([32]byte{byte(len(t.Name()))})
	for name, size := range map[string]int{
		"empty": 0, "note.txt": 1000, "photos/b +c ü%.jpg": 100_000, "photos/2026/it's.jpg": 17_000, "photos/2026-index": 10, big: bigSize,
	} {
		text := make([]byte, size)
		_, _ = random.Read(text) // never fails
		write(t, c.path("day", name), text)
	}
	for _, kv := range os.Environ() {
		// rclone fails if AWS_CA_BUNDLE is set. User configuration must not affect the test.
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "AWS_") && !strings.HasPrefix(name, "RCLONE_") &&
			!strings.HasPrefix(name, "RESTIC_") && !strings.HasSuffix(strings.ToLower(name), "_proxy") && name != "HOME" {
			c.env = append(c.env, kv)
		}
	}
	c.env = append(c.env, "HOME="+c.dir, "AWS_ACCESS_KEY_ID="+s3.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+s3.Secret, "AWS_DEFAULT_REGION="+s3.Region,
		"AWS_REGION="+s3.Region, "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=", "AWS_CONFIG_FILE="+c.path("aws.conf"), "ENDPOINT="+s3.URL, "BUCKET="+c.bucket,
		"PYTHONDONTWRITEBYTECODE=", "LC_ALL=C.UTF-8", "NO_COLOR=1", "RESTIC_PROGRESS_FPS=0.01")
	return c
}

func (c *client) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

func (c *client) run(program string, args ...string) string {
	c.t.Helper()
	return c.pipe(nil, program, args...)
}

// pipe is like run, but passes input through a pipe, so that the program does not know the length.
func (c *client) pipe(input []byte, program string, args ...string) string {
	c.t.Helper()
	out, err := c.try(input, program, args...)
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return out
}

// try is like pipe, but the program may fail. The output includes standard error.
func (c *client) try(input []byte, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.dir, c.env, time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if input != nil {
		cmd.Stdin = io.MultiReader(bytes.NewReader(input)) // a pipe
	}
	if err := cmd.Run(); err != nil {
		return errs.String() + out.String(), err
	}
	return out.String(), nil
}

func (c *client) fails(text, program string, args ...string) {
	c.t.Helper()
	if out, err := c.try(nil, program, args...); err == nil || !strings.Contains(out, text) {
		c.t.Errorf("%s %s: %v, want an error with %q\n%s", filepath.Base(program), strings.Join(args, " "), err, text, out)
	}
}

// same expects an exact copy of the folder day, or of a file in it.
func (c *client) same(part, copied string) {
	c.t.Helper()
	want, got := tree(c.t, c.path("day", part)), tree(c.t, c.path(copied))
	for name, text := range want {
		if other, ok := got[name]; !ok {
			c.t.Errorf("%s: %q is missing", copied, name)
		} else if !bytes.Equal(text, other) {
			c.t.Errorf("%s: %q has %d other bytes than the %d of the original", copied, name, len(other), len(text))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			c.t.Errorf("%s: %q is not in the original", copied, name)
		}
	}
}

func (c *client) is(part, text string) {
	c.t.Helper()
	if want := read(c.t, c.path("day", part)); text != string(want) {
		c.t.Errorf("%s: %d bytes, which are not the %d of the original", part, len(text), len(want))
	}
}

func (c *client) fetch(url string) string {
	c.t.Helper()
	return c.run(binary.Program(c.t, "curl"), "--silent", "--show-error", "--fail", "--globoff", strings.TrimSpace(url))
}

func (c *client) lines(out string, want ...string) {
	c.t.Helper()
	got := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Errorf("lines %q, want %q", got, want)
	}
}

func (c *client) absent() {
	c.t.Helper()
	a, err := c.s3.Send(c.t.Context(), http.MethodHead, "/"+c.bucket, "", buckets.Unsigned)
	if err != nil || a.Status != http.StatusNotFound {
		c.t.Errorf("the bucket after it was deleted: %d, %v", a.Status, err)
	}
}

// tree reads all files in a folder, or a single file with the name "".
func tree(t *testing.T, root string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all[strings.TrimPrefix(path, root)] = read(t, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
