package firefox

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/testdb"
	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
	"holdfast/test/firefox/accounts"
)

type pair struct {
	account  *accounts.Server
	accounts string // its URL
	server   *binary.Server
	network  *journal
	a, b     *browser
	folder   string // the imported bookmarks
}

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

func TestSync(t *testing.T) {
	runSteps(t, startPair(t, program(t)))
}

// TestSyncOnSpanner is TestSync with the records in Spanner and the accounts in a file.
func TestSyncOnSpanner(t *testing.T) {
	testdb.SoakOnly(t, "TestSync has shown it on SQLite; this one takes minutes")
	firefox := program(t)
	emulator, database := spannertest.Name(t)
	runSteps(t, startPair(t, firefox, "SPANNER_EMULATOR_HOST="+emulator, "SYNC_SYNCSTORAGE__DATABASE_URL=spanner://"+database))
}

// runSteps runs steps that build on each other, until the first failure.
func runSteps(t *testing.T, h *pair) {
	for _, step := range []struct {
		name string
		run  func(*testing.T, *pair)
	}{
		{"what is made on A is seen on B", crossing},
		{"a bookmark renamed on B is renamed on A", renaming},
		{"a bookmark deleted on A is gone from B", deleting},
		{"two thousand bookmarks travel in batches", importing},
		{"a wiped server is filled again by A", wiping},
		{"a new password moves both to new storage", resettingPassword},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, h) }) {
			return
		}
	}
}

func program(t *testing.T) string {
	path, err := exec.LookPath(cmp.Or(os.Getenv("FIREFOX_BIN"), "firefox-esr"))
	if err == nil {
		return path
	}
	binary.Absentf(t, "firefox", "no real Firefox is tested: %v. Set FIREFOX_BIN, or install firefox-esr", err)
	return ""
}

// startPair starts the server with these settings and both browsers, and signs them in.
func startPair(t *testing.T, firefox string, settings ...string) *pair {
	h := &pair{network: &journal{}}
	var err error
	if h.account, err = accounts.New(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h.account)
	t.Cleanup(server.Close)
	storage := binary.Launch(t, t.TempDir(), append(settings, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+server.URL)...)
	storage.Verb("migrate") // SQLite migrates automatically
	storage.Await("/readyz", http.StatusOK)
	h.server, h.accounts = storage, server.URL
	t.Cleanup(func() { h.network.show(t) })
	var starting errgroup.Group
	for name, b := range map[string]**browser{"A": &h.a, "B": &h.b} {
		starting.Go(func() (err error) {
			*b, err = startBrowser(t, firefox, name, server.URL, storage.URL, h.network)
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		t.Fatal(err)
	}
	// Both sign in before the first sync: a browser ignores data from devices that are missing in the list that it fetches
	// then.
	h.a.signIn(t, h.account)
	h.b.signIn(t, h.account)
	return h
}
