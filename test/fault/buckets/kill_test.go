package buckets

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
	"holdfast/test/fault/harness"
)

// A server or its database is killed between the bodies of objects and their rows: bodies are on
// their nodes, and the database cannot commit. It is also killed at any other moment of a PUT, a
// multipart upload or a DELETE. Every acknowledged write is there, and bodies that no object has
// are found and removed.
func TestBucketsKill(t *testing.T) {
	t.Parallel()
	harness.OnEach(t, map[harness.Engine]func(*testing.T){harness.OnSQLite: killBucketsOnSQLite, harness.OnPostgres: killBucketsOnPostgres})
}

func killBucketsOnSQLite(t *testing.T) {
	t.Helper()
	h, b := newBuckets(t, nodeFolders(t), testdb.SQLite(t))
	b.applies(h)
	h.Server = h.Serve()
	h.Rounds(4, func(round int) harness.Fault {
		var lock *sqlite.Conn
		var held *heldWrites
		return harness.Fault{Deadly: true, Inject: func() {
			if round%2 == 0 {
				lock = lockSQLite(t, filepath.Join(h.Data, "buckets.db"))
				held = b.hold(h, round)
			}
			h.Server.Kill()
		}, Recover: func() {
			if lock != nil {
				harness.Must(t, lock.Close())
			}
			h.Server = h.Serve()
			held.Check(h)
		}}
	})
}

// lockSQLite takes the write lock of a database.
func lockSQLite(t *testing.T, file string) *sqlite.Conn {
	t.Helper()
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	harness.Must(t, err)
	conn.SetBusyTimeout(harness.Bound)
	harness.Must(t, sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil))
	return conn
}

// heldWrites are PUTs whose bodies are on their nodes and whose rows cannot be committed.
type heldWrites struct {
	of   *Workload
	keys []string
	body string
	done []bool // acknowledged
	all  sync.WaitGroup
}

// hold sends PUTs while the database is locked, and returns when all copies of their bodies are
// there.
func (b *Workload) hold(h *harness.Harness, round int) *heldWrites {
	h.T.Helper()
	const n = 3
	w := &heldWrites{of: b, body: strings.Repeat("held", 50_000), done: make([]bool, n)}
	for i := range n {
		key := fmt.Sprintf("held-%d-%d", round, i)
		w.keys = append(w.keys, key)
		w.all.Go(func() {
			a, err := b.send(h, h.Server, http.MethodPut, "/fault/"+key, w.body)
			w.done[i] = err == nil && a.Status == http.StatusOK
		})
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Bound); w.copies(h) < n*b.Copies; <-tick.C {
		if h.T.Failed() || time.Now().After(deadline) {
			h.T.Errorf("%d copies of %d bodies while the database is locked", w.copies(h), n)
			break
		}
	}
	return w
}

// copies counts the copies of each body. A file name contains the MD5 of the key.
func (w *heldWrites) copies(h *harness.Harness) (n int) {
	h.T.Helper()
	for _, file := range w.of.files(h) {
		_, sum, _ := strings.Cut(filepath.Base(file), ",")
		if slices.ContainsFunc(w.keys, func(key string) bool { return buckets.MD5(key) == sum }) {
			n++
		}
	}
	return n
}

// Check expects objects that were acknowledged, and removes them.
func (w *heldWrites) Check(h *harness.Harness) {
	h.T.Helper()
	if w == nil {
		return
	}
	w.all.Wait() // requests are bounded
	for i, key := range w.keys {
		a, err := w.of.send(h, h.Server, http.MethodGet, "/fault/"+key, "")
		if sum := buckets.MD5Of(a); err != nil || sum != buckets.MD5(w.body) && (w.done[i] || sum != "") {
			h.T.Errorf("%s, acknowledged: %t, is %q: %v", key, w.done[i], sum, err)
		}
		w.of.want(h, http.StatusNoContent, http.MethodDelete, "/fault/"+key, "")
	}
}

func killBucketsOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.DurablePostgres(t)
	of := []harness.Service{Service()}
	h, b := newBuckets(t, nodeFolders(t), t.TempDir(), append(harness.Settings(of, "DATABASE_URL", db.URL()),
		harness.Settings(of, "DATABASE_POOL_MAX_SIZE", "40")...)...) // all clients may wait for the lock of hold
	b.applies(h)
	h.Server = h.Serve()
	h.Rounds(8, func(round int) harness.Fault {
		server, between := round%2 == 0, round/2%2 == 0
		var held *heldWrites
		f := harness.Fault{Deadly: server, Recover: func() {
			if server {
				harness.Abandoned(t, db.URL())
				h.Server = h.Serve()
			} else {
				harness.Must(t, db.Start())
				h.Server.Await("/readyz", http.StatusOK)
			}
			held.Check(h)
		}}
		f.Inject = func() {
			if between {
				lock := harness.Dial(t, db.URL())
				defer func() { _ = lock.Close(context.Background()) }() // its server may be killed
				_, err := lock.Exec(t.Context(), `BEGIN; LOCK TABLE manta_bucket_object IN ACCESS EXCLUSIVE MODE`)
				harness.Must(t, err)
				held = b.hold(h, round)
				if server && round/4%2 == 1 { // otherwise the database commits all received statements
					defer terminateOthers(t, lock)
				}
			}
			if server {
				h.Server.Kill()
			} else {
				harness.Must(t, db.Kill())
			}
		}
		return f
	})
}

// terminateOthers ends the connections of the server without a commit.
func terminateOthers(t *testing.T, by *pgx.Conn) {
	t.Helper()
	_, err := by.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holdfast%'`)
	harness.Must(t, err)
}

// A first start is killed. After the next start the first account has an access key.
func TestBucketsFirstStart(t *testing.T) {
	t.Parallel()
	testdb.SQLite(t) // it counts the test
	seed := harness.Number(t, "FAULT_SEED", rand.Uint64()>>1)
	for round := range harness.Number(t, "FAULT_ROUNDS", 3) {
		data, choose := t.TempDir(), rand.New(rand.NewPCG(seed, round))
		cmd := exec.CommandContext(t.Context(), binary.Path(), "serve")
		cmd.Env = binary.Environ("HOLDFAST_DATA="+data, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0")
		harness.Must(t, cmd.Start())
		tick := time.NewTicker(time.Millisecond)
		for begun := time.Now(); time.Since(begun) < harness.Bound; <-tick.C { // then it migrates, and creates the account
			if _, err := os.Stat(filepath.Join(data, "buckets.db")); err == nil {
				break
			}
		}
		tick.Stop()
		harness.Pause(nil, time.Duration(choose.IntN(400))*time.Millisecond)
		harness.Must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it is killed
		s := binary.Start(t, data)
		s.S3(t) // fails without exactly one key
		s.Kill()
	}
}
