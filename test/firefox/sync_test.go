package firefox

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/testdb/spannertest"
	"holdfast/test/binary"
	"holdfast/test/firefox/accounts"
)

// household is one account with two browsers, all of it on this machine.
type household struct {
	account *accounts.Server
	network *journal
	a, b    *browser
	folder  string // the imported bookmarks
}

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

// TestSync takes two browsers through the life of an account.
func TestSync(t *testing.T) {
	live(t, settle(t, program(t)))
}

// TestSyncOnSpanner is the same with the records in Spanner. The accounts are in a file, as everywhere else.
func TestSyncOnSpanner(t *testing.T) {
	firefox := program(t)
	emulator, database := spannertest.Name(t)
	live(t, settle(t, firefox, "SPANNER_EMULATOR_HOST="+emulator, "SYNC_SYNCSTORAGE__DATABASE_URL=spanner://"+database))
}

// live is the life of an account. The steps build on each other, so the first that fails is the last.
func live(t *testing.T, h *household) {
	for _, step := range []struct {
		name string
		run  func(*testing.T, *household)
	}{
		{"what is made on A is seen on B", crossing},
		{"a bookmark renamed on B is renamed on A", renaming},
		{"a bookmark deleted on A is gone from B", deleting},
		{"two thousand bookmarks travel in batches", importing},
		{"a wiped server is filled again by A", recovering},
		{"a new password moves both to new storage", resetting},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, h) }) {
			return
		}
	}
}

// program is the Firefox to be tested.
func program(t *testing.T) string {
	path, err := exec.LookPath(cmp.Or(os.Getenv("FIREFOX_BIN"), "firefox-esr"))
	if err == nil {
		return path
	}
	binary.Absentf(t, "firefox", "no real Firefox is tested: %v. Set FIREFOX_BIN, or install firefox-esr", err)
	return ""
}

// settle starts everything, the server with settings of its own, and signs both browsers in.
func settle(t *testing.T, firefox string, settings ...string) *household {
	h := &household{network: &journal{}}
	var err error
	if h.account, err = accounts.New(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h.account)
	t.Cleanup(server.Close)
	storage := binary.Launch(t, t.TempDir(), append(settings, "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+server.URL)...)
	storage.Verb("migrate") // which a file does not need
	storage.Await("/readyz", http.StatusOK)
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
	// Both before the first sync: a browser hides what comes from devices that were not in the list it then fetches.
	h.a.signIn(t, h.account)
	h.b.signIn(t, h.account)
	return h
}
