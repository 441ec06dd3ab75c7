package buckets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/testdb"
	"holdfast/internal/workload/buckets"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestBucketsKill kills a server or its database between storing a body and committing its row, and at any other
// moment during a PUT, a multipart upload or a DELETE. Every acknowledged write must exist, and an audit removes
// bodies without an object.
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
		var held *heldWrite
		return harness.Fault{Deadly: true, Inject: func() {
			if round%2 == 0 {
				held = b.newHeldWrite(h, round)
				lock = lockSQLite(t, filepath.Join(h.Data, "buckets.db"))
				held.hold(h)
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

func lockSQLite(t *testing.T, file string) *sqlite.Conn {
	t.Helper()
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite)
	harness.Must(t, err)
	conn.SetBusyTimeout(harness.Bound)
	harness.Must(t, sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil))
	return conn
}

// heldWrite is a PUT whose body is stored and whose row cannot be committed.
//
// It uses a separate account: writers that wait for the database may use all slots except the reserve for new clients.
type heldWrite struct {
	of     *Workload
	client *buckets.Client
	target string
	body   string
	done   bool
	ended  chan struct{}
}

func (b *Workload) newHeldWrite(h *harness.Harness, round int) *heldWrite {
	h.T.Helper()
	account := fmt.Sprintf("holder-%d", round)
	if r := binary.Run(h.T, h.Server.Env, "buckets", "accounts", "create", account); r.Status != 0 {
		h.T.Fatalf("buckets accounts create: status %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	w := &heldWrite{of: b, target: "/held/" + account, body: strings.Repeat("held", 50_000), ended: make(chan struct{})}
	w.connect(h, h.Server.AccessKey(h.T, account))
	if a, err := w.client.Send(h.T.Context(), http.MethodPut, "/held", ""); err != nil || a.Status != http.StatusOK {
		h.T.Fatalf("PUT /held: %d %s %v", a.Status, a.Body, err)
	}
	return w
}

func (w *heldWrite) connect(h *harness.Harness, key sigv4test.Signer) {
	h.T.Helper()
	w.client = &buckets.Client{URL: h.Server.S3URL(), Signer: key, HTTP: h.Client}
}

// hold sends the PUT while the database is locked, and waits until all copies are stored.
func (w *heldWrite) hold(h *harness.Harness) {
	h.T.Helper()
	go func() {
		defer close(w.ended)
		a, err := w.client.Send(h.T.Context(), http.MethodPut, w.target, w.body)
		w.done = err == nil && a.Status == http.StatusOK
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Bound); w.copies(h) < w.of.Copies; <-tick.C {
		if h.T.Failed() || time.Now().After(deadline) {
			h.T.Errorf("%d copies of the body while the database is locked", w.copies(h))
			break
		}
	}
}

// copies counts the body's copies, whose file names contain the key's MD5.
func (w *heldWrite) copies(h *harness.Harness) (n int) {
	h.T.Helper()
	for _, file := range w.of.files(h) {
		if _, sum, _ := strings.Cut(filepath.Base(file), ","); sum == buckets.MD5(strings.TrimPrefix(w.target, "/held/")) {
			n++
		}
	}
	return n
}

func (w *heldWrite) Check(h *harness.Harness) {
	h.T.Helper()
	if w == nil {
		return
	}
	<-w.ended
	w.connect(h, w.client.Signer)
	a, err := w.client.Send(h.T.Context(), http.MethodGet, w.target, "")
	if sum := buckets.MD5Of(a); err != nil || sum != buckets.MD5(w.body) && (w.done || sum != "") {
		h.T.Errorf("%s (acknowledged: %t): %q: %v", w.target, w.done, sum, err)
	}
	if a, err := w.client.Send(h.T.Context(), http.MethodDelete, w.target, ""); err != nil || a.Status != http.StatusNoContent {
		h.T.Errorf("DELETE %s: %d %s %v", w.target, a.Status, a.Body, err)
	}
}

func killBucketsOnPostgres(t *testing.T) {
	t.Helper()
	db := testdb.DurablePostgres(t)
	of := []harness.Service{Service()}
	h, b := newBuckets(t, nodeFolders(t), t.TempDir(), append(harness.Settings(of, "DATABASE_URL", db.URL()),
		harness.Settings(of, "DATABASE_POOL_MAX_SIZE", "40")...)...) // all clients may wait for the lock
	b.applies(h)
	h.Server = h.Serve()
	h.Rounds(8, func(round int) harness.Fault {
		server, between := round%2 == 0, round/2%2 == 0
		var held *heldWrite
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
				held = b.newHeldWrite(h, round)
				lock := harness.Dial(t, db.URL())
				defer func() { _ = lock.Close(context.Background()) }() // the database may have been killed
				_, err := lock.Exec(t.Context(), `BEGIN; LOCK TABLE manta_bucket_object IN ACCESS EXCLUSIVE MODE`)
				harness.Must(t, err)
				held.hold(h)
				if server && round/4%2 == 1 { // otherwise the database would commit the statements that it received
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

// terminateOthers closes the server's connections, which rolls back its transactions.
func terminateOthers(t *testing.T, by *pgx.Conn) {
	t.Helper()
	_, err := by.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holdfast%'`)
	harness.Must(t, err)
}

// TestBucketsFirstStart kills a first start. After the next start the first account must have an access key.
func TestBucketsFirstStart(t *testing.T) {
	t.Parallel()
	testdb.SQLite(t) // counts the test
	seed := harness.Number(t, "FAULT_SEED", rand.Uint64()>>1)
	for round := range harness.Number(t, "FAULT_ROUNDS", 3) {
		data, choose := t.TempDir(), rand.New(rand.NewPCG(seed, round))
		cmd := exec.CommandContext(t.Context(), binary.Path(), "serve")
		cmd.Env = binary.Environ("HOLDFAST_DATA="+data, "HOLDFAST_SERVER__LISTEN=127.0.0.1:0", "HOLDFAST_SERVER__ADMIN_LISTEN=127.0.0.1:0")
		harness.Must(t, cmd.Start())
		tick := time.NewTicker(time.Millisecond)
		for begun := time.Now(); time.Since(begun) < harness.Bound; <-tick.C { // migrations and account creation follow
			if _, err := os.Stat(filepath.Join(data, "buckets.db")); err == nil {
				break
			}
		}
		tick.Stop()
		harness.Pause(nil, time.Duration(choose.IntN(400))*time.Millisecond)
		harness.Must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		s := binary.Start(t, data)
		s.S3(t) // fails unless there is exactly one key
		s.Kill()
	}
}
