package fault

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// bodyCopies is the number of copies of each body in these tests.
const bodyCopies = 2

// nodesOf returns the folders of the storage nodes of a harness.
func nodesOf(data string) (dirs []string) {
	for n := range 3 {
		dirs = append(dirs, filepath.Join(data, "nodes", strconv.Itoa(n)))
	}
	return dirs
}

// newBuckets returns a harness with three storage nodes in two datacenters.
func newBuckets(t *testing.T, data string, vars ...string) *harness {
	t.Helper()
	if only := os.Getenv("FAULT_SERVICE"); only != "" && only != "buckets" {
		t.Skipf("FAULT_SERVICE selects %s", only)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "[buckets]\ncopies = %d\n", bodyCopies)
	for n, dir := range nodesOf(data) {
		must(t, os.MkdirAll(dir, 0o700))
		fmt.Fprintf(&text, "[buckets.nodes.%q]\nurl = \"file://%s\"\n", []string{"east:1", "east:2", "west:1"}[n], dir)
	}
	file := filepath.Join(data, "holdfast.toml")
	must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	return harnessOf(t, []service{bucketsService()}, false, data, append(vars, "HOLDFAST_CONFIG="+file)...)
}

// A server or its database is killed at any moment of a PUT, a multipart upload or a DELETE. Every
// acknowledged write is there, and bodies that no object has are found and removed.
func TestBucketsKill(t *testing.T) {
	t.Parallel()
	onEach(t, map[engine]func(*testing.T){onSQLite: killBucketsOnSQLite, onPostgres: killBucketsOnPostgres})
}

func killBucketsOnSQLite(t *testing.T) {
	t.Helper()
	h := newBuckets(t, testdb.SQLite(t))
	h.enough = 30
	h.server = h.serve()
	h.rounds(10, func(int) fault {
		return fault{inject: h.server.Kill, recover: func() { h.server = h.serve() }, deadly: true}
	})
}

func killBucketsOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.DurablePostgres(t)
	h := newBuckets(t, t.TempDir(), settings([]service{bucketsService()}, "DATABASE_URL", db.URL())...)
	h.enough = 30
	h.server = h.serve()
	server := fault{inject: func() { h.server.Kill() }, recover: func() {
		abandoned(t, db.URL())
		h.server = h.serve()
	}, deadly: true}
	database := fault{inject: func() { must(t, db.Kill()) }, recover: func() {
		must(t, db.Start())
		h.server.Await("/readyz", http.StatusOK)
	}}
	h.rounds(4, func(round int) fault { return []fault{server, database}[round%2] })
}

// bodyFiles returns the files of all storage nodes, temporary ones too.
func (h *harness) bodyFiles() (all []string) {
	h.t.Helper()
	for _, dir := range nodesOf(h.data) {
		must(h.t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && e.Name() != ".holdfast-node" {
				all = append(all, path)
			}
			return err
		}))
	}
	return all
}

// audited frees deleted bodies, lets an audit remove files that no object has, and expects the copies
// of a number of bodies and nothing else on the nodes.
func (h *harness) audited(bodies int) {
	h.t.Helper()
	h.server.Verb("sweep")
	before := h.bodyFiles()
	long := time.Now().Add(-48 * time.Hour)
	for _, file := range before {
		must(h.t, os.Chtimes(file, long, long)) // an audit ignores young files
	}
	r := binary.Run(h.t, h.server.Env, "buckets", "audit", "--verify", "--repair")
	unexpected := regexp.MustCompile(`(?m)^(missing|corrupt|few-copies|wrong-usage|bad-node) .*`).FindAllString(r.Stdout, -1)
	if r.Status != 0 || len(unexpected) > 0 {
		h.t.Errorf("audit: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	after := h.bodyFiles()
	h.t.Logf("%d files on the nodes, of which an audit has removed %d", len(before), len(before)-len(after))
	if len(after) != bodies*bodyCopies {
		slices.Sort(after)
		h.t.Errorf("%d files of %d bodies with %d copies each are on the nodes after an audit:\n%s\n%s", len(after), bodies, bodyCopies, r.Stdout, strings.Join(after, "\n"))
	}
}
