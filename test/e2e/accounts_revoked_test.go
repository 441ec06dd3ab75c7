package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/test/binary"
)

// soon is within a second, with some time for a machine that is busy.
const soon = 2 * time.Second

// A token of an account that was denied or deleted stops writing while it is good,
// and an account that is let in again writes again.
func TestRevokedTokens(t *testing.T) {
	t.Parallel()
	fxa := newAccounts(t)
	s := binary.Start(t, t.TempDir(), "SYNC_TOKENSERVER__FXA_OAUTH_SERVER_URL="+fxa.URL, "HOLDFAST_LOG__ACCESS=false")
	alice, _ := fxa.signIn(t, s, "alice", 1)
	bob, _ := fxa.signIn(t, s, "bob", 1)
	const path, body = "/storage/tabs/x", `{"payload":"hello"}`
	alice.Want(t, http.StatusOK, "PUT", path, body)

	s.Verb("sync", "user", "deny", "alice")
	await(t, alice, http.StatusUnauthorized)
	alice.Want(t, http.StatusUnauthorized, "GET", "/info/collections", "")
	bob.Want(t, http.StatusOK, "PUT", path, body)
	s.Verb("sync", "user", "deny", "alice", "--remove")
	await(t, alice, http.StatusOK)

	s.Verb("sync", "user", "delete", "alice", "--yes")
	await(t, alice, http.StatusUnauthorized)
	bob.Want(t, http.StatusOK, "PUT", path, body)
	back, a := fxa.signIn(t, s, "alice", 1)
	if a.Status != http.StatusOK || back.UID == alice.UID {
		t.Fatalf("after the deletion: %d, uid %d after %d", a.Status, back.UID, alice.UID)
	}
	back.Want(t, http.StatusOK, "PUT", path, body)
	alice.Want(t, http.StatusUnauthorized, "PUT", path, body)

	// The deleted storage user is known until its tokens have expired.
	if out := s.Verb("sync", "user", "list", "--replaced"); !strings.Contains(out, fmt.Sprintf("\n%d ", alice.UID)) {
		t.Errorf("the deleted storage user %d is not listed:\n%s", alice.UID, out)
	}
	if out := s.Verb("sync", "user", "show", "alice"); !strings.Contains(out, "deleted") {
		t.Errorf("show:\n%s", out)
	}
}

// await writes until the answer has the status, which must be soon.
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
