// Package buckets tests S3 under faults. It contains the workload for all services' fault tests, and its own tests.
package buckets

import (
	"errors"
	"html"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// Service returns S3 under faults. Only `holdfast sweep` removes deleted bodies.
func Service() harness.Service {
	return harness.Service{
		Name: "buckets", Section: "BUCKETS", Vars: []string{
			"HOLDFAST_BUCKETS__GARBAGE_AFTER=0s", "HOLDFAST_BUCKETS__SWEEP_INTERVAL=0s", "HOLDFAST_LOG__ACCESS=false",
		},
		Workload:   func(*testing.T, bool) harness.Workload { return NewWorkload(4) },
		LargeOwner: func(*testing.T) harness.LargeOwner { return &largeBucket{} },
		Neighbours: harness.Neighbours{
			Table: "manta_bucket", Key: func(int) string { return `(SELECT owner::text FROM manta_bucket WHERE name = 'fault')` },
			Send: func(h *harness.Harness, w harness.Workload, _ int) (binary.Answer, error) {
				return w.(*Workload).send(h, h.Server, http.MethodPut, "/fault/neighbour", "x")
			},
		},
		SomeRows: `SELECT 1 FROM manta_bucket_object WHERE name LIKE 'w0/%' OR name LIKE 'w1/%' FOR UPDATE`,
		Locks: []string{
			`SELECT 1 FROM manta_bucket_object FOR UPDATE`,
			`LOCK TABLE manta_bucket_object IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE manta_bucket IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE manta_bucket_version IN ACCESS EXCLUSIVE MODE`,
		},
		Next: harness.NextRelease{Migrations: map[string]string{
			"internal/buckets/sqlite": `
				ALTER TABLE manta_bucket_object ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				ALTER TABLE manta_bucket_usage ADD COLUMN future BIGINT;`,
			"internal/buckets/postgres": `
				ALTER TABLE manta_bucket_object ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				ALTER TABLE manta_bucket_usage ADD COLUMN future BIGINT;`,
		}},
	}
}

// Workload is a bucket. Each writer uses its own keys.
type Workload struct {
	writers []*buckets.Writer
	keepers []*versionWriter
	modes   map[string]string
	rules   bool // rounds apply lifecycle rules; a soak counts all files after each round
	created bool
	Nodes   []*Node // nil for the node in the data folder
	Copies  int
	Sizes   buckets.Sizes
	others  int // bodies without a writer
	locked  int // locked version bodies, after Finish

	key      sigv4test.Signer
	byServer sync.Map
}

type Node struct{ ID, Dir string }

// NewWorkload returns a workload with single-chunk bodies on the node in the data folder.
func NewWorkload(writers int) *Workload {
	b := &Workload{Copies: 1, modes: map[string]string{}}
	b.Grow(nil, writers)
	for n := range (writers + 1) / 2 {
		b.keepers = append(b.keepers, newVersionWriter(n))
	}
	return b
}

func (b *Workload) Grow(_ *testing.T, n int) {
	for len(b.writers) < n {
		b.writers = append(b.writers, buckets.NewWriter("/fault", len(b.writers), &b.Sizes))
	}
}

func (b *Workload) open(h *harness.Harness) {
	h.T.Helper()
	if b.created {
		return
	}
	if b.Nodes == nil {
		b.Nodes = []*Node{{"local:1", filepath.Join(h.Data, "buckets")}}
	}
	b.key = h.Server.AccessKey(h.T, "main")
	b.want(h, http.StatusOK, http.MethodPut, "/fault", "")
	b.openVersions(h)
	b.created = true
}

func (b *Workload) client(h *harness.Harness, s *binary.Server) *buckets.Client {
	c, ok := b.byServer.Load(s)
	if !ok {
		c, _ = b.byServer.LoadOrStore(s, &buckets.Client{URL: s.S3URL(), Signer: b.key, HTTP: h.Client})
	}
	return c.(*buckets.Client)
}

// unavailable matches the errors that have status 503.
var unavailable = regexp.MustCompile(`<Error><Code>(ServiceUnavailable|SlowDown)<`)

func (b *Workload) send(h *harness.Harness, s *binary.Server, method, target, body string, headers ...string) (binary.Answer, error) {
	send := b.client(h, s).Send
	if h.Leaps {
		send = b.client(h, s).SendAgain
	}
	a, err := send(h.T.Context(), method, target, body, headers...)
	// A request that waits for long is answered with 200 and spaces, then with its error, which SDKs look for. The
	// header Retry-After cannot follow.
	if method != http.MethodGet && a.Status == http.StatusOK && unavailable.MatchString(a.Body) {
		a.Status = http.StatusServiceUnavailable
		a.Header.Set("Retry-After", "1")
	}
	return a, err
}

func (b *Workload) want(h *harness.Harness, status int, method, target, body string, headers ...string) binary.Answer {
	h.T.Helper()
	a, err := b.send(h, h.Server, method, target, body, headers...)
	if err != nil || a.Status != status {
		h.T.Fatalf("%s %s: %d %s %v, want %d", method, target, a.Status, a.Body, err, status)
	}
	return a
}

func (b *Workload) Clients(h *harness.Harness, l *harness.Load) []harness.Client {
	b.open(h)
	return append(harness.Clients(b.writers, func(w *buckets.Writer, choose *rand.Rand) {
		w.Random = choose
		b.run(h, l, w)
	}), b.versionClients(h, l)...)
}

func (b *Workload) Unanswered() []string {
	return append(harness.Unanswered(b.writers, func(w *buckets.Writer) *buckets.Write { return w.Lost }),
		harness.Unanswered(b.keepers, func(w *versionWriter) *change { return w.lost })...)
}

// Check reads every object. A write without a response took effect completely or not at all.
func (b *Workload) Check(h *harness.Harness) {
	h.T.Helper()
	b.storesBodies(h)
	for _, w := range b.writers {
		for path, want := range w.State {
			if w.Lost != nil && w.Lost.Path == path {
				continue
			}
			if got := b.get(h, path); got != want.MD5 {
				h.T.Errorf("%s: MD5 %q, acknowledged with %q", path, got, want.MD5)
			}
		}
		b.settle(h, w)
	}
	b.checkVersions(h)
	if b.rules && testdb.Soaking() && !h.T.Failed() {
		b.abortUploads(h)
		b.audited(h, b.expected(h))
	}
}

// storesBodies checks that the server uses all storage nodes right after a fault, including nodes that were full,
// read-only or missing.
func (b *Workload) storesBodies(h *harness.Harness) {
	h.T.Helper()
	b.want(h, http.StatusOK, http.MethodPut, "/fault/space", strings.Repeat("x", buckets.Inline+1))
	b.want(h, http.StatusNoContent, http.MethodDelete, "/fault/space", "")
}

// CheckCopy compares the objects with the writers' state at one moment during the copy.
func (b *Workload) CheckCopy(h *harness.Harness, begun, ended int64, _ bool) {
	h.T.Helper()
	for _, w := range b.writers {
		for path := range w.State {
			b.wasAt(h, w, path, begun, ended)
		}
	}
	b.checkCopiedVersions(h, begun, ended)
	b.want(h, http.StatusOK, http.MethodPut, "/fault/restored", "x")
}

func (b *Workload) Probe(h *harness.Harness, s *binary.Server) (binary.Answer, error) {
	return b.send(h, s, http.MethodPut, "/fault/probe", "x")
}

func (b *Workload) Reads(h *harness.Harness) (all []func() (binary.Answer, error)) {
	for n := range 4 * len(b.writers) {
		all = append(all, func() (binary.Answer, error) { return b.send(h, h.ServerOf(n), http.MethodGet, "/fault", "") })
	}
	return all
}

var uploads = regexp.MustCompile(`<Key>([^<]*)</Key><UploadId>([^<]*)</UploadId>`)

// Finish deletes unreferenced bodies and compares the nodes' files with the objects.
func (b *Workload) Finish(h *harness.Harness) {
	h.T.Helper()
	b.abortUploads(h)
	b.audited(h, b.expected(h))
	for _, w := range b.writers {
		for path := range w.State {
			b.want(h, http.StatusNoContent, http.MethodDelete, path, "")
			w.State[path] = buckets.Object{}
		}
	}
	b.locked = b.deleteVersions(h)
	b.audited(h, b.ofLargeOwner(h)+b.others+b.locked)
}

func (b *Workload) abortUploads(h *harness.Harness) {
	h.T.Helper()
	for _, bucket := range append([]string{"/fault"}, ruled...) {
		for {
			found := uploads.FindAllStringSubmatch(b.want(h, http.StatusOK, http.MethodGet, bucket+"?uploads", "").Body, -1)
			if len(found) == 0 {
				break
			}
			for _, u := range found {
				b.want(h, http.StatusNoContent, http.MethodDelete, bucket+"/"+html.UnescapeString(u[1])+"?uploadId="+u[2], "")
			}
		}
	}
}

func (b *Workload) expected(h *harness.Harness) int {
	h.T.Helper()
	want := b.ofLargeOwner(h) + b.others + b.expire(h)
	for _, w := range b.writers {
		for _, o := range w.State {
			want += o.Bodies
		}
	}
	return want
}

func (b *Workload) ofLargeOwner(h *harness.Harness) int {
	h.T.Helper()
	a, err := b.send(h, h.Server, http.MethodGet, "/large", "")
	harness.Must(h.T, err)
	return strings.Count(a.Body, "<Key>")
}

func (b *Workload) files(h *harness.Harness) (all []string) {
	h.T.Helper()
	for _, n := range b.Nodes {
		harness.Must(h.T, filepath.WalkDir(n.Dir, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !e.IsDir() && e.Name() != ".holdfast-node" {
				all = append(all, path)
			}
			return err
		}))
	}
	return all
}

