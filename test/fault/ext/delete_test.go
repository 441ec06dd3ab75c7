package ext

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"holdfast/internal/workload/ext"
	"holdfast/test/binary"
	"holdfast/test/fault/harness"
)

// TestKilledDeletion repeatedly kills a command that deletes a tenant. In the end no table contains the tenant's rows,
// and another tenant could write all the time.
func TestKilledDeletion(t *testing.T) {
	t.Parallel()
	harness.OnEngines(t, []harness.Service{Service()}, harness.InTurn(harness.OnPostgres, harness.OnSQLite), killedDeletion)
}

// victim is the deleted tenant; harness.ExtTenant remains.
const victim = "7e4a4e1c-0000-4000-8000-000000000002"

func killedDeletion(t *testing.T, e harness.Engine, data string, vars ...string) {
	t.Helper()
	vars = append(append(vars, harness.ExtVars()...), "HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__ENABLED=false",
		"HOLDFAST_LOG__ACCESS=false", "HOLDFAST_EXTSTORAGE__SWEEP_INTERVAL=0")
	binary.Migrate(t, data, vars...)
	s := binary.Start(t, data, vars...)
	var installs []*ext.Install
	for n := range 3 {
		in := NewInstall(t, 50+n)
		in.Token = tenantToken(t, victim, in.ID, map[string]string{"a": "rw", "b": "rw"}, time.Now().Add(-time.Hour), 24*time.Hour)
		installs = append(installs, in)
		fillForDeletion(t, s, in)
	}
	other := NewInstall(t, 60)
	writing, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	written := 0
	writers.Go(func() { written = writeUntil(writing, t, s, other) })

	args := []string{"ext", "tenants", "delete", "--tenant", victim}
	whole := left(t, s, args)
	partial, seed := 0, harness.Number(t, "FAULT_SEED", rand.Uint64()>>1)
	choose := rand.New(rand.NewPCG(seed, 0))
	records := func() int64 { return countOf(t, e, data, vars, "records", "") }
	enough := int(harness.Number(t, "FAULT_ROUNDS", 3))
	for range 20 {
		if partial == enough || !killed(t, s, append(args, "--yes"), records, time.Duration(choose.IntN(20))*time.Millisecond) {
			break
		}
		if now := left(t, s, args); now != whole && now != (held{}) {
			partial++
		}
		wantDeleting(t, s, installs)
	}
	r := binary.Run(t, s.Env, append(args, "--yes", "--json")...)
	if r.Status != 0 {
		t.Fatalf("delete command: %d\n%s%s", r.Status, r.Stdout, r.Stderr)
	}
	stop()
	writers.Wait()
	var deleted held
	harness.Must(t, json.Unmarshal([]byte(r.Stdout), &deleted))
	if deleted != whole || partial == 0 {
		t.Errorf("seed %d: deleted %+v of %+v; seen in the middle %d times", seed, deleted, whole, partial)
	}
	if written == 0 {
		t.Error("the other tenant did not write")
	}
	wantDeleting(t, s, installs)
	for _, rows := range rowsOf(t, e, data, vars) {
		t.Errorf("left: %s", rows)
	}
}

type held struct{ Installs, Records, Bytes, Schemas, Changes, Answers, Tokens int64 }

func left(t *testing.T, s *binary.Server, args []string) (h held) {
	t.Helper()
	r := binary.Run(t, s.Env, append(args, "--dry-run", "--json")...)
	if r.Status != 0 {
		t.Fatalf("a dry run: %d\n%s", r.Status, r.Stderr)
	}
	harness.Must(t, json.Unmarshal([]byte(r.Stdout), &h))
	return h
}

func fillForDeletion(t *testing.T, s *binary.Server, in *ext.Install) {
	t.Helper()
	want := func(status int, c ext.Call) {
		a, err := in.Send(t.Context(), http.DefaultClient, s.URL, c)
		if err != nil || a.Status != status {
			t.Fatalf("%s: %d %s %v", c, a.Status, a.Body, err)
		}
	}
	for from := 0; from < 3000; from += 20 {
		var items []any
		for i := range 20 {
			items = append(items, map[string]any{"key": fmt.Sprint(from + i), "value": strings.Repeat("x", 100)})
		}
		want(http.StatusOK, ext.Call{
			Method: http.MethodPost, Path: "/namespaces/a/records", Body: ext.JSON(map[string]any{"items": items}),
			Header: map[string]string{"Idempotency-Key": fmt.Sprint(from)},
		})
	}
	want(http.StatusCreated, ext.Call{Method: http.MethodPost, Path: "/namespaces/b/schemas", Body: `{"schema":{"type":"object"}}`})
	s.Verb("ext", "tokens", "revoke-id", "--tenant", victim, "--install", in.ID, "--id", "one")
	s.Verb("ext", "installs", "set", "--tenant", victim, "--install", in.ID, "--namespace", "a=rw", "--namespace", "b=rw")
}

