package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

func value(t *testing.T, s *binary.Server, name string) (n float64) {
	t.Helper()
	s.AwaitAnswer("/metrics", func(status int, body string) bool {
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(body)
		if status != http.StatusOK || m == nil {
			return false
		}
		var err error
		n, err = strconv.ParseFloat(m[1], 64)
		return err == nil
	})
	return n
}

// event returns the name of a node's metric for damaged or repaired bodies.
func event(node, what string) string {
	return fmt.Sprintf(`holdfast_buckets_node_bodies_total{event=%q,node=%q}`, what, node)
}

func flip(t *testing.T, files []string) {
	t.Helper()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/2] ^= 1
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// damaged is a server with two nodes and three objects. All copies on node east:1 are damaged.
type damaged struct {
	t      *testing.T
	server *binary.Server
	s3     s3
	disk   string
	vars   []string
	bodies map[string][]byte
	files  map[string][]byte // original contents by name
	token  string
}

func newDamaged(t *testing.T) *damaged {
	t.Helper()
	d := &damaged{t: t, disk: filepath.Join(t.TempDir(), "east"), bodies: map[string][]byte{}, files: map[string][]byte{}}
	listen := testdb.FreeAddress(t)
	d.vars = []string{
		"HOLDFAST_BUCKETS__LISTEN=" + listen,
		// With accounts, check would send a request to the internet.
		"HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_EXTSTORAGE__ENABLED=false",
	}
	d.server = binary.Start(t, t.TempDir(), append(d.vars, "HOLDFAST_BUCKETS__SCRUB_INTERVAL=0")...)
	d.s3 = newS3(t, d.server, "http://"+listen)
	d.s3.want(http.StatusOK, http.MethodPut, "/box", nil)
	d.server.Verb("buckets", "nodes", "add", "east:1", "file://"+d.disk)
	d.server.AwaitMetric(`holdfast_buckets_node_active{node="east:1"} 1`)
	random := rand.NewChaCha8([32]byte{7})
	for _, key := range []string{"ranges", "native", "download"} {
		d.bodies[key] = make([]byte, 3<<20)
		_, _ = random.Read(d.bodies[key])
		d.s3.want(http.StatusOK, http.MethodPut, "/box/"+key, d.bodies[key])
	}
	names := bodiesIn(t, d.disk)
	for _, name := range names {
		d.files[name], _ = os.ReadFile(name)
	}
	if len(d.files) != len(d.bodies) {
		t.Fatalf("%d files on the second of two nodes", len(d.files))
	}
	flip(t, names)
	d.token = strings.TrimSpace(d.server.Verb("buckets", "tokens", "create", "main"))
	return d
}

func (d *damaged) readRange(key string) {
	d.t.Helper()
	const from, to = 1_000_000, 2_000_000
	r, err := d.s3.Request(d.t.Context(), http.MethodGet, "/box/"+key, "", buckets.Unsigned, fmt.Sprintf("Range: bytes=%d-%d", from, to-1))
	if err != nil {
		d.t.Fatal(err)
	}
	d.compare(key, r, http.StatusPartialContent, from, to)
}

func (d *damaged) compare(key string, r *http.Request, status, from, to int) {
	d.t.Helper()
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer a.Body.Close()
	got, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != status || !bytes.Equal(got, d.bodies[key][from:to]) {
		d.t.Fatalf("%s: %s, %d bytes, %v: wrong", key, a.Status, len(got), err)
	}
}

// find reads an object until the server detects the damaged copy. The client must receive the right bytes.
func (d *damaged) find(key string, read func(key string)) {
	d.t.Helper()
	before := value(d.t, d.server, event("east:1", "corrupt"))
	const most = 200 // each read hits the damaged copy with probability 1/2
	for range most {
		read(key)
		if value(d.t, d.server, event("east:1", "corrupt")) > before {
			return
		}
	}
	d.t.Fatalf("%s: the damaged copy was never read", key)
}

func (d *damaged) readNative(key string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.server.URL+"/buckets/v1/accounts/main/buckets/box/objects/"+key, http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	d.compare(key, r, http.StatusOK, 0, len(d.bodies[key]))
}

func (d *damaged) download(cookie string) func(key string) {
	return func(key string) {
		d.t.Helper()
		r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.server.Admin+"/console/buckets/objects/get?account=main&bucket=box&object="+key, http.NoBody)
		if err != nil {
			d.t.Fatal(err)
		}
		r.Header.Set("Cookie", cookie)
		d.compare(key, r, http.StatusOK, 0, len(d.bodies[key]))
	}
}

func (d *damaged) shows(cookie, page string, parts ...string) {
	d.t.Helper()
	text := consolePage(d.t, d.server, cookie, http.MethodGet, page, nil)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			d.t.Errorf("the page %s has no %q:\n%s", page, part, text)
		}
	}
}

func (d *damaged) checkSays(status int, part string) {
	d.t.Helper()
	if r := binary.Run(d.t, d.server.Env, "check"); r.Status != status || !strings.Contains(r.Stdout, part) {
		d.t.Errorf("check: status %d, want %d with %q\n%s%s", r.Status, status, part, r.Stdout, r.Stderr)
	}
}

