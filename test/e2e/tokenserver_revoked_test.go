package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testdb"
	"holdfast/test/binary"
)

// soon is one second plus a reserve for busy machines.
const soon = 5 * time.Second

const aliceID = "a11ce000000000000000000000000001"

// TestRevokedTokens checks that a denied or deleted account's token cannot write, and that an account can write after
// it is allowed again.
func TestRevokedTokens(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	s := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "HOLDFAST_LOG__ACCESS=false")
	alice, _ := fxa.signIn(t, s, aliceID, 1)
	bob, _ := fxa.signIn(t, s, "bob", 1)
	const path, body = "/storage/tabs/x", `{"payload":"hello"}`
	alice.Want(t, http.StatusOK, "PUT", path, body)

	s.Verb("tokenserver", "access", "deny", aliceID)
	await(t, alice, http.StatusUnauthorized)
	alice.Want(t, http.StatusUnauthorized, "GET", "/info/collections", "")
	bob.Want(t, http.StatusOK, "PUT", path, body)
	s.Verb("tokenserver", "access", "remove", aliceID)
	await(t, alice, http.StatusOK)

	s.Verb("tokenserver", "accounts", "delete", aliceID, "--yes")
	await(t, alice, http.StatusUnauthorized)
	bob.Want(t, http.StatusOK, "PUT", path, body)
	back, a := fxa.signIn(t, s, aliceID, 1)
	if a.Status != http.StatusOK || back.UID == alice.UID {
		t.Fatalf("after the deletion: %d, uid %d after %d", a.Status, back.UID, alice.UID)
	}
	back.Want(t, http.StatusOK, "PUT", path, body)
	alice.Want(t, http.StatusUnauthorized, "PUT", path, body)

	// The deleted storage user remains until its tokens expire.
	if out := s.Verb("tokenserver", "accounts", "list", "--replaced"); !strings.Contains(out, fmt.Sprintf(" %s  %-3d  ", aliceID, alice.UID)) {
		t.Errorf("the deleted storage user %d is not listed:\n%s", alice.UID, out)
	}
	if out := s.Verb("tokenserver", "accounts", "show", aliceID); !strings.Contains(out, "deleted") {
		t.Errorf("show:\n%s", out)
	}
}

// TestRevokedTokensOfAnotherServer runs accounts and storage as two servers on one database: one deletes an account's
// data over HTTP, and the other refuses its tokens.
func TestRevokedTokensOfAnotherServer(t *testing.T) {
	t.Parallel()
	fxa, url, listen := newAccounts(t), testdb.PostgresDatabase(t), testdb.FreeAddress(t)
	migrated := func(vars ...string) *binary.Server {
		s := binary.Launch(t, t.TempDir(), append(vars, "SYNC_MASTER_SECRET=shared", "HOLDFAST_EXTSTORAGE__ENABLED=false", "HOLDFAST_LOG__ACCESS=false")...)
		s.Verb("migrate")
		s.Await("/readyz", http.StatusOK)
		return s
	}
	accounts := migrated("HOLDFAST_SYNCSTORAGE__ENABLED=false", "HOLDFAST_TOKENSERVER__DATABASE_URL="+url,
		"SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "HOLDFAST_TOKENSERVER__INIT_NODE_URL=http://"+listen)
	migrated("HOLDFAST_TOKENSERVER__ENABLED=false", "HOLDFAST_SYNCSTORAGE__DATABASE_URL="+url, "HOLDFAST_SERVER__LISTEN="+listen)
	alice, _ := fxa.signIn(t, accounts, aliceID, 1)
	bob, _ := fxa.signIn(t, accounts, "bob", 1)
	if alice.Endpoint != "http://"+listen+"/1.5/1" {
		t.Fatalf("the endpoint is %s", alice.Endpoint)
	}
	for _, c := range []binary.Credentials{alice, bob} {
		c.Want(t, http.StatusOK, "PUT", "/storage/tabs/x", `{"payload":"hello"}`)
	}
	accounts.Verb("tokenserver", "access", "deny", aliceID)
	await(t, alice, http.StatusUnauthorized)
	accounts.Verb("tokenserver", "accounts", "delete", "bob", "--yes")
	await(t, bob, http.StatusUnauthorized)
	accounts.Verb("tokenserver", "accounts", "delete", "bob", "--yes")
	accounts.Verb("tokenserver", "access", "allow", aliceID)
	await(t, alice, http.StatusOK)
}

func await(t *testing.T, c binary.Credentials, status int) {
	t.Helper()
	start := time.Now()
	for {
		a, err := c.Send("PUT", "/storage/tabs/x", `{"payload":"hello"}`)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		if a.Status == status {
			t.Logf("%d after %v", status, took)
			return
		}
		if took > soon {
			t.Fatalf("still %d after %v, want %d", a.Status, took, status)
		}
	}
}