// writeUntil requires that every write succeeds, and returns their number.
func writeUntil(ctx context.Context, t *testing.T, s *binary.Server, in *ext.Install) (n int) {
	for ; ctx.Err() == nil; n++ {
		c := ext.Call{Method: http.MethodPut, Path: ext.RecordKey{Namespace: "settings", Key: fmt.Sprint(n % 10)}.Path(), Body: `{"value":1}`}
		a, err := in.Send(ctx, http.DefaultClient, s.URL, c)
		if ctx.Err() == nil && (err != nil || a.Status/100 != 2) {
			t.Errorf("another tenant's write: %d %s %v", a.Status, a.Body, err)
			return n
		}
	}
	return n
}

// killed starts a command and kills it some time after count changes. It returns false if the command finished first.
func killed(t *testing.T, s *binary.Server, args []string, count func() int64, after time.Duration) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary.Path(), args...)
	cmd.Env = s.Env
	before := count()
	harness.Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var kill <-chan time.Time
	for {
		select {
		case err := <-ended:
			return err != nil
		case <-kill:
			_ = cmd.Process.Kill() // fails only if the process has exited
			kill = nil
		case <-tick.C:
			if kill == nil && count() != before {
				kill = time.After(after)
				tick.Stop()
			}
		}
	}
}

func wantDeleting(t *testing.T, s *binary.Server, installs []*ext.Install) {
	t.Helper()
	for _, in := range installs {
		for _, c := range []ext.Call{{Method: http.MethodGet, Path: "/usage"}, {Method: http.MethodPut, Path: "/namespaces/a/records/new", Body: `{"value":1}`}} {
			a, err := in.Send(t.Context(), http.DefaultClient, s.URL, c)
			if err != nil || a.Status != http.StatusForbidden || !strings.Contains(a.Body, "INSTALL_DELETED") {
				t.Errorf("%s: %d %s %v", c, a.Status, a.Body, err)
			}
		}
	}
}

// rowsOf returns the tables with the victim's rows, except tombstones and audit events.
func rowsOf(t *testing.T, e harness.Engine, data string, vars []string) (all []string) {
	t.Helper()
	for table, and := range map[string]string{
		"records": "", "schemas": "", "namespaces": "", "changes": "", "answers": "", "revoked_tokens": "",
		"installs": " AND (deleted_at IS NULL OR tier <> '' OR namespaces IS NOT NULL)",
		"usage":    " AND (closed_seq IS NULL OR bytes_used <> 0 OR keys_count <> 0 OR namespaces_count <> 0)",
	} {
		n := countOf(t, e, data, vars, table, and)
		if n != 0 {
			all = append(all, fmt.Sprintf("%d rows of %s", n, table))
		}
	}
	return all
}

func countOf(t *testing.T, e harness.Engine, data string, vars []string, table, and string) (n int64) {
	t.Helper()
	sql := `SELECT count(*) FROM ext_storage_` + table + ` WHERE tenant_id = '` + victim + `'` + and
	if e == harness.OnSQLite {
		return countInFile(t, filepath.Join(data, "extstorage.db"), sql)
	}
	n = -1
	for _, v := range vars {
		if url, ok := strings.CutPrefix(v, "HOLDFAST_EXTSTORAGE__DATABASE_URL="); ok {
			conn := harness.Dial(t, url)
			harness.Must(t, conn.QueryRow(t.Context(), sql).Scan(&n))
			harness.Must(t, conn.Close(t.Context()))
		}
	}
	return n
}

func countInFile(t *testing.T, path, sql string) (n int64) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	harness.Must(t, err)
	defer c.Close()
	n = -1
	harness.Must(t, sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	}}))
	return n
}
