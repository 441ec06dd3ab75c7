package app_test

import (
	"net/http"
	"strings"
	"testing"

	"holdfast/internal/auth/sigv4/sigv4test"
	"holdfast/internal/testdb"
)

// TestConsoleCards checks each service's usage, and that Firefox Sync shows the finding that nobody can sign in.
func TestConsoleCards(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); consoleCards(t) })
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); consoleCards(t, onDatabase(testdb.PostgresDatabase(t))...) })
}

func consoleCards(t *testing.T, settings ...string) {
	t.Helper()
	const nobody = "http://127.0.0.1:1"
	b, _, environ := serveConsole(t, append(settings, "HOLDFAST_TOKENSERVER__FXA_OAUTH_SERVER_URL="+nobody)...)
	b.importAccounts(environ)
	b.open("buckets/accounts")
	b.submit("Create account", "account", "tester")
	shown := b.page.all("pre")
	key := sigv4test.Signer{AccessKeyID: shown[2].String(), Secret: shown[3].String(), Region: "us-east-1"}
	put(t, key, shown[1].String()+"/photos", "")
	for _, name := range []string{"a", "b", "c"} {
		put(t, key, shown[1].String()+"/photos/"+name, "body")
	}
	b.open("extstorage/installs")
	b.submit("Register", "tenant", someTenant, "install", someInstall)
	b.open("extstorage/installs/show?install=" + someInstall + "&tenant=" + someTenant)
	b.try(http.StatusOK, "Records in settings", "Open", "namespace", "settings")
	b.follow("Create a record")
	b.submit("Create", "key", "k", "value", "1")

	want := map[string]string{
		"Firefox Sync": "2 collections, 4 records2 accounts, 1 storage node", "Records": "1 install, 1 record",
		"Buckets": "1 bucket, 3 objects", "Guests": "0 wishlists, 0 handoffs",
	}
	b.await("", "so nobody can sign in to Firefox Sync")
	cards := map[string]string{}
	for _, c := range b.page.all("ul") {
		if c.attrs["class"] == "cards" {
			for _, card := range c.all("li") {
				cards[card.all("a")[0].String()] = card.String()
			}
		}
	}
	for title, text := range want {
		if !strings.Contains(cards[title], text) {
			t.Errorf("%s: no %q in %q", title, text, cards[title])
		}
	}
	// Other services may warn of a full disk or the hot state.
	if strings.HasPrefix(cards["Firefox Sync"], "Firefox SyncOK") || !strings.HasPrefix(cards["Records"], "RecordsOK") {
		t.Errorf("states: %q", cards)
	}
	if len(cards) != 4 {
		t.Errorf("%d cards: %q", len(cards), cards)
	}
	for _, a := range b.page.all("a") {
		if strings.Contains(a.String(), "nobody can sign in") {
			b.follow(a.String())
			b.shows("no answer from " + nobody)
			return
		}
	}
	t.Errorf("no card says that nobody can sign in: %q", cards)
}
