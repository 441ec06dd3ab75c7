package fault

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
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// bucketsService is S3 under faults. Deleted bodies are removed by `holdfast sweep` only.
func bucketsService() service {
	return service{
		name: "buckets", section: "BUCKETS", vars: []string{
			"HOLDFAST_BUCKETS__GARBAGE_AFTER=0s", "HOLDFAST_BUCKETS__SWEEP_INTERVAL=0s", "HOLDFAST_LOG__ACCESS=false",
		},
		workload:   func(*testing.T, bool) workload { return newBucketsWorkload(4) },
		largeOwner: func(*testing.T) largeOwner { return &largeBucket{} },
		someRows:   `SELECT 1 FROM manta_bucket_object WHERE name LIKE 'w0/%' OR name LIKE 'w1/%' FOR UPDATE`,
		locks: []string{
			`SELECT 1 FROM manta_bucket_object FOR UPDATE`,
			`LOCK TABLE manta_bucket_object IN ACCESS EXCLUSIVE MODE`,
			`LOCK TABLE manta_bucket IN ACCESS EXCLUSIVE MODE`,
		},
		next: nextRelease{migrations: map[string]string{
			"internal/buckets/sqlite": `
				ALTER TABLE manta_bucket_object ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				ALTER TABLE manta_bucket_usage ADD COLUMN future BIGINT;`,
			"internal/buckets/postgres": `
				ALTER TABLE manta_bucket_object ADD COLUMN future BIGINT NOT NULL DEFAULT 0;
				ALTER TABLE manta_bucket_usage ADD COLUMN future BIGINT;`,
		}},
	}
}

// bucketsWorkload is writers of one bucket, each with keys of its own.
type bucketsWorkload struct {
	writers []*buckets.Writer
	created bool           // the bucket
	nodes   []*storageNode // nil: the one in the data folder
	copies  int            // of each body
	sizes   buckets.Sizes

	key      sigv4test.Signer
	byServer sync.Map // clients
}

// storageNode is a file node.
type storageNode struct{ id, dir string }

func newBucketsWorkload(writers int) *bucketsWorkload {
	b := &bucketsWorkload{copies: 1}
	b.grow(nil, writers)
	return b
}

func (b *bucketsWorkload) grow(_ *testing.T, n int) {
	for len(b.writers) < n {
		b.writers = append(b.writers, buckets.NewWriter("/fault", len(b.writers), &b.sizes))
	}
}

// open reads the access key, and creates the bucket before the first round.
func (b *bucketsWorkload) open(h *harness) {
	h.t.Helper()
	if b.created {
		return
	}
	if b.nodes == nil {
		b.nodes = []*storageNode{{"local:1", filepath.Join(h.data, "buckets")}}
	}
	b.key = h.server.AccessKey(h.t, "main")
	b.want(h, http.StatusOK, http.MethodPut, "/fault", "")
	b.created = true
}

// client returns the client of a server.
func (b *bucketsWorkload) client(h *harness, s *binary.Server) *buckets.Client {
	c, ok := b.byServer.Load(s)
	if !ok {
		c, _ = b.byServer.LoadOrStore(s, &buckets.Client{URL: s.S3URL(), Signer: b.key, HTTP: h.client})
	}
	return c.(*buckets.Client)
}

// send sends a signed request.
func (b *bucketsWorkload) send(h *harness, s *binary.Server, method, target, body string, headers ...string) (binary.Answer, error) {
	send := b.client(h, s).Send
	if h.leaps {
		send = b.client(h, s).SendAgain
	}
	return send(h.t.Context(), method, target, body, headers...)
}

// want sends a request outside of a round and expects the status.
func (b *bucketsWorkload) want(h *harness, status int, method, target, body string, headers ...string) binary.Answer {
	h.t.Helper()
	a, err := b.send(h, h.server, method, target, body, headers...)
	if err != nil || a.Status != status {
		h.t.Fatalf("%s %s: %d %s %v, want %d", method, target, a.Status, a.Body, err, status)
	}
	return a
}

