package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

func onPostgres(url string) []string {
	return []string{"HOLDFAST_SYNCSTORAGE__DATABASE_URL=" + url, "HOLDFAST_TOKENSERVER__DATABASE_URL=" + url, "SYNC_MASTER_SECRET=shared"}
}

func TestTwoProcessesOnOnePostgres(t *testing.T) {
	t.Parallel()
	twoProcesses(t, testdb.PostgresDatabase(t))
}

func TestTwoProcessesOnOneCitus(t *testing.T) {
	t.Parallel()
	twoProcesses(t, testdb.CitusDatabase(t))
}

// twoProcesses starts on an empty database: the server is ready only after a migration. Then two processes serve one
// user.
func twoProcesses(t *testing.T, url string) {
	t.Helper()
	fxa := newAccounts(t)
	vars := append(onPostgres(url), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL,
		"HOLDFAST_EXTSTORAGE__DATABASE_URL="+url, "HOLDFAST_EXTSTORAGE__METADATA_INDEX=true", "HOLDFAST_BUCKETS__ENABLED=false")
	data := t.TempDir()
	s := binary.Launch(t, data, vars...)
	if why := s.Await("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "holdfast migrate") {
		t.Errorf("not migrated: %s", why)
	}
	if r := binary.Run(t, s.Env, "check"); r.Status != 1 || !strings.Contains(r.Stdout, "run: holdfast migrate") {
		t.Errorf("check: %d\n%s", r.Status, r.Stdout)
	}
	if out := s.Verb("migrate"); !strings.Contains(out, "syncstorage: applied 0001") || !strings.Contains(out, "tokenserver: applied 0001") ||
		!strings.Contains(out, "extstorage: applied 0001") || !strings.Contains(out, "extstorage: made the metadata index") {
		t.Errorf("migrate:\n%s", out)
	}
	s.Await("/readyz", http.StatusOK)
	if out := s.Verb("migrate"); !strings.Contains(out, "all tables are up to date") {
		t.Errorf("migrate again:\n%s", out)
	}

	other := binary.Start(t, data, vars...)
	mine, a := fxa.signIn(t, s, "alice", 1)
	if a.Status != http.StatusOK {
		t.Fatalf("sign in: %d %s", a.Status, a.Body)
	}
	theirs, _ := fxa.signIn(t, other, "alice", 1)
	if mine.UID != theirs.UID || mine.Endpoint == theirs.Endpoint {
		t.Errorf("one account at two processes: %+v, %+v", mine, theirs)
	}
	writeAtBoth(t, mine, theirs)
	extensionsAtTwo(t, s, other)
	if r := binary.Run(t, s.Env, "check"); strings.Contains(r.Stdout, "WRONG") || strings.Contains(r.Stdout, "metadata index") {
		t.Errorf("check: %d\n%s", r.Status, r.Stdout)
	}
}

func writeAtBoth(t *testing.T, mine, theirs binary.Credentials) {
	t.Helper()
	const writers, writes = 4, 25
	var wg sync.WaitGroup
	stamps := make([][]string, writers)
	for w := range writers {
		c := mine
		if w%2 == 1 {
			c = theirs
		}
		wg.Go(func() {
			for i := range writes {
				a, err := c.Send("PUT", fmt.Sprintf("/storage/brandnew/%d-%d", w, i), `{"payload":"x"}`)
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("writer %d: %d %s %v", w, a.Status, a.Body, err)
					return
				}
				stamps[w] = append(stamps[w], a.Body)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, mine := range stamps {
		for i, s := range mine {
			if seen[s] || i > 0 && s <= mine[i-1] {
				t.Errorf("timestamp %s is not new", s)
			}
			seen[s] = true
		}
	}
	if a := theirs.Want(t, http.StatusOK, "GET", "/info/collection_counts", ""); a.Body != fmt.Sprintf(`{"brandnew":%d}`, writers*writes) {
		t.Errorf("counts %s", a.Body)
	}
}

// TestServeMigrates checks that serve --migrate migrates as soon as the database is available.
func TestServeMigrates(t *testing.T) {
	t.Parallel()
	db := testdb.DurablePostgres(t)
	if err := db.Stop(); err != nil {
		t.Fatal(err)
	}
	s := binary.Launch(t, t.TempDir(), append(onPostgres(db.URL()), "HOLDFAST_SYNCSTORAGE__ENABLED=false", "SYNC_TOKENSERVER__RUN_MIGRATIONS=true")...)
	s.Await("/readyz", http.StatusServiceUnavailable)
	if err := db.Start(); err != nil {
		t.Fatal(err)
	}
	s.Await("/readyz", http.StatusOK)
}

// TestPostgresGoesAndComes checks that the server responds while the database is unavailable, recovers with it, and
// loses no acknowledged writes.
func TestPostgresGoesAndComes(t *testing.T) {
	t.Parallel()
	db := testdb.DurablePostgres(t)
	s := binary.Launch(t, t.TempDir(), append(onPostgres(db.URL()), "HOLDFAST_SYNCSTORAGE__DATABASE_POOL_CONNECTION_TIMEOUT=2s")...)
	s.Verb("migrate")
	s.Await("/readyz", http.StatusOK)
	c := s.Token(1)
	c.Want(t, http.StatusOK, "PUT", "/storage/tabs/before", `{"payload":"x"}`)
	for round, end := range []func() error{db.Stop, db.Kill} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		a := c.Want(t, http.StatusServiceUnavailable, "PUT", "/storage/tabs/meanwhile", `{"payload":"x"}`)
		if a.Header.Get("Retry-After") == "" || a.Body != "0" {
			t.Errorf("round %d: Retry-After %q, body %q", round, a.Header.Get("Retry-After"), a.Body)
		}
		s.Await("/readyz", http.StatusServiceUnavailable)
		s.Await("/livez", http.StatusOK)
		if err := db.Start(); err != nil {
			t.Fatal(err)
		}
		s.Await("/readyz", http.StatusOK)
		c.Want(t, http.StatusOK, "PUT", fmt.Sprintf("/storage/tabs/after%d", round), `{"payload":"x"}`)
	}
	if a := c.Want(t, http.StatusOK, "GET", "/storage/tabs?sort=oldest", ""); a.Body != `["before","after0","after1"]` {
		t.Errorf("stored %s", a.Body)
	}
}