// TestBucketsDamagedCopies checks that S3 clients, native API clients and operators read correct bytes if one of two
// copies is damaged. The server marks damaged copies and does not read them again, even after a kill. The check and
// the console report them until they are repaired.
func TestBucketsDamagedCopies(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	database := filepath.Join(d.server.Data, "buckets.db")
	hour := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	alter(t, database, "INSERT INTO manta_bucket_hold (id, expires) VALUES ('test', "+hour+")") // delays repairs like a backup
	d.find("ranges", d.readRange)
	d.find("native", d.readNative)
	d.find("download", d.download(consoleCookie(t, d.server)))
	d.server.AwaitMetric(`holdfast_buckets_damaged_copies{node="east:1",state="damaged"} 3`)
	d.checkSays(0, "3 damaged copies; servers repair them from good copies")

	d.server.Kill()
	d.server = binary.Start(t, d.server.Data, append(d.vars, "HOLDFAST_BUCKETS__SCRUB_INTERVAL=0")...)
	cookie := consoleCookie(t, d.server)
	d.shows(cookie, "buckets/damages", "Damaged copies", "east:1", "corrupt", "to be repaired")
	for range 20 { // without marks, half of the reads would hit damaged copies
		for key := range d.bodies {
			d.readRange(key)
		}
	}
	if n := value(t, d.server, event("east:1", "corrupt")) + value(t, d.server, event("east:1", "read")); n != 0 {
		t.Errorf("%v reads of damaged copies after the restart", n)
	}

	alter(t, database, "DELETE FROM manta_bucket_hold")
	alter(t, database, "DELETE FROM manta_bucket_lease") // otherwise it expires 30 seconds after the kill
	d.server.AwaitMetric(`holdfast_buckets_repaired_copies_total{node="east:1"} 3`)
	d.server.AwaitMetric(`holdfast_buckets_damaged_copies{node="east:1",state="damaged"} 0`)
	d.checkSays(0, "no damaged copies are known")
	for name, text := range d.files {
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, text) {
			t.Errorf("%s was not restored: %v", filepath.Base(name), err)
		}
	}
	if out := d.server.Verb("buckets", "audits", "run", "--verify"); !strings.Contains(out, "none") {
		t.Errorf("audit: %s", out)
	}
	d.shows(cookie, "buckets/damages", "No damaged copies are known.")

	d.server.Signal(syscall.SIGTERM)
	<-d.server.Ended
	d.server = binary.Start(t, d.server.Data, append(d.vars, "HOLDFAST_BUCKETS__SCRUB_INTERVAL=1m")...)
	d.server.AwaitMetric(`holdfast_buckets_scrubbed_copies_total{node="east:1"} 3`)
	for _, node := range []string{"east:1", "local:1"} {
		d.server.AwaitMetric(fmt.Sprintf(`holdfast_buckets_scrub_progress_ratio{node=%q} 1`, node))
	}
	d.shows(consoleCookie(t, d.server), "buckets/nodes", "east:1", "complete")
	d.checkSays(0, "all copies were read since "+time.Now().UTC().Format("2006-01"))
}

// TestBucketsScrubTakeover kills the server that scrubs. The other server must take over the lease, and find and
// repair a damaged copy that clients do not read.
func TestBucketsScrubTakeover(t *testing.T) {
	t.Parallel()
	testdb.SoakOnly(t, "it takes a minute or more")
	url, disks := testdb.PostgresDatabase(t), t.TempDir()
	vars := bucketsOn(t, url, disks)
	writer := binary.Launch(t, t.TempDir(), append(vars, "HOLDFAST_BUCKETS__SCRUB_INTERVAL=0")...)
	writer.Verb("migrate")
	writer.Await("/readyz", http.StatusOK)
	c := newS3(t, writer, writer.S3URL())
	c.want(http.StatusOK, http.MethodPut, "/box", nil)
	c.want(http.StatusOK, http.MethodPut, "/box/key", bytes.Repeat([]byte("body"), 100_000))
	writer.Kill()
	vars = append(vars, "HOLDFAST_BUCKETS__SCRUB_INTERVAL=1m")
	first, second := binary.Start(t, t.TempDir(), vars...), binary.Start(t, t.TempDir(), vars...)
	const scrubbed = `holdfast_buckets_scrubbed_copies_total{node="east:1"}`
	first.AwaitLong(2*binary.Bound, "/metrics", func(int, string) bool {
		if value(t, second, scrubbed) > 0 {
			first, second = second, first
		}
		return value(t, first, scrubbed) > 0
	})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	holder := func() (name string) {
		if err := conn.QueryRow(t.Context(), `SELECT process FROM manta_bucket_lease WHERE name = 'background'`).Scan(&name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	was := holder()
	first.Kill()
	files := bodiesIn(t, filepath.Join(disks, "east:1"))
	if len(files) != 1 {
		t.Fatalf("%d files on a node", len(files))
	}
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	flip(t, files)
	second.AwaitLong(2*binary.Bound, "/metrics", func(_ int, body string) bool {
		return strings.Contains(body, `holdfast_buckets_repaired_copies_total{node="east:1"} 1`)
	})
	if now := holder(); now == was {
		t.Errorf("the lease still belongs to %s", was)
	}
	if now, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(now, good) {
		t.Errorf("the copy was not restored: %v", err)
	}
}
