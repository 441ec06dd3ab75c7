package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
)

// bodyCopies is the number of copies of each body on the three nodes of newBuckets.
const bodyCopies = 2

// newBuckets returns a harness of buckets alone, with bodies of all sizes on three file nodes in
// two datacenters, which are in the folders.
func newBuckets(t *testing.T, folders []string, data string, vars ...string) (*harness, *bucketsWorkload) {
	t.Helper()
	if only := os.Getenv("FAULT_SERVICE"); only != "" && only != "buckets" {
		t.Skipf("FAULT_SERVICE selects %s", only)
	}
	b := newBucketsWorkload(8)
	b.sizes, b.copies = buckets.Sizes{Large: true, Parts: true}, bodyCopies
	for i, id := range []string{"east:1", "east:2", "west:1"} {
		b.nodes = append(b.nodes, &storageNode{id, filepath.Join(folders[i], "node")})
	}
	s := bucketsService()
	s.workload = func(*testing.T, bool) workload { return b }
	h := harnessOf(t, []service{s}, false, data, append(vars, "HOLDFAST_CONFIG="+b.configuration(t))...)
	h.enough = 30
	return h, b
}

// nodeFolders returns the folders of three nodes.
func nodeFolders(t *testing.T) []string {
	t.Helper()
	return []string{t.TempDir(), t.TempDir(), t.TempDir()}
}

// configuration writes a configuration file with the nodes.
func (b *bucketsWorkload) configuration(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdfast.toml")
	must(t, os.WriteFile(file, []byte(b.text()), 0o600))
	return file
}

// text returns the configuration of the nodes.
func (b *bucketsWorkload) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "[buckets]\ncopies = %d\n", b.copies)
	for _, n := range b.nodes {
		fmt.Fprintf(&text, "[buckets.nodes.%q]\nurl = \"file://%s\"\n", n.id, n.dir)
	}
	return text.String()
}

// A server or its database is killed between the bodies of objects and their rows: bodies are on
// their nodes, and the database cannot commit. It is also killed at any other moment of a PUT, a
// multipart upload or a DELETE. Every acknowledged write is there, and bodies that no object has
// are found and removed.
func TestBucketsKill(t *testing.T) {
	t.Parallel()
	onEach(t, map[engine]func(*testing.T){onSQLite: killBucketsOnSQLite, onPostgres: killBucketsOnPostgres})
}

func killBucketsOnSQLite(t *testing.T) {
	t.Helper()
	h, b := newBuckets(t, nodeFolders(t), testdb.SQLite(t))
	h.server = h.serve()
	h.rounds(4, func(round int) fault {
		var lock *sqlite.Conn
		var held *heldWrites
		return fault{deadly: true, inject: func() {
			if round%2 == 0 {
				lock = lockSQLite(t, filepath.Join(h.data, "buckets.db"))
				held = b.hold(h, round)
			}
			h.server.Kill()
		}, recover: func() {
			if lock != nil {
				must(t, lock.Close())
			}
			h.server = h.serve()
			held.check(h)
		}}
	})
}

// lockSQLite takes the lock of the writer of a database.
func lockSQLite(t *testing.T, file string) *sqlite.Conn {
	t.Helper()
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	must(t, err)
	conn.SetBusyTimeout(bound)
	must(t, sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil))
	return conn
}

// heldWrites are PUTs whose bodies are on their nodes and whose rows cannot be committed.
type heldWrites struct {
	of   *bucketsWorkload
	keys []string
	body string
	done []bool // acknowledged
	all  sync.WaitGroup
}