func (b *bucketsWorkload) clients(h *harness, l *load) (all []client) {
	b.open(h)
	for _, w := range b.writers {
		all = append(all, func(choose *rand.Rand) {
			w.Random = choose
			b.run(h, l, w)
		})
	}
	return all
}

func (b *bucketsWorkload) unanswered() (all []string) {
	for _, w := range b.writers {
		if w.Lost != nil {
			all = append(all, w.Lost.String())
		}
	}
	return all
}

// check reads every object. An unanswered write is there as a whole or not at all.
func (b *bucketsWorkload) check(h *harness) {
	h.t.Helper()
	b.storesBodies(h)
	for _, w := range b.writers {
		for path, want := range w.State {
			if w.Lost != nil && w.Lost.Path == path {
				continue
			}
			if got := b.get(h, path); got != want.MD5 {
				h.t.Errorf("%s has the MD5 %q, and was acknowledged with %q", path, got, want.MD5)
			}
		}
		b.settle(h, w)
	}
}

// storesBodies expects that the server uses the storage nodes at once after a fault, also those
// that were full, read-only or gone.
func (b *bucketsWorkload) storesBodies(h *harness) {
	h.t.Helper()
	b.want(h, http.StatusOK, http.MethodPut, "/fault/space", strings.Repeat("x", buckets.Inline+1))
	b.want(h, http.StatusNoContent, http.MethodDelete, "/fault/space", "")
}

// checkCopy compares objects with those that the writers had at one moment of the copy.
func (b *bucketsWorkload) checkCopy(h *harness, begun, ended int64, _ bool) {
	h.t.Helper()
	for _, w := range b.writers {
		for path := range w.State {
			b.wasAt(h, w, path, begun, ended)
		}
	}
	b.want(h, http.StatusOK, http.MethodPut, "/fault/restored", "x")
}

func (b *bucketsWorkload) probe(h *harness, s *binary.Server) (binary.Answer, error) {
	return b.send(h, s, http.MethodPut, "/fault/probe", "x")
}

func (b *bucketsWorkload) reads(h *harness) (all []func() (binary.Answer, error)) {
	for n := range 4 * len(b.writers) {
		all = append(all, func() (binary.Answer, error) { return b.send(h, h.serverOf(n), http.MethodGet, "/fault", "") })
	}
	return all
}

// uploads matches an incomplete upload in a list.
var uploads = regexp.MustCompile(`<Key>([^<]*)</Key><UploadId>([^<]*)</UploadId>`)

// finish frees what no object has, and compares the files on the storage nodes with the objects.
func (b *bucketsWorkload) finish(h *harness) {
	h.t.Helper()
	for {
		found := uploads.FindAllStringSubmatch(b.want(h, http.StatusOK, http.MethodGet, "/fault?uploads", "").Body, -1)
		if len(found) == 0 {
			break
		}
		for _, u := range found {
			b.want(h, http.StatusNoContent, http.MethodDelete, "/fault/"+html.UnescapeString(u[1])+"?uploadId="+u[2], "")
		}
	}
	want := b.ofLargeOwner(h)
	for _, w := range b.writers {
		for _, o := range w.State {
			want += o.Bodies
		}
	}
	b.audited(h, want)
	for _, w := range b.writers {
		for path := range w.State {
			b.want(h, http.StatusNoContent, http.MethodDelete, path, "")
			w.State[path] = buckets.Object{}
		}
	}
	b.audited(h, b.ofLargeOwner(h))
}

// ofLargeOwner counts the objects of largeBucket.
func (b *bucketsWorkload) ofLargeOwner(h *harness) int {
	h.t.Helper()
	a, err := b.send(h, h.server, http.MethodGet, "/large", "")
	must(h.t, err)
	return strings.Count(a.Body, "<Key>")
}

// files returns the files of all storage nodes, temporary ones too.
func (b *bucketsWorkload) files(h *harness) (all []string) {
	h.t.Helper()
	for _, n := range b.nodes {
		must(h.t, filepath.WalkDir(n.dir, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a file or an empty folder that was removed meanwhile
			}
			if err == nil && !e.IsDir() && e.Name() != ".holdfast-node" {
				all = append(all, path)
			}
			return err
		}))
	}
	return all
}