// audited removes garbage and unreferenced files. Afterwards the nodes must contain exactly this number of bodies with
// all their copies.
func (b *Workload) audited(h *harness.Harness, bodies int) {
	h.T.Helper()
	b.sweep(h)
	before := b.files(h)
	// In two days every file is old enough, and a killed backup's hold has expired.
	r := b.in(h, 48*time.Hour, "buckets", "audits", "run", "--verify", "--repair")
	unexpected := regexp.MustCompile(`(?m)^(missing|corrupt|few-copies|wrong-usage|bad-node) .*`).FindAllString(r.Stdout, -1)
	if r.Status != 0 || len(unexpected) > 0 {
		h.T.Errorf("audit: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	after := b.files(h)
	h.T.Logf("%d files on the nodes, %d removed by an audit", len(before), len(before)-len(after))
	if len(after) != bodies*b.Copies {
		slices.Sort(after)
		h.T.Errorf("%d files on the nodes after an audit, expected %d copies of %d bodies:\n%s\n%s", len(after), b.Copies, bodies, r.Stdout, strings.Join(after, "\n"))
	}
}

// sweep removes all garbage, even if the clock was ahead or a failed node kept its claim open.
func (b *Workload) sweep(h *harness.Harness) {
	h.T.Helper()
	b.later(h, "sweep")
}

func (b *Workload) later(h *harness.Harness, args ...string) {
	h.T.Helper()
	if r := b.in(h, 48*time.Hour, args...); r.Status != 0 {
		h.T.Errorf("%v: status %d\n%s%s", args, r.Status, r.Stdout, r.Stderr)
	}
}

func (b *Workload) in(h *harness.Harness, ahead time.Duration, args ...string) binary.Result {
	h.T.Helper()
	c := harness.NewClock(h.T)
	c.Set(ahead)
	return binary.RunOf(h.T, binary.Build(h.T, "holdfast/test/fault/clocked"), append(slices.Clone(h.Server.Env), "CLOCKED_BY="+c.File), args...)
}

type largeBucket struct {
	key  sigv4test.Signer
	once sync.Once
}

func (g *largeBucket) Fill(h *harness.Instance, bytes int) {
	h.T.Helper()
	a, err := g.client(h).Send(h.T.Context(), http.MethodPut, "/large/history", strings.Repeat("x", bytes))
	harness.Must(h.T, err)
	if a.Status != http.StatusOK {
		h.T.Fatalf("a large object: %d %s", a.Status, a.Body)
	}
}

func (g *largeBucket) request(h *harness.Instance, method, target, body string) *http.Request {
	h.T.Helper()
	r, err := g.client(h).Request(h.T.Context(), method, "/large"+target, body)
	harness.Must(h.T, err)
	return r
}

func (g *largeBucket) client(h *harness.Instance) *buckets.Client {
	h.T.Helper()
	client := func() *buckets.Client { return &buckets.Client{URL: h.Server.S3URL(), Signer: g.key, HTTP: h.Client} }
	g.once.Do(func() {
		g.key = h.Server.AccessKey(h.T, "main")
		_, err := client().Send(h.T.Context(), http.MethodPut, "/large", "")
		harness.Must(h.T, err)
	})
	return client()
}

func (g *largeBucket) Download(h *harness.Instance) *http.Request {
	return g.request(h, http.MethodGet, "/history", "")
}

func (g *largeBucket) Upload(h *harness.Instance, id string) *http.Request {
	return g.request(h, http.MethodPut, "/"+id, strings.Repeat("x", 60_000))
}

func (g *largeBucket) Uploaded(h *harness.Instance, id string) *http.Request {
	return g.request(h, http.MethodGet, "/"+id, "")
}
