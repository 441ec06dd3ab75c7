package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// TestPgBouncer checks that ten server connections can share two database connections in transaction mode, and that
// migrations work.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	through := testdb.PgBouncer(t, testdb.PostgresDatabase(t), 2)
	url := testdb.WithParameter(t, through, "default_query_exec_mode", "exec")
	onBoth := func(url string) []string {
		return []string{"HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + url, "HOLDFAST_TOKENSERVER__DATABASE_URL=" + url,
			"HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL=" + accounts(t)}
	}
	s := binary.Launch(t, t.TempDir(), onBoth(url)...)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)

	const users, writes = 16, 20
	var wg sync.WaitGroup
	for uid := range int64(users) {
		c := s.Token(uid + 1)
		wg.Go(func() {
			for i := range writes {
				body := fmt.Sprintf(`[{"id":"%d","payload":"x"},{"id":"last","payload":"%d"}]`, i, i)
				if a, err := c.Send("POST", "/storage/col", body); err != nil || a.Status != http.StatusOK {
					t.Errorf("user %d: %d %s %v", c.UID, a.Status, a.Body, err)
					return
				}
			}
			if a, err := c.Send("GET", "/info/collection_counts", ""); err != nil || a.Body != fmt.Sprintf(`{"col":%d}`, writes+1) {
				t.Errorf("user %d: %s %v", c.UID, a.Body, err)
			}
		})
	}
	wg.Wait()

	check := func(url string) string {
		return binary.Run(t, append(s.Env, onBoth(url)...), "check").Stdout
	}
	if out := check(url); strings.Count(out, "through a connection pooler") != 2 || strings.Contains(out, "default_query_exec_mode=exec to") {
		t.Errorf("check:\n%s", out)
	}
	// The check's own statement may reach a connection with another statement of the same name.
	out := check(through)
	for _, service := range []string{"syncstorage", "tokenserver"} {
		if !strings.Contains(out, "fix: add default_query_exec_mode=exec to "+service+".database_url") || strings.Contains(out, "start the database") {
			t.Errorf("check without the parameter:\n%s", out)
		}
	}
}

// TestPgBouncerUnprepared checks that the log names the missing parameter.
func TestPgBouncerUnprepared(t *testing.T) {
	t.Parallel()
	url := testdb.PostgresDatabase(t)
	through := testdb.PgBouncer(t, url, 2)
	s := binary.Launch(t, t.TempDir(), "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+through, "HOLDFAST_TOKENSERVER__ENABLED=false")
	if r := binary.Run(t, binary.Environ("HOLDFAST_DATA="+s.Data, "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+url, "HOLDFAST_TOKENSERVER__ENABLED=false"), "migrate"); r.Status != 0 {
		t.Fatalf("migrate directly: %s%s", r.Stdout, r.Stderr)
	}
	// Eventually a statement reaches a connection that has not prepared it, or has prepared another under its name.
	said := func() bool {
		return strings.Contains(s.Output.String(), "add default_query_exec_mode=exec to database_url")
	}
	deadline := time.Now().Add(binary.Bound)
	var wg sync.WaitGroup
	for uid := range int64(8) {
		c := s.Token(uid + 1)
		wg.Go(func() {
			for !said() && time.Now().Before(deadline) {
				if _, err := c.Send("PUT", "/storage/col/x", `{"payload":"x"}`); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if !said() {
		t.Errorf("the log does not say what is missing:\n%s", s.Output)
	}
}