// audited frees deleted bodies, lets an audit remove files that no object has, and expects the
// copies of a number of bodies and nothing else on the nodes.
func (b *bucketsWorkload) audited(h *harness, bodies int) {
	h.t.Helper()
	b.sweep(h)
	before := b.files(h)
	// In two days no file is young, and the hold of a backup that was killed has expired.
	r := b.in(h, 48*time.Hour, "buckets", "audits", "run", "--verify", "--repair")
	unexpected := regexp.MustCompile(`(?m)^(missing|corrupt|few-copies|wrong-usage|bad-node) .*`).FindAllString(r.Stdout, -1)
	if r.Status != 0 || len(unexpected) > 0 {
		h.t.Errorf("audit: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	after := b.files(h)
	h.t.Logf("%d files on the nodes, of which an audit has removed %d", len(before), len(before)-len(after))
	if len(after) != bodies*b.copies {
		slices.Sort(after)
		h.t.Errorf("%d files are on the nodes after an audit, expected %d copies of %d bodies:\n%s\n%s", len(after), b.copies, bodies, r.Stdout, strings.Join(after, "\n"))
	}
}

// sweep removes all garbage: that of the future, if the clock has leaped, and that whose claim has
// not expired, because a storage node was not available.
func (b *bucketsWorkload) sweep(h *harness) {
	h.t.Helper()
	b.later(h, "sweep")
}

// later runs a command two days in the future.
func (b *bucketsWorkload) later(h *harness, args ...string) {
	h.t.Helper()
	if r := b.in(h, 48*time.Hour, args...); r.Status != 0 {
		h.t.Errorf("%v: status %d\n%s%s", args, r.Status, r.Stdout, r.Stderr)
	}
}

// in runs a command with a clock that is ahead.
func (b *bucketsWorkload) in(h *harness, ahead time.Duration, args ...string) binary.Result {
	h.t.Helper()
	c := newTestClock(h.t)
	c.set(ahead)
	return binary.RunOf(h.t, binary.Build(h.t, "holdfast/test/fault/clocked"), append(slices.Clone(h.server.Env), "CLOCKED_BY="+c.file), args...)
}

// largeBucket is a bucket with a large object.
type largeBucket struct {
	key  sigv4test.Signer
	once sync.Once // reads the key and creates the bucket
}

func (g *largeBucket) fill(h *instance, bytes int) {
	h.t.Helper()
	a, err := g.client(h).Send(h.t.Context(), http.MethodPut, "/large/history", strings.Repeat("x", bytes))
	must(h.t, err)
	if a.Status != http.StatusOK {
		h.t.Fatalf("a large object: %d %s", a.Status, a.Body)
	}
}

func (g *largeBucket) request(h *instance, method, target, body string) *http.Request {
	h.t.Helper()
	r, err := g.client(h).Request(h.t.Context(), method, "/large"+target, body)
	must(h.t, err)
	return r
}

func (g *largeBucket) client(h *instance) *buckets.Client {
	h.t.Helper()
	client := func() *buckets.Client { return &buckets.Client{URL: h.server.S3URL(), Signer: g.key, HTTP: h.client} }
	g.once.Do(func() {
		g.key = h.server.AccessKey(h.t, "main")
		_, err := client().Send(h.t.Context(), http.MethodPut, "/large", "")
		must(h.t, err)
	})
	return client()
}

func (g *largeBucket) download(h *instance) *http.Request {
	return g.request(h, http.MethodGet, "/history", "")
}

func (g *largeBucket) upload(h *instance, id string) *http.Request {
	return g.request(h, http.MethodPut, "/"+id, strings.Repeat("x", 60_000))
}

func (g *largeBucket) uploaded(h *instance, id string) *http.Request {
	return g.request(h, http.MethodGet, "/"+id, "")
}