// hold sends PUTs while the database is locked, and returns when all copies of their bodies are
// there.
func (b *bucketsWorkload) hold(h *harness, round int) *heldWrites {
	h.t.Helper()
	const n = 3
	w := &heldWrites{of: b, body: strings.Repeat("held", 50_000), done: make([]bool, n)}
	for i := range n {
		key := fmt.Sprintf("held-%d-%d", round, i)
		w.keys = append(w.keys, key)
		w.all.Go(func() {
			a, err := b.send(h, h.server, http.MethodPut, "/fault/"+key, w.body)
			w.done[i] = err == nil && a.Status == http.StatusOK
		})
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(bound); w.copies(h) < n*b.copies; <-tick.C {
		if h.t.Failed() || time.Now().After(deadline) {
			h.t.Errorf("%d copies of %d bodies while the database is locked", w.copies(h), n)
			break
		}
	}
	return w
}

// copies counts the copies of the bodies. The name of a file has the MD5 of the key.
func (w *heldWrites) copies(h *harness) (n int) {
	h.t.Helper()
	for _, file := range w.of.files(h) {
		_, sum, _ := strings.Cut(filepath.Base(file), ",")
		if slices.ContainsFunc(w.keys, func(key string) bool { return buckets.MD5(key) == sum }) {
			n++
		}
	}
	return n
}

// check expects objects that were acknowledged, and removes them.
func (w *heldWrites) check(h *harness) {
	h.t.Helper()
	if w == nil {
		return
	}
	w.all.Wait() // requests are bounded
	for i, key := range w.keys {
		a, err := w.of.send(h, h.server, http.MethodGet, "/fault/"+key, "")
		if sum := buckets.MD5Of(a); err != nil || sum != buckets.MD5(w.body) && (w.done[i] || sum != "") {
			h.t.Errorf("%s, acknowledged: %t, is %q: %v", key, w.done[i], sum, err)
		}
		w.of.want(h, http.StatusNoContent, http.MethodDelete, "/fault/"+key, "")
	}
}

func killBucketsOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.DurablePostgres(t)
	h, b := newBuckets(t, nodeFolders(t), t.TempDir(), settings([]service{bucketsService()}, "DATABASE_URL", db.URL())...)
	h.server = h.serve()
	h.rounds(10, func(round int) fault {
		server, between := round%2 == 0, round/2%2 == 0
		var held *heldWrites
		f := fault{deadly: server, recover: func() {
			if server {
				abandoned(t, db.URL())
				h.server = h.serve()
			} else {
				must(t, db.Start())
				h.server.Await("/readyz", http.StatusOK)
			}
			held.check(h)
		}}
		f.inject = func() {
			if between {
				lock := dial(t, db.URL())
				defer func() { _ = lock.Close(context.Background()) }() // its server may be killed
				_, err := lock.Exec(t.Context(), `BEGIN; LOCK TABLE manta_bucket_object IN ACCESS EXCLUSIVE MODE`)
				must(t, err)
				held = b.hold(h, round)
				if server && round/4%2 == 1 { // otherwise the database commits what the server has sent
					defer terminateOthers(t, lock)
				}
			}
			if server {
				h.server.Kill()
			} else {
				must(t, db.Kill())
			}
		}
		return f
	})
}

// terminateOthers ends the connections of the server without a commit.
func terminateOthers(t *testing.T, by *pgx.Conn) {
	t.Helper()
	_, err := by.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holdfast%'`)
	must(t, err)
}

// A first start is killed. The next one gives the account that it creates an access key, or that
// account has one.
func TestBucketsFirstStart(t *testing.T) {
	t.Parallel()
	testdb.SQLite(t) // it counts the test
	seed := number(t, "FAULT_SEED", rand.Uint64()>>1)
	for round := range number(t, "FAULT_ROUNDS", 3) {
		data, choose := t.TempDir(), rand.New(rand.NewPCG(seed, round))
		cmd := exec.CommandContext(t.Context(), binary.Path(), "serve")
		cmd.Env = binary.Environ("HOLDFAST_DATA="+data, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0")
		must(t, cmd.Start())
		tick := time.NewTicker(time.Millisecond)
		for begun := time.Now(); time.Since(begun) < bound; <-tick.C { // then it migrates, and creates the account
			if _, err := os.Stat(filepath.Join(data, "buckets.db")); err == nil {
				break
			}
		}
		tick.Stop()
		pause(nil, time.Duration(choose.IntN(400))*time.Millisecond)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it is killed
		s := binary.Start(t, data)
		s.S3(t) // fails without exactly one key
		s.Kill()
	}
}
